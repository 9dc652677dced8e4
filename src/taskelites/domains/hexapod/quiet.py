"""Suppression of output that simulators print from C."""

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def quiet(*streams: int) -> Iterator[None]:
    """Discard what Python or C code writes to these file descriptors within the block.

    Example:
        >>> with quiet(1):
        ...     _ = os.write(1, b"nobody sees this")
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(stream) for stream in streams]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in streams:
            os.dup2(nowhere, stream)
        yield
    finally:
        for stream, old in zip(streams, kept, strict=True):
            os.dup2(old, stream)
            os.close(old)
        os.close(nowhere)
