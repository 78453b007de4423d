"""The answer to a question in SQL: released numbers row by row as the statement orders them, each with its own error.

Nothing here sees a row of the table: HAVING, ORDER BY and LIMIT have chosen among what was released, and all of it may be published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import steelyard.answers as answers
from steelyard.requests._replies import columns

if TYPE_CHECKING:
    from steelyard.charts import Chart
    from steelyard.release import Release

_SHOWN, _DRAWN = 40, 96
_ERRORS = ("noise", "low", "high")
_NOTHING = "no key reached its threshold, or HAVING kept none"


@dataclass(frozen=True, repr=False)
class Answers:
    """The released numbers of a statement, row by row, and the release they come from.

    ``rows`` keep every digit; what is printed ends where its noise begins. ``parts`` are the aggregates by the name of their column, and
    ``cells`` the numbers of each row with their errors.
    """

    rows: list[dict[str, Any]]
    release: Release
    names: Sequence[str]
    parts: Mapping[str, answers.Part]
    cells: Sequence[Mapping[str, answers.Cell]]

    @property
    def table(self) -> Any:
        """The rows as an Arrow table; after them what is known of each number's error: ``revenue_noise``, its half width at 95 %, ``revenue_low``, ``revenue_high``."""
        import pyarrow as pa

        found: dict[str, Any] = {name: answers.array([row[name] for row in self.rows]) for name in self.names}
        for name in self.parts:
            for error in _ERRORS:
                values = [getattr(cells[name], error) for cells in self.cells]
                if any(value is not None for value in values):
                    found.setdefault(f"{name}_{error}", pa.array(values, pa.float64()))
        return pa.table(found)

    def to_pandas(self) -> Any:
        """``table`` as a pandas data frame."""
        return answers.frame(self.table, "pandas")

    def to_polars(self) -> Any:
        """``table`` as a Polars data frame."""
        return answers.frame(self.table, "polars")

    def chart(self) -> Chart:
        """The rows as bars with whiskers, aggregate by aggregate."""
        from steelyard.charts import bars

        drawn = [(name, part, cells[name]) for name, part in self.parts.items() for cells in self.cells]
        more = f" The first {_DRAWN} of {len(drawn):,} numbers are drawn." if len(drawn) > _DRAWN else ""
        shown, several = drawn[:_DRAWN], len(self.parts) > 1 and bool(self._keys)
        return bars(
            [cell.label if cell.keys else name for name, _, cell in shown], [cell.value for _, _, cell in shown], title=self._title,
            ends=[part.whisker(cell) for _, part, cell in shown], groups=[name if several else "" for name, _, _ in shown],
            subtitle="Whiskers: noise in 95% of draws, or where the truth lies", caption=f"{self.release.guarantee}{more}",
            own_scales=True,
        )  # fmt: skip

    def __str__(self) -> str:
        body, rest = self._shown()
        shown = columns([tuple(self.names), *map(tuple, body)]) if body else _NOTHING
        return "\n".join([shown, *rest, *self._said, str(self.release.guarantee), *self._again])

    def __repr__(self) -> str:
        spent = ", ".join([str(self.release.guarantee.spent), *self._again])
        return f"Answers({self._title!r}: {len(self.rows):,} rows; {spent})"

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        body, rest = self._shown()
        picture = [self.chart()] if len(self.rows) > 1 else []  # which says the guarantee itself
        promise = [] if picture else [str(self.release.guarantee)]
        table = Tabular(list(self.names), body, " ".join(rest)) if body else _NOTHING
        return fragment(self._title, table, *picture, *self._said, *promise, *self._again)

    @property
    def _keys(self) -> list[str]:
        return [name for name in self.names if name not in self.parts]

    @property
    def _title(self) -> str:
        return ", ".join(self.parts) + (f" by {' and '.join(self._keys)}" if self._keys else "")

    @property
    def _again(self) -> list[str]:
        return [self.release.again] if self.release.again else []

    @property
    def _said(self) -> list[str]:
        """The errors in sentences, each under the name of its column."""
        errors = {name: part.error for name, part in self.parts.items() if part.error is not None}
        return [f"{name}: {said}" for name, error in errors.items() for said in (error, *error.more)]

    def _shown(self) -> tuple[list[list[str]], list[str]]:
        """The first rows in words, and how many more there are."""
        pairs = zip(self.rows[:_SHOWN], self.cells, strict=False)
        body = [[str(cells[name]) if name in cells else _key(row[name]) for name in self.names] for row, cells in pairs]
        more = len(self.rows) - _SHOWN
        return body, [f"… and {more:,} more rows; all of them are in the table"] if more > 0 else []


def _key(key: Any) -> str:
    return "everything else" if key is None else str(key)
