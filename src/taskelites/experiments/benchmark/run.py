"""`te.bench`: run a comparison of algorithms on each of several domains.

The folder of a benchmark contains one comparison per domain (see `compare`) with all its runs. So a benchmark can be
resumed, and extended by algorithms, domains and replicates.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taskelites.algorithms import ALGORITHMS
from taskelites.domains import domain
from taskelites.errors import Interrupted, InvalidTypeError, InvalidValueError, counted, whole_number
from taskelites.evaluation.options import WorkerCount
from taskelites.experiments.benchmark.benchmark import Bench, comparisons_in, read_bench_plan, write_bench_plan
from taskelites.experiments.comparison.comparison import Comparison
from taskelites.experiments.comparison.run import check_out, compare, label_algorithms, refusal, resume_hint
from taskelites.experiments.paper.page import provenance
from taskelites.problem.problem import is_domain
from taskelites.process import shows_progress
from taskelites.search.job import as_seed
from taskelites.storage import file_name

DEFAULT_REPLICATES = 20
DEFAULT_EVALUATIONS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A domain of the benchmark.

    Attributes:
        options: options of the domain.
        evaluations: the budget per run.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    evaluations: int = DEFAULT_EVALUATIONS


# By name of the domain. One evaluation on the hexapod takes milliseconds on a CPU core, so its entry is smaller than in
# the papers. The cart-pole needs a GPU.
ENTRIES: dict[str, Entry] = {
    "archery": Entry(),
    "cartpole": Entry(),
    "arm": Entry(options={"form": "exponential", "target": (0.5, 0.5)}),
    "hexapod": Entry(options={"tasks": 200}, evaluations=100_000),
    "valleys": Entry(),
}


def bench(
    domains: Sequence[Any] | Mapping[str, Any] | None = None,
    *,
    algorithms: Sequence[Any] | Mapping[str, Any] | None = None,
    evaluations: int | None = None,
    replicates: int = DEFAULT_REPLICATES,
    batch_size: int = 64,
    seed: int = 0,
    tasks: Any = None,
    workers: WorkerCount | None = None,
    out: str | os.PathLike[str] | None = None,
    command: str | None = None,
    progress: bool | None = None,
) -> Bench:
    """Compare algorithms over replicates on several domains.

    Args:
        domains: a list of names or domains, or a dict that maps labels to them. A name selects the benchmark's entry of
            that name, with its options and budget. By default all entries; those that can't be made on this machine
            (the hexapod without its simulator) are left out and listed in `Bench.left_out`.
        algorithms: as for `te.compare`; by default all that are registered. `random` is always added, because the
            evaluations to 99 % need its final value.
        evaluations: the budget per run; by default the budget of the entry: 100,000 for the hexapod, 1,000,000 for
            the others.
        replicates: runs per algorithm and domain.
        batch_size: candidates per step.
        seed: seed of the first replicate.
        tasks: the number of tasks of domains that are given by name; by default as in the entry.
        workers: as for `te.solve`, for domains whose fitness is not a JAX function.
        out: a folder for all runs, tables, figures and the page `bench.md`. If it already holds a benchmark, finished
            runs are not made again, and new domains and algorithms are added.
        command: the command to show on the page.
        progress: whether to show progress; by default, only in a terminal.

    Raises:
        ValueError, TypeError: before any run, if an argument is wrong, or no algorithm can be run on a domain. If only
            some algorithms can't, the others are run, and `Bench.refused` has the reasons.
        Interrupted: after Ctrl-C; the same call with the same `out` resumes.

    Example:
        >>> import taskelites as te
        >>> options = {"algorithms": ["mt-map-elites"], "tasks": 200, "evaluations": 2000, "replicates": 2}
        >>> te.bench(["arm", "archery"], **options)
        <Bench: 2 domains, 8 runs>
    """
    labelled = label_algorithms(list(ALGORITHMS) if algorithms is None else algorithms)
    if not any(settings.name == "random" for settings in labelled.values()):
        if "random" in labelled:
            raise InvalidValueError(
                "algorithms must not use the label 'random' for another algorithm; choose another label"
            )
        labelled |= label_algorithms(["random"])
    batch_size = whole_number("batch_size", batch_size, least=1, most=2**24)
    common = {
        "replicates": whole_number("replicates", replicates, least=1),
        "batch_size": batch_size,
        "seed": as_seed(seed),
        "workers": workers,
        "progress": progress,
    }
    before = _existing_plan(out)
    made, left_out = _make_domains(domains, tasks)
    # The checks compute tasks and optima and trace programs, which is slow with thousands of tasks.
    _print_progress(f"checking {counted(len(labelled), 'algorithm')} on {', '.join(made)}", progress)
    refused = {label: _refused_algorithms(label, problem, labelled, batch_size) for label, problem in made.items()}
    plan = {
        label: _budget(problem) if evaluations is None else whole_number("evaluations", evaluations, least=1)
        for label, problem in made.items()
    }
    said = provenance(command or "te.bench")
    if out is None:
        found = _compare_domains(made, labelled, refused, plan, None, common)
        return Bench(comparisons=found, refused=refused, left_out=left_out, made=[said])
    folder = Path(out)
    known = {label: reasons for label, reasons in before["domains"].items() if label not in made}
    for label, reasons in refused.items():
        earlier = before["domains"].get(label, {})
        refused[label] = {name: why for name, why in earlier.items() if name not in labelled} | reasons
    left_out = {label: why for label, why in before["left_out"].items() if label not in made} | left_out
    lines = list(dict.fromkeys([*before["made"], said]))
    write_bench_plan(folder, known | refused, left_out, lines)
    found = _compare_domains(made, labelled, refused, plan, folder, common)
    everything = comparisons_in(folder, known) | found
    whole = Bench(comparisons=everything, refused=known | refused, left_out=left_out, made=lines)
    whole.save(folder)
    return whole


def _print_progress(text: str, progress: bool | None) -> None:
    """Print a line of progress."""
    if shows_progress(progress):
        print(text, file=sys.stderr, flush=True)


def _compare_domains(
    domains: dict[str, Any],
    algorithms: dict[str, Any],
    refused: dict[str, dict[str, str]],
    budgets: dict[str, int],
    folder: Path | None,
    common: dict[str, Any],
) -> dict[str, Comparison]:
    """Compare on each domain the algorithms that can be run on it."""
    found = {}
    progress, workers = common["progress"], common["workers"]
    for label, problem in domains.items():
        able = {name: settings for name, settings in algorithms.items() if name not in refused[label]}
        each = f"{counted(common['replicates'], 'run')} of {counted(budgets[label], 'evaluation')} each"
        size = f"{counted(len(problem.tasks), 'task')}, " if hasattr(problem.tasks, "__len__") else ""
        _print_progress(f"{label}: {size}{counted(len(able), 'algorithm')}, {each}", progress)
        place = None if folder is None else folder / file_name(label)
        try:
            found[label] = compare(
                problem,
                algorithms=able,
                evaluations=budgets[label],
                out=place,
                add=place is not None and (place / "comparison.json").exists(),
                **common | {"workers": None if problem.call == "jax" else workers},
            )
        except Interrupted as stop:
            if folder is not None:  # the comparison's message names its own folder
                stop.args = (f"{label}: {str(stop).partition('; ')[0]}{resume_hint(folder)}",)
            raise
    return found


def _make_domains(domains: Any, tasks: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the domains by label, and for each domain left out the reason."""
    if domains is None:
        made, left_out = {}, {}
        for name in ENTRIES:
            try:
                made[name] = _make_entry(name, tasks)
            except (ValueError, ImportError) as error:
                left_out[name] = str(error)
        if not made:
            raise InvalidValueError(f"no domain of the benchmark can be made here: {left_out}")
        return made, left_out
    if isinstance(domains, str) or not isinstance(domains, Sequence | Mapping) or not domains:
        raise InvalidTypeError(
            f"domains must be a list of names or domains, or a dict that maps labels to them, not {domains!r}"
        )
    pairs = domains.items() if isinstance(domains, Mapping) else [(_label(given), given) for given in domains]
    made = {}
    for label, given in pairs:
        if label in made or file_name(label) in map(file_name, made):
            raise InvalidValueError(
                f"domains must have different labels and folder names, but {label!r} is there twice"
            )
        if not isinstance(given, str) and not is_domain(given):
            raise InvalidTypeError(f"domains must be names or domains, but {label!r} is of type {type(given).__name__}")
        if tasks is not None and not isinstance(given, str):
            raise InvalidValueError(
                f"tasks is for domains that are given by name, but {label!r} has its own tasks; leave it out"
            )
        made[str(label)] = _make_entry(given, tasks) if isinstance(given, str) else given
    return made, {}


def _label(given: Any) -> str:
    return given if isinstance(given, str) else str(getattr(given, "name", "domain"))


def _make_entry(name: str, tasks: Any) -> Any:
    options = dict(ENTRIES[name].options) if name in ENTRIES else {}
    return domain(name, **options | ({} if tasks is None else {"tasks": tasks}))


def _budget(problem: Any) -> int:
    entry = ENTRIES.get(getattr(problem, "name", ""))
    return DEFAULT_EVALUATIONS if entry is None else entry.evaluations


def _refused_algorithms(label: str, problem: Any, algorithms: dict[str, Any], batch_size: int) -> dict[str, str]:
    """Return the algorithms that can't be run on a domain, each with the reason."""
    asked = {name: refusal(problem, settings, batch_size=batch_size) for name, settings in algorithms.items()}
    reasons = {name: reason for name, reason in asked.items() if reason is not None}
    if len(reasons) == len(algorithms):
        raise InvalidValueError(f"no algorithm can be run on {label!r}: {next(iter(reasons.values()))}")
    return reasons


def _existing_plan(out: Any) -> dict[str, Any]:
    """Return the plan of the benchmark in a folder; an empty plan for a new folder."""
    if out is not None and (Path(out) / "bench.json").exists():
        return read_bench_plan(out)
    if out is not None:
        check_out(Path(out), "benchmark", new=True)
    return {"domains": {}, "left_out": {}, "made": []}
