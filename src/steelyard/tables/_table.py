"""The handle on private rows: a public schema and a few questions whose sensitivity is known in advance.

A table answers in integers only. For each question docs/proofs/tables.md states by how much the answer can move when
one unit is added, removed or replaced, and what the code must do for that to hold. A handle shows its schema and
nothing else; no row is read before a question is asked.
Law: a question is one total function of each unit's own rows, then a sum over units.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from steelyard.errors import InvalidTask, ViewRefused
from steelyard.lazy import lazy
from steelyard.privacy import Unit
from steelyard.tables import _folding as folding
from steelyard.tables import _sampling as sampling
from steelyard.tables import _totals as totals
from steelyard.tables import _views as views
from steelyard.tables._distinct import distinct
from steelyard.tables._engine import Engine, InPlace, integers_by_place
from steelyard.tables._identity import in_words
from steelyard.tables._joint import Joint, held, sides
from steelyard.tables._keyed import (
    SATURATION,
    Ball,
    Bins,
    Capped,
    Look,
    by_place,
    by_value,
    capped_pairs,
    capped_sums,
    key_column,
    known,
    norm_tails,
    somebody,
    whole,
)
from steelyard.tables._keys import KeyFrame, KeyList, key_frame
from steelyard.tables._kinds import GROUPABLE, MOST_KEYS, kind_of
from steelyard.tables._periods import period_condition, user_in_period
from steelyard.tables._sampling import Limits
from steelyard.tables._schema import Schema
from steelyard.tables._totals import Bounded, Quantity, RowInteger
from steelyard.tables._unit_blocks import ROWS, Convert, UnitBlocks
from steelyard.tables._views import PublicTable, View

_SHOWN = 20  # columns, of tables that are looked at
_REMEMBERED = 64  # questions of a table that are not written again
_FEW = 100  # keys of a question that is remembered
By = str | Sequence[str]


def names_of(by: By) -> list[str]:
    """The columns that hold the keys."""
    return [by] if isinstance(by, str) else list(by)


class Under(NamedTuple):
    """Rows ``(u, k…, q0, …)`` under the keys that are asked for, and the public tables that the question names."""

    rows: Any
    beside: Mapping[str, Any]


class Written(NamedTuple):
    """Who answers a question, its SQL, the columns of the source that it reads, and the public tables that it names."""

    engine: Engine | InPlace
    sql: str
    columns: Sequence[str]
    beside: Mapping[str, Any]


class Table:
    """Private rows behind a few questions; make one with ``read``."""

    def __init__(
        self,
        engine: Engine,
        base: Any,
        rows: Any = None,
        *,
        stored: bool = True,
        identity: str = "",
        view: View | None = None,
        view_text: str = "",
    ) -> None:
        self._engine = engine
        server = engine.server
        # all questions within it see one state of the rows, where a server can promise that; of files nobody can
        self.snapshot: Callable[[], AbstractContextManager[None]] = nullcontext if server is None else server.snapshot
        # where rows lie with workers of a server: refuses, before a charge, those that cannot run steelyard
        self.require_workers: Callable[[], None] | None = getattr(engine, "require_workers", None)
        self.stored = stored  # whether these are rows as they are stored; releases say of a query "as given"
        self._identity = identity
        self.view_text = view_text  # in full, where this is a view: its identity may be cut short
        self._base = base
        self._rows = base if rows is None else rows
        self.view = view  # what was checked of it, where this is a view
        self._awaiting: Callable[[str], Table] | None = None  # what becomes of this once the unit is known
        self._during: Unit | None = None  # whose period all rows of this are
        self._asked: dict[tuple[tuple[Any, ...], str], Written] = {}  # questions that were written before

    def __repr__(self) -> str:
        told = [f"{name}: {kind}" for name, kind in list(self.columns.items())[:_SHOWN]]
        more = len(self.columns) - len(told)
        shown = ", ".join([*told, *([f"and {more} more"] if more else [])])
        if self._awaiting is not None:
            return f"Table(waiting for the unit, of {shown}) on {self.engine}"
        return f"Table({shown}) on {self.engine}"

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        kinds = list(self.columns.items())
        more = [f"… and {len(kinds) - _SHOWN} more columns."] if len(kinds) > _SHOWN else []
        words = "Rows are private: they are read when a release was paid for." + (
            "" if self.stored else " A query as given: nobody checked that it keeps people apart."
        )
        return fragment(f"Table on {self.engine}", Tabular(("column", "kind"), kinds[:_SHOWN]), *more, words)

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
        """The same rows under another identity; a step that waits for the unit waits on."""
        made, awaiting = self._same(self._rows, identity, self.view), self._awaiting
        if awaiting is not None:
            made._awaiting = lambda column: awaiting(column).called(identity)
        return made

    @property
    def engine(self) -> str:
        """Who answers: ``"duckdb"``, ``"pyspark"``, or ``"postgres"`` for what the server adds up in place."""
        return (self._engine.server or self._engine).dialect.name

    def place_of(self, work: Callable[[Table], object]) -> str:
        """Where some work on this table would be done, in words; empty where rows are read as they lie anyway. Nothing is read.

        It is told by the first question that the work asks.
        """
        if self._engine.server is None:
            return ""
        from steelyard.tables._in_place import Probe, probed

        probe = self._with(self._rows)
        probe._engine, probe._awaiting = cast("Engine", Probe(self._engine)), self._awaiting
        found = probed(lambda: work(probe))
        if found is None:
            return ""
        return (
            f"added up by {self.engine}, in place" if found else f"fetched from {self.engine} and read on this machine"
        )

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
        """Refuse, from the schema alone, a unit that the rows cannot name, or that a view does not keep apart."""
        self.schema.require_unit(unit)
        self.require_apart(unit)

    def require_apart(self, unit: Unit) -> None:
        """Refuse a unit that a view is not known to keep apart; private rows are not looked at."""
        if self.view is not None:
            self.view.require(unit)

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

    def capped_totals(self, unit: Unit, parts: Sequence[Bounded | Joint]) -> list[int]:
        """Several capped sums in one pass over the rows, in the order asked; of a ``Joint`` one for each of its quantities.

        *Privacy:* one unit added or removed moves the sums of a ``Joint`` by at most its cap in its norm; a unit with more is scaled.
        """
        self._check(unit, [each for part in parts for each in part.quantities])
        if not parts:
            return []
        return self._row(self._written(("totals", unit, *parts), lambda: Under(self._capped(unit, parts), {})))

    def _capped(self, unit: Unit, parts: Sequence[Bounded | Joint]) -> Any:
        plain = [part for part in parts if isinstance(part, Bounded)]
        if len(plain) == len(parts):
            return totals.capped(self._rows, unit, plain, self._engine.dialect)
        return held(self._rows, unit, parts, self._engine.dialect)

    def totals_histogram(
        self, unit: Unit, quantity: Quantity, edges: Sequence[int], *, sizes: bool = False
    ) -> list[int]:
        """How many units' totals lie in each bin [edges[i], edges[i + 1]); totals outside go to the end bins.

        With ``sizes`` it is the totals' absolute values that are counted. *Privacy:* each unit lies in exactly one bin, so one unit
        added or removed moves one bin by one.
        """
        self._check(unit, [quantity])
        edges = totals.check_edges(edges)

        def ask() -> Under:
            return Under(totals.tails(self._rows, unit, quantity, edges, self._engine.dialect, sizes=sizes), {})

        return _between(self._row(self._written(("histogram", unit, quantity, tuple(edges), sizes), ask)))

    def norms_histogram(
        self, unit: Unit, part: Capped, edges: Sequence[int], by: By, keys: Sequence[Any] | None, limits: Limits
    ) -> list[int]:
        """How many units' vectors of totals by key have a norm in each bin; of all keys where ``keys`` is None.

        Rows of other keys are dropped, and ``limits`` applied, before the norm is taken; ``part`` says of what and in which norm.
        *Privacy:* each unit lies in at most one bin, so one unit added or removed moves one bin by one.
        """
        (found,) = self.norms_histograms(unit, [(part, edges)], by, keys, limits)
        return found

    def norms_histograms(
        self, unit: Unit, looks: Sequence[Look], by: By, keys: Sequence[Any] | None, limits: Limits
    ) -> list[list[int]]:
        """The same for several totals in one pass, one histogram for each. *Privacy:* each by itself, as above."""
        return self._norms(unit, looks, self._under(unit, [part for part, _ in looks], by, keys), limits)

    def norms_by_bin(
        self,
        unit: Unit,
        part: Capped,
        edges: Sequence[int],
        bins: Bins,
        by: By | None = None,
        keys: Sequence[Any] = (),
    ) -> list[int]:
        """The same for vectors of totals by the bins of a column, or by public keys and bins; with one bin, for rows with a value.

        *Privacy:* each unit lies in at most one bin of norms, so one unit added or removed moves one count by one.
        """
        under = self._under(unit, [part], by, keys, bins)
        return self._norms(unit, [(part, edges)], under, Limits())[0]

    def sums_by_key(
        self, unit: Unit, parts: Sequence[Ball], by: By, keys: Sequence[Any], limits: Limits | None = None
    ) -> list[list[int]]:
        """Capped sums by public keys in one pass: for each part, one integer per key in the order given, absent keys 0.

        The last key of ``KeyList.with_others`` stands for all rows that have none of the keys.

        A ``Joint`` has as many lists as quantities. *Privacy:* one unit added or removed moves each part by at most its cap in its
        norm. Rows with other keys are dropped before the norm is taken.
        """
        count, hard = sum(len(part.quantities) for part in parts), limits or Limits()
        if not keys or not parts:
            self._under(unit, parts, by, keys)
            return [[0] * len(keys) for _ in range(count)]

        def ask() -> Under:
            under = self._under(unit, parts, by, keys)
            return Under(capped_sums(under.rows, unit, parts, hard, self._engine.dialect), under.beside)

        again = not (hard.max_keys or hard.rows_per_key) and _few_words(keys)
        about = ("keys", unit, tuple(parts), tuple(names_of(by)), tuple(keys)) if again else None
        asked = self._written(about, ask)
        return integers_by_place(asked.engine.arrow(*asked[1:]), len(keys), count)

    def found_sums_by_key(
        self, unit: Unit, parts: Sequence[Capped], by: By, limits: Limits, least: int = 1
    ) -> dict[Any, tuple[int, list[int]]]:
        """Capped sums by whatever keys the rows hold: key -> (units under it, one integer per part).

        Keys of fewer than ``least`` units stay in the engine.
        *Privacy:* one unit added or removed moves at most ``limits.max_keys`` keys, each one's units by one, and each
        part by at most its cap in its norm. Which keys are there is itself private: the caller must apply a threshold.
        """
        if limits.max_keys is None or limits.max_keys > MOST_KEYS:
            raise InvalidTask(f"keys that are not public need max_keys, an integer from 1 to {MOST_KEYS}.")
        under, width = self._under(unit, parts, by, None), len(names_of(by))
        counted = capped_pairs(under.rows, unit, parts, limits, self._engine.dialect)
        answer = self._run(counted.filter(counted.n >= whole(least)) if least > 1 else counted)
        return {
            row[0] if width == 1 else row[:width]: (int(row[width]), [int(value) for value in row[width + 1 :]])
            for row in answer
        }

    def sums_by_bin(self, unit: Unit, part: Capped, bins: Bins) -> list[int]:
        """Capped sums by the bins of a column, one integer per bin.

        *Privacy:* one unit added or removed moves the vector by at most the part's cap in its norm. Rows without a
        finite value are in no bin.
        """
        under = self._under(unit, [part], None, None, bins)
        question = capped_sums(under.rows, unit, [part], Limits(), self._engine.dialect)
        return self._placed(question, len(bins.edges) - 1, 1, under.beside)[0]

    def sums_by_side(self, unit: Unit, quantity: Quantity, low: int, high: int, cap: int) -> tuple[int, int]:
        """How far all values lie above ``low``, and below ``high``, each value clamped between them first.

        *Privacy:* one unit added or removed moves the pair by at most ``cap`` in L1 norm; a unit with more is scaled.
        """
        above, below = self.capped_totals(unit, [sides(quantity, low, high, cap)])
        return above, below

    def sums_by_key_and_bin(self, unit: Unit, part: Capped, bins: Bins, by: By, keys: Sequence[Any]) -> list[list[int]]:
        """Capped sums by public keys and, under each, by the bins of a column.

        *Privacy:* one unit added or removed moves the whole vector by at most the part's cap in its norm.
        """
        under, size = self._under(unit, [part], by, keys, bins), len(bins.edges) - 1
        question = capped_sums(under.rows, unit, [part], Limits(), self._engine.dialect)
        found = self._placed(question, len(keys) * size, 1, under.beside)[0]
        return [found[start : start + size] for start in range(0, len(found), size)]

    def distinct_values(
        self, unit: Unit, column: str, caps: Sequence[int], by: By | None = None, keys: Sequence[Any] = (),
        limits: Limits | None = None,
    ) -> list[list[int]]:  # fmt: skip
        """How many different values a column has, for each cap one integer per key, or one; a unit counts for at most ``cap`` of them.

        *Privacy:* one unit added adds at most ``cap`` to the counts of all keys together, and takes nothing from any. Which values of
        a unit count is decided by a digest of its own, keyed with the secret of ``limits``. Rows without a value count for none.
        """
        for cap in caps:
            sampling.check_limit(cap, "the cap on a unit's values")
        self.require_keys(column)
        under = self._under(unit, [], by, keys, value=column)
        question = distinct(under.rows, unit, caps, limits or Limits())
        return self._placed(question, 1 if by is None else len(keys), len(caps), under.beside)

    def in_period(self, unit: Unit) -> Table:
        """The rows of the period that a unit names; those without a time, or with an infinite one, belong to no period.

        Of several periods, with a column that names a user in one of them: the unit there (``Unit.inside``).
        *Privacy:* whether a row is in is told by the row alone. A view must have made each row from one row and passed user and time through. *Cost:* nothing is read.
        """
        if self._during is not None and self._during.inside == unit.inside:
            return self
        if self._awaiting is not None:
            raise ViewRefused(f"per_unit and join_units look at rows of several periods, and the account hides {unit}.")
        if unit.spans and unit.kind == "users":
            raise ViewRefused(
                "a session over several periods is of one table: make the view first, and a session of it."
            )
        clocked = self._engine.dialect.clocked
        found = views.where(self, period_condition(View.of(self), self._rows.schema(), unit, clocked=clocked))
        if unit.spans:
            found = found._by_period(unit)
        found._during = unit
        return found

    def _by_period(self, unit: Unit) -> Table:
        """The rows with a column that tells whose they are in which period; it is a unit, since each row is made from one row of its user."""
        column, view = str(unit.inside.column), View.of(self)
        found = views.derive(self, {column: user_in_period(self._rows.schema(), unit)})
        assert found.view is not None
        return found._with(found._rows, found.view.finer(column, str(unit.column), view.relation))

    def where(self, condition: str) -> Table:
        """The rows for which a condition of the row itself holds, such as ``"quantity > 0 and country <> 'FR'"``.

        *Privacy:* checked; what reads other rows is refused (docs/tables.md). *Cost:* nothing is read.
        """
        return self._then(lambda table: views.where(table, condition))

    def derive(self, **columns: str) -> Table:
        """The table with more columns, each worked out from its own row: ``derive(revenue="quantity * price")``.

        *Privacy:* checked. No value is an error: what overflows, is divided by zero or cannot be cast is null.
        """
        return self._then(lambda table: views.derive(table, columns))

    def join(self, public: PublicTable, on: str | Sequence[str], *, left: bool = False) -> Table:
        """The columns of a public table beside its own; ``left`` keeps rows without a match.

        *Privacy:* each row keeps its unit. Several matches make several rows, which the cap bounds; with ``rows()`` that is refused.
        """
        if not isinstance(public, PublicTable):
            raise InvalidTask(
                "join takes a public table: sy.public(...). For private ones: join_units(other, on=the unit)."
            )
        return self._then(lambda table: views.join(table, public, on, left=left))

    def join_units(self, other: Table, on: str | None = None, *, left: bool = False) -> Table:
        """The rows of another private table beside its own, within each unit; ``on`` is the unit's column in both.

        Without ``on`` it is the unit of the account that the table meets.
        *Privacy:* a row is made from rows of one unit. An account of another unit refuses the table.
        """
        return self._by_unit(on, lambda table, unit: views.join(table, other, unit, left=left))

    def per_unit(self, unit: str | None = None, /, **columns: str) -> Table:
        """One row for each unit, with aggregates of its rows: ``per_unit(days="count(distinct day)")``.

        Without ``unit`` it is the unit of the account that the table meets.
        *Privacy:* a row is made from rows of one unit. An account of another unit refuses the table.
        """
        return self._by_unit(unit, lambda table, unit: views.per_unit(table, unit, columns))

    def for_unit(self, unit: Unit) -> Table:
        """The table for an account's unit: steps that wait for it are taken now."""
        if self._awaiting is None:
            return self
        if unit.kind != "users" or unit.column is None:
            raise ViewRefused(f"per_unit and join_units need an account that hides users, not {unit}.")
        return self._awaiting(unit.column)

    def _then(self, step: Callable[[Table], Table]) -> Table:
        """The next step of a view, taken at once unless an earlier one waits for the unit."""
        awaiting = self._awaiting
        return step(self) if awaiting is None else self._waiting(lambda unit: step(awaiting(unit)))

    def _by_unit(self, unit: str | None, step: Callable[[Table, str], Table]) -> Table:
        if unit is not None:
            return self._then(lambda table: step(table, unit))
        awaiting = self._awaiting
        return self._waiting(lambda column: step(self if awaiting is None else awaiting(column), column))

    def _waiting(self, make: Callable[[str], Table]) -> Table:
        made = self._with(self._rows)
        made._awaiting = make
        return made

    def keep_rows(
        self, unit: Unit, rows: int, secret: bytes | None = None, columns: Sequence[str] | None = None
    ) -> Table:
        """A table with at most ``rows`` rows of each unit, chosen by a digest keyed with a fresh secret.

        *Privacy:* what is kept of a unit depends on that unit's rows alone, so one unit added or removed adds or
        removes at most ``rows`` rows; an account of another unit refuses the table. Identical on every engine for integers, text, dates and decimals.
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
        found = sampling.keep_rows(self._rows, unit.column, kept, rows, secret, self._engine.dialect)
        return self._with(found, View.of(self).sampled(found, unit.column))

    def batches(self, columns: Sequence[str], size: int = 65_536) -> Iterator[Any]:
        """Stream the rows of some columns as Arrow record batches of about ``size`` rows; in no promised order.

        No rows are one batch of none, of the same types.
        """
        self.require(*columns)
        if isinstance(size, bool) or not isinstance(size, int) or size < 1 or not columns:
            raise InvalidTask("batches needs at least one column and a positive size.")
        question = self._rows.select(*columns)
        asked = self._sql(question), self._needed(question)
        held = self._engine.held_batches(columns, size) if self._rows is self._base else None
        return self._engine.batches(*asked, size) if held is None else held

    def batches_by_unit(self, columns: Sequence[str], unit: Unit, size: int = 65_536) -> Iterator[Any]:
        """``batches`` with the rows of each unit together (a unit may span batches); rows of nobody are left out.

        The unit's column comes along. In which order units come, and rows within one, is not promised.
        """
        self._check(unit, ())
        self.require(*columns)
        question = folding.in_order(folding.by_unit(self._rows, columns, unit), unit)
        return self._engine.batches(self._sql(question), self._needed(question), size)

    def blocks_by_unit(
        self, columns: Sequence[str], unit: Unit, convert: Convert, width: int, *, sized: bool = False
    ) -> UnitBlocks:
        """The rows of somebody as ``width`` whole numbers each, kept unit by unit for many passes, in memory of a fixed size.

        ``convert`` makes whole numbers of 32 bits of an Arrow batch of the columns, row by row, and must never raise on their
        content; with ``sized`` the batch has one column more, of how many rows that row's unit has. *Cost:* one pass and one
        sort, by an engine that may put both on disk; on Spark the rows stay with its workers.
        """
        self._check(unit, ())
        self.require(*columns)
        if sized:
            question = folding.beside_sizes(self._rows, columns, unit, self._engine.dialect, named=True)
        else:
            question = folding.by_unit(self._rows, columns, unit)
        whose = folding.UNIT if sized else unit.column
        return self._engine.unit_blocks(self._sql(question), self._needed(question), whose, convert, width)

    def bound_blocks(
        self, columns: Sequence[str], convert: Convert, width: int, secret: bytes
    ) -> tuple[UnitBlocks, str]:
        """``blocks_by_unit`` where a row is a unit, and the ``fingerprint`` of the very rows that are kept; only of rows on this machine.

        *Privacy:* of the fingerprint none, as there. *Cost:* one pass.
        """
        self._check(Unit("rows"), ())
        self.require(*columns)
        digest = sampling.row_digest(self._rows, columns, secret)
        chosen = {f"steelyard_{i}": self._rows[name] for i, name in enumerate(columns)}
        question = self._rows.select(**chosen, steelyard_digest=digest)
        asked = self._sql(question), self._needed(question)
        blocks = self._engine.unit_blocks(*asked, None, convert, width, sampling.added_digests)
        numbers = sampling.fingerprint_numbers(*(blocks.aside or sampling.NO_ROWS))
        return blocks, sampling.sealed_fingerprint(numbers, secret)

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
        if not self.local:
            numbers = self._numbers(sampling.fingerprint_sums(self._rows, columns, secret))
            return sampling.sealed_fingerprint(numbers, secret)
        question = self._rows.select(steelyard_digest=sampling.row_digest(self._rows, columns, secret))
        asked = self._sql(question), self._needed(question)
        found = self._engine.fold(*asked, ROWS, sampling.added_digests, sampling.NO_ROWS)
        return sampling.sealed_fingerprint(sampling.fingerprint_numbers(*found), secret)

    def _with(self, rows: Any, view: View | None = None) -> Table:
        shown = self.view if view is None else view
        return self._same(rows, self.identity, shown)

    def _same(self, rows: Any, identity: str, view: View | None) -> Table:
        engine, stored, text = self._engine, self.stored, self.view_text
        return Table(engine, self._base, rows, stored=stored, identity=identity, view=view, view_text=text)

    def _check(self, unit: Unit, quantities: Sequence[RowInteger]) -> None:
        self.require_unit(unit)
        for quantity in quantities:
            if quantity.column is not None:
                self.require_numeric(quantity.column)

    def _frame(self, by: By, keys: Sequence[Any]) -> KeyFrame:
        """Public keys as a table in the types of the columns; refuses, from the schema alone, what does not fit them."""
        names = names_of(by)
        columns: Sequence[Sequence[Any]]
        if isinstance(keys, KeyList) and keys.found:
            columns = keys.columns(len(names))
        else:
            columns = self.schema.fit_keys(names, keys)
        kinds = [key_column(self._rows, name).type() for name in names]
        short = [kind.is_floating() and kind.nbytes < 8 for kind in (self._rows[name].type() for name in names)]
        return key_frame(self._engine.beside(), kinds, columns, short)

    def _under(
        self, unit: Unit, parts: Sequence[Ball], by: By | None, keys: Sequence[Any] | None, bins: Bins | None = None,
        value: str | None = None,
    ) -> Under:  # fmt: skip
        """The rows that have a unit and a place: a public key (of all keys where ``keys`` is None), a bin, or both."""
        counted = [each for part in parts for each in part.quantities]
        self._check(unit, counted)
        columns, where = somebody(self._rows, unit)
        columns |= {f"q{i}": each.expression(self._rows) for i, each in enumerate(counted)}
        if bins is not None:
            self.schema.require_ordered(str(bins.quantity.column))
            columns["b"] = bins.expression(self._rows)
            where = [*where, known(self._rows, str(bins.quantity.column))]
        if value is not None:
            columns["v"] = key_column(self._rows, value)
            where = [*where, columns["v"].notnull()]
        if by is None:
            rows, frame = self._rows.filter(*where).select(**columns, k=whole(0)), None
        elif keys is None:
            self._frame(by, ())
            return Under(by_value(self._rows, names_of(by), columns, where), {})
        else:
            listed = keys.listed if isinstance(keys, KeyList) else None
            frame = self._frame(by, keys if listed is None else listed)
            others = None if listed is None else len(listed)
            rows = by_place(self._rows, names_of(by), frame, columns, where, others)
        if bins is not None:
            rows = rows.mutate(k=rows.k * whole(len(bins.edges) - 1) + rows.b).drop("b")
        return Under(rows, {} if frame is None else {frame.name: frame.content})

    def _norms(self, unit: Unit, looks: Sequence[Look], under: Under, limits: Limits) -> list[list[int]]:
        looks = [(part, totals.check_edges(edges)) for part, edges in looks]
        if any(edges[-2] > SATURATION for _, edges in looks):
            raise InvalidTask("edges of norms must lie within 2^50.")
        if not looks:
            return []
        question = norm_tails(under.rows, unit, looks, limits, self._engine.dialect)
        units, *counts = self._numbers(question, under.beside)
        left = iter(counts)
        return [_between([units, *islice(left, len(edges) - 2)]) for _, edges in looks]

    def _written(self, about: tuple[Any, ...] | None, ask: Callable[[], Under]) -> Written:
        """A question as it goes to the engine; ``about`` is all it depends on beside the table, where it may be asked again: then it is made once.

        It is a function of public facts alone. Of what Python takes for equal (0.0 and -0.0, 1 and True) the words tell apart.
        """
        if (
            about is None or self._engine.dialect is not totals.DUCKDB
        ):  # elsewhere a table beside has another name each time
            return self._asked_of(ask())
        known = (about, repr(about))
        found = self._asked.get(known)
        if found is None:
            if len(self._asked) >= _REMEMBERED:
                self._asked.clear()
            found = self._asked[known] = self._asked_of(ask())
        return found

    def _asked_of(self, under: Under) -> Written:
        return Written(*self._answering(under.rows, under.beside), self._needed(under.rows), under.beside)

    def _row(self, asked: Written) -> list[int]:
        """Ask for one row of numbers; a sum over no rows at all is 0."""
        (row,) = asked.engine.rows(asked.sql, asked.columns)
        return [0 if value is None else int(value) for value in row]

    def _placed(self, question: Any, size: int, parts: int, beside: Mapping[str, Any]) -> list[list[int]]:
        """Run a question that answers ``k``, ``s0``, …: for each part one integer per place, 0 where there is no row."""
        engine, sql = self._answering(question, beside)
        return integers_by_place(engine.arrow(sql, self._needed(question), beside), size, parts)

    def _numbers(self, question: Any, beside: Mapping[str, Any] = MappingProxyType({})) -> list[int]:
        """Run a question that answers with one row of numbers; a sum over no rows at all is 0."""
        (row,) = self._run(question, beside)
        return [0 if value is None else int(value) for value in row]

    def _run(self, question: Any, beside: Mapping[str, Any] = MappingProxyType({})) -> list[tuple[Any, ...]]:
        engine, sql = self._answering(question, beside)
        if beside:
            answer = engine.arrow(sql, self._needed(question), beside)
            return list(zip(*(column.to_pylist() for column in answer.columns), strict=True))
        return engine.rows(sql, self._needed(question))

    def _answering(self, question: Any, beside: Mapping[str, Any]) -> tuple[Engine | InPlace, str]:
        """Who answers with few numbers, and in what words: the server that has the rows, where it can, else the engine that reads them."""
        server, columns = self._engine.server, self._needed(question)
        if server is not None and self._awaiting is None and server.takes(question, columns, self._rows):
            sql = self._sql(question, server.dialect)
            if server.parses(sql, columns, beside):
                return server, sql
        return self._engine, self._sql(question)

    def _sql(self, question: Any, dialect: totals.Dialect | None = None) -> str:
        if self._awaiting is not None:
            raise InvalidTask(
                "a step of this table waits for the unit: ask through a Session, or name it: per_unit('user', ...)."
            )
        import ibis.expr.operations as ops

        asked = question.op()
        dialect = self._engine.dialect if dialect is None else dialect
        return _compiled(asked, dialect, tuple(repr(each.value) for each in asked.find(ops.Literal)))

    @property
    def _counted(self) -> str:
        """The column that is read where only rows are counted: one that can be read without fail, if there is one."""
        kinds = {name: kind_of(dtype) for name, dtype in self._base.schema().items()}
        return next((name for name, kind in kinds.items() if kind in GROUPABLE), str(self._base.columns[0]))

    def _needed(self, question: Any) -> list[str]:
        """The columns of the source that a question reads, or a few more: any usable one that it names anywhere.

        One that cannot be used is read only where it is asked for itself, not for a column that a view calls by its name.
        """
        import ibis.expr.operations as ops

        fields = question.op().find(ops.Field)
        used, own = {field.name for field in fields}, {field.name for field in fields if self._is_own(field.rel)}
        usable = {name for name, dtype in self._base.schema().items() if kind_of(dtype) in GROUPABLE}
        return [name for name in self._base.columns if name in own or name in used & usable] or [self._counted]

    def _is_own(self, rows: Any) -> bool:
        """Whether rows have the columns of the source under their own names."""
        import ibis.expr.operations as ops

        while not isinstance(rows, ops.Project | ops.Aggregate) and hasattr(rows, "parent"):
            rows = rows.parent
        return bool(rows == self._base.op())


@lru_cache(maxsize=128)
def _compiled(question: Any, dialect: totals.Dialect, literals: tuple[str, ...]) -> str:
    """A question as SQL, written once: for a small table that takes longer than the answer. It is a function of public facts alone.

    Ibis takes questions for equal whose constants are, and 0.0 equals -0.0: ``literals`` tells such apart.
    """
    return dialect.written(question.to_expr())


def _few_words(keys: Sequence[Any]) -> bool:
    """Whether keys are so few and plain that they may be remembered with a question."""
    plain = not (isinstance(keys, KeyList) and (keys.found or keys.listed is not None))
    return plain and len(keys) <= _FEW and all(type(key) in (str, int) for key in keys)


def _between(counts: Sequence[int]) -> list[int]:
    """From how many lie at or above each edge to how many lie between each two."""
    return [left - right for left, right in zip(counts, [*counts[1:], 0], strict=True)]
