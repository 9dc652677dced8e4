"""What a result tells: elites measured again, a few of them for all tasks, their copies on other tasks."""

from taskelites.analysis.covering import Cover, cover
from taskelites.analysis.noise import reevaluate
from taskelites.analysis.transferring import Transfer, transfer

__all__ = ["Cover", "Transfer", "cover", "reevaluate", "transfer"]
