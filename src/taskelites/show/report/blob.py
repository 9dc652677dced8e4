"""The arrays of a page, stored one after the other in one string that the page's JSON refers to."""

import base64
from typing import Any

import numpy as np

# JavaScript's typed arrays are little-endian on all current platforms.
_KINDS = {"f8": "<f8", "f4": "<f4", "i4": "<i4", "u4": "<u4", "u2": "<u2", "i2": "<i2", "u1": "<u1"}


class Blob:
    """Arrays one after the other, each aligned to its item size.

    Attributes:
        size: bytes of all arrays and the padding between them.

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
        """Append an array and return the JSON that refers to it.

        Args:
            array: numbers of any shape.
            kind: the type to store them in, such as "f8", "i2" or "u1".
        """
        data = np.ascontiguousarray(array, dtype=_KINDS[kind])
        padding = -self.size % data.itemsize
        reference = {"at": self.size + padding, "type": kind, "shape": list(data.shape)}
        self._parts += [bytes(padding), data.tobytes()]
        self.size += padding + data.nbytes
        return reference

    def encoded(self) -> str:
        """Return all arrays as base64."""
        return base64.b64encode(b"".join(self._parts)).decode("ascii")
