"""Which part a unit lies in: a matter of that unit alone, for ever, on every engine."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard import privacy
from steelyard.models._columns import Features, Numeric
from steelyard.models._rows import Target
from steelyard.models.accuracy._held import SplitPart
from steelyard.models.accuracy._split import Ids, Split, of_rows
from steelyard.tables import read

FEATURES = Features([Numeric("a", -3, 1), Numeric("b", 0, 10)])
LABEL = Target("y", -2, 5)

odd = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(-4, 11))
cells = st.tuples(odd, odd, odd, st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)))
tables = st.lists(cells, min_size=0, max_size=12)


def opened(rows: list[tuple[Any, ...]], chunks: int = 1) -> Any:
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    kinds = (pa.float64(), pa.float64(), pa.float64(), pa.int64())
    whole = pa.table({name: pa.array(list(c), k) for name, c, k in zip("abyi", columns, kinds, strict=True)})
    size = max(1, len(rows) // chunks)
    return read(pa.Table.from_batches(whole.to_batches(max_chunksize=size), whole.schema))


def seen(part: SplitPart) -> list[tuple[float, ...]]:
    """The rows of a part, whatever their order."""
    return sorted(map(tuple, np.column_stack([part.x, part.y]).tolist()))


class ByPosition(Split):
    """The twin: every other row, wherever it stands."""

    def checks(self, codes: Any) -> Any:
        return np.arange(len(codes)) % 2 == 1


def moves(split: Split, rows: list[tuple[Any, ...]], place: int) -> list[int]:
    """How many rows of each part differ when the row at a place is left out."""
    without = rows[:place] + rows[place + 1 :]
    one, other = (split.parts(opened(table), FEATURES, LABEL, privacy.rows()) for table in (rows, without))
    pairs = [(seen(a), seen(b)) for a, b in ((one.train, other.train), (one.check, other.check))]
    return [sum(abs(a.count(row) - b.count(row)) for row in {*a, *b}) for a, b in pairs]


@pytest.mark.parametrize("split", [Split(), Split(ids="i"), Split(Fraction(1, 5), "i")])
@settings(max_examples=12, deadline=None)
@given(rows=tables.filter(bool), data=st.data())
def test_a_row_added_or_removed_touches_one_part_and_moves_no_other_row(
    split: Split, rows: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    assert sorted(moves(split, rows, data.draw(st.integers(0, len(rows) - 1)))) == [0, 1]


def test_a_split_by_position_is_caught() -> None:
    rows = [(-1.0 + i / 8, float(i), 0.5, i) for i in range(8)]
    assert sorted(moves(Split(), rows, 0)) == [0, 1]
    assert sorted(moves(ByPosition(), rows, 0)) != [0, 1]


@settings(max_examples=12, deadline=None)
@given(rows=tables, data=st.data())
def test_the_order_and_the_chunks_of_rows_change_nothing(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    mixed = data.draw(st.permutations(rows))
    for split, whose in ((Split(), None), (Split(ids="i"), None), (Split(), "i")):
        one, other = (
            split.parts(held, FEATURES, LABEL, privacy.rows() if whose is None else privacy.users(whose))
            for held in (opened(rows), opened(mixed, 3))
        )
        assert (seen(one.train), seen(one.check)) == (seen(other.train), seen(other.check))
        assert (one.train.units, one.check.units) == (other.train.units, other.check.units)
        assert (one.train.exact.gram == other.train.exact.gram).all()


@settings(max_examples=12, deadline=None)
@given(rows=tables, fresh=st.lists(cells, max_size=4), who=st.integers(-5, 5))
def test_all_rows_of_a_user_lie_in_one_part_and_rows_of_nobody_in_none(
    rows: list[tuple[Any, ...]], fresh: list[tuple[Any, ...]], who: int
) -> None:
    split = Split()
    others = [row for row in rows if row[3] != who]
    its = [(*row[:3], who) for row in fresh]
    one, other = (split.parts(opened(table), FEATURES, LABEL, privacy.users("i")) for table in (others + its, others))
    grown = [len(a.y) - len(b.y) for a, b in ((one.train, other.train), (one.check, other.check))]
    assert sorted(grown) == [0, len(its)]
    assert len(other.train.y) + len(other.check.y) == sum(row[3] is not None for row in others)


def test_rows_without_an_id_go_by_what_they_say() -> None:
    rows = [(-1.0 + i / 50, 2.0, 0.0, None) for i in range(100)]
    by_id, by_row = (split.parts(opened(rows), FEATURES, LABEL, privacy.rows()) for split in (Split(ids="i"), Split()))
    assert seen(by_id.check) == seen(by_row.check)
    assert 20 < by_id.check.units < 80


def test_the_part_of_an_id_never_changes() -> None:
    told = Ids.read(pa.array(["ann", "zoë", "", None]), 4)
    assert told.codes[:3].tolist() == KNOWN_IDS
    assert told.named.tolist() == [True, True, True, False]
    x, y = np.array([[0.0, 1.0], [-3.0, 2.0**18]]), np.array([5.0, -7.0])
    assert of_rows(x, y).tolist() == KNOWN_ROWS


KNOWN_IDS = [1773310029330780838, 12065544808965139961, 8362589220708457049]
KNOWN_ROWS = [15308481765557944163, 6073597201145437246]


@pytest.mark.parametrize(
    "alike",
    [
        [pa.array([7], pa.int32()), pa.array([7], pa.int64()), pa.array([7.0]), pa.array([Decimal("7.00")])],
        [pa.array([-0.0]), pa.array([0.0]), pa.array([0], pa.uint8())],
        [pa.array([Decimal("1.50")]), pa.array([1.5])],
        [pa.array(["a"]), pa.array(["a"]).dictionary_encode(), pa.array(["a"], pa.large_string())],
    ],
)
def test_an_id_reads_the_same_in_every_type(alike: list[Any]) -> None:
    assert len({int(Ids.read(array, 1).codes[0]) for array in alike}) == 1


def test_no_id_is_told_for_null_and_nan_and_the_infinities_have_one() -> None:
    told = Ids.read(pa.array([math.nan, None, math.inf, -math.inf]), 4)
    assert told.named.tolist() == [False, False, True, True]
    named = read({"a": [0.1] * 5, "b": [1.0] * 5, "y": [0.0] * 5, "i": [math.nan, math.inf, -math.inf, -0.0, 0.0]})
    parts = Split().parts(named, FEATURES, LABEL, privacy.users("i"))
    assert parts.train.units + parts.check.units == 3  # nobody's row is in neither part, and the zeros are one user


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)])
def test_the_share_that_checks_is_the_one_asked_for(share: Fraction) -> None:
    ids = Ids.read(pa.array(range(40_000)), 40_000)
    rows = np.arange(80_000.0).reshape(-1, 2)
    for codes in (ids.codes, of_rows(rows, rows[:, 0])):
        assert abs(Split(share).checks(codes).mean() - float(share)) < 0.01


ARROWS: list[Any] = [
    (pa.int8(), [-128, 127]), (pa.uint64(), [0, 2**64 - 1]), (pa.bool_(), [True, False]), (pa.string(), ["", "\u0000", "é"]),
    (pa.large_string(), ["a"]), (pa.float32(), [0.1, -0.0, math.inf, math.nan]), (pa.float64(), [-math.inf, 1e308, 5e-324]),
    (pa.decimal128(38, 3), [Decimal("1.500"), Decimal(-10**30)]), (pa.date32(), [-(2**31), 0, 3_000_000, 2**31 - 1]),
    (pa.date64(), [-(10**17), 0, 86_400_000 * 5_000_000]), (pa.dictionary(pa.int32(), pa.string()), ["x", "y"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "values"), ARROWS, ids=lambda each: str(each) if isinstance(each, pa.DataType) else ""
)
def test_ids_of_every_kind_have_a_name_whatever_they_are(kind: Any, values: list[Any]) -> None:
    """An error that one id can cause would tell whether it is there."""
    made = pa.array(
        [*values, None], pa.int64() if pa.types.is_date64(kind) else pa.int32() if pa.types.is_date(kind) else kind
    )
    ids = Ids.read(made.view(kind) if pa.types.is_date(kind) else made, len(made))
    assert not ids.named[-1]
    named = [value for value in values if value == value]
    assert len(set(ids.codes[ids.named].tolist())) == len(named)


def test_a_date_is_the_same_id_in_both_of_arrows_types() -> None:
    days = pa.array([0, 19_000, -5], pa.int32()).view(pa.date32())
    assert Ids.read(days, 3).codes.tolist() == Ids.read(days.cast(pa.date64()), 3).codes.tolist()
