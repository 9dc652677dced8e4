"""JAX keeps what it compiled; Linux allows a process so many pieces of memory, and JAX dies of one more."""

from pathlib import Path

import jax

_MAPPED = Path("/proc/self/maps")  # a line for each piece
_ALLOWED = Path("/proc/sys/vm/max_map_count")  # 65530, unless somebody changed it


def clear_full_compile_cache() -> None:
    """Let go of all compiled programs, if they take half of the pieces that the process may have.

    A fitness in JAX makes a program of its own, of some 500 pieces: a study of a hundred of them in one process would
    end in a segmentation fault. What is still needed is compiled again. Elsewhere than on Linux, nothing happens.

    Example:
        >>> clear_full_compile_cache()
    """
    try:
        allowed = int(_ALLOWED.read_text())
        with _MAPPED.open("rb") as lines:
            pieces = sum(1 for _ in lines)
    except (OSError, ValueError):
        return
    if pieces > allowed / 2:
        jax.clear_caches()  # type: ignore[no-untyped-call]
