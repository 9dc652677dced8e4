"""Ready-made callbacks for `solve(..., callback=...)`: TensorBoard, Weights & Biases, MLflow.

A callback is any callable `callback(metrics)`; it gets each row of the history as it comes, a dict of numbers. None of
these packages is required, and none is imported before its callback is made.

A callback cannot know how many replicates there will be. So the first (or only) run stands under the plain names, and
replicates 1, 2, ... under `replicate-1/...`. NaN, which is the mean while no task is solved, is left out.
"""

import math
import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Self

from taskelites.errors import InvalidTypeError, MissingPackageError

__all__ = ["MLflow", "TensorBoard", "WeightsAndBiases"]


class _Callback(ABC):
    """What the callbacks share: `close`, and `with`."""

    @abstractmethod
    def __call__(self, metrics: Mapping[str, Any]) -> None:
        """Log one row of the history."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(failed=kind is not None)

    def close(self) -> None:
        """End what the callback began itself; a later row takes it up again and adds to it."""
        self._end(failed=False)

    @abstractmethod
    def _end(self, *, failed: bool) -> None:
        """Close, and say whether the run failed where that can be said."""


class TensorBoard(_Callback):
    """Writes each row of the history as TensorBoard scalars, over evaluations.

    With a folder, a row is on disk when the call returns. What the folder holds already stays there; where a resumed
    run goes over the same evaluations again, the new rows are shown. So each run needs a folder of its own.

    Args:
        folder_or_writer: a folder, written with torch's `SummaryWriter` if torch and tensorboard are installed and with
            tensorboardX if not; replicates 1, 2, ... get folders of their own below it. Or any object with
            `add_scalar(name, value, step)`, which is never closed.

    Raises:
        TypeError: if it is neither.
        ImportError: if it is a folder and there is no package to write it with.

    Example:
        >>> class Printer:
        ...     def add_scalar(self, name, value, step):
        ...         print(name, value, step)
        >>> with TensorBoard(Printer()) as board:  # with TensorBoard("logs") as board: solve(..., callback=board)
        ...     board({"replicate": 0, "evaluations": 64, "coverage": 0.5, "mean": -1.25})
        coverage 0.5 64
        mean -1.25 64
    """

    def __init__(self, folder_or_writer: Any) -> None:
        self._writer: Any = None
        self._folder = ""
        if hasattr(folder_or_writer, "add_scalar"):
            self._writer = folder_or_writer
        elif isinstance(folder_or_writer, str | os.PathLike):
            self._folder = os.fsdecode(folder_or_writer)
            self._new_writer = _writer_of_folders()
        else:
            raise InvalidTypeError(
                f"folder_or_writer must be a path or have a method add_scalar, not {folder_or_writer!r}"
            )
        self._open: dict[int, tuple[Any, int]] = {}

    def __call__(self, metrics: Mapping[str, Any]) -> None:
        """Write one row of the history."""
        replicate, step, numbers = _row(metrics)
        if self._writer is not None:
            writer, prefix = self._writer, _prefix(replicate)
        else:
            writer, prefix = self._writer_of(replicate, step), ""
        for name, value in numbers.items():
            writer.add_scalar(prefix + name, value, step)
        if hasattr(writer, "flush"):
            writer.flush()

    def _writer_of(self, replicate: int, step: int) -> Any:
        writer, last = self._open.get(replicate, (None, 0))
        if writer is not None and step <= last:  # resumed at an earlier point: only a new file can take rows back
            writer.close()
            writer = None
        if writer is None:
            writer = self._new_writer(os.path.join(self._folder, _prefix(replicate)), step)
        self._open[replicate] = (writer, step)
        return writer

    def _end(self, *, failed: bool) -> None:
        for writer, _ in self._open.values():
            writer.close()
        self._open.clear()


class WeightsAndBiases(_Callback):
    """Logs each row of the history to Weights & Biases, with evaluations as the x-axis.

    Evaluations are logged as a value, since W&B drops a row whose step is lower than the one before it, and replicates
    start from the beginning again. W&B keeps rows for some seconds before it writes them: a process that is killed
    loses these, one that ends in another way does not.

    Args:
        run: an existing run, which is never finished.
        **init: without one, what `wandb.init` is called with at the first row. A run that is active already is used if
            `wandb.init` returns it, as it does by default, and not finished either. `id="..."` and `resume="allow"`
            take up a run of another process.

    Raises:
        TypeError: if both are given.
        ImportError: if no run is given and wandb is not installed.

    Example:
        >>> class Run:
        ...     def define_metric(self, name, **how):
        ...         pass
        ...
        ...     def log(self, numbers):
        ...         print(numbers)
        >>> with WeightsAndBiases(Run()) as log:  # with WeightsAndBiases(project="arms") as log: ...
        ...     log({"replicate": 1, "evaluations": 64, "coverage": 0.5})
        {'evaluations': 64, 'replicate-1/coverage': 0.5}
    """

    def __init__(self, run: Any = None, **init: Any) -> None:
        _one_of_them(run, init, "wandb.init")
        self._wandb = _package("wandb", "WeightsAndBiases") if run is None else None
        self._run = run
        self._init = init
        self._own = False
        self._defined: set[str] = set()

    def __call__(self, metrics: Mapping[str, Any]) -> None:
        """Log one row of the history."""
        replicate, evaluations, numbers = _row(metrics)
        if self._run is None:
            self._begin()
        named = {_prefix(replicate) + name: value for name, value in numbers.items()}
        if not self._defined:
            self._run.define_metric("evaluations", hidden=True)
        for name in sorted(named.keys() - self._defined):
            self._run.define_metric(name, step_metric="evaluations")
        self._defined |= named.keys()
        self._run.log({"evaluations": evaluations} | named)

    def _begin(self) -> None:
        wandb: Any = self._wandb
        before = wandb.run
        self._run = wandb.init(**self._init)
        self._own = self._run is not before
        self._defined.clear()
        self._init = self._init | {"id": self._run.id, "resume": "allow"}  # for a row after `close`

    def _end(self, *, failed: bool) -> None:
        if self._wandb is not None and self._run is not None:
            if self._own:
                self._run.finish(exit_code=int(failed))
            self._run = None


class MLflow(_Callback):
    """Logs each row of the history as metrics of an MLflow run, with evaluations as the step.

    Args:
        run: an existing run, or the id of one; it is never ended.
        **start: without one, what `mlflow.start_run` is called with at the first row. With neither, a run that is
            active already is used, and not ended either. `run_id="..."` takes up a run of another process.

    Raises:
        TypeError: if both are given.
        ImportError: if mlflow is not installed.

    Example:
        >>> with MLflow(run_name="arm") as log:  # doctest: +SKIP
        ...     te.solve(te.domain("arm"), evaluations=100_000, callback=log)
    """

    def __init__(self, run: Any = None, **start: Any) -> None:
        _one_of_them(run, start, "mlflow.start_run")
        self._mlflow = _package("mlflow", "MLflow")
        self._given = run is not None
        self._id: str | None = getattr(getattr(run, "info", None), "run_id", run)
        self._start = start
        self._own = False

    def __call__(self, metrics: Mapping[str, Any]) -> None:
        """Log one row of the history."""
        replicate, evaluations, numbers = _row(metrics)
        if self._id is None:
            self._begin()
        named = {_prefix(replicate) + name: value for name, value in numbers.items()}
        # Waiting for it, as a queue would be lost with the process.
        self._mlflow.log_metrics(named, step=evaluations, run_id=self._id, synchronous=True)

    def _begin(self) -> None:
        run = None if self._start else self._mlflow.active_run()
        self._own = run is None
        if run is None:
            run = self._mlflow.start_run(**self._start)
            self._start = self._start | {"run_id": run.info.run_id}  # for a row after `close`
        self._id = run.info.run_id

    def _end(self, *, failed: bool) -> None:
        if self._given or self._id is None:
            return
        active = self._mlflow.active_run() if self._own else None
        if active is not None and active.info.run_id == self._id:  # otherwise someone has ended it already
            self._mlflow.end_run("FAILED" if failed else "FINISHED")
        self._id = None


class _EventFile:
    """The scalars of one folder, as one more event file, by means of tensorboardX.

    Its `SummaryWriter` has a queue that `flush` does not wait for, so a process that ends without `close` loses rows.
    """

    def __init__(self, folder: str, first_step: int) -> None:
        records = import_module("tensorboardX.record_writer")
        self._event = import_module("tensorboardX.proto.event_pb2").Event
        self._values: dict[str, float] = {}
        self._step = first_step
        records.directory_check(folder)
        # Files are read in the order of their names, and none may have the name of another.
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        self._file = records.RecordWriter(os.path.join(folder, name))
        self._write(file_version="brain.Event:2")
        self._write(step=first_step, session_log={"status": "START"})  # hides what earlier files have from here on

    def add_scalar(self, name: str, value: float, step: int) -> None:
        """Keep a number for the next `flush`."""
        self._values[name] = value
        self._step = step

    def flush(self) -> None:
        """Write the numbers that were added, all of one step."""
        values = [{"tag": name, "simple_value": value} for name, value in self._values.items()]
        self._write(step=self._step, summary={"value": values})
        self._values.clear()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, **fields: Any) -> None:
        self._file.write(self._event(wall_time=time.time(), **fields).SerializeToString())
        self._file.flush()


def _writer_of_folders() -> Callable[[str, int], Any]:
    """What makes a writer of a folder, given the first step that it will write."""
    try:
        import_module("tensorboard")  # first, as finding that it is missing takes less time than importing torch
        torch = import_module("torch.utils.tensorboard")
        return lambda folder, step: torch.SummaryWriter(folder, purge_step=step)
    except (ImportError, OSError):  # OSError: torch is there, but a library that it needs is not
        pass
    try:
        import_module("tensorboardX")
    except ImportError:
        raise MissingPackageError("TensorBoard needs the package tensorboardX: pip install tensorboardX") from None
    return _EventFile


def _package(name: str, use: str) -> Any:
    """An optional package, or an error that says how to get it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:  # it is there, but lacks something itself
            raise
        raise MissingPackageError(f"{use} needs the package {name}: pip install {name}") from None


def _one_of_them(run: Any, arguments: Mapping[str, Any], function: str) -> None:
    if run is not None and arguments:
        raise InvalidTypeError(
            f"give either run or arguments of {function}, not both; the latter are {sorted(arguments)}"
        )


def _row(metrics: Mapping[str, Any]) -> tuple[int, int, dict[str, float]]:
    """The replicate, its evaluations so far, and the other numbers."""
    others = {name: float(value) for name, value in metrics.items() if name not in ("replicate", "evaluations")}
    numbers = {name: value for name, value in others.items() if not math.isnan(value)}
    return int(metrics["replicate"]), int(metrics["evaluations"]), numbers


def _prefix(replicate: int) -> str:
    return f"replicate-{replicate}/" if replicate else ""
