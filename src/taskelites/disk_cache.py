"""The user's cache folder: results of slow computations that a command can use again in the next one."""

import hashlib
import os
import platform
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from taskelites.errors import StorageError
from taskelites.storage import write_whole

_MOST_BYTES = 256 * 2**20
_LEAST_SECONDS = 0.1
# The folder while a command runs. In Python nothing is written that the user did not ask for.
_arrays: Path | None = None


@contextmanager
def keep_arrays() -> Iterator[None]:
    """Let `cached_array` keep arrays on disk, inside the `with` block."""
    global _arrays
    before, _arrays = _arrays, cache_folder("arrays")
    try:
        yield
    finally:
        _arrays = before


def cached_array(compute: Callable[..., np.ndarray], *inputs: Any) -> np.ndarray:
    """Return `compute(*inputs)`, or what an earlier command computed from the same inputs.

    An array is kept if it took more than 0.1 s. A file that is damaged, or that other code computed, is not used.

    Args:
        compute: function of a module; the same inputs always give the same array.
        inputs: arrays, numbers and texts.

    Example:
        >>> cached_array(np.arange, 3).tolist()
        [0, 1, 2]
    """
    if _arrays is None:
        return compute(*inputs)
    path = _arrays / f"{compute.__name__.strip('_')}-{_digest(compute, inputs)}.npz"
    damaged = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
    with suppress(*damaged), path.open("rb") as file, np.load(file) as arrays:
        found: np.ndarray = arrays["array"]  # zipfile compares the checksum
        os.utime(path)
        return found
    start = time.perf_counter()
    array = compute(*inputs)
    if time.perf_counter() - start > _LEAST_SECONDS:
        with suppress(StorageError):  # as on a full disk
            write_whole(path, lambda file: np.savez(file, array=array))
            _shrink(_arrays)
    return array


def cache_folder(name: str) -> Path | None:
    """Make and return a folder below the user's cache folder, or return None if the user has none.

    The variable `TASKELITES_CACHE` names another folder, or is `off`. The oldest files are removed until the others
    take at most 256 MB.
    """
    chosen = os.environ.get("TASKELITES_CACHE", "")
    if chosen == "off":
        return None
    try:
        folder = (Path(chosen) if chosen else _user_folder() / "taskelites") / f"{name}-{_processor()}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # whoever can write a program there can run it
        _shrink(folder)
    except (OSError, RuntimeError):  # as in a container without a home
        return None
    return folder


def _user_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _processor() -> str:
    """Return a name for the kind of processor: one home may serve machines that can't run each other's programs."""
    flags = ""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    digest = hashlib.sha256(f"{platform.processor()} {flags}".encode()).hexdigest()[:8]
    return f"{platform.machine()}-{digest}"


def _shrink(folder: Path) -> None:
    """Remove the oldest files until the others fit."""
    files = sorted(((path.stat().st_mtime, path.stat().st_size, path) for path in folder.iterdir()), reverse=True)
    total = 0
    for _, size, path in files:
        total += size
        if total > _MOST_BYTES:
            path.unlink(missing_ok=True)


def _digest(compute: Callable[..., np.ndarray], inputs: tuple[Any, ...]) -> str:
    """Return a hash of the inputs, the module of the function and the versions of NumPy and SciPy."""
    whole = hashlib.sha256(f"{np.__version__} {scipy.__version__}".encode())
    source = getattr(sys.modules[compute.__module__], "__file__", None)
    whole.update(Path(source).read_bytes() if source else b"")
    for value in inputs:
        array = np.ascontiguousarray(value) if isinstance(value, np.ndarray) else None
        whole.update(repr(value if array is None else (array.dtype, array.shape)).encode() + b"\0")
        whole.update(b"" if array is None else array.tobytes())
    return whole.hexdigest()[:24]
