"""Analysis of results: re-evaluation, cover sets, transfer between tasks, failures and their repetition."""

from taskelites.analysis.covering import Cover, cover
from taskelites.analysis.noise import reevaluate
from taskelites.analysis.replaying import Replay, replay
from taskelites.analysis.transferring import Transfer, transfer
from taskelites.results.prediction import Prediction
from taskelites.results.repertoire import Repertoire
from taskelites.runs import failures

__all__ = [
    "Cover",
    "Prediction",
    "Repertoire",
    "Replay",
    "Transfer",
    "cover",
    "failures",
    "reevaluate",
    "replay",
    "transfer",
]
