"""Neighbours written through every writer and read from every source: no distance above the declared one, one outcome.

Every shipped task meets hostile values (NaN, infinities, limits of integers and decimals, days beyond the calendar, collations, torn
and huge text) in files, frames and databases; one unit more or less, transcripts led to the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from spark import local_spark
from steelyard.audit._corpus import Corpus, Pool, Row, days, floats, prices, texts, torn
from steelyard.audit._replays import Replay
from steelyard.audit._suite import WHO, Item, gaussian, pure, set_aside, tasks
from steelyard.bounding import Count, CountUsers, Sum
from steelyard.tables import Table, read
from steelyard.tables import _engine as engine
from steelyard.tables import _plain as plain
from steelyard.tables import _soundness as soundness
from steelyard.tables import _table as asked
from steelyard.tables import _totals as totals
from steelyard.tables._keys import key_frame
from steelyard.tables._totals import LARGEST, double
from writers import SOURCES, Writer

pytestmark = pytest.mark.filterwarnings("ignore::steelyard.errors.UncheckedQuery")

KEPT_TORN = ("an Arrow table", "Parquet by pyarrow", "Parquet by pandas", "an Arrow dataset", "a pandas frame")
"""The sources that can hold text that is none; others refuse to store it."""

PRICED = {"who": texts(), "price": prices()}
DATED = {"who": texts(), "day": days()}
SPELT = {"who": texts("a", "A"), "land": texts("fr", "FR", "Fr", "a\x00b", "x" * 50_000), "amount": floats(10.0)}
LANDS = ["FR", "fr", "nobody"]
COLUMNS: dict[str, Item] = {
    "decimal-keys": Item(
        Count(epsilon="1", cap=3, by="price", keys=[Decimal("1E-38"), Decimal("1.5")]), pure(WHO), PRICED
    ),
    "decimals-found": Item(CountUsers(epsilon="4", by="price", max_keys=2), set_aside(WHO), PRICED),
    "decimals": Item(Sum("price", epsilon="1", cap=10, lower=-7), pure(WHO), PRICED),
    "days-found": Item(CountUsers(epsilon="4", by="day", max_keys=2), set_aside(WHO), DATED),
    "spellings": Item(Count(epsilon="1", cap=3, by="land", keys=LANDS), pure(WHO), SPELT),
    "spellings-found": Item(Sum("amount", epsilon="4", cap=10, by="land", max_keys=2), set_aside(WHO), SPELT),
}
TORN = {
    "torn-keys": Item(
        Count(epsilon="1", cap=3, by="land", keys=["a", "A"]), pure(WHO), {"who": texts(), "land": torn()}
    ),
    "torn-found": Item(
        CountUsers(epsilon="4", by="land", max_keys=2), set_aside(WHO), {"who": texts(), "land": torn()}
    ),
    "torn-units": Item(
        Sum("amount", epsilon="1", cap=3), gaussian(WHO), {"who": torn(), "amount": floats(2.0, 3.0, 4.0)}
    ),
}
ITEMS = {**tasks(), **COLUMNS, **TORN}
_COMPILED: dict[Any, str] = {}
_ATTACHED: list[str] = []


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One DuckDB for all tables, and each question compiled once: what a run costs otherwise is mostly these two.

    Tables inside DuckDB files are not asked through it: what one of them attached would stay.
    """
    compile_question, connect = Table._sql, engine._connect

    def remembered(table: Table, question: Any) -> str:
        about = (table.engine, question.op())
        return _COMPILED.get(about) or _COMPILED.setdefault(about, compile_question(table, question))

    with TemporaryDirectory() as spill:
        shared = connect(spill, {})
        monkeypatch.setattr(Table, "_sql", remembered)
        monkeypatch.setattr(
            engine, "_connect", lambda spill, more: connect(spill, more) if _ATTACHED else shared.cursor()
        )
        yield
        shared.close()


def replayed(item: Item, write: Writer, seed: int, share: int, rows: list[Row] | None = None) -> tuple[int, list[str]]:
    """How many pairs were compared, and what was found."""
    assert item.terms is not None
    assert item.columns is not None
    whole = Corpus(item.terms.unit, item.columns, seed, share)
    corpus = Corpus(item.terms.unit, item.columns, seed, share, {"mixed": rows or whole.tables()["a mixed table"]})
    _ATTACHED[:] = (
        [str(write.__name__)] if write in (SOURCES[name] for name in SOURCES if "DuckDB file" in name) else []
    )
    with TemporaryDirectory() as folder:
        replay = Replay(item.subject, item.terms, corpus, opener(write, Path(folder)), seed)
        found = [f"{check.name}: {check.text}" for check in replay.checks() if not check.ok]
        return replay._pairs, found


def opener(write: Writer, folder: Path) -> Callable[[Any], Table]:
    numbers = count()

    def opened(table: Any) -> Table:
        place = folder / str(next(numbers))
        place.mkdir()
        return read(write(table, place))

    return opened


def chosen(source: str, turn: int, step: int) -> Iterator[tuple[str, Item]]:
    """One in ``step`` of the items that a source can hold, another one each turn."""
    for place, (name, item) in enumerate(ITEMS.items()):
        if (name not in TORN or source in KEPT_TORN) and (place + turn) % step == 0:
            yield name, item


@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize("source", SOURCES)
def test_neighbours_are_told_apart_by_no_source(source: str) -> None:
    pairs = 0
    for name, item in chosen(source, list(SOURCES).index(source), 12):
        more, found = replayed(item, SOURCES[source], seed=1, share=7)
        assert found == [], (source, name)
        pairs += more
    assert pairs >= 72  # a thousand in all


@pytest.mark.slow
@pytest.mark.usefixtures("quickly")
def test_a_hundred_thousand_pairs_are_told_apart_by_no_source() -> None:
    pairs = 0
    for seed in count(2):
        for turn, source in enumerate(SOURCES):
            for name, item in chosen(source, turn + seed, 6):
                more, found = replayed(item, SOURCES[source], seed, share=3)
                assert found == [], (source, name, seed)
                pairs += more
        if pairs >= 100_000:
            return


@pytest.mark.slow
def test_spark_tells_no_neighbours_apart() -> None:
    """Every task once, on a frame made of Arrow or on Parquet that Spark reads itself: about a thousand pairs."""
    with local_spark() as spark:

        def frame(table: Any, folder: Path) -> Any:
            return spark.createDataFrame(table)

        def files(table: Any, folder: Path) -> Any:
            return spark.read.parquet(str(SOURCES["Parquet by pyarrow"](table, folder)))

        for turn, (name, item) in enumerate(ITEMS.items()):
            write = frame if turn % 2 and name not in TORN else files
            assert replayed(item, write, seed=1, share=7)[1] == [], (name, write.__name__)


class TestTwins:
    """The same replay catches each of the flaws that it is there for."""

    def caught(self, name: str, source: str, pools: dict[str, Pool], rows: list[Row]) -> str:
        item = Item(ITEMS[name].subject, ITEMS[name].terms, pools)
        return " ".join(replayed(item, SOURCES[source], seed=0, share=3, rows=rows)[1])

    def test_a_planner_that_believes_statistics(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "BLIND", "")
        monkeypatch.setattr(soundness, "_passed", {"DuckDB"})
        monkeypatch.setattr(totals, "finite", lambda number: number.abs() <= double(LARGEST))
        values = (float("nan"), 0.1, 0.2, float("inf"))
        pools = {"who": texts(), "amount": Pool("float64", values)}
        rows = [{"who": f"u{i}", "amount": values[i % 3]} for i in range(12)]
        assert "distance" in self.caught("sum", "a view in a DuckDB file", pools, rows)

    def test_a_collation_that_is_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plain, "BY_BYTES", plain.AS_IT_IS)
        pools = {"who": texts(), "land": Pool("string", ("FR", "fr")), "amount": floats(10.0)}
        rows: list[Row] = [{"who": f"u{i}", "land": "FR" if i % 2 else "fr", "amount": 1.0} for i in range(60)]
        found = self.caught("spellings-found", "a collated table in a DuckDB file", pools, rows)
        assert "the same released numbers led to another outcome" in found  # which rows say so is the engine's choice

    def test_a_column_that_is_converted_to_its_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Keys in a type of their own: to be compared with them, a price is converted, and a large one cannot be."""

        def widest(name: str, kinds: Any, columns: Any, short: Any) -> Any:
            import ibis

            return key_frame(name, [ibis.dtype("decimal(38, 38)") for _ in kinds], columns, short)

        monkeypatch.setattr(asked, "key_frame", widest)
        rows = [{"who": f"u{i}", "price": Decimal("0.25")} for i in range(5)]
        assert "errors" in self.caught("decimal-keys", "an Arrow table", PRICED, rows)

    def test_text_that_nobody_repairs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A key of one unit stays in the engine; one more unit lets it out."""
        monkeypatch.setattr(plain, "REPAIRED", plain.AS_IT_IS)
        odd = [value for value in torn().values if value is not None]
        rows: list[Row] = [{"who": f"u{i}", "land": b"a"} for i in range(5)]
        rows += [{"who": f"v{i}", "land": value} for i, value in enumerate(odd)]
        assert "errors" in self.caught("torn-found", "an Arrow table", {"who": texts(), "land": torn()}, rows)
