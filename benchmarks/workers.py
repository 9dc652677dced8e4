"""Overhead of a Python fitness: workers, ask and tell, checkpoints and memory.

    python benchmarks/workers.py                                          all parts
    taskset -c 0 python benchmarks/workers.py --part controller cluster   on one core, as their targets assume

Parts:

- `throughput`: eight workers, relative to the ideal.
- `auto`: `workers="auto"` against no workers.
- `controller`: ask and tell without evaluation.
- `cluster`: utilisation of up to 1,000 workers, in virtual time.
- `checkpoint`: cost of one checkpoint per second.
- `memory`: growth of memory over a long run.
"""

import argparse
import functools
import heapq
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import cloudpickle
import jax.numpy as jnp
import numpy as np

import taskelites as te
from taskelites.evaluation import options as evaluation_options
from taskelites.evaluation.caller import Answer
from taskelites.evaluation.engines.automatic import AutomaticEngine
from taskelites.evaluation.engines.inline import Engine, Finished, Work
from taskelites.evaluation.engines.workers import Workers, cores
from taskelites.evaluation.options import EvaluationOptions
from taskelites.runs import Checkpointer

MILLION = 1_000_000
ROUNDS = 3


@functools.cache
def some_tasks() -> te.Tasks:
    return te.tasks.cvt(5000, [0, 0], [1, 1])


def solve(fitness: Any, **options: Any) -> te.Result:
    """Run `te.solve` on 5,000 tasks, with 36 dimensions by default."""
    options = {"bounds": (0, 1), "dim": 36, "algorithm": "mt-map-elites", "progress": False} | options
    with warnings.catch_warnings():
        # Slow workers and failing evaluations are part of the benchmark.
        warnings.simplefilter("ignore", te.errors.FitnessWarning)
        return te.solve(fitness, some_tasks(), **options)


class MiddleOfRun:
    """A callback that measures a run between 10 % and 90 % of its evaluations.

    The start is left out because programs are compiled and processes start, the end because workers become idle when
    the budget is used up. History rows are logged at the end of batches, so that `mode="sync"` is measured in whole
    batches.

    Args:
        evaluations: number of evaluations of the run.
        clock: a second clock to read at each row; default: always 0.
    """

    def __init__(self, evaluations: int, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._evaluations = evaluations
        self._clock = clock
        self._rows: list[tuple[float, int, float]] = []

    def __call__(self, row: Any) -> None:
        """Record the times of a history row."""
        self._rows.append((row["seconds"], row["evaluations"], self._clock()))

    @property
    def ends(self) -> tuple[Any, Any]:
        """Return (seconds, evaluations, clock) at the start and at the end of the measurement."""
        inside = [row for row in self._rows if 0.1 <= row[1] / self._evaluations <= 0.9]
        inside = inside if len(inside) > 1 else [(0.0, 0, 0.0), self._rows[-1]]  # the run is too short
        return inside[0], inside[-1]

    @property
    def spent(self) -> tuple[float, int, float]:
        """Return seconds, evaluations and clock time during the measurement."""
        first, last = self.ends
        return last[0] - first[0], last[1] - first[1], last[2] - first[2]

    @property
    def rate(self) -> float:
        """Return evaluations per second."""
        seconds, evaluations, _ = self.spent
        return evaluations / seconds


@contextmanager
def use_engine(engine: Engine) -> Iterator[None]:
    """Make all runs evaluate with this engine while the context is open."""
    with (
        mock.patch.object(evaluation_options, "InlineEngine", return_value=engine),
        mock.patch.object(EvaluationOptions, "_local_workers", return_value=engine),
    ):
        yield


def never_called(*_: Any) -> Any:
    raise AssertionError("the engine must not call the fitness")


# throughput


@dataclass(frozen=True)
class Sleeper:
    """A fitness that sleeps for a time that depends on the solution only.

    Args:
        spread: distribution of the times: "equal" (20 ms), "wide" (5 to 50 ms), or "tenth" (10 % of them 100 ms, the
            others 10 ms).
    """

    spread: str

    def __call__(self, solution: np.ndarray, task: np.ndarray) -> float:
        """Sleep, then return the fitness."""
        time.sleep(self.seconds(solution))
        return -float(abs(solution[0] - task[0]))

    def seconds(self, solution: np.ndarray) -> float:
        """Return the time to sleep, in seconds."""
        share = zlib.crc32(solution.tobytes()) / 2**32
        if self.spread == "equal":
            return 0.020
        return 0.005 + 0.045 * share if self.spread == "wide" else 0.1 if share < 0.1 else 0.01


def measure_throughput(sleeper: Sleeper, mode: str, evaluations: int, workers: int = 8) -> tuple[float, float, float]:
    """Measure the throughput of workers.

    Returns:
        Evaluations per second; the share of the ideal, at which all workers always sleep; and the share of time that
        workers are busy. The last two differ because a machine sleeps longer than asked.
    """
    asleep, took = [0.0], [0.0]
    collect = Workers.collect

    def recorded(self: Workers, wait: float) -> list[Finished]:
        found = collect(self, wait)
        asleep[0] += sum(sleeper.seconds(solution) for work, _ in found for solution in work.solutions)
        took[0] += sum(answer.seconds for _, answer in found if isinstance(answer, Answer))
        return found

    middle = MiddleOfRun(evaluations, lambda: asleep[0])
    with mock.patch.object(Workers, "collect", recorded):
        solve(sleeper, call="each", evaluations=evaluations, workers=workers, mode=mode, callback=middle, dim=10)
    seconds, _, slept = middle.spent
    share = slept / (workers * seconds)
    return middle.rate, share, share * took[0] / asleep[0]


def part_throughput(shrink: int) -> None:
    labels = {"equal": "20 ms each", "wide": "5 to 50 ms", "tenth": "10 ms, 10 % of them 100 ms"}
    evaluations = max(400, 2048 // shrink)
    for spread, durations in labels.items():
        modes = ("sync",) if spread == "equal" else ("sync", "async")
        found: dict[str, list[Any]] = {mode: [] for mode in modes}
        for _ in range(1 if shrink > 1 else ROUNDS):
            for mode in modes:
                found[mode].append(measure_throughput(Sleeper(spread), mode, evaluations))
        for mode in modes:
            rate, share, busy = np.median(found[mode], axis=0)
            wanted = "includes waiting for batches" if mode == "sync" and len(modes) > 1 else "target: 95 %"
            ideal = f"{share:.1%} of ideal, {busy:.1%} busy"
            print(f"throughput: 8 workers, {durations}, {mode}: {rate:.0f} per second, {ideal} ({wanted})")


# auto


@dataclass(frozen=True)
class Busy:
    """A fitness that runs a fixed number of loop iterations, as time does not measure work on a shared core.

    Args:
        turns: loop iterations per evaluation.
    """

    turns: int

    def __call__(self, solution: np.ndarray, task: np.ndarray) -> float:
        """Run the loop, then return the fitness."""
        for _ in range(self.turns):
            pass
        return -abs(float(solution[0]) - float(task[0]))


@dataclass(frozen=True)
class BusyRows:
    """A batch function like `Busy`.

    Args:
        turns: loop iterations per row.
    """

    turns: int

    def __call__(self, solutions: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        """Run the loop for each row, then return the fitness of all rows."""
        for _ in range(len(solutions)):
            for _ in range(self.turns):
                pass
        return -np.abs(solutions[:, 0] - tasks[:, 0])


@functools.cache
def loops_per_second() -> float:
    turns, times = 200_000, []
    for _ in range(9):
        begin = time.perf_counter()
        for _ in range(turns):
            pass
        times.append(time.perf_counter() - begin)
    return turns / min(times)  # the minimum is the least disturbed


def time_runs(
    fitness: Any, call: str, evaluations: int, rounds: int, sides: tuple[Any, ...]
) -> tuple[dict[Any, list[float]], set[str]]:
    """Return the seconds of whole runs per value of `workers`, measured in turn, and the decisions of "auto"."""
    decided = set()

    class Seen(AutomaticEngine):
        def close(self) -> None:
            decided.add(self.decision or "this process (no trial, since the run is short)")
            super().close()

    times: dict[Any, list[float]] = {workers: [] for workers in sides}
    solve(fitness, call=call, evaluations=300, dim=10)  # compiles
    with mock.patch.object(evaluation_options, "AutomaticEngine", Seen):
        for _ in range(rounds):
            for workers in sides:
                begin = time.perf_counter()
                solve(fitness, call=call, evaluations=evaluations, workers=workers, dim=10)
                times[workers].append(time.perf_counter() - begin)
    return times, decided


def part_auto(shrink: int) -> None:
    fast_turns, slow_turns = int(10e-6 * loops_per_second()), int(2e-3 * loops_per_second())
    short, long = 200_000, 3 * MILLION // 2  # 2 s, and long enough for a trial of workers
    cases = (
        ("10 us", Busy(fast_turns), "each", short, ROUNDS),
        ("10 us per row", BusyRows(fast_turns), "batch", short, ROUNDS),
        ("10 us", Busy(fast_turns), "each", long, 1),
        ("10 us per row", BusyRows(fast_turns), "batch", long, 1),
        ("2 ms", Busy(slow_turns), "each", 10_000, 1),
    )
    for cost, fitness, call, evaluations, rounds in cases:
        sides = (None, "auto") if evaluations == long else (None, "auto", 2)
        evaluations //= shrink
        times, decided = time_runs(fitness, call, evaluations, rounds, sides)
        alone, auto = np.array(times[None]), np.array(times["auto"])
        wanted = "target: workers" if fitness.turns == slow_turns else "target: at most 1.1"
        print(
            f"auto: {cost}, {call}, {evaluations:,}: {np.median(alone):.2f} s without workers, auto "
            f"{np.median(auto / alone):.2f} times as long ({wanted}): {'; '.join(sorted(decided))}"
        )
        if 2 in times:
            ratio = np.median(np.array(times[2]) / alone)
            print(f"auto: {cost}, {call}, {evaluations:,}: workers=2 {ratio:.2f} times as long")


# controller and cluster


class InstantEngine:
    """An engine that answers immediately with random fitness.

    Args:
        slots: number of workers to report.
        most: maximum number of chunks per `collect`.
        seconds: duration to report per evaluation, which determines the chunk size.
    """

    def __init__(self, slots: int, most: int = MILLION, seconds: float = 1.0) -> None:
        self.slots = slots
        self._most = most
        self._seconds = seconds
        self._works: deque[Work] = deque()
        self._fitness = np.random.default_rng(0).random(MILLION)
        self._given = 0

    def submit(self, work: Work) -> None:
        """Queue a chunk."""
        self._works.append(work)

    def collect(self, wait: float) -> list[Finished]:
        """Return the oldest chunks with their answers."""
        return [self._answered(self._works.popleft()) for _ in range(min(self._most, len(self._works)))]

    def _answered(self, work: Work) -> Finished:
        rows = len(work.rows)
        if self._given + rows > MILLION:
            self._given = 0
        fitness = self._fitness[self._given : self._given + rows]
        self._given += rows
        return work, Answer(fitness, None, [], rows * self._seconds)

    def drop(self) -> None:
        """Drop all queued chunks."""
        self._works.clear()

    def close(self) -> None:
        """Do nothing: there are no resources."""


class VirtualCluster(InstantEngine):
    """An engine that simulates many workers in virtual time.

    The virtual clock includes the real time that the controller spends between calls, but not the time spent in the
    engine. When the controller would wait, the clock jumps to the next finished chunk. A worker that finishes takes the
    next chunk from the queue at once, as in an executor.

    Args:
        workers: number of workers.
        durations: function that draws the given number of durations, in seconds.
        pickles: whether to pickle chunks on the time of the controller, as an executor does.
    """

    def __init__(self, workers: int, durations: Callable[[int], np.ndarray], *, pickles: bool = True) -> None:
        super().__init__(workers)
        self.clock = 0.0
        self.busy: list[tuple[float, float]] = []
        self._durations = durations
        self._pickles = pickles
        self._free = [0.0] * workers
        self._ends: list[tuple[float, int, float, Work]] = []
        self._left = time.perf_counter()

    def submit(self, work: Work) -> None:
        """Queue a chunk, which starts as soon as a worker is free."""
        if self._pickles:
            cloudpickle.dumps((len(self.busy), work.solutions, work.tasks))
        self._enter()
        seconds = float(self._durations(len(work.rows)).sum())
        begin = max(self.clock, heapq.heappop(self._free))
        heapq.heappush(self._free, begin + seconds)
        heapq.heappush(self._ends, (begin + seconds, len(self.busy), seconds, work))
        self.busy.append((begin, begin + seconds))
        self._leave()

    def collect(self, wait: float) -> list[Finished]:
        """Return finished chunks, after advancing the clock to the next one if there are none."""
        self._enter()
        found = []
        if self._ends:
            self.clock = max(self.clock, self._ends[0][0])
        while self._ends and self._ends[0][0] <= self.clock:
            _, _, seconds, work = heapq.heappop(self._ends)
            found.append((work, self._answered(work)[1]._replace(seconds=seconds)))
        self._leave()
        return found

    def utilisation(self, begin: float, end: float) -> float:
        """Return the share of time that workers are busy between two clock times."""
        starts, ends = np.array(self.busy).T
        worked = np.clip(np.minimum(ends, end) - np.maximum(starts, begin), 0, None).sum()
        return float(worked / (self.slots * (end - begin)))

    def _enter(self) -> None:
        self.clock += time.perf_counter() - self._left

    def _leave(self) -> None:
        self._left = time.perf_counter()


def run_with_engine(engine: InstantEngine, evaluations: int, **options: Any) -> MiddleOfRun:
    """Run with an engine, and measure by the clock of the engine if it has one."""
    middle = MiddleOfRun(evaluations, lambda: getattr(engine, "clock", 0.0))
    options = {"call": "each", "workers": engine.slots} | options
    with use_engine(engine):
        if isinstance(engine, VirtualCluster):
            engine._leave()
        solve(never_called, evaluations=evaluations, callback=middle, **options)
    return middle


def part_controller(shrink: int) -> None:
    print(f"controller: on {cores()} of {os.cpu_count()} cores")
    # Without workers a batch is one chunk. With workers, batch functions get 16 rows per chunk, slow ones a single row.
    whole = {"call": "batch", "workers": None}
    sync = {
        "one chunk (target: 300,000)": (InstantEngine(1), 2 * MILLION, whole),
        "16 rows per chunk, 8 workers": (InstantEngine(8), MILLION, {"call": "batch"}),
        "1 row per chunk, 8 workers": (InstantEngine(8), MILLION // 4, {}),
        "1 row per chunk, 1,000 workers": (InstantEngine(1000), MILLION // 4, {}),
    }
    for name, (engine, evaluations, options) in sync.items():
        rate = run_with_engine(engine, evaluations // shrink, batch_size=1024, **options).rate
        print(f"controller: sync, batch 1,024, {name}: {rate:,.0f} evaluations per second")
    draw = np.random.default_rng(0)
    offer = VirtualCluster(1000, lambda n: draw.uniform(0.02, 0.03, n), pickles=False)
    _, told, seconds = run_with_engine(offer, MILLION // 4 // shrink, batch_size=1024, mode="async").spent
    rate = told / seconds
    print(f"controller: async, 40,000 single results per second: {rate:,.0f} processed per second (target: 20,000)")
    for name, engine, evaluations in (
        ("all of 1,000 workers at once", InstantEngine(1000), MILLION // 4),
        ("all of 8 workers at once", InstantEngine(8), MILLION // 10),
        ("one at a time", InstantEngine(8, most=1), 20_000),
    ):
        rate = run_with_engine(engine, evaluations // shrink, batch_size=1024, mode="async").rate
        print(f"controller: async, {name}: {rate:,.0f} evaluations per second")


def part_cluster(shrink: int) -> None:
    draw = np.random.default_rng(0)
    durations = {
        "log-normal, mean 1 s": lambda n: draw.lognormal(-0.5, 1.0, n),
        "uniform, 0.5 to 5 s": lambda n: draw.uniform(0.5, 5.0, n),
    }
    runs = ({"batch_size": 1024}, {"batch_size": 4096}, {"batch_size": 1024, "mode": "async"})
    for options in runs:
        run_with_engine(InstantEngine(8), 3 * 4096, **options)  # compiles, which does not count
    for workers, evaluations in ((100, 20_000), (1000, 100_000)):
        for name, duration in durations.items():
            for options in runs:
                engine = VirtualCluster(workers, duration)
                first, last = run_with_engine(engine, max(2 * workers, evaluations // shrink), **options).ends
                middle, whole = engine.utilisation(first[2], last[2]), engine.utilisation(0.0, engine.clock)
                way = options.get("mode") or f"sync, batch {options['batch_size']:,}"
                print(f"cluster: {workers:,} workers, {name}, {way}: {middle:.1%} busy, {whole:.1%} with start and end")


# checkpoint


def near(solutions: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    return -((solutions - tasks[:, :1]) ** 2).sum(axis=1)


def near_jax(solution: Any, task: Any) -> Any:
    return -jnp.sum((solution - task[0]) ** 2)


def run_with_checkpoints(fitness: Any, call: str, evaluations: int, every: str) -> tuple[float, float, int]:
    """Return the seconds of a run without its end, the seconds spent in checkpoints, and their number."""
    saves: list[float] = []
    save = Checkpointer.save

    def timed(self: Checkpointer, *arguments: Any) -> None:
        begin = time.perf_counter()
        save(self, *arguments)
        saves.append(time.perf_counter() - begin)

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(Checkpointer, "save", timed):
        options = {"out": f"{folder}/run", "checkpoint_every": every, "batch_size": 1024}
        result = solve(fitness, call=call, evaluations=evaluations, **options)
    return float(result.history["seconds"][-1]), sum(saves[:-1]), len(saves) - 1


def part_checkpoint(shrink: int) -> None:
    for call, fitness in (("batch", near), ("jax", near_jax)):
        trial = MILLION // shrink
        run_with_checkpoints(fitness, call, trial, "1h")  # compiles
        evaluations = int(10 / shrink * trial / run_with_checkpoints(fitness, call, trial, "1h")[0])
        rounds = []
        for _ in range(1 if shrink > 1 else 2):
            often, saving, number = run_with_checkpoints(fitness, call, evaluations, f"{1 / shrink}s")
            rounds.append(
                (often / run_with_checkpoints(fitness, call, evaluations, "1h")[0] - 1, saving / often, often, number)
            )
        more, share, seconds, number = np.median(rounds, axis=0)
        print(
            f"checkpoint: {call}, a run of {seconds:.1f} s, one per second ({number:.0f}): {more:+.2%} time, "
            f"{share:.2%} of the time spent in checkpoints (target: below 2 %)"
        )


# memory


def arm_rows(solutions: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Return the fitness of the arm, in NumPy; 1 % of the evaluations fail."""
    heading = np.cumsum((solutions - 0.5) * (tasks[:, :1] * (2 * np.pi / solutions.shape[1])), axis=1)
    x, y = tasks[:, 1] * np.cos(heading).mean(axis=1), tasks[:, 1] * np.sin(heading).mean(axis=1)
    fitness = -np.hypot(x - 1, y - 1)
    fitness[np.modf(1e4 * solutions.sum(axis=1))[0] < 0.01] = np.nan
    return fitness


def resident() -> float:
    """Return the resident memory of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MILLION


def memory_of(call: str, evaluations: int) -> None:
    """Run in this process, and print the memory at 10 %, 50 % and before the last row, which needs a compilation."""
    found: list[tuple[float, float]] = []
    domain = te.domain("arm")
    options = {"evaluations": evaluations, "checkpoint_every": max(1, evaluations // 50), "progress": False}
    options["algorithm"] = "mt-map-elites"
    options["callback"] = lambda row: found.append((row["evaluations"] / evaluations, resident()))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", te.errors.FitnessWarning)
        options["out"] = f"{folder}/run"
        if call == "jax":
            result = te.solve(domain, **options)
        else:
            result = te.solve(arm_rows, domain.tasks, bounds=(0, 1), dim=10, call=call, **options)
    marks = [next(size for share, size in found if share >= least) for least in (0.1, 0.5)]
    print(json.dumps([*marks, found[-2][1], result.failed / evaluations]))


def part_memory(shrink: int) -> None:
    for call, evaluations in (("jax", 10 * MILLION), ("batch", 2 * MILLION)):
        command = [sys.executable, __file__, "--memory-of", call, str(evaluations // shrink)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        tenth, half, end, failed = json.loads(done.stdout)
        print(
            f"memory: {call}, {evaluations // shrink:,} evaluations, {failed:.1%} failed: {tenth:.0f} MB at 10 %, "
            f"{half:.0f} MB at 50 %, {end:.0f} MB at the end: {end - tenth:+.1f} MB (target: about 0)"
        )


PARTS = {
    "throughput": part_throughput,
    "auto": part_auto,
    "controller": part_controller,
    "cluster": part_cluster,
    "checkpoint": part_checkpoint,
    "memory": part_memory,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)  # for tests
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)  # each measurement needs its own process
    chosen = parser.parse_args()
    if chosen.memory_of:
        memory_of(chosen.memory_of[0], int(chosen.memory_of[1]))
    else:
        for name in chosen.part:
            PARTS[name](20 if chosen.quick else 1)
