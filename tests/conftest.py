"""Shared fixtures."""

import os
import signal

os.environ.setdefault("MPLBACKEND", "agg")

import numpy as np
import pytest

import taskelites as te

# A shell that starts the tests in the background makes them and their child processes ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def line_tasks():
    return te.Tasks(descriptors=np.linspace(0, 1, 40)[:, None])


@pytest.fixture(scope="session")
def small_arm():
    return te.domain("arm", tasks=200)
