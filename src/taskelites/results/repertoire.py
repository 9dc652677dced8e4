"""Solutions that a run keeps in addition to the elites."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from taskelites.errors import InvalidValueError, counted

if TYPE_CHECKING:
    import pandas as pd

PREFIX = "repertoire_"
# The arrays in a file: allowed dtype kinds, and axes.
LAYOUT = {
    "numbers": ("iu", ("kept",)),
    "solutions": ("f", ("kept", "dimensions")),
    "fitness": ("f", ("kept",)),
    "behaviour": ("f", ("kept", "behaviours")),
    "tasks": ("f", ("kept", "descriptors")),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Repertoire:
    """Solutions with their tasks; a task may have several solutions.

    Attributes:
        numbers: `(m,)`, the task of each solution, as an index into the result's tasks.
        solutions: `(m, dim)`.
        fitness: `(m,)`, finite.
        behaviour: `(m, b)`, the behaviour returned by the fitness; None if the algorithm uses no behaviour.
        tasks: `(m, k)`, the descriptors that each solution was evaluated on, if the algorithm chose them (on a
            `te.Box`); otherwise None.

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
        """Create a repertoire from columns, leaving out empty rows, whose fitness is -inf."""
        some = np.isfinite(fitness)
        kept: dict[str, Any] = {
            name: None if column is None else np.asarray(column)[some] for name, column in columns.items()
        }
        return cls(fitness=np.asarray(fitness)[some], **kept)

    def __len__(self) -> int:
        return len(self.fitness)

    def __repr__(self) -> str:
        described = "" if self.behaviour is None else f", behaviours of {counted(self.behaviour.shape[1], 'number')}"
        tasks = counted(len(np.unique(self.numbers)), "task")
        return f"<Repertoire: {counted(len(self), 'solution')} of {tasks}{described}>"

    def of(self, task: int) -> "Repertoire":
        """Return the solutions of one task, the best first."""
        own = np.flatnonzero(self.numbers == task)
        return self.pick(own[np.argsort(-self.fitness[own], kind="stable")])

    def pick(self, rows: Any) -> "Repertoire":
        """Return the given rows, in this order."""
        chosen = {name: None if column is None else column[rows] for name, column in self._columns().items()}
        return Repertoire(**chosen)  # type: ignore[arg-type]  # the required ones are never None

    def to_dataframe(self) -> "pd.DataFrame":
        """Return a table with one row per solution.

        Columns: `task_id`, `task_0`, ... (if the algorithm chose its tasks), `fitness`, `behaviour_0`, ... (if it uses
        behaviours), `solution_0`, ...

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
        """Return the arrays to store in a file."""
        return {f"{PREFIX}{name}": column for name, column in self._columns().items() if column is not None}

    @classmethod
    def from_arrays(cls, contents: dict[str, np.ndarray], tasks: int, dim: int) -> "Repertoire | None":
        """Create a repertoire from the arrays of a file, or return None if there is none.

        Args:
            contents: arrays by name, of the shapes in `LAYOUT`.
            tasks: number of tasks of the result.
            dim: length of its solutions.

        Raises:
            ValueError, KeyError: if the arrays are inconsistent, or some are missing.
        """
        columns = {name: contents[f"{PREFIX}{name}"] for name in LAYOUT if f"{PREFIX}{name}" in contents}
        if not columns:
            return None
        numbers, solutions = columns["numbers"], columns["solutions"]
        if solutions.shape[1] != dim or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < tasks):
            raise InvalidValueError("its repertoire does not match the number of tasks or the length of the solutions")
        return cls(**columns)


def _numbered(name: str, rows: np.ndarray | None) -> dict[str, np.ndarray]:
    return {} if rows is None else {f"{name}_{i}": column for i, column in enumerate(rows.T)}
