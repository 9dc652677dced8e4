"""A run on disk and in the terminal: its folder, checkpoints, lock, failures and progress."""

from taskelites.runs.callback_list import CallbackList
from taskelites.runs.checkpoint import Checkpoint, Checkpoints
from taskelites.runs.checkpoint_interval import Checkpointer, CheckpointInterval, Snapshot
from taskelites.runs.failure_log import FailedEvaluation, FailureAlarm, FailureLog, failures, read_failure
from taskelites.runs.folder import RunFolder, read_plan
from taskelites.runs.lock import RunLock
from taskelites.runs.progress import Progress

__all__ = [
    "CallbackList",
    "Checkpoint",
    "CheckpointInterval",
    "Checkpointer",
    "Checkpoints",
    "FailedEvaluation",
    "FailureAlarm",
    "FailureLog",
    "Progress",
    "RunFolder",
    "RunLock",
    "Snapshot",
    "failures",
    "read_failure",
    "read_plan",
]
