"""Atomic writing of files in safe formats, and conversion of values to JSON."""

import hashlib
import os
import platform
import secrets
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from taskelites.errors import InvalidValueError, StorageError


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file atomically: write to a temporary file, sync it to disk and rename it.

    Args:
        path: the file to write or replace.
        write: function that writes the contents to an open binary file.

    Raises:
        StorageError: if the file cannot be written, for example on a full disk. An existing file is left unchanged.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
        >>> write_whole(path, lambda file: file.write(b"hello"))
        >>> path.read_text()
        'hello'
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)  # a rename is not durable until its folder is synced
    except OSError as error:
        raise StorageError(error.errno, f"could not write {str(path)!r}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an `.npz` file atomically.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "numbers.npz"
        >>> write_arrays(path, {"a": np.arange(3)})
        >>> np.load(path)["a"].tolist()
        [0, 1, 2]
    """
    # mypy cannot rule out that an array has the name of a NumPy argument.
    write_whole(path, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that new file names survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
        >>> write_text(path, "hello")
        >>> path.read_text()
        'hello'
    """
    write_whole(path, lambda file: _write(file, text.encode()))


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)


def file_name(text: str) -> str:
    """Return the text as a file name of at most 60 characters, with special characters replaced by hyphens.

    Example:
        >>> file_name("mt-map-elites(tournament=50)")
        'mt-map-elites-tournament-50'
    """
    kept = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in str(text)).strip("-")
    if len(kept) > 60:  # the hash keeps names apart that differ only at their ends
        kept = f"{kept[:51]}-{hashlib.sha256(str(text).encode()).hexdigest()[:8]}"
    return kept or "unnamed"


def plain(value: Any) -> Any:
    """Convert a value, such as the settings of an algorithm, to types that JSON supports.

    Example:
        >>> plain({"size": np.int64(3), "kinds": ("a", None)})
        {'size': 3, 'kinds': ['a', None]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        shown = [item.name for item in fields(value) if item.repr]
        return {"type": type(value).__name__} | {name: plain(getattr(value, name)) for name in shown}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return value.tolist()
    text = repr(value)
    if " at 0x" in text:  # memory addresses differ between processes
        named = value if hasattr(value, "__qualname__") else type(value)
        text = f"{named.__module__}.{named.__qualname__}"
    return text


def check_format(path: Path, kind: Any, version: int, *, expected: str, newest: int) -> None:
    """Raise an error unless a file has the expected format, in a version that is not newer than ours.

    Raises:
        ValueError: if it has another format or a newer version.

    Example:
        >>> check_format(Path("run.json"), "taskelites-run", 1, expected="taskelites-run", newest=1)
    """
    if kind != expected:
        raise InvalidValueError(f"{str(path)!r} must have the format {expected!r}, not {kind!r}")
    if version > newest:
        raise InvalidValueError(
            f"{str(path)!r} has format version {version}, and this taskelites reads up to {newest}; upgrade it"
        )


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {}
    for name in ("taskelites", "jax", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # imported from source without being installed
            found[name] = "unknown"
    return found | {"python": platform.python_version()}
