"""Files that are whole or not there, and never dangerous to read."""

import hashlib
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

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
