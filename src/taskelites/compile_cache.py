"""Programs that JAX compiled: cleared before a process has too many, and kept on disk between commands."""

import warnings
from pathlib import Path
from typing import Any

import jax

from taskelites.disk_cache import cache_folder

_MAPPINGS = Path("/proc/self/maps")  # one line per memory mapping
_MOST_MAPPINGS = Path("/proc/sys/vm/max_map_count")  # 65530 by default
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
    switches the cache off.
    """
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None or not config.jax_enable_compilation_cache:
        return
    folder = cache_folder("compiled")
    if folder is None:
        return
    # A program that a killed process has half written is compiled again.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    config.update("jax_compilation_cache_dir", str(folder))
    config.update("jax_persistent_cache_min_compile_time_secs", _LEAST_SECONDS)
