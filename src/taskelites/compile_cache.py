"""Programs that JAX compiled: cleared before a process has too many, and kept on disk between commands."""

import hashlib
import os
import platform
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

_MAPPINGS = Path("/proc/self/maps")  # one line per memory mapping
_MOST_MAPPINGS = Path("/proc/sys/vm/max_map_count")  # 65530 by default
_MOST_BYTES = 256 * 2**20
_LEAST_SECONDS = 0.05


def clear_full_compile_cache() -> None:
    """Clear JAX's caches before the process reaches Linux's `max_map_count`, which would crash it.

    A compiled program takes some 100 memory mappings. Programs that are still needed are compiled again.

    Example:
        >>> clear_full_compile_cache()
    """
    try:
        most = int(_MOST_MAPPINGS.read_text())
        with _MAPPINGS.open("rb") as lines:
            mappings = sum(1 for _ in lines)
    except (OSError, ValueError):
        return
    if mappings > most / 2:
        jax.clear_caches()  # type: ignore[no-untyped-call]


def keep_compiled_programs() -> None:
    """Let JAX keep compiled programs in the user's cache folder, unless it has a folder already.

    JAX's own variables decide: `JAX_COMPILATION_CACHE_DIR` names another folder, and `JAX_ENABLE_COMPILATION_CACHE=0`
    switches the cache off. The folder is limited to 256 MB; the oldest programs are removed first.
    """
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None or not config.jax_enable_compilation_cache:
        return
    try:
        folder = _cache_folder() / "taskelites" / f"compiled-{_processor()}"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # whoever can write a program there can run it
        _shrink(folder)
    except (OSError, RuntimeError):  # as in a container without a home
        return
    # A program that a killed process has half written is compiled again.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    config.update("jax_compilation_cache_dir", str(folder))
    config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)


def _cache_folder() -> Path:
    """Return the folder in which programs of this user keep what they can make again."""
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
    """Remove the oldest programs until the others fit."""
    files = sorted(((path.stat().st_mtime, path.stat().st_size, path) for path in folder.iterdir()), reverse=True)
    total = 0
    for _, size, path in files:
        total += size
        if total > _MOST_BYTES:
            path.unlink(missing_ok=True)
