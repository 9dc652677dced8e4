"""The loop of `mode="async"`: results are told as they arrive, and no worker waits for the others.

Results that arrive together are told together, padded to one size: a call from the host costs as much as inserting a
hundred results. A candidate keeps its `origin`, so that a bandit can learn from it whenever its result arrives.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from taskelites.algorithms import Candidates, Evaluation
from taskelites.errors import InvalidValueError
from taskelites.evaluation import Dispatcher, Outcomes
from taskelites.evaluation.engines.inline import Work
from taskelites.runs import Checkpoint, Snapshot
from taskelites.runs.failure_log import raise_first
from taskelites.search.history import UNFIT, Recorder
from taskelites.search.job import Job
from taskelites.search.loop import Control
from taskelites.search.snapshot import from_arrays, to_arrays
from taskelites.search.stepper import host_precision
from taskelites.search.sync_loop import SyncLoop
from taskelites.storage import reading

# Results per call; fewer are padded.
_GROUP = 64
_WAIT = 0.1


class _Table:
    """A table of the candidates that are not told yet, one per row."""

    def __init__(self, like: Candidates) -> None:
        self._like = jax.device_get(like)
        self._rows = jax.tree.map(lambda leaf: np.empty((0, *leaf.shape[1:]), leaf.dtype), self._like)
        self._free: list[int] = []
        self.used: set[int] = set()

    def add(self, candidates: Candidates) -> list[int]:
        """Add candidates, and return their rows."""
        fresh = jax.device_get(candidates)
        number = len(fresh.niches)
        if len(self._free) < number:
            size = len(self._rows.niches)
            more = max(number, size)
            self._rows = jax.tree.map(
                lambda leaf: np.concatenate([leaf, np.zeros((more, *leaf.shape[1:]), leaf.dtype)]), self._rows
            )
            self._free += range(size, size + more)
        rows = [self._free.pop() for _ in range(number)]
        self.used.update(rows)

        def put(place: np.ndarray, values: np.ndarray) -> None:
            place[rows] = values

        jax.tree.map(put, self._rows, fresh)
        return rows

    def take(self, rows: Any) -> Candidates:
        """Return the candidates in these rows."""
        return jax.tree.map(lambda leaf: leaf[rows], self._rows)

    def free(self, rows: list[int]) -> None:
        """Free the rows of candidates that were told."""
        self.used.difference_update(rows)
        self._free += rows


class AsyncLoop(SyncLoop):
    """One run of a Python fitness in which no worker waits."""

    def __init__(self, job: Job, recorders: list[Recorder], control: Control) -> None:
        super().__init__(job, recorders, control)
        [self.only] = self.runs
        self.stepper = self.only.stepper
        if not self.stepper.core.any_order:
            raise InvalidValueError(
                f"mode='async' tells results in any order, but {self.job.settings.name} learns from whole steps; use "
                "mode='sync'"
            )
        self._table: _Table | None = None
        self._ready: list[int] = []
        self._sent = 0

    def _search(self, dispatcher: Dispatcher) -> None:
        while self._goes_on() and self.stepper.round.opening:
            self.step(dispatcher, self.runs)
        if self.stepper.round.opening:  # it ended there
            return
        if self._table is None:
            self._table = _Table(self.stepper.round.candidates)
            self._ready = self._table.add(self.stepper.round.candidates)
        self._sent = self.stepper.evaluations
        while self._goes_on():
            self._feed(dispatcher)
            self._tell(dispatcher)

    def _goes_on(self) -> bool:
        return not (self.halted() or self.only.ended())

    def _feed(self, dispatcher: Dispatcher) -> None:
        """Send candidates to the engine, and ask for more when none are left."""
        assert self._table is not None  # made before anything is sent
        stepper, budget = self.stepper, self.job.evaluations
        while dispatcher.room > 0 and self._sent < budget:
            if not self._ready:  # as late as possible, since more told results give better candidates
                self._ready += self._table.add(stepper.ask_batch())
            left = min(len(self._ready), budget - self._sent)
            size = dispatcher.size(left)
            rows = np.array(self._ready[: min(left, size * dispatcher.room)])
            del self._ready[: len(rows)]
            asked = stepper.on_host(self._table.take(rows))
            for start in range(0, len(rows), size):
                part = slice(start, start + size)
                dispatcher.send(Work(rows[part], asked.solutions[part], asked.tasks[part]))
            self._sent += len(rows)

    def _tell(self, dispatcher: Dispatcher) -> None:
        """Tell the results that have arrived."""
        assert self._table is not None  # as above
        arrived = dispatcher.arrived(_WAIT)
        self.only.telling = True
        before = 0
        for found in arrived:
            if found.failures or found.again:
                asked = self.stepper.on_host(self._table.take(found.rows))
                placed = replace(found, rows=np.arange(len(found)))
                if found.failures and self.job.evaluation_options.on_error == "raise":
                    raise_first(placed, asked.numbers, asked.solutions)
                self.only.note_failures(placed, asked, before)
            else:
                self.only.failures.add_success()
            before += len(found)
        for group in _groups(arrived):
            self._tell_group(group)
        self.only.telling = False
        if arrived:
            if self.only.point <= self.stepper.evaluations < self.job.evaluations:
                self.only.recorder.log(self.stepper.glance())
            self.report(dispatcher)
        if self.only.failures.counts:
            self.only.failures.check()

    def _tell_group(self, found: Outcomes) -> None:
        assert self._table is not None  # as above
        stepper, number = self.stepper, len(found)
        rows = np.full(_GROUP, found.rows[0])
        rows[:number] = found.rows
        fitness = np.full(_GROUP, np.nan)
        fitness[:number] = found.fitness
        behaviour = None
        if dim := stepper.behaviour_dim:
            behaviour = np.full((_GROUP, dim), np.nan)
            behaviour[:number] = np.nan if found.behaviour is None else found.behaviour
        told = np.arange(_GROUP) < number
        evaluation = Evaluation(fitness=fitness, told=told, behaviour=behaviour)  # type: ignore[arg-type]
        stepper.tell_rows(self._table.take(rows), evaluation, number)
        self._table.free(found.rows.tolist())

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshot of the run, with the candidates that were sent and not told."""
        [(arrays, about)] = super().snapshots()
        if self._table is not None:
            arrays = {**arrays, **to_arrays("pending", self._table.take(sorted(self._table.used)))}
        return [(arrays, about)]

    def restore(self, checkpoints: list[Checkpoint | None]) -> None:
        """Continue from a checkpoint, and send again what was not told."""
        super().restore(checkpoints)
        kept = checkpoints[0]
        arrays, path = ({}, Path()) if kept is None else (kept.arrays, kept.path)
        pending = {name: array for name, array in arrays.items() if name.startswith("pending")}
        if pending:
            rows = len(next(iter(pending.values())))
            like = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct((rows, *leaf.shape[1:]), leaf.dtype),  # type: ignore[no-untyped-call]
                self.stepper.round.candidates,
            )
            self._table = _Table(self.stepper.round.candidates)
            with reading(path, *UNFIT), host_precision():
                self._ready = self._table.add(from_arrays("pending", like, pending))


def _groups(arrived: list[Outcomes]) -> list[Outcomes]:
    """Cut results into groups of at most `_GROUP`."""
    if not arrived:
        return []
    rows = np.concatenate([found.rows for found in arrived])
    fitness = np.concatenate([found.fitness for found in arrived])
    described = next((found.behaviour for found in arrived if found.behaviour is not None), None)
    behaviour = None
    if described is not None:
        nothing = np.full((1, described.shape[1]), np.nan)
        parts = [np.repeat(nothing, len(f), 0) if f.behaviour is None else f.behaviour for f in arrived]
        behaviour = np.concatenate(parts)
    whole = Outcomes(rows, fitness, behaviour)
    return [whole.part(slice(start, start + _GROUP)) for start in range(0, len(rows), _GROUP)]
