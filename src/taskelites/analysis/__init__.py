"""Analysis of results: re-evaluation, cover sets, transfer between tasks, and failures."""

from taskelites.analysis.covering import Cover, cover
from taskelites.analysis.noise import reevaluate
from taskelites.analysis.transferring import Transfer, transfer
from taskelites.results.prediction import Prediction
from taskelites.results.repertoire import Repertoire
from taskelites.runs import failures

__all__ = ["Cover", "Prediction", "Repertoire", "Transfer", "cover", "failures", "reevaluate", "transfer"]
