"""The handle on private rows: a public schema and a few questions whose sensitivity is known in advance.

A table answers in integers only. For each question docs/proofs/tables.md states by how much the answer can move when
one unit is added, removed or replaced, and what the code must do for that to hold. A handle shows its schema and
nothing else; no row is read before a question is asked.
Law: a question is one total function of each unit's own rows, then a sum over units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from steelyard.errors import ColumnMissing, InvalidTask, TableError
from steelyard.privacy import Unit
from steelyard.tables import totals
from steelyard.tables.engine import Engine
from steelyard.tables.quantity import Quantity
from steelyard.tables.schema import NUMERIC, kind_of
from steelyard.tables.totals import Bounded


class Table:
    """Private rows behind a few questions; make one with ``read``."""

    def __init__(self, engine: Engine, base: Any, rows: Any = None) -> None:
        self._engine = engine
        self._base = base
        self._rows = base if rows is None else rows

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {kind}" for name, kind in self.columns.items())
        return f"Table({shown}) on {self._engine.name}"

    @property
    def columns(self) -> Mapping[str, str]:
        """The public schema: each column's name and kind, such as ``"integer"`` or ``"string"``."""
        return MappingProxyType({name: kind_of(dtype) for name, dtype in self._rows.schema().items()})

    @property
    def engine(self) -> str:
        """Who answers: ``"duckdb"`` or ``"pyspark"``."""
        return self._engine.name

    def require(self, *columns: str) -> None:
        """Refuse, from the schema alone, a column that is not there."""
        available = self.columns
        for column in columns:
            if column not in available:
                raise ColumnMissing(column, list(available))

    def require_numeric(self, column: str) -> None:
        """Refuse, from the schema alone, a column that cannot be added up."""
        self.require(column)
        kind = self.columns[column]
        if kind not in NUMERIC:
            raise TableError(
                f"column {column!r} holds {kind} values and cannot be added up. "
                f"Convert it to a number before it is read; numeric kinds are {', '.join(NUMERIC)}."
            )

    def count_units(self, unit: Unit) -> int:
        """The number of units with at least one row (rows without a unit belong to nobody)."""
        self._check(unit, ())
        return self._numbers(totals.unit_count(self._rows, unit))[0]

    def capped_sum(self, unit: Unit, quantity: Quantity, lower: int, upper: int) -> int:
        """The sum over units of each unit's total, clamped to [lower, upper].

        *Privacy:* one unit added or removed moves it by at most max(|lower|, |upper|); replaced, by upper - lower
        (units with no rows count as 0).
        """
        return self.capped_totals(unit, [Bounded(quantity, lower, upper)])[0]

    def capped_totals(self, unit: Unit, parts: Sequence[Bounded]) -> list[int]:
        """Several capped sums in one pass over the rows, in the order asked."""
        self._check(unit, [part.quantity for part in parts])
        return self._numbers(totals.capped(self._rows, unit, parts, self.engine)) if parts else []

    def totals_histogram(self, unit: Unit, quantity: Quantity, edges: Sequence[int]) -> list[int]:
        """How many units' totals lie in each bin [edges[i], edges[i + 1]); totals outside go to the end bins.

        *Privacy:* each unit lies in exactly one bin, so one unit added or removed moves one bin by one.
        """
        self._check(unit, [quantity])
        edges = totals.check_edges(edges)
        counts = self._numbers(totals.tails(self._rows, unit, quantity, edges, self.engine))
        return [left - right for left, right in zip(counts, [*counts[1:], 0], strict=True)]

    def batches(self, columns: Sequence[str], size: int = 65_536) -> Iterator[Any]:
        """Stream the rows of some columns as Arrow record batches of about ``size`` rows; in no promised order."""
        self.require(*columns)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1 or not columns:
            raise InvalidTask("batches needs at least one column and a positive size.")
        question = self._rows.select(*columns)
        return self._engine.batches(self._sql(question), self._needed(question), size)

    def _check(self, unit: Unit, quantities: Sequence[Quantity]) -> None:
        if unit.kind not in ("users", "rows", "labels"):
            raise InvalidTask(f"a table cannot answer about the unit {unit}.")
        if unit.column is not None:
            self.require(unit.column)
        for quantity in quantities:
            if quantity.column is not None:
                self.require_numeric(quantity.column)

    def _numbers(self, question: Any) -> list[int]:
        """Run a question that answers with one row of numbers; a sum over no rows at all is 0."""
        (row,) = self._run(question)
        return [0 if value is None else int(value) for value in row]

    def _run(self, question: Any) -> list[tuple[Any, ...]]:
        return self._engine.rows(self._sql(question), self._needed(question))

    def _sql(self, question: Any) -> str:
        import ibis

        return str(ibis.to_sql(question, dialect=self._engine.name))

    def _needed(self, question: Any) -> list[str]:
        """The columns of the source that a question reads."""
        import ibis.expr.operations as ops

        base = self._base.op()
        used = {field.name for field in question.op().find(ops.Field) if field.rel == base}
        return [name for name in self._base.columns if name in used] or [self._base.columns[0]]
