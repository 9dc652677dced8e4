"""The loop over a JAX fitness, compiled as a whole, in the precision that the user's JAX has."""

from collections.abc import Callable
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from taskelites.algorithms import Candidates, Core
from taskelites.algorithms.large_bounds import bind
from taskelites.compile_cache import clear_full_compile_cache
from taskelites.core import metrics, random
from taskelites.core.archive import Archive
from taskelites.errors import InvalidValueError, whole_number
from taskelites.evaluation import JaxFitness, compiled_errors
from taskelites.results.result import Result
from taskelites.runs import Checkpoint, Snapshot
from taskelites.search.history import (
    UNFIT,
    Measures,
    Recorder,
    about_run,
    check_archive,
    findings,
    logged_points,
    make_result,
    measure,
    measure_inside,
    one_by_one,
)
from taskelites.search.job import Job
from taskelites.search.loop import Control
from taskelites.search.snapshot import from_arrays, to_arrays
from taskelites.storage import reading


def _side_by_side(run: Callable[[Any], Any], states: Any) -> Any:
    """Apply `vmap`, except for a single run: its branches stay branches, of which only one is taken."""
    if len(jax.tree.leaves(states)[0]) > 1:
        return jax.vmap(run)(states)
    return jax.tree.map(lambda leaf: leaf[None], run(jax.tree.map(itemgetter(0), states)))


def _advance(
    evaluate: JaxFitness, core: Core, states: Any, steps: Array, rows_told: Array, target: Array | None, share: Array
) -> tuple[Any, Measures]:
    """Take `steps` steps of all replicates, and tell `rows_told` rows of each; one that has its target stands still.

    Returns the states and their measures in one dispatch, which costs as much as some twenty steps.
    """

    def step(state: Any) -> Any:
        candidates, state = core.ask(state)
        return core.tell(state, candidates, evaluate(candidates, rows_told))[0]

    def goes_on(count: Array, state: Any) -> Array:
        archive = core.elites(state).archive
        return (count < steps) & ~metrics.reached(archive.fitness, archive.evaluations, target, share)

    def run(state: Any) -> Any:
        if target is None:
            return lax.fori_loop(0, steps, lambda _, carry: step(carry), state)
        start = (jnp.int32(0), state)
        return lax.while_loop(lambda carry: goes_on(*carry), lambda carry: (carry[0] + 1, step(carry[1])), start)[1]

    states = _side_by_side(run, states)
    return states, jax.vmap(measure, in_axes=(None, 0))(core, states)


def _inside(evaluate: JaxFitness, core: Core, states: Any, rows: Array, target: Array | None, share: Array) -> Measures:
    """Return the measures after the first `rows` rows of the next step, `(replicates, points)`."""

    def run(state: Any) -> Measures:
        candidates, asked = core.ask(state)
        fitness = evaluate(candidates, core.rows).fitness
        counted = rows
        if target is not None:
            archive = core.elites(state).archive
            counted = rows * ~metrics.reached(archive.fitness, archive.evaluations, target, share)
        return lax.map(lambda number: measure_inside(core, asked, candidates, fitness, number), counted)

    return jax.vmap(run)(states)


def _adopt(evaluate: JaxFitness, core: Core, states: Any, initial: Candidates, rows_told: Array) -> Any:
    return jax.vmap(lambda state, known: core.adopt(state, known, evaluate(known, rows_told)))(states, initial)


class _Programs:
    """The compiled programs of one fitness; they take megabytes, which are freed with this object."""

    def __init__(self, evaluate: JaxFitness) -> None:
        self.advance = jax.jit(partial(_advance, evaluate))
        self.inside = jax.jit(partial(_inside, evaluate))
        self.adopt = jax.jit(partial(_adopt, evaluate))


@lru_cache(maxsize=8)
def programs_of(evaluate: JaxFitness) -> _Programs:
    """Return the programs of a fitness; an equal one that was used recently shares them."""
    return _Programs(evaluate)


@jax.jit
def _init(core: Core, seeds: Array) -> tuple[Array, Any, Candidates | None]:
    keys = jax.vmap(random.key)(seeds)
    states = jax.vmap(core.init)(keys)
    return keys, states, jax.vmap(core.opening)(states)


_findings = jax.jit(jax.vmap(findings, in_axes=(None, 0)))


def _stops(points: list[int], done: int, rows: int) -> list[tuple[int, list[int]]]:
    """Return, for each step with points inside, the number of steps before it and the row of each point."""
    stops: list[tuple[int, list[int]]] = []
    for point in points:
        step, inside = divmod(point - done, rows)
        if stops and stops[-1][0] == step:
            stops[-1][1].append(inside)
        else:
            stops.append((step, [inside]))
    return stops


class JaxLoop:
    """Runs of a JAX fitness, side by side in one compiled loop.

    Args:
        job: the checked request.
        recorders: one per run.
        control: the interruption, the checkpoints and the progress of the loop.
        prepared: the return value of `prepare`, for loops that share their programs.
    """

    def __init__(
        self,
        job: Job,
        recorders: list[Recorder],
        control: Control,
        prepared: tuple[Core, JaxFitness] | None = None,
    ) -> None:
        self.job = job
        self.recorders = recorders
        self.control = control
        self.core, evaluate = prepared or self.prepare(job)
        self.programs = programs_of(evaluate)
        seeds = np.array([recorder.seed for recorder in recorders], np.uint32)
        self.keys, self.states, self.opening = _init(self.core, seeds)
        self.shown = self.states
        self.opening_rows = 0 if self.opening is None else self.opening.niches.shape[1]
        self.begin = min(job.initial_rows + self.opening_rows, job.evaluations)
        self.reached = 0  # evaluations
        self.taken = 0  # steps
        self.telling = False  # an exception now leaves a state that must not be saved
        self.stops = self._stops_left()
        self.target = None if job.target is None else jnp.asarray(job.target)

    @staticmethod
    def prepare(job: Job) -> tuple[Core, JaxFitness]:
        """Return the algorithm on the problem, and the checked fitness."""
        clear_full_compile_cache()
        core = bind(job.settings, job.problem, job.batch_size)
        used = core.behaviour_dim
        evaluate = JaxFitness.made_of(job.fitness, job.problem.returned_behaviour(used), keeps=used > 0)
        evaluate.check(job.problem.lower.size, job.problem.tasks.dim)
        return core, evaluate

    def compile(self) -> None:
        """Compile all programs of a run, by taking no steps."""
        self._advanced(self.states, 0, self.core.rows)
        # The last point is told, not looked at.
        *looked_at, _ = (number for _, inside in self.stops for number in inside)
        if any(looked_at):
            self._looked_inside(self.states, [0])

    def _stops_left(self) -> list[tuple[int, list[int]]]:
        points = logged_points(self.job, self.opening_rows)
        left = [point for point in points if point > self.reached] or points[-1:]
        return _stops(left, self.begin, self.core.rows)

    def run(self) -> None:
        """Run until the budget is spent, all have their target, or the user interrupts; see `Loop`."""
        try:
            with compiled_errors():
                self.compile()
                if self.control.bar is not None:
                    self.control.bar.begin()
                for recorder in self.recorders:
                    recorder.start_clock()
                if not self.reached:
                    self._adopt_before()
                self._search()
        except BaseException:  # from the fitness, a full disk, a warning that is an error
            if not self.telling:
                self.control.rescue(self.reached, self.snapshots)
            raise
        if self.control.checkpointer is not None:
            self.control.checkpointer.save(self.reached, self.snapshots)

    def _search(self) -> None:
        control = self.control
        for step, inside in self.stops:
            # Fetched before anything changes, since only then JAX raises what the fitness raised.
            states, shown, seen = self._advanced_to(step, inside)
            self.telling = True
            self.states, self.shown, self.taken = states, shown, step
            self.reached = self.begin + step * self.core.rows + inside[-1]
            for now in seen:
                for recorder, its_own in zip(self.recorders, now, strict=True):
                    recorder.log(its_own)
            self.telling = False
            told = [int(its_own.told) for its_own in now]
            self._report(now, max(told) * len(told))
            stopping = control.interruption.noted or control.callbacks.stop is not None
            if stopping and inside[-1] and step != self.stops[-1][0]:  # the result agrees with the history
                self.shown, _ = self._advanced(self.states, 1, inside[-1])
            if stopping or all(count < self.reached for count in told):
                break
            if control.checkpointer is not None:
                control.checkpointer.look(self.reached, self.snapshots)

    def _advanced_to(self, step: int, inside: list[int]) -> tuple[Any, Any, list[list[Measures]]]:
        """Return the states at a step, those to make a result of, and the measures at each point, per replicate."""
        states, found = self._advanced(self.states, step - self.taken, self.core.rows)
        seen = [found] if inside[0] == 0 else []
        # The last point may cut its step, whose other rows stay pending: `states` remains at its beginning.
        cut = inside[-1] if step == self.stops[-1][0] else 0
        looks = [number for number in inside if number not in (0, cut)]
        seen += self._looked_inside(states, looks)
        shown = states
        if cut:
            shown, found = self._advanced(states, 1, cut)
            seen.append(found)
        return states, shown, [one_by_one(found) for found in seen]

    def _report(self, now: list[Measures], told: int) -> None:
        """Show the progress, and warn if most evaluations fail."""
        control = self.control
        failed = sum(int(its_own.failed) for its_own in now)
        if control.bar is not None:
            fitness = np.concatenate([its_own.fitness for its_own in now])
            control.bar.update(control.shown_before + told, lambda: metrics.summary(fitness) | {"failed": failed})
        control.alarm.check_counts(failed, told)

    @property
    def position(self) -> int:
        """The number of evaluations of each run."""
        return self.reached

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshot of each run, for a checkpoint."""
        states = to_arrays("state", self.states)
        kept: list[Snapshot] = []
        for i, recorder in enumerate(self.recorders):
            arrays, about = recorder.snapshot()
            arrays |= {name: array[i] for name, array in states.items()}
            kept.append((arrays, about | {"reached": self.reached, "taken": self.taken}))
        return kept

    def restore(self, checkpoints: list[Checkpoint | None]) -> None:
        """Continue from checkpoints of one position, or begin anew if all are None."""
        kept = [each for each in checkpoints if each is not None]
        if not kept:
            return
        for each in kept:
            with reading(each.path, *UNFIT):
                reached = whole_number("its reached", each.about["reached"], least=0, most=self.job.evaluations)
        if reached < self.job.initial_rows + self.opening_rows:  # the budget ended before the first step: begin anew
            return
        with reading(kept[0].path, *UNFIT):
            names = [name for name in kept[0].arrays if name.startswith("state")]
            states = {name: np.stack([each.arrays[name] for each in kept]) for name in names}
            self.states = self.shown = from_arrays("state", self.states, states)
        self.reached, self.taken = reached, (reached - self.begin) // self.core.rows
        self.stops = self._stops_left()
        for recorder, each, found in zip(
            self.recorders, kept, one_by_one(_findings(self.core, self.states)), strict=True
        ):
            with reading(each.path, *UNFIT):
                self._check(each.about, found.elites.archive)
                recorder.restore(each, reached)

    def _check(self, about: dict[str, Any], archive: Archive) -> None:
        """Raise an error unless the values of a checkpoint fit each other and its archive."""
        if (about["reached"], about["taken"]) != (self.reached, self.taken):
            raise InvalidValueError(f"it must have reached {self.reached:,} evaluations in {self.taken:,} steps")
        told = self.begin + self.taken * self.core.rows
        if self.target is not None:  # a run that has its target stands still
            told -= max(0, told - int(archive.told)) // self.core.rows * self.core.rows
        check_archive(archive, told)

    def _looked_inside(self, states: Any, rows: list[int]) -> list[Measures]:
        """Return the measures after each of these numbers of rows of the step after `states`."""
        if not rows:
            return []
        # Padded to one length, so that one program serves all steps.
        widest = max(len(inside) for _, inside in self.stops)
        padded = np.pad(np.array(rows, np.int32), (0, widest - len(rows)))
        found = jax.device_get(self.programs.inside(self.core, states, padded, self.target, self.job.share))
        return [jax.tree.map(lambda leaf, i=i: leaf[:, i], found) for i in range(len(rows))]

    def _adopt_before(self) -> None:
        """Evaluate the candidates that come before the first step."""
        job, done = self.job, 0
        known: list[Candidates] = []
        if job.initial is not None:
            alone = [job.initial.candidates(key, job.problem) for key in self.keys]
            known.append(jax.tree.map(lambda *leaves: np.stack(leaves), *alone))
        if self.opening is not None:
            known.append(self.opening)
        for candidates in known:
            rows = min(candidates.niches.shape[1], job.evaluations - done)
            self.states = self.programs.adopt(self.core, self.states, candidates, rows)
            done += rows

    def _advanced(self, states: Any, steps: int, rows_told: int) -> tuple[Any, Measures]:
        return self.programs.advance(self.core, states, steps, rows_told, self.target, self.job.share)

    def results(self) -> list[Result]:
        """Return the result of each run."""
        job = self.job
        bits = jnp.zeros(()).dtype.itemsize * 8
        shared = {"side_by_side": len(self.recorders)} if len(self.recorders) > 1 else {}
        found = one_by_one(_findings(self.core, self.shown))
        return [
            make_result(each, job.problem, self._about(recorder.seed, bits) | shared, recorder=recorder)
            for recorder, each in zip(self.recorders, found, strict=True)
        ]

    def _about(self, seed: int, bits: int) -> dict[str, Any]:
        job = self.job
        return about_run(job.settings, job.problem, self.core, seed=seed, call=job.call, bits=bits, job=job)
