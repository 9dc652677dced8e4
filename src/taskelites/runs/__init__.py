"""A run as a person meets it: its folder on disk, its progress, its failures, its end by Ctrl-C."""

from taskelites.runs.checkpoint import Checkpoint, Checkpoints
from taskelites.runs.failing import FailedEvaluation, FailureLog, failures, read_failure
from taskelites.runs.folder import RunFolder, read_plan
from taskelites.runs.interruption import Interruption
from taskelites.runs.keeping import Every, Keeper, Snapshot
from taskelites.runs.lock import RunLock
from taskelites.runs.progress import Progress

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "Every",
    "FailedEvaluation",
    "FailureLog",
    "Interruption",
    "Keeper",
    "Progress",
    "RunFolder",
    "RunLock",
    "Snapshot",
    "failures",
    "read_failure",
    "read_plan",
]
