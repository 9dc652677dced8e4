"""Types of the keyword arguments of `te.solve`, `Result.refine` and `Result.extend`."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

from taskelites.evaluation import EvaluationKeywords
from taskelites.evaluation.options import Mode
from taskelites.problem.problem import Call

Callback = Callable[[Any], Any]


class SearchKeywords(EvaluationKeywords, total=False):
    """Keywords of every function that searches; `te.solve` describes them and has their defaults."""

    bounds: Any
    dim: int | None
    behaviour: Any
    call: Call | None
    algorithm: Any
    batch_size: int
    ahead: int
    seed: int
    target: Any
    out: str | PathLike[str] | None
    samples: int
    mode: Mode
    checkpoint_every: int | str | None
    resume: bool
    progress: bool | None
    callback: Callback | Sequence[Callback] | None
    request: Any


class SolveKeywords(SearchKeywords, total=False):
    """Keywords of `te.solve` that do not decide the type of its result."""

    initial: Any
    warm_start: Any
