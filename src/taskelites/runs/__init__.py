"""A run as a person meets it: its folder on disk, its progress, its end by Ctrl-C."""

from taskelites.runs.folder import RunFolder, write_run
from taskelites.runs.interruption import Interruption
from taskelites.runs.progress import Progress

__all__ = ["Interruption", "Progress", "RunFolder", "write_run"]
