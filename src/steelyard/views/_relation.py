"""A relation and what is known of it: for which units every row is made from the rows of one unit alone.

Which unit an account hides is not known while a view is written. So each relation carries its *carriers*: the columns that could name the
unit, since with any of them as the unit each row is made from rows of that one unit and public facts, and the column came through
unchanged; and whether each row is made from one row alone, which is what ``rows()`` needs. ``require`` decides for one unit.
Law: a rule may only drop carriers or keep them; nothing but a stored private table makes one (docs/proofs/views.md), and ``finer``, for periods (docs/proofs/periods.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from steelyard.errors import ViewRefused
from steelyard.privacy import Unit

GROUPABLE = ("boolean", "integer", "floating", "decimal", "string", "date", "timestamp", "uuid", "binary")
Lineage = frozenset[tuple[str, str]]
"""The column that names the unit in each private table, as (table, column)."""


@dataclass(frozen=True)
class Relation:
    """Rows as an Ibis expression, and what keeps people apart in them.

    ``carriers``: by column, where its values come from. ``single``: each private row makes at most one row, and each row is made
    from one private row. ``meant``: what views below called a column, as (table, name, column of it). ``whole``: no private row is lost. ``unique``: public relations whose columns must tell their rows apart for
    ``single`` to hold. ``notes``: what a clause asked of the unit, in words.
    """

    expr: Any
    private: bool
    carriers: Mapping[str, Lineage] = field(default_factory=dict)
    single: bool = True
    whole: bool = True
    leaves: frozenset[str] = frozenset()
    schemas: frozenset[tuple[str, tuple[str, ...]]] = frozenset()
    meant: frozenset[tuple[str, str, str]] = frozenset()
    unique: tuple[tuple[Any, tuple[str, ...]], ...] = ()
    notes: tuple[str, ...] = ()
    weights: Mapping[str, int] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.expr.columns)

    @property
    def usable(self) -> list[str]:
        """The columns that can be computed with or passed on by name."""
        return [name for name in self.columns if is_usable(self.expr[name].type())]

    def filtered(self, condition: Any) -> Relation:
        """The rows for which a condition of the row itself holds."""
        return replace(self, expr=self.expr.filter(condition), whole=False)

    def sampled(self, expr: Any, column: str) -> Relation:
        """Some of the rows, chosen within each unit that this column names: for any other unit one row decides about others."""
        carriers = {name: lineage for name, lineage in self.carriers.items() if name == column}
        told = f"Rows were kept for each {column!r}, by what all of its rows hold."
        return replace(self, expr=expr, carriers=carriers, single=False, whole=False, notes=(*self.notes, told))

    def finer(self, column: str, user: str, before: Relation) -> Relation:
        """The same, in which a column is a unit too: one user's rows, divided by what each row says of itself (docs/proofs/periods.md).

        Only where each row was made from one row before the column was: then whatever a unit has is its own rows and nothing else.
        """
        if not (before.private and before.single and self.single) or before.unique or user not in before.carriers:
            raise ViewRefused(f"rows are not each made from one row, so {column!r} divides nobody's.")
        return replace(self, carriers={**self.carriers, column: before.carriers[user]})

    def named(self) -> Relation:
        """The same, whose names mean what they mean here: no view of it can give another column the name of a unit."""
        more = {(table, name, own) for name, lineage in self.carriers.items() for table, own in lineage}
        return replace(self, meant=self.meant | more)

    def require(self, unit: Unit) -> None:
        """Refuse a unit for which this relation is not known to keep people apart; reads no row."""
        if not self.private or unit.kind not in ("users", "rows"):
            raise ViewRefused(f"a view is checked for users and for rows over private tables; not for {unit}.")
        if unit.kind == "rows" or unit.column is None:
            self._require_rows()
        else:
            self._require_users(unit.column)
        if unit.n is not None and not self.whole:
            raise ViewRefused(
                f"the view may drop rows, and the account counts on a public number of them ({unit}). "
                "Views that only derive columns keep it; otherwise open an account that adds and removes."
            )

    def _require_rows(self) -> None:
        if not self.single:
            raise ViewRefused(
                f"the view makes rows from several rows, or several rows from one, and the account hides single rows. {self._why} "
                "With rows() a view may filter, derive columns, JOIN public tables by columns that tell their rows apart, and UNION ALL tables."
            )

    def _require_users(self, column: str) -> None:
        lineage = self.carriers.get(column)
        if lineage is None:
            told = ", ".join(map(repr, self.carriers)) or "no column"
            raise ViewRefused(
                f"the view does not keep the unit {column!r} apart: {told} would be kept apart by it. {self._why} "
                f"The unit must come through unchanged, and be among the columns that are grouped, partitioned or joined by."
            )
        own = dict(lineage)
        for table, names in self.schemas:
            named = {name.casefold(): name for name in names}.get(column.casefold())
            if table not in own or (named is not None and own[table] != named):
                raise ViewRefused(
                    f"the view calls {own.get(table)!r} of {table} {column!r}, which has a column of that name: another unit cannot "
                    "take its place. Pass the unit's own column through."
                )

        if any(name.casefold() == column.casefold() and own.get(table) != of for table, name, of in self.meant):
            raise ViewRefused(
                f"a view below calls another column {column!r}: another unit cannot take its place. Call this one otherwise."
            )

    def require_period(self, column: str, time: str) -> None:
        """Refuse rows that are not each made from one row, or whose user or time may be another's: a period is told by the row alone."""
        if not self.private:
            raise ViewRefused("a period is one of private rows.")
        if not self.single or self.unique:
            raise ViewRefused(
                f"the view makes rows from several rows, or may make several from one, and the account counts by periods: rows of two periods must not meet. {self._why} "
                "There a view may filter, derive columns and UNION ALL tables."
            )
        for name in (column, time):
            self._require_users(name)
            if any(own != name for _, own in self.carriers[name]):
                raise ViewRefused(
                    f"the view calls another column {name!r}, and the account counts by periods: were it this one today and that one tomorrow, a row "
                    "would be of two periods. Name the tables' own columns when the account is opened."
                )

    @property
    def _why(self) -> str:
        return " ".join(dict.fromkeys(self.notes))


def is_usable(dtype: Any) -> bool:
    """Whether values of a type can be read without fail and compared."""
    return any(getattr(dtype, f"is_{kind}")() for kind in GROUPABLE)


def private_leaf(expr: Any, name: str, origin: frozenset[str] = frozenset(), columns: Sequence[str] = ()) -> Relation:
    """A private table as it is stored; any column may turn out to name the unit.

    ``origin``: the files or objects its rows lie in. ``columns``: all that it has, where ``expr`` shows fewer.
    """
    names = [column for column in expr.columns if is_usable(expr[column].type())]
    return Relation(
        expr,
        private=True,
        carriers={column: frozenset({(name, column)}) for column in names},
        leaves=frozenset({name}) | origin,
        schemas=frozenset({(name, tuple(columns or expr.columns))}),
    )


def public_leaf(expr: Any) -> Relation:
    """A table whose every row is public."""
    return Relation(expr, private=False)


def agreed(left: Lineage, right: Lineage) -> Lineage | None:
    """Two lineages together; none where they name two columns of one table."""
    both = left | right
    return both if len(dict(both)) == len(both) else None
