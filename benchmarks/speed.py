"""Speed of the search on one core, mostly as ratios of times measured in turn.

    python benchmarks/speed.py            all parts
    python benchmarks/speed.py --part paper compiled

Parts:

- `paper`: a whole run of the arm against the pseudo-code of the paper in NumPy.
- `compiled`: overhead of the search in a compiled run.
- `draws`: random numbers.
- `host`: overhead of ask and tell for a Python fitness.
- `start`: import, compilation and first progress line.
"""

import os
import sys

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before any library starts threads

import argparse
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import transcription

import taskelites as te
from taskelites.core import random
from taskelites.search.history import Recorder
from taskelites.search.jax_loop import JaxLoop
from taskelites.search.job import Job, make_job
from taskelites.search.loop import Control

MILLION = 1_000_000


def seconds(function: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - begin


def median_seconds(functions: dict[str, Callable[[], Any]], rounds: int = 5) -> dict[str, float]:
    """Return the median seconds of each function, measured in turn so that noise affects all of them."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(seconds(function))
    return {name: float(np.median(values)) for name, values in times.items()}


def new_search(job: Job) -> JaxLoop:
    return JaxLoop(job, [Recorder(job, seed=0)], Control())


def whole_run(domain: te.Domain, evaluations: int = MILLION) -> Callable[[], Any]:
    """Return a function that makes a whole run with history and snapshots; the set-up is not part of it."""
    job = make_job(domain, algorithm="mt-map-elites", evaluations=evaluations)

    def run() -> Any:
        search = new_search(job)
        search.run()
        return search.results()[0].fitness

    return run


def part_paper() -> None:
    domain = te.domain("arm")
    tasks = domain.tasks.descriptors
    ours = whole_run(domain)
    ours()  # compiles
    baseline_evaluations = 50_000
    rounds = [
        (
            seconds(lambda: transcription.search(tasks, 10, baseline_evaluations)[1]) / baseline_evaluations,
            seconds(ours) / MILLION,
        )
        for _ in range(11)
    ]
    numpy_each, ours_each = np.median(rounds, axis=0)
    ratios = np.array([other / our for other, our in rounds])
    print(f"paper: taskelites {1e6 * ours_each:.3f} us per evaluation (a whole run of 1e6, without compilation)")
    print(f"paper: numpy {1e6 * numpy_each:.1f} us per evaluation (the first {baseline_evaluations:,})")
    print(f"paper: ratio {np.median(ratios):.0f}, over 11 rounds {ratios.min():.0f} to {ratios.max():.0f} (target: 80)")


def overhead(tasks: Any, batch_size: int, algorithm: Any, evaluations: int) -> float:
    """Return microseconds per evaluation of a compiled run with a negligible fitness."""
    domain = te.Domain(name="free", fitness=negligible, tasks=tasks, bounds=(0, 1), dim=10, call="jax")
    job = make_job(domain, algorithm=algorithm, batch_size=batch_size, evaluations=evaluations)
    search = new_search(job)
    rows = search.core.rows
    steps = evaluations // rows

    def run() -> Any:
        return search.programs.advance(search.core, search.states, steps, rows, None, 1.0)[0].archive.fitness

    run()
    return min(seconds(run) for _ in range(5)) / (steps * rows) * 1e6


def negligible(solution: jax.Array, task: jax.Array) -> jax.Array:
    """Return a fitness that is negligible to compute and rarely improves, as late in a run."""
    return -jnp.abs(solution[0] - task[0])


def part_compiled() -> None:
    tasks = te.tasks.cvt(5000, [0, 0], [1, 1])
    for batch_size, wanted in ((64, 1.0), (1024, 0.8)):
        cost = overhead(tasks, batch_size, "mt-map-elites", MILLION)
        print(f"compiled: 5,000 tasks, batch {batch_size}: {cost:.3f} us per evaluation (target: at most {wanted})")
    for size in (1, 10, 100, 1000, 5000):
        algorithm = te.MultiTaskMapElites(tournament=(size, size + 1))
        cost = overhead(tasks, 64, algorithm, MILLION // 4)
        print(f"compiled: 5,000 tasks, batch 64, tournament {size}: {cost:.3f} us per evaluation")
    many = te.tasks.uniform(100_000, [0, 0], [1, 1])
    cost = overhead(many, 64, "mt-map-elites", MILLION // 4)
    print(f"compiled: 100,000 tasks, batch 64: {cost:.3f} us per evaluation (target: at most 10)")
    cost = overhead(many, 64, te.MultiTaskMapElites(tournament=500), MILLION // 8)
    print(f"compiled: 100,000 tasks, batch 64, tournament 500 throughout: {cost:.3f} us per evaluation")


def part_draws() -> None:
    """Time normal random numbers of shape (64, 10) in a compiled loop, against `jax.random`."""
    shape, steps = (64, 10), 20_000
    runs = {}
    for name, draw in (("jax", jax.random.normal), ("ours", random.normal)):

        @jax.jit
        def run(key: jax.Array, draw: Any = draw) -> jax.Array:
            def body(i: jax.Array, total: jax.Array) -> jax.Array:
                return total + draw(jax.random.fold_in(key, i), shape, jnp.float32)

            return jax.lax.fori_loop(0, steps, body, jnp.zeros(shape))

        runs[name] = lambda run=run: run(jax.random.key(0))
        runs[name]()
    times = median_seconds(runs)
    each = {name: 1e6 * value / steps for name, value in times.items()}
    ratio = each["jax"] / each["ours"]
    print(f"draws: jax.random {each['jax']:.1f} us per batch, taskelites {each['ours']:.1f} us, ratio {ratio:.1f}")


def part_host() -> None:
    tasks = te.tasks.cvt(5000, [0, 0], [1, 1])
    for batch_size, wanted in ((64, 4.0), (1024, 1.5)):
        optimizer = te.Optimizer(tasks, bounds=(0, 1), dim=10, algorithm="mt-map-elites", batch_size=batch_size)
        spent = []
        for step in range(20 + 300_000 // batch_size):
            begin = time.perf_counter()
            candidates = optimizer.ask()
            middle = time.perf_counter()
            fitness = -np.abs(candidates.solutions[:, 0] - candidates.tasks[:, 0])
            end = time.perf_counter()
            optimizer.tell(candidates, fitness)
            if step >= 20:
                spent.append(middle - begin + time.perf_counter() - end)
        # JAX dispatches asynchronously, so the time to compute a tell is spent in the next ask.
        cost = 1e6 * np.array(spent) / batch_size
        print(
            f"host: batch {batch_size}: median {np.median(cost):.2f}, mean {cost.mean():.2f} us per evaluation "
            f"(target: at most {wanted})"
        )


def part_start() -> None:
    imported = min(_command_seconds([sys.executable, "-c", "import taskelites"]) for _ in range(3))
    print(f"start: import taskelites {imported:.1f} s")
    job = make_job(te.domain("arm"), algorithm="mt-map-elites", evaluations=64)
    search = new_search(job)
    jax.clear_caches()  # other parts may have compiled it
    lowered = search.programs.advance.lower(search.core, search.states, 1, 64, None, 1.0)
    compiled = seconds(lambda: lowered.compile() and None)
    print(f"start: compilation of the arm's loop {compiled:.1f} s")
    cold, warm = [], []
    for _ in range(3):
        cache = os.environ | {"XDG_CACHE_HOME": _temporary_folder()}
        cold.append(_first_line_seconds(cache))
        warm.append(_first_line_seconds(cache))
    print(
        f"start: first progress line of `taskelites run arm` after {min(cold):.1f} s, the second time {min(warm):.1f} s"
    )
    code = (
        "import jax, taskelites as te\n"
        "seconds = []\n"
        "jax.monitoring.register_event_duration_secs_listener(\n"
        "    lambda event, took, **_: seconds.append(took) if event.endswith('backend_compile_duration') else None)\n"
        "tasks = te.tasks.cvt(500, [0, 0], [1, 1])\n"
        "te.solve(lambda x, t: -abs(x[0] - t[0]), tasks, bounds=(0, 1), dim=10, evaluations=1000)\n"
        "print(f'start: a Python function compiles {len(seconds)} programs in {sum(seconds):.1f} s (target: 6 in 3 s)')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def _first_line_seconds(environment: Mapping[str, str]) -> float:
    """Return the seconds from the start of the command to its first progress line."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "taskelites", "run", "arm", "--out", f"{_temporary_folder()}/run"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()
        took = time.perf_counter() - begin
        process.stderr.read()
    return took


def _command_seconds(command: list[str]) -> float:
    return seconds(lambda: subprocess.run(command, check=True) and None)


def _temporary_folder() -> str:
    import tempfile

    return tempfile.mkdtemp()


PARTS = {
    "paper": part_paper,
    "compiled": part_compiled,
    "draws": part_draws,
    "host": part_host,
    "start": part_start,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    for name in parser.parse_args().part:
        PARTS[name]()
