"""The reasons why evaluations failed, with their counts."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from taskelites.storage import count_in

_MAX_LINES = 10
# Characters of a place in the table; of a longer path, the end is shown.
_PLACE = 32


@dataclass(frozen=True, kw_only=True)
class FailureReason:
    """Failed evaluations of one kind that were raised at one place.

    Attributes:
        kind: "raised", "nan", "nonsense", "timeout" or "died".
        message: what the first of them said.
        where: file:line in the user's code for "raised", else an empty text.
        count: the number of evaluations.
    """

    kind: str
    message: str
    where: str = ""
    count: int = 1

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the reason that `dataclasses.asdict` turned into plain values."""
        text = {name: str(plain[name]) for name in ("kind", "message", "where")}
        return cls(**text, count=count_in(plain, "count"))

    @property
    def key(self) -> tuple[str, str, str]:
        """What failures of one reason share: messages may contain numbers, so only the exception's type counts."""
        return self.kind, self.where, self.message.partition(":")[0] if self.kind == "raised" else ""

    @property
    def place(self) -> str:
        """`where`, relative to the working directory if it is below it."""
        with suppress(OSError, ValueError):  # it was removed, or is on another drive
            relative = os.path.relpath(self.where) if os.path.isabs(self.where) else self.where
            if not relative.startswith(os.pardir):
                return relative
        return self.where

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" + (f" ({self.place})" if self.where else "")


def most_frequent_first(reasons: Iterable[FailureReason]) -> tuple[FailureReason, ...]:
    """Return the reasons in the order of their counts, with the counts of equal ones added.

    Example:
        >>> few, many = (FailureReason(kind="timeout", message="too slow", count=count) for count in (1, 2))
        >>> [reason.count for reason in most_frequent_first([few, many])]
        [3]
    """
    found: dict[tuple[str, str, str], FailureReason] = {}
    for reason in reasons:
        before = found.get(reason.key)
        found[reason.key] = reason if before is None else replace(before, count=before.count + reason.count)
    return tuple(sorted(found.values(), key=lambda reason: -reason.count))


def reason_table(reasons: Iterable[FailureReason], width: int = 120) -> str:
    """Return a table of the most frequent reasons, with lines of at most `width` characters.

    Example:
        >>> raised = FailureReason(kind="raised", message="ValueError: diverged", where="arm.py:12", count=1026)
        >>> print(reason_table([raised, FailureReason(kind="nan", message="fitness returned nan", count=3)]))
        failed  kind    where      reason
         1,026  raised  arm.py:12  ValueError: diverged
             3  nan                fitness returned nan
    """
    ordered = most_frequent_first(reasons)
    shown = ordered[:_MAX_LINES]
    rows = [("failed", "kind", "where", "reason")]
    places = [each.place if len(each.place) <= _PLACE else f"...{each.place[3 - _PLACE :]}" for each in shown]
    rows += [(f"{each.count:,}", each.kind, place, each.message) for each, place in zip(shown, places, strict=True)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{row[0]:>{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:<{widths[2]}}  {row[3]}" for row in rows]
    if others := ordered[_MAX_LINES:]:
        lines.append(f"{sum(each.count for each in others):>{widths[0]},}  for {len(others)} other reasons")
    return "\n".join(line if len(line) <= width else f"{line[: width - 3]}..." for line in lines)
