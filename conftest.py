"""Doctests are looked for in every module, and a module of a simulator that is not installed can't be imported."""

import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec

import jax
import pytest

# PyBullet has no wheels for newer Pythons; MuJoCo is among what developers install.
collect_ignore = [] if find_spec("pybullet") else ["src/taskelites/domains/hexapod/pybullet_engine.py"]

# Most of the time of the tests is compilation, and most of it of what was compiled before. Each process of the tests
# keeps its own programs, for as long as it lives: files of another could be read half written.
_COMPILED = tempfile.TemporaryDirectory(prefix="taskelites-compiled-")
jax.config.update("jax_compilation_cache_dir", _COMPILED.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    """Matplotlib warns of the twentieth."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
