"""Exceptions, warnings, argument checks and words of messages that are shared by several packages."""

import difflib
import inspect
import operator
import os
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np


class TaskWarning(UserWarning):
    """The tasks are valid, but have a property that impairs the search."""


class FitnessWarning(UserWarning):
    """Some evaluations returned no usable fitness."""


class CallbackWarning(UserWarning):
    """A callback raised an exception, and the run goes on without it."""


class TaskelitesError(Exception):
    """Base class of all errors of this library except `Interrupted`, which is a `KeyboardInterrupt`."""


class UserError(TaskelitesError):
    """Base class of errors in the user's input. No results are lost, and the message says what to do.

    Each subclass also derives from the corresponding built-in exception, such as `ValueError`.
    """


class InvalidValueError(UserError, ValueError):
    """An argument has an invalid value, or a file has invalid contents."""


class InvalidTypeError(UserError, TypeError):
    """An argument has an invalid type."""


class InvalidCallError(UserError, RuntimeError):
    """A method was called in a state that does not allow it."""


class MissingPackageError(UserError, ImportError):
    """An optional package or a user's module cannot be imported."""


class MissingFileError(UserError, FileNotFoundError):
    """A file or folder does not exist."""


class ExistingFileError(UserError, FileExistsError):
    """A file or folder already exists and is not overwritten."""


class FitnessError(TaskelitesError, RuntimeError):
    """The fitness function raised an exception or returned an invalid value.

    Attributes:
        result: the result of the run up to the error; a list of results if there are replicates.
    """

    result: Any = None


class Interrupted(KeyboardInterrupt):
    """A run was interrupted by Ctrl-C, SIGTERM or SIGHUP.

    Attributes:
        result: the result of the run up to the interruption; a list of results if there are replicates.
        signal: the signal that was received.
    """

    result: Any = None
    signal: Any = None


class StopRun(TaskelitesError):  # noqa: N818 - named like StopIteration
    """Raise it in a callback to stop the run, which is saved and can be resumed. `te.solve` raises it again.

    Attributes:
        result: the result of the run so far; a list of results if there are replicates.
    """

    result: Any = None


class StorageError(TaskelitesError, OSError):
    """A file could not be read or written, or its contents are damaged."""

    def __str__(self) -> str:
        return str(self.strerror or super().__str__())  # without the number of the error, which says nothing more


class DeviceMemoryError(TaskelitesError, MemoryError):
    """The memory of a device is too small."""


class RunInUseError(TaskelitesError, RuntimeError):
    """Another process uses the run folder."""


def warn_user(text: str, category: type[Warning]) -> None:
    """Give a warning that names the line of the user's code, however deep in this library it is given."""
    home = os.path.dirname(__file__) + os.sep
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_code.co_filename.startswith(home):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def whole_number(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return `value` as an int, or raise an error that names the argument.

    Args:
        name: name of the argument in error messages.
        value: the value to check; floats without a fractional part are accepted.
        least: smallest allowed value.
        most: largest allowed value; None for no limit.

    Example:
        >>> whole_number("evaluations", 1e6, least=1)
        1000000
    """
    expected = f"a whole number of at least {least}" + (f" and at most {most:,}" if most is not None else "")
    try:
        number = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)
    except TypeError:
        raise InvalidTypeError(f"{name} must be {expected}, not {value!r}") from None
    if isinstance(value, bool):
        raise InvalidTypeError(f"{name} must be {expected}, not {value!r}")
    if number < least or (most is not None and number > most):
        raise InvalidValueError(f"{name} must be {expected}, not {value!r}")
    return number


def one_of(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return `value` if it is one of the allowed names, or raise an error that suggests the most similar one.

    Example:
        >>> one_of("call", "each", ("each", "batch", "jax"))
        'each'
    """
    names = sorted(allowed)
    if isinstance(value, str) and value in names:
        return value
    raise InvalidValueError(
        f"{name} must be one of {', '.join(map(repr, names))}, not {value!r}{did_you_mean(value, names)}"
    )


def did_you_mean(value: Any, names: Iterable[str]) -> str:
    """Return a suggestion of the name most similar to `value`, to append to a message; empty if none is similar.

    Example:
        >>> did_you_mean("wrokers", ["workers", "timeout"])
        "; did you mean 'workers'?"
    """
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def counted(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or plural.

    Example:
        >>> counted(1, "task"), counted(5000, "task")
        ('1 task', '5,000 tasks')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def finite_array(name: str, value: Any, *, shape: str, ndim: int) -> np.ndarray:
    """Return a float64 copy of `value`, or raise an error if it is not a finite array with `ndim` dimensions.

    Args:
        name: name of the argument in error messages.
        value: the value to convert.
        shape: expected shape in error messages, such as "(n, k)".
        ndim: expected number of dimensions.
    """
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{name} must be an array of numbers of shape {shape}, not {type(value).__name__}"
        ) from None
    if array.ndim != ndim:
        raise InvalidValueError(f"{name} must have shape {shape}, not {array.shape}")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = ", ".join(map(str, bad[0]))
        raise InvalidValueError(f"{name} must be finite, but {name}[{where}] is {array[tuple(bad[0])]}")
    return array
