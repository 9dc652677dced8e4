"""Checkpoints: the state of a run on disk, written atomically and with a checksum."""

import errno
import hashlib
import io
import os
import re
import stat
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote, unquote

import numpy as np

from taskelites.errors import InvalidTypeError, InvalidValueError, StorageError, whole_number
from taskelites.storage import (
    MALFORMED,
    ArrayFile,
    as_member,
    check_format,
    reason_of,
    refuse_link,
    sync_folder,
    write_whole,
)

FORMAT = "taskelites-checkpoint"
FORMAT_VERSION = 1

_KEPT = 2
_NAME = re.compile(r"checkpoint-([0-9]{12})-([0-9a-f]{16})\.npz")
_LEFT_OVER = re.compile(rf"\.{_NAME.pattern}\.[0-9a-f]+\.part")
_PREFIX = "arrays/"
# Dtypes that NumPy writes and reads back without pickle: numbers, booleans, text and times.
_KINDS = "biufcSUmM"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A saved state.

    Attributes:
        position: the number of evaluations at which it was saved.
        arrays: the arrays of the state by name.
        about: the other values of the state, as JSON: tuples are lists, and keys are text.
        path: the file, for messages.

    Example:
        >>> Checkpoint(500, {"fitness": np.zeros(3)}, {"seed": 1}).position
        500
    """

    position: int
    arrays: dict[str, np.ndarray]
    about: dict[str, Any]
    path: Path = Path()


class Checkpoints:
    """The checkpoints of one run. The last two are kept, and a damaged one is never used.

    A file is a plain `.npz`, and its name contains the first digits of the SHA-256 of its bytes. One process at a time
    may save to a folder: hold its `RunLock`.

    Args:
        folder: the folder of the checkpoints; the first save makes it.
        warn: called with one sentence per damaged file; by default, a Python warning.
        run: the `id` of the run and a `digest` of its settings, tasks and seed, which each file repeats. A file of
            another run is refused. None accepts any file.

    Example:
        >>> import tempfile
        >>> checkpoints = Checkpoints(Path(tempfile.mkdtemp()) / "checkpoints")
        >>> for position in (100, 200, 300):
        ...     path = checkpoints.save(position, {"state.fitness": np.arange(3.0)}, {"seed": 1})
        >>> checkpoints.positions()
        [300, 200]
        >>> checkpoints.load().arrays["state.fitness"]
        array([0., 1., 2.])
    """

    def __init__(
        self, folder: Path, warn: Callable[[str], None] | None = None, run: Mapping[str, str] | None = None
    ) -> None:
        self._folder = Path(folder)
        self._warn = warn if warn is not None else _python_warning
        self._run = None if run is None else dict(run)

    def save(self, position: int, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Path:
        """Write a checkpoint, and keep the one before it.

        Files at this position or later are removed: the run has restarted from an earlier one.

        Raises:
            TypeError: if an array or `about` contains Python objects, which can't be saved.
            OSError: if it can't be written, as when the disk is full; earlier checkpoints are intact.
        """
        position = whole_number("position", position, least=0, most=10**12 - 1)
        data = _pack(position, arrays, about, self._run)
        self._make_folder()
        self._remove_left_overs()
        checksum = hashlib.sha256(data).hexdigest()[:16]
        path = self._folder / f"checkpoint-{position:012d}-{checksum}.npz"

        def write(file: BinaryIO) -> None:
            file.write(data)

        write_whole(path, write)
        self._remove_old(path, position)
        return path

    def positions(self) -> list[int]:
        """Return the positions of all checkpoint files, highest first."""
        return list(dict.fromkeys(file.position for file in self._files()))

    def load(self, position: int | None = None) -> Checkpoint | None:
        """Return the newest good checkpoint, or the one at `position`; None if there is none.

        A damaged file is renamed to end in `.damaged`, with a warning, and the one before it is used.

        Raises:
            StorageError: if a file exists but can't be read, is from a newer version, or is of another run.
        """
        found = None
        damaged = []
        for file in self._files():
            if position is not None and file.position != position:
                continue
            try:
                found = _read(file, self._run)
                break
            except _DamagedError as error:
                damaged.append((file.path, str(error)))
        for path, reason in damaged:
            self._set_aside(path, reason, found, position)
        return found

    def _files(self) -> list["_File"]:
        """Return all checkpoint files, the newest first."""
        files = []
        for name in self._names():
            match = _NAME.fullmatch(name)
            if not match:
                continue
            path = self._folder / name
            try:
                status = path.stat()
            except FileNotFoundError:  # a run in progress has just removed it
                continue
            if stat.S_ISREG(status.st_mode):
                files.append(_File(int(match[1]), status.st_mtime_ns, path, match[2]))
        # A crash within `save` can leave two files of one position; the later one is the newer.
        return sorted(files, reverse=True)

    def _names(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _explained(error, "read the checkpoint folder", self._folder) from error

    def _make_folder(self) -> None:
        refuse_link(self._folder)
        if self._folder.is_dir():
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            sync_folder(self._folder.parent)
        except OSError as error:
            raise _explained(error, "make the checkpoint folder", self._folder) from error

    def _remove_left_overs(self) -> None:
        """Remove partial files of killed processes, since the next file may need their space."""
        for name in self._names():
            if _LEFT_OVER.fullmatch(name):
                _remove(self._folder / name)

    def _remove_old(self, newest: Path, position: int) -> None:
        others = [file for file in self._files() if file.path != newest]
        left = [file.path for file in others if file.position >= position]
        before = [file.path for file in others if file.position < position]
        for path in left + before[_KEPT - 1 :]:
            _remove(path)
        if left:  # if a power cut restored them, they would count as the newest
            sync_folder(self._folder)

    def _set_aside(self, path: Path, reason: str, found: Checkpoint | None, position: int | None) -> None:
        aside = path.with_name(f"{path.name}.damaged")
        try:
            os.replace(path, aside)
            renamed = f", and is now {aside.name!r}"
        except OSError:  # as in a read-only folder, where the good one can still be used
            renamed = ""
        if found is not None:
            instead = f"the one at position {found.position:,} is used instead"
        else:
            instead = "there is no good one " + ("before it" if position is None else "at its position")
        self._warn(f"the checkpoint {str(path)!r} is damaged ({reason}){renamed}; {instead}")


class _File(NamedTuple):
    position: int
    changed: int
    path: Path
    checksum: str


class _DamagedError(Exception):
    """The file differs from what was saved under its name."""


def _pack(
    position: int, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any], run: Mapping[str, str] | None
) -> memoryview:
    """Return the bytes of the file of a checkpoint."""
    head = {"format": FORMAT, "version": FORMAT_VERSION, "position": position, "run": run, "about": dict(about)}
    try:
        members = {"about": as_member(head)}
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(f"about must contain only values that JSON can represent: {error}") from None
    for name, value in arrays.items():
        array = np.asarray(value)
        if array.dtype.kind not in _KINDS:  # savez would pickle an object, and lose the dtype bfloat16
            raise InvalidTypeError(f"arrays[{name!r}] must contain numbers, booleans or text, not {array.dtype}")
        # Quoted, since zip cuts a name at a zero byte; with a prefix, since savez has named arguments of its own.
        members[_PREFIX + quote(name, safe="")] = array
    buffer = io.BytesIO()
    np.savez(buffer, **members)  # type: ignore[arg-type]
    return buffer.getbuffer()


def _read(file: _File, run: Mapping[str, str] | None) -> Checkpoint:
    """Read and check a file."""
    try:
        data = file.path.read_bytes()
    except OSError as error:
        raise _explained(error, "read the checkpoint", file.path) from error
    if not data:
        raise _DamagedError("it is empty")
    if hashlib.sha256(data).hexdigest()[:16] != file.checksum:
        raise _DamagedError("its bytes do not match the checksum in its name")
    try:
        members = ArrayFile(io.BytesIO(data))
        head = members.document()
        check_format(file.path, head, expected=FORMAT, newest=FORMAT_VERSION)
        if head["position"] != file.position:
            raise InvalidValueError(f"its position is {head['position']!r}, but {file.position} in its name")
        if not isinstance(head["about"], dict):
            raise InvalidTypeError("its about is not a JSON object")
        packed = members.read({f"{_PREFIX}*": (_KINDS, None)})
    except StorageError:  # of a newer version
        raise
    except MALFORMED as error:
        raise _DamagedError(f"it can't be read as a checkpoint: {reason_of(error)}") from None
    if run is not None and head.get("run") != run:
        raise StorageError(
            errno.EBADMSG,
            f"the checkpoint {str(file.path)!r} is of another run (or of other settings, tasks or another seed), so "
            "this run can't continue from it; move it back to the folder that it was copied from, or remove it",
        )
    arrays = {unquote(name.removeprefix(_PREFIX)): array for name, array in packed.items()}
    return Checkpoint(file.position, arrays, head["about"], file.path)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _explained(error, "remove the old file", path) from error


def _explained(error: OSError, action: str, path: Path) -> StorageError:
    return StorageError(
        error.errno, f"could not {action} {str(path)!r}: {error.strerror or error}; check the disk and the permissions"
    )


def _python_warning(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)
