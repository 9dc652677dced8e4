"""Solutions that a run keeps besides the best of each task."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.errors import InvalidValueError

if TYPE_CHECKING:
    import pandas as pd

PREFIX = "repertoire_"


@dataclass(frozen=True, kw_only=True, eq=False)
class Repertoire:
    """Solutions with their tasks, one a row; several may be of one task.

    Attributes:
        numbers: `(m,)`, the number of the task of each, as the result counts them.
        solutions: `(m, dim)`.
        fitness: `(m,)`, all finite.
        behaviour: `(m, b)`, what each does, as the fitness returned it; None where the algorithm uses none.
        tasks: `(m, k)`, the descriptors that each was evaluated on, where an algorithm chose them itself (on a
            `te.Box`); else None, since `numbers` says it.

    Example:
        >>> import numpy as np
        >>> kept = Repertoire(
        ...     numbers=np.array([1, 0, 1]), solutions=np.eye(3), fitness=np.array([0.1, 0.2, 0.3]), behaviour=np.eye(3)
        ... )
        >>> len(kept), kept.of(1).fitness.tolist()
        (3, [0.3, 0.1])
    """

    numbers: np.ndarray
    solutions: np.ndarray
    fitness: np.ndarray
    behaviour: np.ndarray | None = None
    tasks: np.ndarray | None = None

    @classmethod
    def of_solved(cls, *, fitness: Any, **columns: Any) -> "Repertoire":
        """Of columns that have -inf as the fitness of rows which hold nothing; those are left out."""
        some = np.isfinite(fitness)
        kept: dict[str, Any] = {
            name: None if column is None else np.asarray(column)[some] for name, column in columns.items()
        }
        return cls(fitness=np.asarray(fitness)[some], **kept)

    def __len__(self) -> int:
        return len(self.fitness)

    def __repr__(self) -> str:
        described = "" if self.behaviour is None else f", behaviours of {self.behaviour.shape[1]} numbers"
        return f"<Repertoire: {len(self):,} solutions of {len(np.unique(self.numbers)):,} tasks{described}>"

    def of(self, task: int) -> "Repertoire":
        """The rows of one task, the best first."""
        own = np.flatnonzero(self.numbers == task)
        return self.pick(own[np.argsort(-self.fitness[own], kind="stable")])

    def pick(self, rows: Any) -> "Repertoire":
        """Some rows, in this order."""
        chosen = {name: None if column is None else column[rows] for name, column in self._columns().items()}
        return Repertoire(**chosen)  # type: ignore[arg-type]  # the required ones are never None

    def to_dataframe(self) -> "pd.DataFrame":
        """One row a solution.

        Columns: `task_id`, `task_0`, ... (where the algorithm chose its tasks), `fitness`, `behaviour_0`, ... (where
        it uses them), `solution_0`, ...

        Example:
            >>> import numpy as np
            >>> kept = Repertoire(numbers=np.array([4]), solutions=np.eye(2)[:1], fitness=np.array([0.5]))
            >>> kept.to_dataframe().columns.tolist()
            ['task_id', 'fitness', 'solution_0', 'solution_1']
        """
        import pandas as pd

        columns: dict[str, Any] = {"task_id": self.numbers}
        columns |= _numbered("task", self.tasks)
        columns["fitness"] = self.fitness
        columns |= _numbered("behaviour", self.behaviour) | _numbered("solution", self.solutions)
        return pd.DataFrame(columns)

    def _columns(self) -> dict[str, np.ndarray | None]:
        names = ("numbers", "solutions", "fitness", "behaviour", "tasks")
        return {name: getattr(self, name) for name in names}

    def to_arrays(self) -> dict[str, np.ndarray]:
        """What a file keeps of it."""
        return {f"{PREFIX}{name}": column for name, column in self._columns().items() if column is not None}

    @classmethod
    def from_arrays(cls, contents: dict[str, np.ndarray], tasks: int, dim: int) -> "Repertoire | None":
        """From the arrays of a file, of a result with so many tasks and numbers in a solution; None if it has none.

        Raises:
            ValueError: if they do not fit together.
        """
        if f"{PREFIX}fitness" not in contents:
            return None
        layout = {"numbers": ("iu", 1), "solutions": ("f", 2), "fitness": ("f", 1), "behaviour": ("f", 2)}
        layout["tasks"] = ("f", 2)
        columns = {name: contents.get(f"{PREFIX}{name}") for name in layout}
        rows = len(contents[f"{PREFIX}fitness"])
        for name, (kinds, ndim) in layout.items():
            column = columns[name]
            if column is None and name in ("behaviour", "tasks"):
                continue
            if column is None or column.dtype.kind not in kinds or column.ndim != ndim or len(column) != rows:
                raise InvalidValueError(f"the {name} of its repertoire is no array of {rows} rows of numbers")
        numbers, solutions = contents[f"{PREFIX}numbers"], contents[f"{PREFIX}solutions"]
        if solutions.shape[1] != dim or (rows and not 0 <= numbers.min() <= numbers.max() < tasks):
            raise InvalidValueError("its repertoire is of other tasks or solutions")
        return cls(**columns)  # type: ignore[arg-type]  # as above


def _numbered(name: str, rows: np.ndarray | None) -> dict[str, np.ndarray]:
    return {} if rows is None else {f"{name}_{i}": column for i, column in enumerate(rows.T)}
