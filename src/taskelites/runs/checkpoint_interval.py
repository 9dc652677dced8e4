"""The interval between checkpoints, and saving them when they are due."""

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskelites.errors import InvalidValueError, whole_number
from taskelites.runs.folder import RunFolder

_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}

Snapshot = tuple[Mapping[str, np.ndarray], Mapping[str, Any]]


@dataclass(frozen=True)
class CheckpointInterval:
    """A number of evaluations or of seconds.

    Example:
        >>> CheckpointInterval.parse(5000), CheckpointInterval.parse("5min")
        (CheckpointInterval(evaluations=5000, seconds=None), CheckpointInterval(evaluations=None, seconds=300.0))
    """

    evaluations: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, value: Any, name: str = "checkpoint_every") -> "CheckpointInterval":
        """Parse a number of evaluations, or a time such as "30s", "5min" or "2h"."""
        expected = f"{name} must be a number of evaluations, or a time such as '30s', '5min' or '2h', not {value!r}"
        if isinstance(value, str):
            match = re.fullmatch(r"\s*([0-9.eE+-]+)\s*(s|min|h)?\s*", value)
            try:
                number = float(match[1]) if match else math.nan
            except ValueError:
                number = math.nan
            if match is None or not 0 < number < math.inf:
                raise InvalidValueError(expected)
            if match[2]:
                return cls(seconds=number * _UNITS[match[2]])
            value = number
        try:
            return cls(evaluations=whole_number(name, value, least=1))
        except (TypeError, ValueError) as error:
            raise type(error)(expected) from None


DEFAULT = CheckpointInterval(seconds=60.0)


class Checkpointer:
    """Saves checkpoints of runs that advance together, when they are due.

    Args:
        folders: one per run.
        every: the interval between checkpoints.
    """

    def __init__(self, folders: list[RunFolder], every: CheckpointInterval = DEFAULT) -> None:
        self._folders = folders
        self._every = every
        self._position: int | None = None
        self._time = time.monotonic()

    @property
    def saved(self) -> bool:
        """Whether the runs have a checkpoint."""
        return self._position is not None

    def begin(self, position: int) -> None:
        """Count the interval from a checkpoint at `position`."""
        self._position = position
        self._time = time.monotonic()

    def look(self, position: int, snapshots: Callable[[], list[Snapshot]]) -> None:
        """Save a checkpoint if one is due."""
        if self._due(position):
            self.save(position, snapshots)

    def save(self, position: int, snapshots: Callable[[], list[Snapshot]]) -> None:
        """Save a checkpoint now."""
        for folder, (arrays, about) in zip(self._folders, snapshots(), strict=True):
            folder.checkpoints.save(position, arrays, about)
        self.begin(position)

    def last(self) -> str:
        """Return the end of a message: which checkpoint is intact."""
        place = self._folders[0].named
        if self._position is None:
            return f"; the run in {place!r} has no checkpoint yet"
        return f"; the last checkpoint, at {self._position:,} evaluations, is intact in {place!r}"

    def _due(self, position: int) -> bool:
        if self._every.evaluations is not None:
            return position - (self._position or 0) >= self._every.evaluations
        return time.monotonic() - self._time >= (self._every.seconds or 0.0)
