"""Errors and warnings that have a name of their own, and the checks of arguments that several rooms share."""

import difflib
import operator
from collections.abc import Iterable
from typing import Any

import numpy as np


class TaskWarning(UserWarning):
    """The tasks are legal, but something about them will make the search worse than it could be."""


class FitnessWarning(UserWarning):
    """Some evaluations gave no usable number."""


class TaskelitesError(Exception):
    """The root of the errors that this library raises; `Interrupted` is a `KeyboardInterrupt` instead."""


class UserError(TaskelitesError):
    """A mistake in what the user gave; nothing was lost, and the message says what to do.

    Each kind is also the built-in error that Python programmers expect, such as a `ValueError`.
    """


class InvalidValueError(UserError, ValueError):
    """An argument has a wrong value, or a file is not what it should be."""


class InvalidTypeError(UserError, TypeError):
    """An argument has a wrong type."""


class InvalidCallError(UserError, RuntimeError):
    """A method was called when it can't be."""


class MissingPackageError(UserError, ImportError):
    """A package, or a module of the user's, can't be imported."""


class MissingFileError(UserError, FileNotFoundError):
    """A file or folder that was named is not there."""


class ExistingFileError(UserError, FileExistsError):
    """A file or folder is in the way, and is not overwritten."""


class FitnessError(TaskelitesError, RuntimeError):
    """The fitness function raised, or returned something that is no fitness.

    Attributes:
        result: what the run had found before; a list, if replicates were asked for.
    """

    result: Any = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM during `solve`.

    Attributes:
        result: what the run had found before; a list, if replicates were asked for.
        signal: which of the two it was.
    """

    result: Any = None
    signal: Any = None


class StorageError(TaskelitesError, OSError):
    """A file of a run could not be read or written."""


class DeviceMemoryError(TaskelitesError, MemoryError):
    """Something does not fit into the memory of a device."""


class RunInUseError(TaskelitesError, RuntimeError):
    """Another process writes to the run folder."""


def whole_number(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return `value` as an int, or raise an error that names the argument.

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
    """Return `value` if it is one of the allowed names, or raise an error that suggests the nearest one.

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
    """Return the end of a message that suggests the name most like `value`; empty if none is like it.

    Example:
        >>> did_you_mean("wrokers", ["workers", "timeout"])
        "; did you mean 'workers'?"
    """
    near = difflib.get_close_matches(str(value), names, n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def finite_array(name: str, value: Any, *, shape: str, ndim: int) -> np.ndarray:
    """Return a float64 copy of `value`, or raise an error that names the argument and the shape it should have."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidTypeError(
            f"{name} must be numbers in an array of shape {shape}, not {type(value).__name__}"
        ) from None
    if array.ndim != ndim:
        raise InvalidValueError(f"{name} must have shape {shape}, not {array.shape}")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = ", ".join(map(str, bad[0]))
        raise InvalidValueError(f"{name} must be finite, but {name}[{where}] is {array[tuple(bad[0])]}")
    return array
