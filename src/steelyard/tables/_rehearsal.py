"""A rehearsal: how often a plan would read the rows, found by running it on no rows at all.

A plan is run with test noise over a table that has the same columns and no row, on an engine that counts. What is counted follows from
the plan and the public schema, since nothing else is there; that it is what happens over rows is tested for every task.
Law: no row is read and nothing is spent; what a rehearsal gives beside its counts is thrown away.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from steelyard.privacy import Unit
from steelyard.tables._engine import Engine
from steelyard.tables._folding import Step
from steelyard.tables._keyed import Capped
from steelyard.tables._sampling import Limits
from steelyard.tables._schema import Schema
from steelyard.tables._table import By, Table, names_of
from steelyard.tables._unit_blocks import Convert, Made, Pass, UnitBlocks


@dataclass
class Work:
    """How often rows are read: ``questions`` of the source, ``kept`` sets of rows laid aside, ``passes`` over those.

    ``solver`` says that rows which do not fit in memory, or lie on a cluster, are kept and passed over once for each step of a solver,
    and how many steps it takes is not known before.

    >>> str(Work(2)), str(Work(0, 1, 31))
    ('2 engine jobs, each reads the rows', 'reads the rows once and keeps what it needs, then 31 passes over that')
    """

    questions: int = 0
    kept: int = 0
    passes: int = 0
    solver: bool = False

    @property
    def jobs(self) -> int:
        """Statements that DuckDB is given, for rows that fit in memory: passes over kept rows are made here, block by block."""
        return self.questions + self.kept

    @property
    def cluster_jobs(self) -> int | None:
        """Actions that Spark is given, where that is known: rows are kept in the first pass over them."""
        return None if self.solver else self.questions + self.passes

    def __str__(self) -> str:
        asked = f"{self.questions} engine jobs, each reads the rows"
        asked = "1 engine job, which reads the rows" if self.questions == 1 else asked
        often = "once" if self.kept == 1 else f"{self.kept} times"
        held = f"reads the rows {often} and keeps what it needs, then {self.passes} passes over that"
        more = "many rows are kept, and passed over once for each step of a solver"
        told = [text for text, said in ((asked, self.questions), (held, self.kept), (more, self.solver)) if said]
        return "; ".join(told) or "reads no rows"

    def to_json(self) -> dict[str, int | bool | None]:
        """The same for a program."""
        return {**vars(self), "jobs": self.jobs, "cluster_jobs": self.cluster_jobs}


def rehearsed(run: Callable[[Any], object], schema: Schema) -> Work:
    """What a run over a table of this schema asks of its engine; spends nothing, and there is no row to read."""
    near, far = (_counted(run, schema, local) for local in (True, False))
    return near if near == far else replace(near, solver=True)


def _counted(run: Callable[[Any], object], schema: Schema, local: bool) -> Work:
    import pyarrow as pa

    from steelyard.tables._sources import read

    columns = {name: _KINDS.get(kind, ("null", None)) for name, kind in schema.columns.items()}
    empty = pa.table({name: pa.array([], _arrow(text)) for name, (text, _) in columns.items()})
    table, work = read(empty, name="rehearsal"), Work()
    table._engine = _RehearsedEngine(table._engine, work, local)
    table.__class__ = _Rehearsing
    run(table)
    return work


_KINDS: dict[str, tuple[str, Any]] = {
    "string": ("string", "a"), "integer": ("int64", 0), "float": ("float64", 0.0), "decimal": ("int64", 0), "boolean": ("bool_", False),
    "date": ("date32", datetime.date(2000, 1, 1)), "timestamp": ("timestamp", datetime.datetime(2000, 1, 1)),
    "uuid": ("string", "a"), "binary": ("binary", b""),
}  # fmt: skip
"""For each kind of column a type of Arrow's, and a key that might be found."""


def _arrow(text: str) -> Any:
    import pyarrow as pa

    return pa.timestamp("us") if text == "timestamp" else getattr(pa, text)()


class _Rehearsing(Table):
    """A table without rows, which has as many as are public and in which some key is found wherever keys are looked for."""

    def count_units(self, unit: Unit) -> int:
        """The public number, where there is one."""
        return super().count_units(unit) if unit.n is None else max(unit.n, super().count_units(unit))

    def found_sums_by_key(
        self, unit: Unit, parts: Sequence[Capped], by: By, limits: Limits, least: int = 1
    ) -> dict[Any, tuple[int, list[int]]]:
        """One key, of more units than any noise hides."""
        super().found_sums_by_key(unit, parts, by, limits, least)
        key = tuple(_KINDS[self.columns[name]][1] for name in names_of(by))
        return {key[0] if len(key) == 1 else key: (1 << 50, [0 for part in parts for _ in part.quantities])}


class _RehearsedEngine:
    """An engine that counts what it is asked; one that is not ``local`` is asked as if rows lay elsewhere, or were too many for memory."""

    def __init__(self, engine: Engine, work: Work, local: bool) -> None:
        self._engine, self._work, self._local = engine, work, local
        self.dialect = replace(engine.dialect, local=local)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def showing(self, more: Mapping[str, Callable[[], Any]]) -> _RehearsedEngine:
        return _RehearsedEngine(self._engine.showing(more), self._work, self._local)

    def rows(self, sql: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        self._work.questions += 1
        return self._engine.rows(sql, columns)

    def arrow(self, sql: str, columns: Sequence[str], beside: Mapping[str, Any]) -> Any:
        self._work.questions += 1
        return self._engine.arrow(sql, columns, beside)

    def held_batches(self, columns: Sequence[str], size: int) -> None:
        """None: the rows of the table itself may lie in files, and reading those that lie in memory is reading too."""

    def batches(self, sql: str, columns: Sequence[str], size: int) -> Iterator[Any]:
        self._work.questions += 1
        return self._engine.batches(sql, columns, size)

    def fold(self, sql: str, columns: Sequence[str], size: int, step: Step, start: Sequence[Any]) -> list[Any]:
        self._work.questions += 1
        return self._engine.fold(sql, columns, size, step, start)

    def unit_blocks(
        self,
        sql: str,
        columns: Sequence[str],
        whose: str | None,
        convert: Convert,
        width: int,
        aside: Step | None = None,
    ) -> UnitBlocks:
        self._work.kept += 1
        return _RehearsedBlocks(self._engine.unit_blocks(sql, columns, whose, convert, width, aside), self._work)


class _RehearsedBlocks:
    """Blocks that count their passes, and are never in memory, where nobody would see them."""

    def __init__(self, blocks: UnitBlocks, work: Work) -> None:
        self._blocks, self._work, self.aside = blocks, work, blocks.aside

    def mapped(self, made: Made, width: int) -> UnitBlocks:
        return _RehearsedBlocks(self._blocks.mapped(made, width), self._work)

    def in_memory(self) -> None:
        return None

    def fold(self, step: Pass, start: Sequence[Any]) -> list[Any]:
        self._work.passes += 1
        return self._blocks.fold(step, start)
