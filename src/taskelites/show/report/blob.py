"""The numbers of a page: typed arrays behind each other, which the page's JSON refers to."""

import base64
from typing import Any

import numpy as np

# As JavaScript's typed arrays have them, little-endian.
_KINDS = {"f8": "<f8", "f4": "<f4", "i4": "<i4", "u4": "<u4", "u2": "<u2", "i2": "<i2", "u1": "<u1"}


class Blob:
    """Arrays, each at a place that its type allows.

    Example:
        >>> import numpy as np
        >>> blob = Blob()
        >>> blob.add(np.array([1, 2, 3]), "u2"), blob.add(np.array([[0.5]]), "f8")
        ({'at': 0, 'type': 'u2', 'shape': [3]}, {'at': 8, 'type': 'f8', 'shape': [1, 1]})
        >>> blob.size
        16
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0

    def add(self, array: Any, kind: str) -> dict[str, Any]:
        """Put an array behind the others; returns what the JSON says of it."""
        data = np.ascontiguousarray(array, dtype=_KINDS[kind])
        padding = -self.size % data.itemsize
        reference = {"at": self.size + padding, "type": kind, "shape": list(data.shape)}
        self._parts += [bytes(padding), data.tobytes()]
        self.size += padding + data.nbytes
        return reference

    def encoded(self) -> str:
        """All of it, as text of which a page can hold any."""
        return base64.b64encode(b"".join(self._parts)).decode("ascii")
