"""Ablation and sensitivity of `auto`: without each of its parts, and with each of its numbers halved and doubled.

    python benchmarks/auto.py study                    ablation and sensitivity, docs/auto/study.csv
    python benchmarks/auto.py speed                    time per evaluation, relative to mt-map-elites
    python benchmarks/auto.py cartpole --replicates 20    cart-pole of the benchmark without a GPU, seeds from 0 on

`study` and `speed` use seeds from 1000 on, which no other experiment uses.
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np

import taskelites as te
from taskelites.algorithms.auto import NUMBERS, RULES, WAYS
from taskelites.core.metrics import area, evaluations_to, held
from taskelites.search.history import Recorder, logged_points
from taskelites.search.jax_loop import JaxLoop
from taskelites.search.job import make_job
from taskelites.search.loop import Control

SEED = 1000


def domains():
    """Return the domains on which the algorithm was designed and that run in seconds."""
    return [te.domain("arm", form="exponential", target=(0.5, 0.5)), te.domain("archery")]


def variants():
    """Return the settings of all variants, by label."""
    found = {"auto": te.Auto()}
    for way in WAYS:
        found[f"without {way}"] = te.Auto(ways=[each for each in WAYS if each != way])
    for rule in RULES:
        found[f"without {rule}"] = te.Auto(rules=[each for each in RULES if each != rule])
    for name, value in NUMBERS.items():
        for factor, word in ((0.5, "halved"), (2.0, "doubled")):
            # Discount and heritage are changed by the length of their memory: 1 / (1 - value) batches or generations.
            changed = 1 - (1 - value) / factor if name in ("discount", "heritage") else value * factor
            found[f"{name} {word}"] = te.Auto(numbers={name: changed})
    return found


def study(options):
    """Compare each variant with the full algorithm on each domain."""
    import pandas as pd

    tables = []
    for domain in domains():
        found = te.compare(
            domain,
            algorithms=variants(),
            evaluations=options.evaluations,
            replicates=options.replicates,
            seed=SEED,
            progress=True,
        )
        table = found.table().reset_index()[["algorithm", "runs", "mean_all_median", "area_median"]]
        table.insert(0, "domain", domain.name)
        p_values = {pair["first"]: pair["p"] for pair in _p_values(found, "area")}
        table["area_p"] = [p_values.get(label, float("nan")) for label in table["algorithm"]]
        tables.append(table)
        by_label = table.set_index("algorithm")
        for label, row in by_label.iterrows():
            gain = 1000 * (row["area_median"] - by_label.loc["auto", "area_median"])
            figures = f"mean {row['mean_all_median']:.6f}  area x 1000 {1000 * row['area_median']:7.2f}"
            print(f"{domain.name:8} {label:22} {figures} ({gain:+.2f}, p {row['area_p']:.2g})", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    pd.concat(tables).to_csv(options.out, index=False, float_format="%.9g")


def _p_values(found, measure):
    """Return the p-value of each variant against the full algorithm (Mann-Whitney, Holm correction)."""
    from taskelites.experiments.statistics import holm, mann_whitney

    runs = found.replicates()
    values = {label: runs.loc[runs["algorithm"] == label, measure] for label in found.labels}
    others = [label for label in found.labels if label != "auto"]
    corrected = holm([mann_whitney(values[label], values["auto"]) for label in others])
    return [{"first": label, "p": p} for label, p in zip(others, corrected, strict=True)]


def speed(options):
    """Time whole runs in turn, after a run that compiles; then time the compiled steps alone, which is less noisy."""
    for domain in domains():
        runs = {"mt-map-elites": [], "auto": []}
        for turn in range(options.replicates + 1):
            for algorithm, seconds in runs.items():
                begin = time.perf_counter()
                te.solve(domain, evaluations=options.evaluations, algorithm=algorithm, seed=SEED + turn, progress=False)
                seconds.append(time.perf_counter() - begin)
        _print_ratio(domain, "a run of auto", runs)
        searches = {algorithm: _make_step(domain, algorithm) for algorithm in runs}
        steps = {algorithm: [] for algorithm in runs}
        for _ in range(5 * options.replicates + 1):
            for algorithm, seconds in steps.items():
                begin = time.perf_counter()
                jax.block_until_ready(searches[algorithm]())
                seconds.append(time.perf_counter() - begin)
        _print_ratio(domain, "a step of auto", steps)


def _make_step(domain, algorithm, steps=4000):
    """Return a function that takes `steps` steps, starting after the first `steps` steps of a run."""
    job = make_job(domain, algorithm=algorithm, evaluations=1_000_000)
    search = JaxLoop(job, [Recorder(job, SEED)], Control())
    search.states, _ = search._advanced(steps, 64)
    return lambda: search._advanced(steps, 64)[0]


def _print_ratio(domain, what, seconds):
    ours, baseline = (seconds[algorithm][1:] for algorithm in ("auto", "mt-map-elites"))  # the first one compiles
    ratios, least = np.divide(ours, baseline), min(ours) / min(baseline)
    spread = f"{ratios.min():.2f} to {ratios.max():.2f}; the fastest of each {least:.2f}"
    print(f"{domain.name:8} {what} takes {np.median(ratios):.2f} times as long ({spread})", flush=True)


def cartpole(options):
    """Compute the area of 1,000,000 evaluations from the first 100,000, since fitness cannot exceed 1000 steps."""
    domain = te.domain("cartpole")
    job = make_job(domain, evaluations=1_000_000)
    points = np.array(logged_points(job, 0))
    areas = []
    for seed in range(options.replicates):
        history = te.solve(domain, evaluations=100_000, algorithm="auto", seed=seed, progress=False).history
        mean = held(history["evaluations"], history["mean_all"], at=points, before=0.0)
        areas.append(area(points, mean, worst=0.0, budget=1_000_000))
        first = evaluations_to(history["evaluations"], history["mean_all"], level=1000.0)
        print(f"seed {seed:2}  all tasks at 1000 after {first}  area {areas[-1]:.1f}", flush=True)
    print(f"area {np.mean(areas):.1f} ({min(areas):.1f} to {max(areas):.1f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("study", "speed", "cartpole"))
    parser.add_argument("--evaluations", type=lambda text: int(float(text)), default=300_000)
    parser.add_argument("--replicates", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("docs/auto/study.csv"))
    options = parser.parse_args()
    {"study": study, "speed": speed, "cartpole": cartpole}[options.part](options)


if __name__ == "__main__":
    main()
