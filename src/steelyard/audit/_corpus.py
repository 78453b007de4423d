"""Tables that hurt: neighbours built from NaN, null, infinities, huge, tiny and odd values, in many orders.

A ``Pool`` says what one column may hold. A corpus is a few base tables and, for each, neighbours that differ in one
unit (a user's rows, one row, or one label, as the account's unit says) plus the same rows in other orders and chunks,
which must not be told apart at all. Everything is made from a seed, so a finding can be repeated.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any

from steelyard.privacy import Neighbours, Unit

Row = dict[str, Any]
FLOATS: tuple[float | None, ...] = (
    float("nan"), None, float("inf"), float("-inf"), -0.0, 5e-324, -5e-324, 2.2e-308, 2.0**53, -(2.0**53), 2.0**53 + 2,
    2.0**62, 1.7976931348623157e308, -1.7976931348623157e308, 0.1, 0.5, 1.0, -1.0, 3.0, 1e6, -1e6,
)  # fmt: skip
INTEGERS: tuple[int | None, ...] = (None, 0, 1, -1, 2, 7, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63))
DECIMALS = tuple(None if v is None else Decimal(v) for v in (None, "0.0001", "-1.5", "9" * 14 + ".9999", "1", "-0"))
PRICES = (None, "0.00", "0.01", "0.25", "1.50", "-1.50", "9" * 18 + ".99", "-" + "9" * 18 + ".99")
DAYS: tuple[int | None, ...] = (None, 0, 18_295, 2_932_896, 2_932_897, -719_162, -719_163, 2**31 - 1, -(2**31))
TORN: tuple[bytes | None, ...] = (
    None, b"", b"a", b"A", b"b\xc3", b"\xff", b"a\x00b", b"\xed\xa0\x80", b"z" * 5000 + b"\xf0",
)  # fmt: skip
TEXTS: tuple[str | None, ...] = (
    "", " ", "ann", "Ann", "zo\u00eb", "zoe\u0308", "\u202egnp", "NULL", "nan", "x" * 5000, "🧍",
)  # fmt: skip


@dataclass(frozen=True)
class Pool:
    """What a column may hold, and its Arrow type."""

    arrow: str
    values: tuple[Any, ...]


def floats(*more: float) -> Pool:
    """Hostile floating-point numbers, and a few of your own."""
    return Pool("float64", (*more, *FLOATS))


def integers(*more: int) -> Pool:
    """Hostile 64-bit integers."""
    return Pool("int64", (*more, *INTEGERS))


def decimals() -> Pool:
    """Hostile fixed-point numbers."""
    return Pool("decimal128(18, 4)", DECIMALS)


def texts(*more: str) -> Pool:
    """Hostile text, and the keys a task asks for."""
    return Pool("string", (*more, *TEXTS, None))


def prices() -> Pool:
    """Hostile amounts of two places, up to the limits of twenty digits."""
    return Pool("decimal128(20, 2)", tuple(None if v is None else Decimal(v) for v in PRICES))


def days() -> Pool:
    """Hostile days, counted from 1970: what Python cannot hold among them, and both ends of what Arrow can."""
    return Pool("date32", DAYS)


def torn() -> Pool:
    """Text that need not be text, as bytes."""
    return Pool("torn", TORN)


@dataclass(frozen=True)
class Neighbour:
    """The rows of a neighbouring table, and in words how it differs; ``same`` when it must not differ at all."""

    label: str
    rows: list[Row]
    same: bool = False
    chunks: int = 1


@dataclass(frozen=True)
class Corpus:
    """Base tables and their neighbours for one unit.

    ``share`` thins the neighbours out: each base table gets one in so many of the hostile units (another one in so
    many each, so that three bases see nearly all at the default of 3); 1 gives every one to every base.
    """

    unit: Unit
    pools: Mapping[str, Pool]
    seed: int = 1
    share: int = 3
    bases: dict[str, list[Row]] = field(default_factory=dict)

    def tables(self) -> dict[str, list[Row]]:
        """The base tables by name."""
        if self.bases:
            return self.bases
        rng = random.Random(self.seed)
        people = [*rng.sample(self._names(), min(6, len(self._names()))), None]
        mixed = [row for person in people for row in self._block(person, rng, rng.randint(1, 5))]
        mixed += [dict(row) for row in mixed[:4]]  # duplicates
        big = self._block(self._names()[0], rng, 400)
        rng.shuffle(mixed)
        if self.unit.neighbours is not Neighbours.ADD_REMOVE:
            return {"a mixed table": self._sized(mixed), "a table of one heavy unit": self._sized(big)}
        return {"an empty table": [], "a mixed table": mixed, "a table of one heavy unit": big + mixed[:3]}

    def _sized(self, base: list[Row]) -> list[Row]:
        """As many rows as the unit declares, where it declares rows: another number gets no answer."""
        n = self.unit.n if self.unit.kind == "rows" else None
        return base if n is None else [dict(base[place % len(base)]) for place in range(n)]

    def neighbours(self, base: list[Row]) -> Iterator[Neighbour]:
        """Everything next door to one base table."""
        rng = random.Random(f"{self.seed} {len(base)}")
        yield from self._orders(base, rng)
        if self.unit.neighbours is Neighbours.ADD_REMOVE:
            yield from self._added(base, rng)
            yield from self._removed(base)
        elif self.unit.kind == "users":
            yield from self._replaced(base, rng)
        else:
            yield from self._changed(base, rng)

    def arrow(self, rows: Sequence[Row], chunks: int = 1) -> Any:
        """The rows as an Arrow table with a declared schema, so that no rows is still a table."""
        import pyarrow

        schema = pyarrow.schema([(name, _arrow_type(pool.arrow)) for name, pool in self.pools.items()])
        size = max(1, -(-len(rows) // chunks))
        parts = [rows[i : i + size] for i in range(0, max(1, len(rows)), size)]
        table = pyarrow.concat_tables([pyarrow.Table.from_pylist(list(part), schema=schema) for part in parts])
        for place, (name, pool) in enumerate(self.pools.items()):
            if pool.arrow == "torn":
                texts = [chunk.view(pyarrow.string()) for chunk in table[name].chunks]
                table = table.set_column(place, name, pyarrow.chunked_array(texts, pyarrow.string()))
        return table

    def _orders(self, base: list[Row], rng: random.Random) -> Iterator[Neighbour]:
        if len(base) < 2:
            return
        yield Neighbour("the same rows backwards", base[::-1], same=True)
        yield Neighbour("the same rows in seven chunks", base, same=True, chunks=7)
        for number in range(1 if self.share > 1 else 8):
            yield Neighbour(f"the same rows in random order {number}", rng.sample(base, len(base)), same=True)

    def _added(self, base: list[Row], rng: random.Random) -> Iterator[Neighbour]:
        for label, block in self._thinned(base, rng):
            place = rng.randint(0, len(base))
            yield Neighbour(f"one unit added: {label}", base[:place] + block + base[place:])

    def _removed(self, base: list[Row]) -> Iterator[Neighbour]:
        if self.unit.column is None:
            for place in range(0, len(base), max(1, len(base) * self.share // 12)):
                yield Neighbour(f"row {place} removed", base[:place] + base[place + 1 :])
            return
        for person in sorted({row[self.unit.column] for row in base} - {None}, key=repr)[:: min(self.share, 3)]:
            kept = [row for row in base if row[self.unit.column] != person]
            yield Neighbour(f"unit {_short(person)} removed", kept)

    def _changed(self, base: list[Row], rng: random.Random) -> Iterator[Neighbour]:
        for label, block in self._thinned(base, rng):
            place, new = rng.randrange(len(base)), block[0]
            if self.unit.neighbours is Neighbours.CHANGE_LABEL:
                new = {**base[place], self.unit.column or "": new[self.unit.column or ""]}
            yield Neighbour(f"row {place} replaced: {label}", [*base[:place], new, *base[place + 1 :]])

    def _replaced(self, base: list[Row], rng: random.Random) -> Iterator[Neighbour]:
        """One unit gives way to another, each with all its rows; rows of nobody are no unit."""
        column = self.unit.column or ""
        people = sorted({row[column] for row in base} - {None}, key=repr)
        for label, block in self._thinned(base, rng):
            if block[0][column] is not None:
                person = rng.choice(people)
                kept = [row for row in base if row[column] != person]
                yield Neighbour(f"unit {_short(person)} replaced: {label}", kept + block)

    def _thinned(self, base: list[Row], rng: random.Random) -> Iterator[tuple[str, list[Row]]]:
        turn = [len(rows) for rows in self.tables().values()].index(len(base))
        return islice(self._blocks(rng), turn % self.share, None, self.share)

    def _blocks(self, rng: random.Random) -> Iterator[tuple[str, list[Row]]]:
        """The rows of one new unit: each hostile value alone, then heaps of them."""
        names = self._new_names(rng)
        for column, pool in self._free():
            for value in pool.values:
                row = {**self._row(rng), column: value}
                yield f"{column} = {_short(value)}", self._owned([row], next(names))
                if self.unit.kind == "users" and (self.share == 1 or rng.random() < 0.3):
                    heap = [{**self._row(rng), column: value} for _ in range(30)]
                    yield f"30 rows with {column} = {_short(value)}", self._owned(heap, next(names))
        if self.unit.kind == "users":
            many = [self._row(rng) for _ in range(3000)]
            yield "very many rows", self._owned(many, next(names))
            yield "rows without a unit", self._owned(many[:5], None)
        yield "an ordinary row", self._owned([self._row(rng)], next(names))

    def _free(self) -> list[tuple[str, Pool]]:
        own = self.unit.column if self.unit.kind == "users" else None
        return [(name, pool) for name, pool in self.pools.items() if name != own]

    def _names(self) -> list[Any]:
        if self.unit.kind != "users" or self.unit.column is None:
            return ["nobody"]
        values = [v for v in self.pools[self.unit.column].values if v is not None and v == v]
        return list(dict.fromkeys(values))

    def _new_names(self, rng: random.Random) -> Iterator[Any]:
        """Names that no base table uses: a text gets a tail, a number moves away."""
        number = 0
        while True:
            number += 1
            yield _renamed(rng.choice(self._names()), number)

    def _owned(self, rows: list[Row], name: Any) -> list[Row]:
        if self.unit.kind != "users":
            return rows
        return [{**row, str(self.unit.column): name} for row in rows]

    def _block(self, name: Any, rng: random.Random, size: int) -> list[Row]:
        return self._owned([self._row(rng) for _ in range(size)], name)

    def _row(self, rng: random.Random) -> Row:
        return {name: rng.choice(pool.values) for name, pool in self.pools.items()}


def _arrow_type(name: str) -> Any:
    import pyarrow

    if name.startswith("decimal128"):
        precision, scale = name[11:-1].split(",")
        return pyarrow.decimal128(int(precision), int(scale))
    return pyarrow.binary() if name == "torn" else getattr(pyarrow, name)()


def _renamed(name: Any, number: int) -> Any:
    if isinstance(name, bytes):
        return name[:20] + f"·{number}".encode()
    return f"{name[:20]}·{number}" if isinstance(name, str) else 10**9 + number


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 30 else text[:27] + "…"
