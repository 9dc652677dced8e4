"""The page about a benchmark: one table per domain, published results next to ours, and the method."""

from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.algorithms import Monet
from taskelites.experiments.benchmark.benchmark import LEVEL, Bench, format_seconds
from taskelites.experiments.comparison.comparison import Comparison
from taskelites.experiments.comparison.run import label_algorithms
from taskelites.experiments.paper.page import format_quartiles, markdown
from taskelites.storage import file_name

if TYPE_CHECKING:
    import pandas as pd

# Hatzky et al. (PPSN 2026), means of 20 runs of 1,000,000 evaluations in batches of 64: domain -> algorithm ->
# (final mean, mean over the run); None where they report none.
_TUNED = "monet, tuned"
PUBLISHED: dict[str, dict[str, tuple[float, float | None]]] = {
    "archery": {
        "mt-map-elites": (1.000, 0.9572),
        "pt-map-elites": (1.000, 0.9241),
        "monet": (0.996, 0.9763),
        _TUNED: (0.9999, 0.9792),
    },
    "arm": {
        "mt-map-elites": (0.772, 0.7601),
        "pt-map-elites": (0.747, 0.7349),
        "monet": (0.770, 0.7627),
        _TUNED: (0.773, None),
    },
    "cartpole": {
        "mt-map-elites": (994.5, 978.4),
        "pt-map-elites": (988.0, None),
        "monet": (997.1, 969.0),
        _TUNED: (1000.0, None),
    },
    "hexapod": {
        "mt-map-elites": (0.530, None),
        "pt-map-elites": (0.727, None),
        "monet": (0.695, None),
        _TUNED: (0.956, None),
    },
}

# Options that a domain must have to be comparable with the published one.
_AS_PUBLISHED: dict[str, dict[str, Any]] = {
    "arm": {"form": "exponential", "target": (0.5, 0.5)},
    "cartpole": {"starts": 10, "steps": 1000},
}


def page_text(bench: Bench) -> str:
    """Return the page in Markdown."""
    versions = next(iter(bench.comparisons.values())).settings.get("versions", {})
    lines = [
        "# Algorithms on domains, measured",
        "",
        *(f"{line}." for line in bench.made),
        f"Versions: {', '.join(f'{name} {value}' for name, value in versions.items())}.",
        "",
        *_overview(bench),
        "",
        "Of each domain: median (first to third quartile) of the runs. *Mean*: of the fitness over all tasks after the "
        "whole budget, an unsolved task counting as the worst that the domain can give, or else that was seen. *Area*: "
        "the mean over the run of that mean: the greater, the earlier. *To 99 %*: evaluations until 99 % of the way "
        "from the final mean of random sampling to the optimum, or to the best that was found where the optimum is not "
        "known. *Seconds*: of one run; runs that went side by side share theirs. *Better/worse*: than how many of the "
        "others, by the final mean (Mann-Whitney U, two-sided, corrected by Holm for all pairs of the domain, p < "
        f"{LEVEL}).",
    ]
    for label in bench.comparisons:
        lines += ["", *_section(bench, label)]
    for label, reason in bench.left_out.items():
        lines += ["", f"Left out: {label} ({reason})."]
    lines += [
        "",
        "The data: `bench.csv` (each run), `tests.csv` (each pair), `curves.csv` (quartiles over evaluations).",
        "",
    ]
    return "\n".join(lines)


def _overview(bench: Bench) -> list[str]:
    """Return a table of the median final mean and the rank of each algorithm on each domain."""
    import pandas as pd

    table = bench.table()
    names = dict.fromkeys(name for found in bench.comparisons.values() for name in found.labels)
    names |= dict.fromkeys(name for reasons in bench.refused.values() for name in reasons)
    rows = []
    for name in names:
        row = {"final mean (place)": name}
        for label in bench.comparisons:
            finals = table.loc[label]["mean_all_median"]
            places = {own: place for place, own in enumerate(finals.index, start=1)}
            row[label] = f"{finals[name]:.5g} ({places[name]})" if name in places else "-"
        rows.append(row)
    return markdown(pd.DataFrame(rows))


def _section(bench: Bench, label: str) -> list[str]:
    """All on one domain."""
    found = bench.comparisons[label]
    settings = found.settings
    options = ", ".join(f"{name} {value}" for name, value in settings.get("options", {}).items())
    digest = settings.get("tasks", {}).get("digest") or "none"
    about = bench.about(label).removeprefix(f"{label}: ")
    lines = [
        f"## {label}",
        "",
        f"{about}, batches of {settings.get('batch_size', 64)}; digest of the tasks `{digest}`"
        + (f"; {options}." if options else "."),
        "",
        f"![{label}: curves and final values]({file_name(label)}.png)",
        "",
        *markdown(_measure_table(bench, label)),
    ]
    lines += [f"\n{name} is not shown: {reason}." for name, reason in bench.refused.get(label, {}).items()]
    lines += ["", _undecided_pairs(found)]
    if note := found.note_on_p():
        lines += ["", note]
    published = _published(found)
    if published is not None:
        lines += [
            "",
            *markdown(published),
            "",
            "Published: Hatzky, Bartz-Beielstein, Eiben and Yaman (PPSN 2026), means of 20 runs of 1,000,000 "
            "evaluations. Their tasks are not these (and the budget may not be), so means can't be compared with ours, "
            "only their order.",
        ]
    return lines


def _measure_table(bench: Bench, label: str) -> "pd.DataFrame":
    import pandas as pd

    found = bench.comparisons[label]
    every = found.replicates().groupby("algorithm")
    rows = []
    for name, row in bench.table().loc[label].iterrows():
        own = every.get_group(name)
        cells = {"algorithm": str(name), "mean": format_quartiles(own["mean_all"].to_numpy(), ".5g")}
        if found.optimum is not None:
            cells["gap"] = format_quartiles(own["gap"].to_numpy(), ".2e")
        cells |= {
            "coverage": f"{100 * row['coverage_median']:.4g} %",
            "area": format_quartiles(own["area"].to_numpy(), ".5g"),
            "to 99 %": format_quartiles(own["evaluations_to_99"].to_numpy(), ",.0f"),
            "seconds": format_seconds(row["seconds_median"]),
            "better/worse": f"{row['better']:.0f}/{row['worse']:.0f}",
        }
        rows.append(cells)
    rows += [dict.fromkeys(rows[0], "-") | {"algorithm": name} for name in bench.refused.get(label, {})]
    return pd.DataFrame(rows)


def _undecided_pairs(found: Comparison) -> str:
    """Return a sentence about the pairs without a significant difference."""
    tests = found.tests()
    same = tests[~(tests["p_holm"] < LEVEL)]
    if tests.empty:
        return "There is one algorithm, so nothing to tell apart."
    if same.empty:
        return "Each pair differs."
    if len(same) == len(tests) > 1:
        return "No two are told apart."
    pairs = [
        f"{row['first']} and {row['second']}" + ("" if np.isnan(row["p_holm"]) else f" ({row['p_holm']:.2g})")
        for row in same.to_dict("records")
    ]
    return f"Not told apart (p, corrected): {'; '.join(pairs)}."


def _published(found: Comparison) -> "pd.DataFrame | None":
    """Return a table of published means and ours; None if the domain or its options are not the published ones."""
    import pandas as pd

    name, options = found.settings.get("problem"), found.settings.get("options", {})
    wanted = _AS_PUBLISHED.get(str(name), {})
    if name not in PUBLISHED or any(np.any(options.get(key) != np.array(value)) for key, value in wanted.items()):
        return None
    labels = {_TUNED: next(iter(label_algorithms([Monet(tuned=name)])))}
    every = found.replicates().groupby("algorithm")
    rows = []
    for algorithm, (final, area) in PUBLISHED[name].items():
        label = labels.get(algorithm, algorithm)
        own = every.get_group(label) if label in found.results else None
        rows.append(
            {
                "means": algorithm,
                "published, final": f"{final:.5g}",
                "published, over the run": "-" if area is None else f"{area:.5g}",
                "ours, final": "-" if own is None else f"{own['mean_all'].mean():.5g}",
                "ours, over the run": "-" if own is None else f"{own['area'].mean():.5g}",
            }
        )
    return pd.DataFrame(rows)
