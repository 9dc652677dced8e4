"""Callbacks for `solve(..., callback=...)`: TensorBoard, Weights & Biases, MLflow.

A callback is any callable `callback(metrics)`. It gets each row of the history when it is added, a dict of numbers.
None of these packages is required, and a package is imported only when its callback is made.

The first (or only) run logs under plain names, and replicates 1, 2, ... under `replicate-1/...`, since a callback does
not know the number of replicates. NaN, such as the mean while no task is solved, is left out.
"""

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Self

from taskelites.errors import InvalidTypeError, MissingPackageError

__all__ = ["MLflow", "TensorBoard", "WeightsAndBiases"]


class _Callback(ABC):
    """Base class of the callbacks, with `close` and `with`."""

    @abstractmethod
    def __call__(self, metrics: Mapping[str, Any]) -> None:
        """Log one row of the history."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(failed=kind is not None)

    def close(self) -> None:
        """Close what the callback opened; a later row reopens it."""
        self._end(failed=False)

    @abstractmethod
    def _end(self, *, failed: bool) -> None:
        """Close, and report whether the run failed if the package can record that."""


class TensorBoard(_Callback):
    """Writes each row of the history as TensorBoard scalars, over evaluations.

    All rows are on disk after `close`, or when the process ends without being killed. torch's writer has a row on disk
    when the call returns; tensorboardX's writes in the background once a second, so a killed process can lose the last
    rows. Existing files in a folder are kept, and rows of a resumed run hide earlier rows from the same evaluations on,
    so each run needs its own folder.

    Args:
        folder_or_writer: a folder, written with the `SummaryWriter` of torch if torch and tensorboard are installed, or
            of tensorboardX otherwise; replicates 1, 2, ... get subfolders. Or any object with
            `add_scalar(name, value, step)`, which is never closed.

    Raises:
        TypeError: if it is neither.
        ImportError: if it is a folder, and neither package is installed.

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
            self._summary_writer = _summary_writer()
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
        if writer is not None and step <= last:  # resumed at an earlier point: only a new file can hide rows
            writer.close()
            writer = None
        if writer is None:
            writer = self._summary_writer(
                os.path.join(self._folder, _prefix(replicate)),
                purge_step=step,
                flush_secs=1,
                # tensorboardX's names differ only by the second, and files are read in the order of their names.
                filename_suffix=f".{time.time_ns()}.{os.getpid()}",
            )
        self._open[replicate] = (writer, step)
        return writer

    def _end(self, *, failed: bool) -> None:
        for writer, _ in self._open.values():
            writer.close()
        self._open.clear()


class WeightsAndBiases(_Callback):
    """Logs each row of the history to Weights & Biases, with evaluations as the x-axis.

    Evaluations are logged as a value, not as W&B's step, since W&B drops a row whose step is lower than the previous
    one, and each replicate starts at zero. W&B buffers rows for some seconds; only a process that is killed loses them.

    Args:
        run: an existing run, which is never finished.
        **init: arguments of `wandb.init`, which is called at the first row if `run` is None. An active run is used if
            `wandb.init` returns it, as it does by default, and is not finished either. `id="..."` and `resume="allow"`
            continue a run of another process.

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
        run: an existing run or its id; it is never ended.
        **start: arguments of `mlflow.start_run`, which is called at the first row if `run` is None. Without any, an
            active run is used if there is one, and is not ended either. `run_id="..."` continues a run of another
            process.

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
        # A killed process would lose what waits in a queue.
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
        if active is not None and active.info.run_id == self._id:  # otherwise the user has ended it
            self._mlflow.end_run("FAILED" if failed else "FINISHED")
        self._id = None


def _summary_writer() -> Callable[..., Any]:
    """Return the class `SummaryWriter` of torch or tensorboardX."""
    try:
        import_module("tensorboard")  # first, since it is found to be missing faster than torch is imported
        return import_module("torch.utils.tensorboard").SummaryWriter
    except (ImportError, OSError):  # OSError: torch is installed, but a library that it needs is not
        pass
    try:
        return import_module("tensorboardX").SummaryWriter
    except ImportError:
        raise MissingPackageError("TensorBoard needs the package tensorboardX: pip install tensorboardX") from None


def _package(name: str, use: str) -> Any:
    """Import an optional package, or raise an error that says how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:  # the package is installed, but one that it needs is not
            raise
        raise MissingPackageError(f"{use} needs the package {name}: pip install {name}") from None


def _one_of_them(run: Any, arguments: Mapping[str, Any], function: str) -> None:
    if run is not None and arguments:
        raise InvalidTypeError(
            f"give either run or arguments of {function}, not both; the latter are {sorted(arguments)}"
        )


def _row(metrics: Mapping[str, Any]) -> tuple[int, int, dict[str, float]]:
    """Return the replicate, its number of evaluations, and the other numbers."""
    others = {name: float(value) for name, value in metrics.items() if name not in ("replicate", "evaluations")}
    numbers = {name: value for name, value in others.items() if not math.isnan(value)}
    return int(metrics["replicate"]), int(metrics["evaluations"]), numbers


def _prefix(replicate: int) -> str:
    return f"replicate-{replicate}/" if replicate else ""
