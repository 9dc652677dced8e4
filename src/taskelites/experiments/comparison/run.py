"""`te.compare`: run replicates of several algorithms, save each, and skip those that are finished."""

import dataclasses
import os
import shutil
import sys
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Unpack

import jax
import numpy as np

from taskelites.algorithms import about_algorithm, as_algorithm
from taskelites.algorithms.large_bounds import bind
from taskelites.errors import (
    ExistingFileError,
    FitnessError,
    Interrupted,
    InvalidTypeError,
    InvalidValueError,
    MissingFileError,
    StorageError,
    TaskWarning,
    whole_number,
)
from taskelites.evaluation import EvaluationKeywords, EvaluationOptions, JaxFitness, evaluation_signature
from taskelites.experiments.comparison.comparison import Comparison, read_settings, runs_of, write_settings
from taskelites.problem.problem import Call
from taskelites.problem.tasks import Box
from taskelites.process import shows_progress
from taskelites.results.result import Result, load
from taskelites.runs import Progress, RunFolder, RunLock
from taskelites.runs.identity import code_of, same_code
from taskelites.search.history import Recorder
from taskelites.search.job import Job, as_seed, make_job, task_warnings
from taskelites.search.replicates import ReplicateStore, run_all, warn_of_failures
from taskelites.search.run_plan import check_plan, equal, plan_of, problem_of, run_digest
from taskelites.storage import file_name

DEFAULT_REPLICATES = 10


@evaluation_signature
def compare(
    fitness: Any,
    tasks: Any = None,
    *,
    algorithms: Sequence[Any] | Mapping[str, Any],
    bounds: Any = None,
    dim: int | None = None,
    call: Call | None = None,
    behaviour: Any = None,
    evaluations: int | None = None,
    replicates: int | None = None,
    batch_size: int | None = None,
    ahead: int | None = None,
    seed: int | None = None,
    samples: int | None = None,
    out: str | os.PathLike[str] | None = None,
    add: bool = False,
    progress: bool | None = None,
    **evaluation: Unpack[EvaluationKeywords],
) -> Comparison:
    """Compare algorithms over replicates on one problem.

    Args:
        fitness: as for `te.solve`; a domain stands for `tasks`, `bounds`, `dim`, `behaviour` and `call` as well.
        tasks: as for `te.solve`.
        algorithms: a list of names or settings, or a dict that maps labels to them. Evaluations to 99 % need `random`
            among them, whose final value is the reference.
        bounds: as for `te.solve`.
        dim: as for `te.solve`.
        call: as for `te.solve`.
        behaviour: as for `te.solve`.
        evaluations: the budget of each run.
        replicates: runs per algorithm, with seeds `seed`, `seed + 1`, ...; 10 by default. A comparison that already has
            more keeps them.
        batch_size: candidates per step; 64 by default.
        ahead: as for `te.solve`; 1 by default.
        seed: seed of the first replicate; 0 by default.
        samples: as for `te.solve`; 1 by default.
        out: a folder for all runs, tables, tests and the figure. If it already holds this comparison, only missing runs
            are made, and a run that was stopped resumes from its last checkpoint (one per minute). An interrupted
            comparison gives the same results as an uninterrupted one.
        add: add these algorithms to the comparison in `out`. Budget, replicates, batch size, `ahead`, samples and seed
            default to the values of that comparison.
        progress: whether to show progress; by default, only in a terminal.
        **evaluation: `workers`, `executor`, `on_error`, `retries`, `timeout` and `setup`, as for `te.solve`.

    Raises:
        ValueError, TypeError: before any work, if an argument is wrong, or `out` holds another comparison.
        RunInUseError: if another process works on the comparison in `out`.
        Interrupted: after Ctrl-C; `out` keeps finished runs and the checkpoints of the others.

    Example:
        >>> import taskelites as te
        >>> arm = te.domain("arm", tasks=200)
        >>> algorithms = {"bandit": "mt-map-elites", "fixed": te.MultiTaskMapElites(tournament=50)}
        >>> te.compare(arm, algorithms=algorithms, replicates=2, evaluations=5000)
        <Comparison: 2 algorithms, 4 runs of 5,000 evaluations>
    """
    evaluation_options = EvaluationOptions.from_keywords(compare, evaluation)
    labelled = label_algorithms(algorithms)
    place = None if out is None else Path(out)
    known = read_settings(place) if place is not None and (place / "comparison.json").exists() else None
    if add and known is None:
        raise MissingFileError(f"add needs a comparison in out, but there is none in {str(out)!r}; leave add out")
    before = known if add and known is not None else {}
    budget = before.get("evaluations") if evaluations is None else evaluations
    if budget is None:
        raise InvalidTypeError("evaluations must be given: the budget of each run")
    size = before.get("batch_size", 64) if batch_size is None else batch_size
    batches = before.get("ahead", 1) if ahead is None else ahead
    first = as_seed(before.get("seed", 0) if seed is None else seed)
    number = before.get("replicates", DEFAULT_REPLICATES) if replicates is None else replicates
    number = whole_number("replicates", number, least=1)
    samples = before.get("samples", 1) if samples is None else samples
    evaluation_options = dataclasses.replace(evaluation_options, samples=samples)
    jobs = {
        label: make_job(
            fitness,
            tasks,
            bounds=bounds,
            dim=dim,
            behaviour=behaviour,
            call=call,
            algorithm=settings,
            batch_size=size,
            ahead=batches,
            evaluations=budget,
            evaluation_options=evaluation_options,
        )
        for label, settings in labelled.items()
    }
    one = next(iter(jobs.values()))
    _check_tasks(one)
    settings = _comparison_settings(jobs, first, number)
    _check_limits_finite(one)
    if place is not None and known is not None:
        settings = _merged_settings(known, settings, place, add=add)
    seeds = [as_seed(first + i) for i in range(settings["replicates"])]
    for sentence in dict.fromkeys(text for job in jobs.values() for text in task_warnings(job.problem, job.settings)):
        warnings.warn(sentence, TaskWarning, stacklevel=2)
    folder = None if place is None else _prepare_folder(place, new=known is None)
    with nullcontext() if folder is None else RunLock(folder):
        return _make_missing_runs(jobs, seeds, settings, folder, progress)


def _make_missing_runs(
    jobs: dict[str, Job], seeds: list[int], settings: dict[str, Any], folder: Path | None, progress: bool | None
) -> Comparison:
    """Make the missing runs and return the comparison of all runs."""
    if folder is not None:  # so that an interrupted comparison has its settings
        write_settings(folder, settings)
    found = {label: _make_replicates(label, job, seeds, folder, progress) for label, job in jobs.items()}
    warn_of_failures([result for results in found.values() for result in results])
    if folder is None:
        return Comparison(results=found, settings=settings)
    if set(settings["algorithms"]) == set(found):
        comparison = Comparison(results={label: found[label] for label in settings["algorithms"]}, settings=settings)
    else:
        comparison = Comparison.load(folder)
    comparison.save(folder)
    return comparison


def refusal(domain: Any, settings: Any, *, batch_size: int = 64) -> str | None:
    """Return why `compare` would refuse to run an algorithm on a domain; None if it would not.

    Example:
        >>> import taskelites as te
        >>> refusal(te.domain("arm", tasks=200), te.MultiTaskMapElites(tournament=50)) is None
        True
        >>> box = te.Domain(name="box", fitness=max, tasks=te.Box([0], [1]), bounds=(0, 1), dim=1)
        >>> refusal(box, te.MultiTaskMapElites())
        "algorithm 'mt-map-elites' needs a list of tasks, but tasks is a te.Box; ..."
    """
    try:
        job = make_job(domain, algorithm=settings, batch_size=batch_size, evaluations=1)
        _checked_code(settings.name, job)
        _check_tasks(job)
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def _check_tasks(job: Job) -> None:
    if isinstance(job.problem.tasks, Box):
        raise InvalidValueError(
            "tasks must be the same for all runs of a comparison, but on a te.Box each run chooses its own; "
            "te.tasks.cvt(1000, box.lower, box.upper) spreads a list over it"
        )


def _check_limits_finite(job: Job) -> None:
    for name, values in (("optimum", job.optimum), ("worst", job.worst)):
        if values is not None and not np.isfinite(values).all():
            raise InvalidValueError(
                f"{name} must be finite for a comparison, but {name}[{np.isfinite(values).argmin()}] is not"
            )


def label_algorithms(algorithms: Any) -> dict[str, Any]:
    """Return settings by label. Labels that are not given name the settings that differ from the default.

    Example:
        >>> import taskelites as te
        >>> list(label_algorithms(["random", te.MultiTaskMapElites(tournament=50, reward="rate")]))
        ['random', 'mt-map-elites(tournament=50, reward=rate)']
    """
    if isinstance(algorithms, str) or not isinstance(algorithms, Sequence | Mapping) or not algorithms:
        raise InvalidTypeError(
            f"algorithms must be a list of names or settings, or a dict that maps labels to them, not {algorithms!r}"
        )
    if isinstance(algorithms, Mapping):
        labelled = {str(label): as_algorithm(algorithm) for label, algorithm in algorithms.items()}
        if len(labelled) < len(algorithms):
            raise InvalidValueError(f"algorithms must have different labels, not {list(algorithms)}")
    else:
        labelled = {}
        for algorithm in map(as_algorithm, algorithms):
            label = _label(algorithm)
            if label in labelled:
                raise InvalidValueError(
                    f"algorithms must not name {label!r} twice; use a dict to give each a label of its own"
                )
            labelled[label] = algorithm
    _check_folders(labelled)
    return labelled


def _check_folders(labels: Iterable[str]) -> None:
    folders: dict[str, str] = {}
    for label in labels:
        other = folders.setdefault(file_name(label), label)
        if other != label:
            raise InvalidValueError(
                f"labels must give different folder names, but {other!r} and {label!r} do not; rename one"
            )


def _label(settings: Any) -> str:
    parts = []
    for item in dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ():
        value = getattr(settings, item.name)
        default = item.default_factory() if item.default_factory is not dataclasses.MISSING else item.default
        if _text(value) != _text(default):
            parts.append(f"{item.name}={_text(value)}")
    return settings.name + (f"({', '.join(parts)})" if parts else "")


def _text(value: Any) -> str:
    return str(value[0] if isinstance(value, tuple) and len(value) == 1 else value)


def _comparison_settings(jobs: dict[str, Job], seed: int, replicates: int) -> dict[str, Any]:
    """Return the settings of the comparison as plain values."""
    job = next(iter(jobs.values()))
    return {
        **problem_of(job),
        "code": code_of(job.fitness, mutable=False),
        "values": code_of(job.fitness),
        "seed": seed,
        "replicates": replicates,
        "algorithms": {
            label: about_algorithm(job.settings) | {"code": _checked_code(label, job)} for label, job in jobs.items()
        },
    }


def _checked_code(label: str, job: Job) -> str | None:
    """Bind an algorithm and trace one step, to find errors before the first run; return the identity of its code.

    Raises:
        ValueError: if a user's algorithm raises.
    """
    settings, where = job.settings, "bind"
    try:
        core = bind(settings, job.problem, job.batch_size)
        where = "init or ask"
        jax.eval_shape(lambda key: core.ask(core.init(key)), jax.random.key(0))
    except Exception as error:  # a user's algorithm may raise anything
        if type(settings).__module__.partition(".")[0] == "taskelites":
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        reason = str(error).split("\n", 1)[0]
        raise InvalidValueError(
            f"algorithm {label!r}: {where} raised {type(error).__name__}: {reason} "
            f"({Path(place.filename).name}, line {place.lineno})"
        ) from error
    if job.call == "jax":
        returned = job.problem.returned_behaviour(core.behaviour_dim)
        JaxFitness.made_of(job.fitness, returned).check(len(job.problem.lower), job.problem.tasks.dim)
    parts = [part for part in (code_of(settings, mutable=False), code_of(core, mutable=False)) if part is not None]
    return "-".join([parts[0], *(part.partition("-")[2] for part in parts[1:])]) if parts else None


def _merged_settings(known: dict[str, Any], new: dict[str, Any], out: Path, *, add: bool) -> dict[str, Any]:
    """Return the settings of an existing comparison with new runs added.

    Raises:
        ValueError: if the settings differ.
    """
    for name, value in new.items():
        if name not in ("algorithms", "replicates", "versions", "code", "values") and not equal(known.get(name), value):
            raise InvalidValueError(
                f"{str(out)!r} holds a comparison with {name} {known.get(name)!r}, and this one has {value!r}; "
                "make them agree, or name a new folder"
            )
    if not same_code(known.get("code"), new["code"]):
        raise InvalidValueError(f"{str(out)!r} holds a comparison whose fitness had other code; name a new folder")
    if not same_code(known.get("values"), new["values"]):
        warnings.warn(
            f"the fitness of the comparison in {str(out)!r} holds other values now (an array, a container or an "
            "attribute): are they from another problem? A counter or a cache of the fitness does no harm",
            UserWarning,
            stacklevel=3,
        )
    for label, settings in new["algorithms"].items():
        _check_algorithm(label, known["algorithms"].get(label), settings, out)
    _check_folders(known["algorithms"] | new["algorithms"])
    fresh = [label for label in new["algorithms"] if label not in known["algorithms"]]
    if fresh and not add:
        raise InvalidValueError(
            f"{str(out)!r} compares {', '.join(known['algorithms'])}, not {', '.join(fresh)}; "
            "add=True (--add) adds algorithms"
        )
    # A comparison never shrinks: these algorithms get at least as many runs as the others have.
    replicates = max(known["replicates"], new["replicates"])
    return {**new, "replicates": replicates, "algorithms": known["algorithms"] | new["algorithms"]}


def _check_algorithm(label: str, before: dict[str, Any] | None, now: dict[str, Any], out: Path) -> None:
    place = runs_of(out, label)
    kept = (file for name in ("result.npz", "checkpoints/*.npz") for file in place.glob(f"replicate-*/{name}"))
    if before is None or next(kept, None) is None:
        return
    settings = [{name: value for name, value in side.items() if name != "code"} for side in (before, now)]
    if not equal(*settings):
        raise InvalidValueError(
            f"{str(out)!r} compares {label!r} with other settings: {settings[0]}; choose another label"
        )
    if not same_code(before.get("code"), now.get("code")):
        raise InvalidValueError(
            f"the runs of {label!r} in {str(out)!r} were made with other code than it has now; "
            f"delete {str(place)!r} to make them again, or name a new folder"
        )


def check_out(path: Path, kind: str, *, new: bool) -> None:
    """Raise if `out` is a file, or if a new experiment of this kind would be mixed with other files."""
    if path.is_file():
        raise ExistingFileError(f"out is {str(path)!r}, which is a file; name a folder")
    if new and path.is_dir() and any(entry.name != ".lock" for entry in path.iterdir()):
        raise ExistingFileError(f"out is {str(path)!r}, which is not empty and holds no {kind}: name a new folder")


def _prepare_folder(path: Path, *, new: bool) -> Path:
    """Check the folder of a comparison and create it if needed."""
    check_out(path, "comparison", new=new)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"could not make the folder {str(path)!r}: {error.strerror}") from error
    return path


class _ComparisonStore(ReplicateStore):
    """Saves the runs of one algorithm: checkpoints while they run, then their results.

    Args:
        place: folder of the algorithm's runs; None to save nothing.
        job: the job of the runs.
        seeds: seeds of the missing replicates, by replicate number.
    """

    def __init__(self, place: Path | None, job: Job, seeds: dict[int, int]) -> None:
        super().__init__(several=True)
        self.place = place
        self.job = job
        self.seeds = seeds
        self.missing = list(seeds)
        self.finished: dict[int, Result] = {}

    def folder_of(self, number: int) -> RunFolder | None:
        i = self.missing[number]
        return None if self.place is None else _open_run_folder(self.place / f"replicate-{i}", self.job, self.seeds[i])

    def take(self, group: list[Recorder], found: list[Result]) -> None:
        self.results += found
        for recorder, result in zip(group, found, strict=True):
            if result.evaluations < self.job.evaluations:  # it was stopped
                continue
            self.finished[self.missing[recorder.replicate]] = result
            if recorder.folder is not None:
                recorder.folder.write(result)
                # The checkpoints of hundreds of runs would take more space than the results.
                shutil.rmtree(recorder.folder.path / "checkpoints", ignore_errors=True)


def _open_run_folder(path: Path, job: Job, seed: int) -> RunFolder:
    """Return the folder of a run to start or resume; raise if it was started with other settings."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = RunFolder.part(path)
    # A result here is damaged or from another run, since `_load_finished` did not load it.
    (path / "result.npz").unlink(missing_ok=True)
    plan = plan_of(job, [seed], several=False)
    if folder.known is not None and folder.checkpoints.positions():
        for warning in check_plan(folder.known["plan"], plan, folder.named):
            folder.log(warning)
            warnings.warn(warning, UserWarning, stacklevel=5)
    folder.write_plan({"request": None, "plan": plan})
    folder.identify(run_digest(plan))
    return folder


def _make_replicates(
    label: str, job: Job, seeds: list[int], folder: Path | None, progress: bool | None
) -> list[Result]:
    """Return all replicates of one algorithm; load those that are finished and run the others."""
    place = None if folder is None else runs_of(folder, label)
    there = {} if place is None else _load_finished(place, job, seeds)
    missing = {i: seed for i, seed in enumerate(seeds) if i not in there}
    store = _ComparisonStore(place, job, missing)
    shown = shows_progress(progress)
    if shown and there:
        print(f"{label}: {len(there)} of {len(seeds)} runs are there", file=sys.stderr, flush=True)
    if missing:
        try:
            with Progress(job.evaluations * len(missing), label) if shown else nullcontext() as bar:
                run_all(job, list(missing.values()), store, bar)
        except Interrupted as stop:
            number = len(there) + len(store.finished)
            stop.args = (f"interrupted after {number} of {len(seeds)} runs of {label}{resume_hint(folder)}",)
            raise
        except FitnessError as error:
            error.args = (f"{label}: {error}{resume_hint(folder)}",)
            raise
    if len(store.finished) < len(missing):
        done = min(result.evaluations for result in store.results)
        raise InvalidValueError(
            f"{label}: a run ended after {done:,} of {job.evaluations:,} evaluations{resume_hint(folder)}"
        )
    every = there | store.finished
    return [every[i] for i in range(len(seeds))]


def resume_hint(folder: Path | None) -> str:
    """Return the end of an error message that says where finished runs are; empty without a folder."""
    if folder is None:
        return ""
    return f"; finished runs are in {str(folder)!r}: run the same again with this folder to resume"


def _load_finished(place: Path, job: Job, seeds: list[int]) -> dict[int, Result]:
    """Load the finished runs of an algorithm, by replicate number."""
    there = {}
    for i, seed in enumerate(seeds):
        path = place / f"replicate-{i}"
        if not (path / "result.npz").exists():
            continue
        try:
            result = load(path)
        except StorageError as error:
            warnings.warn(f"{error}; it is made again", UserWarning, stacklevel=4)
            continue
        if not equal(result.settings.get("algorithm"), about_algorithm(job.settings)):
            raise InvalidValueError(
                f"{str(path)!r} holds a run of another algorithm, {result.settings.get('algorithm')}; name a new folder"
            )
        if result.evaluations == job.evaluations and result.settings.get("seed") == seed:
            there[i] = result
            # Checkpoints remain if the process was killed right after it wrote the result.
            shutil.rmtree(path / "checkpoints", ignore_errors=True)
    return there
