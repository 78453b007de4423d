"""Every engine gives the reference's integers, to the last digit, on tables made to hurt."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import tables_reference as reference
from steelyard.errors import TableError
from steelyard.privacy import rows, users
from steelyard.tables import Bins, Bounded, Capped, Limits, Quantity, Table

# PySpark leaves the socket of each answer to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")

Opener = Callable[[Any], Table]
SECRET = bytes(range(32))
TINY = 5e-324
VALUES = [
    0.0, -0.0, 0.5, -0.5, 1.5, 0.49999999999999994, TINY, -TINY, 2.0**52 + 1, 2.0**53, -(2.0**53), 1e300, -1e300,
    1.7976931348623157e308, math.inf, -math.inf, math.nan, None, 0.1, 2.675, 1e15 + 0.3, -7.25, 12.5, 99.99,
]  # fmt: skip
INTEGERS = [0, 1, -1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 7, None]
DECIMALS = ["0", "0.1", "-0.1", "1.005", "9007199254740993.1", "-9999999999999999999999999999.9999999999", "2.5", None]
NAMES = [
    "",
    "ann",
    "Ann",
    "é",
    "e\u0301",
    "日本",
    "o'brien",
    'quo"te',
    "back\\slash",
    "`tick`",
    "{brace}",
    None,
    " ann",
]
KEYS = ["", "a", "A", "é", "o'b", 'q"', "b\\s", "{k}", "%", None]
FLOATS = [0.0, -0.0, math.nan, math.copysign(math.nan, -1), 1.5, None, 2.0]


def nasty(size: int = 300) -> list[reference.Row]:
    """Every awkward value against every awkward unit and key, with duplicates."""
    return [
        {
            "number": None if i % 17 == 3 else (i * i) % 23 - 5,
            "name": NAMES[(i * 5) % len(NAMES)],
            "ratio": FLOATS[(i * 3) % len(FLOATS)],
            "key": KEYS[(i * 7 + i // 9) % len(KEYS)],
            "x": VALUES[i % len(VALUES)],
            "i": INTEGERS[i % len(INTEGERS)],
            "long": None if DECIMALS[i % 8] is None else Decimal(DECIMALS[i % 8] or 0),
            "short": Decimal(i * 37 - 4000).scaleb(-3),
            "flag": (None, True, False)[i % 3],
            "small": (i * 13) % 40 - 8,
        }
        for i in range(size)
    ]


SCHEMA = pa.schema(
    [
        ("number", pa.int64()), ("name", pa.string()), ("ratio", pa.float64()), ("key", pa.string()),
        ("x", pa.float64()), ("i", pa.int64()), ("long", pa.decimal128(38, 10)), ("short", pa.decimal128(12, 3)),
        ("flag", pa.bool_()), ("small", pa.int64()),
    ]
)  # fmt: skip
ROWS = nasty()
QUANTITIES = [
    Quantity("x", Fraction(1, 100)), Quantity("x", Fraction(3, 7)), Quantity("i", Fraction(1)),
    Quantity("i", Fraction(1000)), Quantity("long", Fraction(1, 10)), Quantity("short", Fraction(1, 1000)),
    Quantity("flag"), Quantity("small"), Quantity(), Quantity(None, Fraction(1, 64)),
]  # fmt: skip


def arrow(data: list[reference.Row]) -> pa.Table:
    return pa.Table.from_pylist(data, schema=SCHEMA)


@pytest.fixture
def table(open_everywhere: Opener) -> Table:
    return open_everywhere(arrow(ROWS))


@pytest.mark.parametrize("unit", [users("number"), users("name"), users("ratio"), users("flag"), rows()], ids=str)
def test_capped_sums_are_the_reference_to_the_last_digit(table: Table, unit: Any) -> None:
    parts = [Bounded(quantity, -1000, 2**70) for quantity in QUANTITIES]
    expected = [reference.capped_sum(ROWS, unit, part.quantity, part.lower, part.upper) for part in parts]
    assert table.capped_totals(unit, parts) == expected
    assert table.count_units(unit) == len(reference.totals(ROWS, unit, Quantity()))


def test_every_single_value_becomes_the_reference_integer(table: Table) -> None:
    histogram = {quantity: [quantity.integer(row[str(quantity.column)]) for row in ROWS] for quantity in QUANTITIES[:7]}
    for quantity, integers in histogram.items():
        edges = sorted({*integers, -(2**60), 2**60})
        expected = [integers.count(edge) for edge in edges[:-1]]
        assert table.totals_histogram(rows(), quantity, edges) == expected


def test_histograms_of_totals_are_the_reference(table: Table) -> None:
    edges = [-(2**53), -100, 0, 1, 50, 2**20, 2**60]
    for quantity in (QUANTITIES[0], QUANTITIES[7]):
        unit = users("number")
        assert table.totals_histogram(unit, quantity, edges) == reference.histogram(ROWS, unit, quantity, edges)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_sums_by_key_are_the_reference_with_every_bound(table: Table, norm: str) -> None:
    keys = ["a", "", "é", "o'b", 'q"', "b\\s", "{k}", "%", "absent"]
    parts = [Capped(Quantity("x", Fraction(1, 100)), 1000, norm), Capped(Quantity("small"), 50, norm)]
    assert table.sums_by_key(users("number"), parts, "key", keys) == [
        reference.sums_by_key(ROWS, users("number"), part, "key", keys) for part in parts
    ]
    limited = [Capped(Quantity("small"), 50, norm)]
    limits = Limits(max_keys=3, rows_per_key=2, secret=SECRET)
    assert table.sums_by_key(users("number"), limited, "key", keys, limits) == [
        reference.sums_by_key(ROWS, users("number"), limited[0], "key", keys, limits)
    ]


@pytest.mark.parametrize("unit", [users("number"), rows()], ids=str)
def test_sums_by_keys_of_several_columns_are_the_reference(table: Table, unit: Any) -> None:
    by = ["key", "ratio", "flag", "short"]
    seen = {tuple(reference.identity(row[name]) for name in by) for row in ROWS}
    whole = sorted((key for key in seen if None not in key), key=str)
    keys = [*whole[::2], ("absent", 0.0, True, Decimal("0.001")), ("a", 0.0, False, Decimal("0.0001"))]
    parts = [Capped(Quantity("x", Fraction(1, 100)), 1000, "l2"), Capped(Quantity("small"), 9)]
    assert table.sums_by_key(unit, parts, by, keys) == [
        reference.sums_by_key(ROWS, unit, part, by, keys) for part in parts
    ]
    if unit.column is not None:
        limits = Limits(max_keys=3, rows_per_key=1, secret=SECRET)
        assert table.sums_by_key(unit, parts[1:], by[:2], [("a", 0.0), ("A", 1.5), ("é", 2.0)], limits) == [
            reference.sums_by_key(ROWS, unit, parts[1], by[:2], [("a", 0.0), ("A", 1.5), ("é", 2.0)], limits)
        ]


def test_sums_by_key_of_huge_values_never_overflow(table: Table) -> None:
    for norm in ("l1", "l2"):
        parts = [Capped(Quantity("i"), 2**50, norm), Capped(Quantity("x", Fraction(1, 10**9)), 2**50 - 1, norm)]
        assert table.sums_by_key(users("flag"), parts, "key", ["a", "A", ""]) == [
            reference.sums_by_key(ROWS, users("flag"), part, "key", ["a", "A", ""]) for part in parts
        ]


def test_float_integer_and_boolean_keys_work(table: Table) -> None:
    part = Capped(Quantity("small"), 30)
    for by, keys in (("ratio", [0.0, 1.5, 9.0]), ("small", [0, 1, 31]), ("flag", [True, False])):
        got = table.sums_by_key(users("name"), [part], by, keys)
        assert got == [reference.sums_by_key(ROWS, users("name"), part, by, keys)]
        assert table.sums_by_key(rows(), [part], by, keys) == [reference.sums_by_key(ROWS, rows(), part, by, keys)]


def test_bins_are_the_reference_evenly_spaced_or_not(table: Table) -> None:
    quantity = Quantity("x", Fraction(1, 4))
    for edges in ((-40, -20, 0, 20, 40), (-40, -1, 0, 1, 2, 2**55)):
        data = [
            {**row, "bin": sum(quantity.integer(row["x"]) >= edge for edge in edges[1:-1])}
            for row in ROWS
            if row["x"] is not None and math.isfinite(row["x"])
        ]
        part = Capped(Quantity(None, Fraction(1, 8)), 40, "l2")
        expected = reference.sums_by_key(data, users("number"), part, "bin", range(len(edges) - 1))
        assert table.sums_by_bin(users("number"), part, Bins(quantity, edges)) == expected


def test_both_sides_of_a_unit_share_one_cap(table: Table) -> None:
    quantity, low, high, cap = Quantity("x", Fraction(1, 4)), -10, 30, 100
    sides = []
    for row in ROWS:
        if row["x"] is not None and math.isfinite(row["x"]):
            value = max(low, min(high, quantity.integer(row["x"])))
            sides += [
                {"u": row["number"], "side": 0, "q": value - low},
                {"u": row["number"], "side": 1, "q": high - value},
            ]
    expected = reference.sums_by_key(sides, users("u"), Capped(Quantity("q"), cap), "side", [0, 1])
    assert list(table.sums_by_side(users("number"), quantity, low, high, cap)) == expected


def test_found_keys_are_all_keys_but_null_and_count_their_units(table: Table) -> None:
    part = Capped(Quantity("small"), 40)
    found = table.found_sums_by_key(users("number"), [part], "key", Limits(max_keys=100))
    known = [key for key in KEYS if key is not None]
    assert set(found) == set(known)
    sums = reference.sums_by_key(ROWS, users("number"), part, "key", known)
    assert [found[key][1][0] for key in known] == sums
    for key, (units, _) in found.items():
        assert units == len({row["number"] for row in ROWS if row["key"] == key and row["number"] is not None})


def test_found_keys_of_several_columns_are_the_reference(table: Table) -> None:
    by, unit = ["key", "flag", "ratio"], users("number")
    expected = reference.found_units(ROWS, unit, by, 3, SECRET)
    for least in (1, 2):
        found = table.found_sums_by_key(unit, [], by, Limits(max_keys=3, secret=SECRET), least)
        assert {key: units for key, (units, _) in found.items()} == {k: n for k, n in expected.items() if n >= least}


def test_kept_rows_are_the_reference_whatever_the_order(open_everywhere: Opener) -> None:
    columns = ["number", "key", "small", "short", "flag"]
    expected = reference.kept_rows(ROWS, "number", columns, 4, SECRET)
    for data in (ROWS, ROWS[::-1]):
        kept = open_everywhere(arrow(data)).keep_rows(users("number"), 4, SECRET, columns)
        got = [row for batch in kept.batches(columns, 7) for row in batch.to_pylist()]
        assert sorted(map(repr, got)) == sorted(repr({name: row[name] for name in columns}) for row in expected)


COPIES = [{"number": 1 + i % 2, "small": i % 7, "key": "ab"[i // 9 % 2]} for i in range(90)]


def test_rows_that_read_alike_are_kept_as_in_the_reference(open_everywhere: Opener) -> None:
    columns, given = ["number", "small", "key"], [{**ROWS[0], **row} for row in COPIES]
    table, missed = open_everywhere(arrow(given)), 0
    for secret in (bytes([i]) * 32 for i in range(4)):
        expected = reference.kept_rows(given, "number", columns, 6, secret)
        said = sorted(repr({name: row[name] for name in columns}) for row in expected)
        kept = table.keep_rows(users("number"), 6, secret, columns)
        assert sorted(repr(row) for batch in kept.batches(columns) for row in batch.to_pylist()) == said
        missed += _first_alone(given, columns, 6, secret) != said
    assert missed  # a choice among the copies of the first few would show


def _first_alone(given: list[Any], columns: list[str], limit: int, secret: bytes) -> list[str]:
    """The twin: rows whose number 0 is not among the first few have no other number either."""
    different = list({repr([row[name] for name in columns]): row for row in given}.values())
    first = reference.kept_rows(different, "number", columns, limit, secret)
    likely = [row for row in given if any(all(row[n] == one[n] for n in columns) for one in first)]
    kept = reference.kept_rows(likely, "number", columns, limit, secret)
    return sorted(repr({name: row[name] for name in columns}) for row in kept)


def test_no_rows_are_data_and_answer_zero(open_everywhere: Opener) -> None:
    table = open_everywhere(arrow([]))
    assert table.count_units(users("name")) == 0
    assert table.capped_sum(users("name"), Quantity("x"), -5, 5) == 0
    assert table.totals_histogram(rows(), Quantity("x"), [0, 1, 2]) == [0, 0]
    assert table.sums_by_key(users("name"), [Capped(Quantity(), 3)], "key", ["a"]) == [[0]]
    assert table.found_sums_by_key(users("name"), [Capped(Quantity(), 3)], "key", Limits(max_keys=2)) == {}
    (none,) = table.keep_rows(users("name"), 1).batches(["x"])
    (some,) = open_everywhere(arrow(ROWS[:1])).batches(["x"])
    assert (none.num_rows, none.schema) == (0, some.schema)


def test_the_order_of_rows_changes_no_answer(open_everywhere: Opener) -> None:
    parts = [Capped(Quantity("x", Fraction(1, 3)), 999, "l2")]
    limits = Limits(max_keys=2, rows_per_key=3, secret=SECRET)
    answers = []
    for data in (ROWS, ROWS[::-1]):
        table = open_everywhere(arrow(data))
        answers.append(table.sums_by_key(users("number"), parts, "key", ["a", "A", "é"], limits))
    assert answers[0] == answers[1]


def test_schemas_use_the_same_words(table: Table) -> None:
    kinds = ["integer", "string", "float", "string", "float", "integer", "decimal", "decimal", "boolean", "integer"]
    assert list(table.columns.items()) == list(zip(SCHEMA.names, kinds, strict=True))
    assert "300" not in repr(table)


def test_a_failing_engine_says_one_fixed_thing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = "SELECT CAST(name AS INT) FROM nowhere_secret_value"
    monkeypatch.setattr(table, "_sql", lambda question, *dialect: broken)
    with pytest.raises(TableError, match="could not answer") as caught:
        table.count_units(rows())
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    monkeypatch.setattr(table._engine, "held_batches", lambda columns, size: None)  # rows in memory need no question
    with pytest.raises(TableError, match="could not answer") as caught:
        list(table.batches(["x"]))
    assert caught.value.__context__ is None
