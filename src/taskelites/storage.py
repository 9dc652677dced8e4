"""Files that are whole or not there, and never dangerous to read."""

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

from taskelites.errors import StorageError


def write_whole(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file under a temporary name, sync it and rename it, so that a reader sees the old file or the new one.

    Raises:
        OSError: if it can't be written (a full disk, say); what was there before is untouched.

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
        sync_folder(path.parent)  # the new name, too, survives a power cut
    except OSError as error:
        raise StorageError(error.errno, f"could not write {str(path)!r}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an `.npz` file, whole or not at all.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "numbers.npz"
        >>> write_arrays(path, {"a": np.arange(3)})
        >>> np.load(path)["a"].tolist()
        [0, 1, 2]
    """
    # A name among them may be that of an argument of NumPy's, as far as the types tell.
    write_whole(path, lambda file: np.savez_compressed(file, **arrays))  # type: ignore[arg-type]


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all.

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
    """The text, with anything unusual in a file name left out.

    Example:
        >>> file_name("mt-map-elites(tournament=50)")
        'mt-map-elites-tournament-50'
    """
    kept = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in str(text)).strip("-")
    if len(kept) > 60:  # long ones often differ at their ends only
        kept = f"{kept[:51]}-{hashlib.sha256(str(text).encode()).hexdigest()[:8]}"
    return kept or "unnamed"


def plain(value: Any) -> Any:
    """Return a value, such as the settings of an algorithm, as JSON can hold it.

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
    if " at 0x" in text:  # an address is another one each time
        named = value if hasattr(value, "__qualname__") else type(value)
        text = f"{named.__module__}.{named.__qualname__}"
    return text


def versions() -> dict[str, str]:
    """Return the versions of what results depend on."""
    found = {}
    for name in ("taskelites", "jax", "numpy", "scipy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # used from its source, without having been installed
            found[name] = "unknown"
    return found | {"python": platform.python_version()}
