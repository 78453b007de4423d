"""The handle on private rows: a public schema and a few questions whose sensitivity is known in advance.

A table answers in integers only. For each question docs/proofs/tables.md states by how much the answer can move when
one unit is added, removed or replaced, and what the code must do for that to hold. A handle shows its schema and
nothing else; no row is read before a question is asked.
Law: a question is one total function of each unit's own rows, then a sum over units.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.privacy import Unit
from steelyard.tables import _folding as folding
from steelyard.tables import _sampling as sampling
from steelyard.tables import _totals as totals
from steelyard.tables._engine import Engine
from steelyard.tables._identity import in_words
from steelyard.tables._keyed import (
    SATURATION,
    Bins,
    Capped,
    Side,
    capped_by_key,
    is_wanted,
    key_column,
    known,
    position,
    sides_by_key,
    sides_in_ball,
    whole,
)
from steelyard.tables._kinds import GROUPABLE, MOST_KEYS, kind_of
from steelyard.tables._sampling import Limits
from steelyard.tables._schema import Schema
from steelyard.tables._totals import Bounded, Quantity


class Table:
    """Private rows behind a few questions; make one with ``read``."""

    def __init__(self, engine: Engine, base: Any, rows: Any = None, *, stored: bool = True, identity: str = "") -> None:
        self._engine = engine
        self.stored = stored  # whether these are rows as they are stored; releases say of a query "as given"
        self._identity = identity
        self._base = base
        self._rows = base if rows is None else rows

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {kind}" for name, kind in self.columns.items())
        return f"Table({shown}) on {self._engine.dialect.name}"

    @lazy
    def schema(self) -> Schema:
        """What is public: each column's name and kind, and what they rule out."""
        return Schema({name: kind_of(dtype) for name, dtype in self._rows.schema().items()})

    @property
    def columns(self) -> Mapping[str, str]:
        """The public schema: each column's name and kind, such as ``"integer"`` or ``"string"``."""
        return self.schema.columns

    @lazy
    def identity(self) -> str:
        """Which table this is, in public words that no row can change; a request's key is bound to it."""
        return self._identity or in_words(self._engine.dialect.name, self.columns)

    def called(self, identity: str) -> Table:
        """The same rows under another identity."""
        return Table(self._engine, self._base, self._rows, stored=self.stored, identity=identity)

    @property
    def engine(self) -> str:
        """Who answers: ``"duckdb"`` or ``"pyspark"``."""
        return self._engine.dialect.name

    @property
    def local(self) -> bool:
        """Whether the rows lie on this machine."""
        return self._engine.dialect.local

    def prepare(self) -> None:
        """Compile a question without asking it: an installation that cannot must fail before anything is paid for."""
        self._sql(totals.unit_count(self._rows, Unit("rows")))

    def require(self, *columns: str) -> None:
        """Refuse, from the schema alone, a column that is not there."""
        self.schema.require(*columns)

    def require_numeric(self, column: str) -> None:
        """Refuse, from the schema alone, a column that cannot be added up."""
        self.schema.require_numeric(column)

    def require_unit(self, unit: Unit) -> None:
        """Refuse, from the schema alone, a unit that the rows cannot name."""
        self.schema.require_unit(unit)

    def require_keys(self, by: str, keys: Sequence[Any] = ()) -> list[Any]:
        """Refuse, from the schema alone, a column that cannot hold keys, and keys that are not of its kind."""
        return self.schema.require_keys(by, keys)

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
        return self._numbers(totals.capped(self._rows, unit, parts, self._engine.dialect)) if parts else []

    def totals_histogram(self, unit: Unit, quantity: Quantity, edges: Sequence[int]) -> list[int]:
        """How many units' totals lie in each bin [edges[i], edges[i + 1]); totals outside go to the end bins.

        *Privacy:* each unit lies in exactly one bin, so one unit added or removed moves one bin by one.
        """
        self._check(unit, [quantity])
        edges = totals.check_edges(edges)
        counts = self._numbers(totals.tails(self._rows, unit, quantity, edges, self._engine.dialect))
        return [left - right for left, right in zip(counts, [*counts[1:], 0], strict=True)]

    def sums_by_key(
        self, unit: Unit, parts: Sequence[Capped], by: str, keys: Sequence[Any], limits: Limits | None = None
    ) -> list[list[int]]:
        """Capped sums by public keys in one pass: for each part, one integer per key in the order given, absent keys 0.

        *Privacy:* one unit added or removed moves each part by at most its cap in its norm. Rows with other keys are
        dropped before the norm is taken.
        """
        key, known = self._key(unit, parts, by)
        keys = self.require_keys(by, keys)
        if not keys or not parts:
            return [[0] * len(keys) for _ in parts]
        wanted = known & is_wanted(key, keys)
        found = self._by_key(unit, parts, key, wanted, limits or Limits())
        none = (0, [0] * len(parts))
        return [[found.get(each, none)[1][i] for each in keys] for i in range(len(parts))]

    def found_sums_by_key(
        self, unit: Unit, parts: Sequence[Capped], by: str, limits: Limits
    ) -> dict[Any, tuple[int, list[int]]]:
        """Capped sums by whatever keys the rows hold: key -> (units under it, one integer per part).

        *Privacy:* one unit added or removed moves at most ``limits.max_keys`` keys, each one's units by one, and each
        part by at most its cap in its norm. Which keys are there is itself private: the caller must apply a threshold.
        """
        if limits.max_keys is None or limits.max_keys > MOST_KEYS:
            raise InvalidTask(f"keys that are not public need max_keys, an integer from 1 to {MOST_KEYS}.")
        key, known = self._key(unit, parts, by)
        return self._by_key(unit, parts, key, known, limits)

    def sums_by_bin(self, unit: Unit, part: Capped, bins: Bins) -> list[int]:
        """Capped sums by the bins of a column, one integer per bin.

        *Privacy:* one unit added or removed moves the vector by at most the part's cap in its norm. Rows without a
        finite value are in no bin.
        """
        self._check(unit, [part.quantity, bins.quantity])
        there = known(self._rows, str(bins.quantity.column))
        found = self._by_key(unit, [part], bins.expression(self._rows), there, Limits())
        return [found.get(index, (0, [0]))[1][0] for index in range(len(bins.edges) - 1)]

    def sums_by_side(self, unit: Unit, quantity: Quantity, low: int, high: int, cap: int) -> tuple[int, int]:
        """How far all values lie above ``low``, and below ``high``, each value clamped between them first.

        *Privacy:* one unit added or removed moves the pair by at most ``cap`` in L1 norm; a unit with more is scaled.
        """
        self._check(unit, [quantity])
        if isinstance(cap, bool) or not isinstance(cap, int) or not 1 <= cap <= SATURATION:
            raise InvalidTask(f"the cap on a unit's sides must be an integer from 1 to 2^50; got {cap!r}.")
        sides = Side(quantity, low, high, True), Side(quantity, low, high, False)
        above, below = self._numbers(sides_in_ball(self._rows, unit, sides, cap, self._engine.dialect))
        return above, below

    def sums_by_key_and_bin(
        self, unit: Unit, part: Capped, bins: Bins, by: str, keys: Sequence[Any]
    ) -> list[list[int]]:
        """Capped sums by public keys and, under each, by the bins of a column.

        *Privacy:* one unit added or removed moves the whole vector by at most the part's cap in its norm.
        """
        key, there = self._key(unit, [part], by)
        keys = self.require_keys(by, keys)
        self._check(unit, [bins.quantity])
        wanted = there & is_wanted(key, keys) & known(self._rows, str(bins.quantity.column))
        size = len(bins.edges) - 1
        place = position(key, keys) * whole(size) + bins.expression(self._rows)
        found = self._by_key(unit, [part], place, wanted, Limits())
        return [[found.get(i * size + j, (0, [0]))[1][0] for j in range(size)] for i in range(len(keys))]

    def sums_by_key_and_side(
        self, unit: Unit, quantity: Quantity, low: int, high: int, cap: int, by: str, keys: Sequence[Any]
    ) -> list[tuple[int, int]]:
        """``sums_by_side`` for each public key.

        *Privacy:* one unit added or removed moves all pairs together by at most ``cap`` in L1 norm.
        """
        key, there = self._key(unit, [Capped(quantity, cap)], by)
        keys = self.require_keys(by, keys)
        sides = Side(quantity, low, high, True), Side(quantity, low, high, False)
        wanted = there & is_wanted(key, keys)
        question = sides_by_key(self._rows, unit, sides, position(key, keys), wanted, cap, self._engine.dialect)
        found = {int(row[0]): int(row[2]) for row in self._run(question)}
        return [(found.get(2 * i, 0), found.get(2 * i + 1, 0)) for i in range(len(keys))]

    def keep_rows(
        self, unit: Unit, rows: int, secret: bytes | None = None, columns: Sequence[str] | None = None
    ) -> Table:
        """A table with at most ``rows`` rows of each unit, chosen by a digest keyed with a fresh secret.

        *Privacy:* what is kept of a unit depends on that unit's rows alone, so one unit added or removed adds or
        removes at most ``rows`` rows. Identical on every engine for integers, text, dates and decimals.
        """
        self._check(unit, ())
        sampling.check_limit(rows, "rows")
        secret = sampling.check_secret(secrets.token_bytes(32) if secret is None else secret)
        kept = list(self.columns) if columns is None else list(columns)
        self.require(*kept)
        if unit.column is None:
            return self._with(self._rows.select(*kept))
        if unit.column not in kept:
            kept.append(unit.column)
        return self._with(sampling.keep_rows(self._rows, unit.column, kept, rows, secret, self._engine.dialect))

    def batches(self, columns: Sequence[str], size: int = 65_536) -> Iterator[Any]:
        """Stream the rows of some columns as Arrow record batches of about ``size`` rows; in no promised order.

        No rows are one batch of none, of the same types.
        """
        self.require(*columns)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1 or not columns:
            raise InvalidTask("batches needs at least one column and a positive size.")
        question = self._rows.select(*columns)
        return self._engine.batches(self._sql(question), self._needed(question), size)

    def batches_by_unit(self, columns: Sequence[str], unit: Unit, size: int = 65_536) -> Iterator[Any]:
        """``batches`` with the rows of each unit together (a unit may span batches); rows of nobody are left out.

        The unit's column comes along. In which order units come, and rows within one, is not promised.
        """
        self._check(unit, ())
        self.require(*columns)
        question = folding.by_unit(self._rows, columns, unit)
        return self._engine.batches(self._sql(question), self._needed(question), size)

    def fold(
        self,
        columns: Sequence[str],
        step: folding.Step,
        start: Sequence[Any],
        size: int = 65_536,
        sizes_of: Unit | None = None,
    ) -> list[Any]:
        """``start`` plus the sum over Arrow batches of the arrays that ``step`` makes of each, integers exactly.

        With ``sizes_of`` a last column tells how many rows that row's unit has, and rows of nobody are left out.
        *Privacy:* moves with one row by what ``step`` makes of that row, if it is a sum of a function of each row; with
        sizes, with one unit by what it makes of that unit's rows. *Cost:* one pass; on Spark the steps run where the rows are.
        """
        self.require(*columns)
        if sizes_of is None:
            question = self._rows.select(*columns)
        else:
            self._check(sizes_of, ())
            question = folding.beside_sizes(self._rows, columns, sizes_of, self._engine.dialect)
        return self._engine.fold(self._sql(question), self._needed(question), size, step, start)

    def fingerprint(self, columns: Sequence[str], secret: bytes) -> str:
        """A keyed fingerprint of what some columns hold, whatever the order of the rows.

        *Privacy:* none: it is a function of the rows, to be compared where it is made and never released.
        """
        self.require(*columns)
        return sampling.sealed_fingerprint(
            self._numbers(sampling.fingerprint_sums(self._rows, columns, secret)), secret
        )

    def _with(self, rows: Any) -> Table:
        return Table(self._engine, self._base, rows, stored=self.stored, identity=self.identity)

    def _check(self, unit: Unit, quantities: Sequence[Quantity]) -> None:
        self.require_unit(unit)
        for quantity in quantities:
            if quantity.column is not None:
                self.require_numeric(quantity.column)

    def _key(self, unit: Unit, parts: Sequence[Capped], by: str) -> tuple[Any, Any]:
        self._check(unit, [part.quantity for part in parts])
        self.require_keys(by)
        return key_column(self._rows, by)

    def _by_key(
        self, unit: Unit, parts: Sequence[Capped], key: Any, wanted: Any, limits: Limits
    ) -> dict[Any, tuple[int, list[int]]]:
        answer = self._run(capped_by_key(self._rows, unit, parts, key, wanted, limits, self._engine.dialect))
        return {row[0]: (int(row[1]), [int(value) for value in row[2:]]) for row in answer}

    def _numbers(self, question: Any) -> list[int]:
        """Run a question that answers with one row of numbers; a sum over no rows at all is 0."""
        (row,) = self._run(question)
        return [0 if value is None else int(value) for value in row]

    def _run(self, question: Any) -> list[tuple[Any, ...]]:
        return self._engine.rows(self._sql(question), self._needed(question))

    def _sql(self, question: Any) -> str:
        import ibis

        return str(ibis.to_sql(question, dialect=self._engine.dialect.name))

    @property
    def _counted(self) -> str:
        """The column that is read where only rows are counted: one that can be read without fail, if there is one."""
        kinds = {name: kind_of(dtype) for name, dtype in self._base.schema().items()}
        return next((name for name, kind in kinds.items() if kind in GROUPABLE), str(self._base.columns[0]))

    def _needed(self, question: Any) -> list[str]:
        """The columns of the source that a question reads, or a few more: any that it names anywhere."""
        import ibis.expr.operations as ops

        used = {field.name for field in question.op().find(ops.Field)}
        return [name for name in self._base.columns if name in used] or [self._counted]
