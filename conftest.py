"""Doctests are looked for in every module, and a module of a simulator that is not installed can't be imported."""

import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

import taskelites as te

# PyBullet has no wheels for newer Pythons, and Warp none for some machines; MuJoCo is among what developers install.
_NEEDED = {"pybullet_engine": "pybullet", "warp_engine": "mujoco_warp", "warp_kernels": "mujoco_warp"}
collect_ignore = [
    f"src/taskelites/domains/hexapod/{module}.py" for module, package in _NEEDED.items() if not find_spec(package)
]

# Most of the time of the tests is compilation, and most of it of what was compiled before. Each process of the tests
# keeps its own programs, for itself and for what it starts, as long as it lives: files of another could be read half
# written.
_COMPILED = tempfile.TemporaryDirectory(prefix="taskelites-compiled-")
os.environ["JAX_COMPILATION_CACHE_DIR"] = _COMPILED.name
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


@pytest.fixture(autouse=True)
def no_figure_stays_open() -> Iterator[None]:
    """Matplotlib warns of the twentieth."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="module", autouse=True)
def mt_map_elites_by_default(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests and docstrings that name no algorithm are not about one, so they get that which compiles fastest.

    Not so what users do without naming one: the documentation's code, the examples, the command line.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.path.name != "test_docs.py":
            for function in (te.solve, te.Optimizer.__init__):
                patch.setitem(function.__kwdefaults__, "algorithm", "mt-map-elites")
        yield
