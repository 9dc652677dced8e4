"""What a Python fitness pays for workers, for ask and tell, for checkpoints, and in memory.

    python benchmarks/workers.py                                          all parts
    taskset -c 0 python benchmarks/workers.py --part controller cluster   on one core, for which their figures are meant

Parts: `throughput` (eight workers against what eight could do), `auto` (`workers="auto"` against none), `controller`
(ask and tell without evaluation), `cluster` (up to 1,000 workers, in virtual time), `checkpoint` (what a checkpoint a
second costs), `memory` (whether a long run grows).
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
    """A run on 5,000 tasks, 36 numbers a solution unless told otherwise."""
    options = {"bounds": (0, 1), "dim": 36, "algorithm": "mt-map-elites", "progress": False} | options
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", te.errors.FitnessWarning
        )  # that workers are slower, or evaluations fail, is meant
        return te.solve(fitness, some_tasks(), **options)


class Middle:
    """A callback that measures between 10 % and 90 % of a run.

    Before, programs are compiled and processes start; after, nothing is left to send, and workers run dry because the
    budget ends. Rows of the history come with the end of batches, so that `mode="sync"` is measured in whole ones.

    Args:
        evaluations: of the run.
        clock: measured along; by default, nothing but the seconds.
    """

    def __init__(self, evaluations: int, clock: Callable[[], float] = lambda: 0.0) -> None:
        self._evaluations = evaluations
        self._clock = clock
        self._rows: list[tuple[float, int, float]] = []

    def __call__(self, row: Any) -> None:
        """Take a row of the history."""
        self._rows.append((row["seconds"], row["evaluations"], self._clock()))

    @property
    def ends(self) -> tuple[Any, Any]:
        """(seconds, evaluations, clock) where it begins and ends."""
        inside = [row for row in self._rows if 0.1 <= row[1] / self._evaluations <= 0.9]
        inside = inside if len(inside) > 1 else [(0.0, 0, 0.0), self._rows[-1]]  # of a run too short to be measured
        return inside[0], inside[-1]

    @property
    def spent(self) -> tuple[float, int, float]:
        """Seconds, evaluations and clock from its begin to its end."""
        first, last = self.ends
        return last[0] - first[0], last[1] - first[1], last[2] - first[2]

    @property
    def rate(self) -> float:
        """Evaluations a second."""
        seconds, evaluations, _ = self.spent
        return evaluations / seconds


@contextmanager
def plugged(engine: Engine) -> Iterator[None]:
    """Runs evaluate with this engine."""
    with mock.patch.object(EvaluationOptions, "_engine", return_value=engine):
        yield


def never(*_: Any) -> Any:
    raise AssertionError("the engine answers without it")


# throughput


@dataclass(frozen=True)
class Sleeper:
    """Sleeps, for a time that only the solution decides.

    Args:
        spread: "equal" (20 ms), "wide" (5 to 50 ms), or "tenth" (10 ms, and one in ten 100 ms).
    """

    spread: str

    def __call__(self, solution: np.ndarray, task: np.ndarray) -> float:
        """The fitness, after a sleep."""
        time.sleep(self.seconds(solution))
        return -float(abs(solution[0] - task[0]))

    def seconds(self, solution: np.ndarray) -> float:
        """How long it sleeps."""
        share = zlib.crc32(solution.tobytes()) / 2**32
        if self.spread == "equal":
            return 0.020
        return 0.005 + 0.045 * share if self.spread == "wide" else 0.1 if share < 0.1 else 0.01


def busy_share(sleeper: Sleeper, mode: str, evaluations: int, workers: int = 8) -> tuple[float, float, float]:
    """Evaluations a second; as a share of the ideal, so many workers that do nothing else; and the share they are busy.

    The last differs by how much longer than asked a machine sleeps, measured where the evaluations are made.
    """
    asleep, took = [0.0], [0.0]
    collect = Workers.collect

    def spied(self: Workers, wait: float) -> list[Finished]:
        found = collect(self, wait)
        asleep[0] += sum(sleeper.seconds(solution) for work, _ in found for solution in work.solutions)
        took[0] += sum(answer.seconds for _, answer in found if isinstance(answer, Answer))
        return found

    middle = Middle(evaluations, lambda: asleep[0])
    with mock.patch.object(Workers, "collect", spied):
        solve(sleeper, call="each", evaluations=evaluations, workers=workers, mode=mode, callback=middle, dim=10)
    seconds, _, slept = middle.spent
    share = slept / (workers * seconds)
    return middle.rate, share, share * took[0] / asleep[0]


def part_throughput(shrink: int) -> None:
    words = {"equal": "20 ms each", "wide": "5 to 50 ms", "tenth": "10 ms, one in ten 100 ms"}
    evaluations = max(400, 2048 // shrink)
    for spread, durations in words.items():
        modes = ("sync",) if spread == "equal" else ("sync", "async")
        found: dict[str, list[Any]] = {mode: [] for mode in modes}
        for _ in range(1 if shrink > 1 else ROUNDS):
            for mode in modes:
                found[mode].append(busy_share(Sleeper(spread), mode, evaluations))
        for mode in modes:
            rate, share, busy = np.median(found[mode], axis=0)
            wanted = "what waiting for a batch costs" if mode == "sync" and len(modes) > 1 else "95 % is wanted"
            ideal = f"{share:.1%} of ideal, {busy:.1%} busy"
            print(f"throughput: 8 workers, {durations}, {mode}: {rate:.0f} a second, {ideal} ({wanted})")


# auto


@dataclass(frozen=True)
class Busy:
    """Computes for a while, counted in turns of a loop: on a core that is shared, a clock would run for two.

    Args:
        turns: of the loop, an evaluation.
    """

    turns: int

    def __call__(self, solution: np.ndarray, task: np.ndarray) -> float:
        """The fitness, after the loop."""
        for _ in range(self.turns):
            pass
        return -abs(float(solution[0]) - float(task[0]))


@dataclass(frozen=True)
class BusyRows:
    """The same, row by row of a batch.

    Args:
        turns: of the loop, an evaluation.
    """

    turns: int

    def __call__(self, solutions: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        """The fitness of each row, after as many loops."""
        for _ in range(len(solutions)):
            for _ in range(self.turns):
                pass
        return -np.abs(solutions[:, 0] - tasks[:, 0])


@functools.cache
def turns_a_second() -> float:
    turns, times = 200_000, []
    for _ in range(9):
        begin = time.perf_counter()
        for _ in range(turns):
            pass
        times.append(time.perf_counter() - begin)
    return turns / min(times)  # the round that nobody disturbed


def whole_times(
    fitness: Any, call: str, evaluations: int, rounds: int, sides: tuple[Any, ...]
) -> tuple[dict[Any, list[float]], set[str]]:
    """Seconds of whole runs for each kind of workers, in turns; and what "auto" decided."""
    decided = set()

    class Seen(AutomaticEngine):
        def close(self) -> None:
            decided.add(self.decision or "this process alone (no trial: the run is short)")
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
    quick, slow = int(10e-6 * turns_a_second()), int(2e-3 * turns_a_second())
    short, long = 200_000, 3 * MILLION // 2  # two seconds, and long enough for workers to be tried out
    cases = (
        ("10 us", Busy(quick), "each", short, ROUNDS),
        ("10 us a row", BusyRows(quick), "batch", short, ROUNDS),
        ("10 us", Busy(quick), "each", long, 1),
        ("10 us a row", BusyRows(quick), "batch", long, 1),
        ("2 ms", Busy(slow), "each", 10_000, 1),
    )
    for cost, fitness, call, evaluations, rounds in cases:
        sides = (None, "auto") if evaluations == long else (None, "auto", 2)
        evaluations //= shrink
        times, decided = whole_times(fitness, call, evaluations, rounds, sides)
        alone, auto = np.array(times[None]), np.array(times["auto"])
        wanted = "workers are wanted" if fitness.turns == slow else "at most 1.1 is wanted"
        print(
            f"auto: {cost}, {call}, {evaluations:,}: {np.median(alone):.2f} s without workers, auto "
            f"{np.median(auto / alone):.2f} times as long ({wanted}): {'; '.join(sorted(decided))}"
        )
        if 2 in times:
            ratio = np.median(np.array(times[2]) / alone)
            print(f"auto: {cost}, {call}, {evaluations:,}: workers=2 {ratio:.2f} times as long")


# controller and cluster


class AtOnce:
    """An engine that has answered already.

    Args:
        slots: how many workers it says to have.
        most: chunks a `collect`.
        seconds: that it says an evaluation takes, from which follows how many make a chunk.
    """

    def __init__(self, slots: int, most: int = MILLION, seconds: float = 1.0) -> None:
        self.slots = slots
        self._most = most
        self._seconds = seconds
        self._works: deque[Work] = deque()
        self._fitness = np.random.default_rng(0).random(MILLION)
        self._given = 0

    def submit(self, work: Work) -> None:
        """Take a chunk."""
        self._works.append(work)

    def collect(self, wait: float) -> list[Finished]:
        """What was taken first."""
        return [self._answered(self._works.popleft()) for _ in range(min(self._most, len(self._works)))]

    def _answered(self, work: Work) -> Finished:
        rows = len(work.rows)
        if self._given + rows > MILLION:
            self._given = 0
        fitness = self._fitness[self._given : self._given + rows]
        self._given += rows
        return work, Answer(fitness, None, [], rows * self._seconds)

    def drop(self) -> None:
        """Forget all of it."""
        self._works.clear()

    def close(self) -> None:
        """Nothing to end."""


class Cluster(AtOnce):
    """An engine of many workers in virtual time, which passes as it would for a controller that is as fast as this one.

    Real time between two calls is the controller's, and goes by on the virtual clock, too; time in here does not. Where
    the controller would wait, the clock jumps to what finishes next. A worker that finishes takes the next chunk from
    the queue at once, as those of an executor do.

    Args:
        workers: how many.
        durations: draws so many of them.
        pickles: whether chunks are pickled, on the controller's time, as any executor needs them.
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
        """Take a chunk, which begins as soon as a worker is free."""
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
        """What is finished by now; if nothing is, now is when something will be."""
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
        """The share of a time that workers were at work."""
        starts, ends = np.array(self.busy).T
        worked = np.clip(np.minimum(ends, end) - np.maximum(starts, begin), 0, None).sum()
        return float(worked / (self.slots * (end - begin)))

    def _enter(self) -> None:
        self.clock += time.perf_counter() - self._left

    def _leave(self) -> None:
        self._left = time.perf_counter()


def controlled(engine: AtOnce, evaluations: int, **options: Any) -> Middle:
    """A run with such an engine, measured along its own clock if it has one."""
    middle = Middle(evaluations, lambda: getattr(engine, "clock", 0.0))
    options = {"call": "each", "workers": engine.slots} | options
    with plugged(engine):
        if isinstance(engine, Cluster):
            engine._leave()
        solve(never, evaluations=evaluations, callback=middle, **options)
    return middle


def part_controller(shrink: int) -> None:
    print(f"controller: on {cores()} of {os.cpu_count()} cores")
    # Without workers a batch is one chunk; a function over arrays gets 16 rows at a time; a slow one, row by row.
    whole = {"call": "batch", "workers": None}
    sync = {
        "one chunk (300,000 is wanted)": (AtOnce(1), 2 * MILLION, whole),
        "16 rows a chunk, 8 workers": (AtOnce(8), MILLION, {"call": "batch"}),
        "1 row a chunk, 8 workers": (AtOnce(8), MILLION // 4, {}),
        "1 row a chunk, 1,000 workers": (AtOnce(1000), MILLION // 4, {}),
    }
    for name, (engine, evaluations, options) in sync.items():
        rate = controlled(engine, evaluations // shrink, batch_size=1024, **options).rate
        print(f"controller: sync, batch 1,024, {name}: {rate:,.0f} evaluations a second")
    draw = np.random.default_rng(0)
    offer = Cluster(1000, lambda n: draw.uniform(0.02, 0.03, n), pickles=False)
    _, told, seconds = controlled(offer, MILLION // 4 // shrink, batch_size=1024, mode="async").spent
    rate = told / seconds
    print(f"controller: async, 40,000 a second arrive, in no groups: {rate:,.0f} are told (20,000 is wanted)")
    for name, engine, evaluations in (
        ("all of 1,000 workers at once", AtOnce(1000), MILLION // 4),
        ("all of 8 workers at once", AtOnce(8), MILLION // 10),
        ("one a time", AtOnce(8, most=1), 20_000),
    ):
        rate = controlled(engine, evaluations // shrink, batch_size=1024, mode="async").rate
        print(f"controller: async, {name}: {rate:,.0f} evaluations a second")


def part_cluster(shrink: int) -> None:
    draw = np.random.default_rng(0)
    durations = {
        "log-normal, mean 1 s": lambda n: draw.lognormal(-0.5, 1.0, n),
        "uniform, 0.5 to 5 s": lambda n: draw.uniform(0.5, 5.0, n),
    }
    runs = ({"batch_size": 1024}, {"batch_size": 4096}, {"batch_size": 1024, "mode": "async"})
    for options in runs:
        controlled(AtOnce(8), 3 * 4096, **options)  # compiles: what users wait for once is not to count
    for workers, evaluations in ((100, 20_000), (1000, 100_000)):
        for name, duration in durations.items():
            for options in runs:
                engine = Cluster(workers, duration)
                first, last = controlled(engine, max(2 * workers, evaluations // shrink), **options).ends
                middle, whole = engine.utilisation(first[2], last[2]), engine.utilisation(0.0, engine.clock)
                way = options.get("mode") or f"sync, batch {options['batch_size']:,}"
                print(f"cluster: {workers:,} workers, {name}, {way}: {middle:.1%} busy; with start and end {whole:.1%}")


# checkpoint


def near(solutions: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    return -((solutions - tasks[:, :1]) ** 2).sum(axis=1)


def near_jax(solution: Any, task: Any) -> Any:
    return -jnp.sum((solution - task[0]) ** 2)


def kept_run(fitness: Any, call: str, evaluations: int, every: str) -> tuple[float, float, int]:
    """Seconds of a run without what it does at its end; seconds in checkpoints, and their number."""
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
        kept_run(fitness, call, trial, "1h")  # compiles
        evaluations = int(10 / shrink * trial / kept_run(fitness, call, trial, "1h")[0])
        rounds = []
        for _ in range(1 if shrink > 1 else 2):
            often, saving, number = kept_run(fitness, call, evaluations, f"{1 / shrink}s")
            rounds.append((often / kept_run(fitness, call, evaluations, "1h")[0] - 1, saving / often, often, number))
        more, share, seconds, number = np.median(rounds, axis=0)
        print(
            f"checkpoint: {call}, a run of {seconds:.1f} s, one a second ({number:.0f} of them): {more:+.2%} of its "
            f"time in turns, {share:.2%} as measured inside (below 2 % is wanted)"
        )


# memory


def arm_rows(solutions: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """The arm in NumPy; one evaluation in a hundred fails."""
    heading = np.cumsum((solutions - 0.5) * (tasks[:, :1] * (2 * np.pi / solutions.shape[1])), axis=1)
    x, y = tasks[:, 1] * np.cos(heading).mean(axis=1), tasks[:, 1] * np.sin(heading).mean(axis=1)
    fitness = -np.hypot(x - 1, y - 1)
    fitness[np.modf(1e4 * solutions.sum(axis=1))[0] < 0.01] = np.nan
    return fitness


def resident() -> float:
    """Megabytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MILLION


def memory_of(call: str, evaluations: int) -> None:
    """Run here, and print the memory at 10 %, at 50 %, and before the last row, for which a run compiles once more."""
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
            f"{half:.0f} at 50 %, {end:.0f} at the end: {end - tenth:+.1f} MB (about nothing is wanted)"
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
    parser.add_argument("--quick", action="store_true", help=argparse.SUPPRESS)  # whether it runs at all
    parser.add_argument("--memory-of", nargs=2, help=argparse.SUPPRESS)  # a process of its own for each
    chosen = parser.parse_args()
    if chosen.memory_of:
        memory_of(chosen.memory_of[0], int(chosen.memory_of[1]))
    else:
        for name in chosen.part:
            PARTS[name](20 if chosen.quick else 1)
