"""Fixtures and settings of all tests and doctests."""

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

# Doctests are collected from every module, but these modules need simulators that are not installed everywhere:
# PyBullet has no wheels for newer Pythons, and Warp none for some machines.
_NEEDED = {"pybullet_engine": "pybullet", "warp_engine": "mujoco_warp", "warp_kernels": "mujoco_warp"}
collect_ignore = [
    f"src/taskelites/domains/hexapod/{module}.py" for module, package in _NEEDED.items() if not find_spec(package)
]

# Compilation takes most of the time of the tests, so all processes share a cache that later runs use again. It is
# bounded, since JAX locks only bounded caches against simultaneous writes.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parent / ".pytest_cache" / "compiled"))
os.environ["JAX_COMPILATION_CACHE_MAX_SIZE"] = str(2**30)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
# The arrays of other runs of the tests would hide a mistake in the code that computes them.
os.environ["TASKELITES_CACHE"] = "off"


# Folders and files of which only `make test-all` runs the tests, as it does all doctests. Single tests in other files
# have the marker.
_THOROUGH = [
    "algorithms/test_large_bounds.py",
    "analysis",
    "domains",
    "experiments",
    "show",
    "cli/test_exit_status.py",
    "cli/test_help.py",
    "cli/test_watch.py",
    "evaluation/test_executors.py",
    "evaluation/test_masked_values.py",
    "evaluation/test_rebuild.py",
    "evaluation/test_samples.py",
    "evaluation/test_worker_processes.py",
    "results/test_export.py",
    "runs/test_callbacks.py",
    "runs/test_damaged_files.py",
    "runs/test_progress.py",
    "search/test_typing.py",
    "search/test_unseen.py",
    "test_docs.py",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests as thorough."""
    tests = Path(__file__).parent / "tests"
    thorough = [tests / name for name in _THOROUGH]
    for item in items:
        if isinstance(item, pytest.DoctestItem) or any(item.path.is_relative_to(path) for path in thorough):
            item.add_marker(pytest.mark.thorough)


@pytest.fixture(scope="module", autouse=True)
def clear_compiled_programs() -> Iterator[None]:
    """Clear JAX's caches after each file: Python's garbage collector takes seconds per gigabyte of traced programs."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    """Close all figures after each test, since Matplotlib warns about the twentieth open figure."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
