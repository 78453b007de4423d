"""The stability of every question, as a law that correct questions keep and broken twins break."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import ibis
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tables_reference as reference
from steelyard.privacy import Unit, rows, users
from steelyard.tables import Capped, KeyList, Limits, Quantity, Table, _totals, read
from steelyard.tables import _keyed as keyed
from steelyard.tables._totals import DUCKDB
from tables_reference import Row

Ask = Callable[[Sequence[Row]], Any]
SCHEMA = pa.schema([("u", pa.int64()), ("k", pa.string()), ("x", pa.float64())])
USER = users("u")
CENTS = Quantity("x", Fraction(1, 100))
KEYS = ["a", "b", "c", "d"]
SECRET = bytes(32)
LOWER, UPPER, CAP = -300, 700, 1000
quick = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))

values = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.floats(-20, 20),
    st.sampled_from([None, math.nan, math.inf, -0.0, 2.0**53, 5e-324]),
)
row = st.fixed_dictionaries({"u": st.sampled_from([None, 1, 2, 3]), "k": st.sampled_from([None, *KEYS]), "x": values})
tables = st.lists(row, max_size=14)
HEAVY = [{"u": 1, "k": KEYS[i % 4], "x": 3.5 + i} for i in range(9)]
ORDERED = [{"u": 1, "k": "a", "x": x} for x in (2.0**53, *[1.0] * 20)]
CANCELLING = [{"u": 1, "k": "a", "x": 9.0}, {"u": 1, "k": "b", "x": -9.0}, {"u": 2, "k": "a", "x": 9.5}]
FLOODED: list[Row] = [{"u": 1, "k": "a", "x": 2.0**53}] * 1030 + [{"u": 1, "k": "b", "x": -3.0}]  # beyond 2^63 in all
MISSING = [{"u": 1, "k": "a", "x": math.nan}, {"u": 2, "k": "a", "x": 1.0}]


def table(data: Sequence[Row]) -> Table:
    return read(pa.Table.from_pylist(list(data), schema=SCHEMA))


def without(data: Sequence[Row], user: int) -> list[Row]:
    return [each for each in data if each["u"] != user]


def check_sum(ask: Ask, data: Sequence[Row]) -> None:
    """Removing one user moves the sum by a number within [LOWER, UPPER], and order by nothing."""
    whole = ask(data)
    assert ask(data[::-1]) == whole
    assert LOWER <= whole - ask(without(data, 1)) <= UPPER


def check_vector(ask: Ask, data: Sequence[Row], norm: str) -> None:
    """Removing one user moves the vector by at most CAP in the norm, and order by nothing."""
    whole = ask(data)
    assert ask(data[::-1]) == whole
    moves = [left - right for left, right in zip(whole, ask(without(data, 1)), strict=True)]
    assert sum(map(abs, moves)) <= CAP if norm == "l1" else sum(move**2 for move in moves) <= CAP**2


def check_histogram(ask: Ask, data: Sequence[Row]) -> None:
    """Removing one user takes one from one bin, or nothing if there was no such user."""
    moves = [left - right for left, right in zip(ask(data), ask(without(data, 1)), strict=True)]
    assert sorted(moves) in ([0] * len(moves), [0] * (len(moves) - 1) + [1])
    assert sum(moves) == any(each["u"] == 1 for each in data)


def check_kept_keys(ask: Ask, data: Sequence[Row], limit: int) -> None:
    """Each user keeps exactly min(limit, its keys) keys: one user's counted keys say so."""
    mine = [each for each in data if each["u"] == 1 and each["k"] is not None]
    assert sum(ask(mine)) == min(limit, len({each["k"] for each in mine}))


def check_order(ask: Ask, data: Sequence[Row]) -> None:
    assert ask(data) == ask(data[::-1])


def capped(data: Sequence[Row]) -> Any:
    return table(data).capped_sum(USER, CENTS, LOWER, UPPER)


def by_key(norm: str, **limits: Any) -> Ask:
    def ask(data: Sequence[Row]) -> list[int]:
        return table(data).sums_by_key(USER, [Capped(CENTS, CAP, norm)], "k", KEYS, Limits(secret=SECRET, **limits))[0]

    return ask


def with_others(data: Sequence[Row]) -> list[int]:
    """Two keys and everything else."""
    keys = KeyList(KEYS[:2]).with_others(1)
    return table(data).sums_by_key(USER, [Capped(CENTS, CAP)], "k", keys)[0]


def twin_others_beside_the_cap(data: Sequence[Row]) -> list[int]:
    """The rest as a question of its own, under a cap of its own, at the price of one."""
    listed = table(data).sums_by_key(USER, [Capped(CENTS, CAP)], "k", KEYS[:2])[0]
    rest = [each for each in data if each["k"] not in KEYS[:2]]
    return [*listed, table(rest).capped_sum(USER, CENTS, -CAP, CAP)]


def by_key_signed(data: Sequence[Row]) -> list[int]:
    """The twin takes a unit for a light one by the sum of its integers with their signs."""

    def signed(units: Any, parts: Any, engine: Any) -> Any:
        owners = units.group_by("u").agg(a=units.q0.sum())
        above = owners.filter(owners.a.abs() > CAP).select("u", o=True)
        return units.left_join(above, ["u"]).drop("u_right")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(keyed, "_marked", signed)
        moved: list[int] = by_key("l1")(data)
        return moved


def by_key_saturated(data: Sequence[Row]) -> list[int]:
    """The twin takes a pair's saturated total away from its key, where every row of it was added."""
    plain_pairs = keyed._pairs

    def pairs(units: Any, same: Any, engine: Any, **how: Any) -> Any:
        made = plain_pairs(units, same, engine, **how)
        return made.mutate(d0=made.t0.cast(made.d0.type())) if how else made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(keyed, "_pairs", pairs)
        moved: list[int] = by_key("l1")(data)
        return moved


def histogram(data: Sequence[Row]) -> list[int]:
    return table(data).totals_histogram(USER, CENTS, [-1000, -10, 0, 10, 1000])


def kept_keys(data: Sequence[Row]) -> list[int]:
    found = table(data).found_sums_by_key(USER, [], "k", Limits(max_keys=2, secret=SECRET))
    return [found.get(key, (0, []))[0] for key in KEYS]


def kept_rows(data: Sequence[Row]) -> list[str]:
    kept = table(data).keep_rows(USER, 3, SECRET)
    return sorted(repr(each) for batch in kept.batches(["u", "k", "x"]) for each in batch.to_pylist())


@quick
@given(tables)
@example(ORDERED)
@example(MISSING)
def test_one_user_moves_a_capped_sum_within_its_bounds(data: list[Row]) -> None:
    check_sum(capped, data)


@quick
@given(tables, st.sampled_from(["l1", "l2"]), st.sampled_from([{}, {"max_keys": 2}, {"rows_per_key": 2}]))
@example(HEAVY, "l2", {"max_keys": 3, "rows_per_key": 1})
@example(CANCELLING, "l1", {})
@example(FLOODED, "l1", {})
@example(FLOODED, "l2", {})
def test_one_user_moves_sums_by_key_by_at_most_the_cap(data: list[Row], norm: str, limits: dict[str, int]) -> None:
    check_vector(by_key(norm, **limits), data, norm)


@quick
@given(tables)
def test_one_user_moves_one_bin_by_one(data: list[Row]) -> None:
    check_histogram(histogram, data)


@quick
@given(tables)
@example(HEAVY)
def test_exactly_the_allowed_number_of_keys_is_kept(data: list[Row]) -> None:
    check_kept_keys(kept_keys, data, 2)


@quick
@given(tables)
@example(HEAVY)
def test_which_rows_are_kept_does_not_depend_on_their_order(data: list[Row]) -> None:
    check_order(kept_rows, data)
    for user in (1, 2, 3):
        mine = [each for each in data if each["u"] == user]
        assert len(kept_rows(mine)) == min(3, len(mine))


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_units_below_every_cap_take_a_shorter_way_to_the_same_integers(norm: str) -> None:
    # 1 is light; 2 looks heavy, as its signs cancel under one key; 3 is above the cap
    data = [*({"u": 1, "k": key, "x": 1.5} for key in KEYS), *({"u": 2, "k": "a", "x": x} for x in (900.0, -899.0))]
    data += [{"u": 3, "k": key, "x": 100.0 * i} for i, key in enumerate(KEYS)]
    under = table(data)._under(USER, [Capped(CENTS, CAP, norm)], "k", KEYS)
    parts = [Capped(CENTS, CAP, norm)]
    short, long = (
        table(data)._placed(way(under.rows, USER, parts, Limits(), DUCKDB), len(KEYS), 1, under.beside)
        for way in (keyed.capped_sums, keyed.capped_pairs)
    )
    assert short == long
    assert sum(short[0]) > 700, "the light unit's 600 and the 100 of the one whose signs cancel are there"


def counted_and_added(norm: str) -> tuple[list[Any], list[Any]]:
    """Sums and norms of counts on many grids under all kinds of limits: with rows counted, and with integers added up."""
    steps = (Fraction(1), Fraction(1, 100), Fraction(3), Fraction(1, 2**40), Fraction(1, 2**53))
    data = [*HEAVY, *FLOODED, *({"u": u, "k": "a", "x": 1.0} for u in (2, 2, None))]
    edges = [0, 2, 3, 900, 2**41, 2**50, 2**60]
    hard = [Limits(), Limits(secret=SECRET, rows_per_key=2), Limits(secret=SECRET, max_keys=1)]
    parts = [Capped(Quantity(step=step), cap, norm) for step in steps for cap in (250, 2**50)]
    looks = [(part, edges) for part in parts]

    def asked() -> list[Any]:
        made = table(data)
        sums = [made.sums_by_key(USER, parts, "k", KEYS, each) for each in hard]
        return [*sums, *(made.norms_histograms(USER, looks, "k", KEYS, each) for each in hard)]

    counted = asked()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(keyed, "constants", lambda parts: [None for part in parts for _ in part.quantities])
        return counted, asked()


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_rows_that_are_counted_are_the_integers_that_would_be_added(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted, added = counted_and_added(norm)
    assert counted == added
    assert len({repr(each) for each in counted}) > 4, "the limits bite"
    plain = keyed._saturated

    def twin(rows: Any, i: int, constant: int | None, engine: Any) -> Any:
        """The twin stops counting one row before the product is saturated."""
        if constant is None:
            return plain(rows, i, constant, engine)
        few = ibis.least(rows.count(), keyed.whole(keyed.SATURATION // max(constant, 1)))
        return ibis.least(few * keyed.whole(constant), keyed.whole(keyed.SATURATION))

    monkeypatch.setattr(keyed, "_saturated", twin)
    counted, added = counted_and_added(norm)
    assert counted != added


@pytest.mark.parametrize("unit", [USER, rows()])
def test_no_looks_are_no_histograms(unit: Unit) -> None:
    assert table(HEAVY).norms_histograms(unit, [], "k", KEYS, Limits()) == []


def far_histograms() -> tuple[list[list[int]], list[list[int]]]:
    """Where totals on both sides of the ends of 64 bits lie between edges there, and where the reference has them."""
    counts = {1: 511, 2: 512, 3: 513, 4: 1023, 5: 1024, 6: 1025}  # times 2^53: about 2^62 and 2^63
    data = [{"u": sign * u, "k": "a", "x": sign * 2.0**53} for u, count in counts.items() for sign in (1, -1)
            for _ in range(count)]  # fmt: skip
    ends = [2**62 - 1, 2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**63 + 1]
    looks = [[-(2**80), *(sign * end for end in ends[:some]), 2**80] for some in (2, 6) for sign in (1, -1)]
    looks += [[-(2**80), end, 2**80] for size in ends for end in (size, -size)]
    made, units = table(data), Quantity("x")
    expected = [reference.histogram(data, USER, units, sorted(look)) for look in looks]
    return [made.totals_histogram(USER, units, sorted(look)) for look in looks], expected


def test_totals_far_out_lie_in_the_bins_of_wide_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    found, expected = far_histograms()
    assert found == expected
    plain, narrow = _totals.beside_edges, _totals._NARROW

    def twin(total: Any, edges: Sequence[int]) -> Any:
        """The twin holds what is below the least edge at that edge."""
        held, written = plain(total, edges)
        return (ibis.greatest(held, keyed.whole(-narrow)) if held.type().is_int64() else held), written

    monkeypatch.setattr(_totals, "beside_edges", twin)
    found, expected = far_histograms()
    assert found != expected


@quick
@given(tables)
@example(HEAVY)
@example([{"u": 1, "k": None, "x": 50.0}, {"u": 1, "k": "a", "x": 50.0}])
def test_one_user_moves_keys_and_everything_else_by_at_most_the_cap(data: list[Row]) -> None:
    check_vector(with_others, data, "l1")


def test_everything_else_is_all_that_has_none_of_the_keys() -> None:
    data = [{"u": i, "k": key, "x": 1.0} for i, key in enumerate(["a", "b", "c", "d", None, "a"])]
    data += [{"u": None, "k": "c", "x": 1.0}]
    assert with_others(data) == [200, 100, 300], "nobody's row is nowhere"
    assert table(data).sums_by_key(rows(), [Capped(CENTS, CAP)], "k", KeyList(["a"]).with_others(1))[0] == [200, 500]
    assert table([]).sums_by_key(USER, [Capped(CENTS, CAP)], "k", KeyList([]).with_others(1)) == [[0]]
    two = KeyList([("a", 1)]).with_others(2)
    assert table(data).sums_by_key(USER, [Capped(CENTS, CAP)], ["k", "u"], two)[0] == [0, 600]


def test_a_row_unit_moves_one_key_by_at_most_the_cap() -> None:
    part = [Capped(CENTS, CAP)]
    data: list[Row] = [{"u": 1, "k": "a", "x": 1e9}, {"u": 1, "k": "b", "x": -1e9}, {"u": None, "k": "a", "x": 0.5}]
    assert table(data).sums_by_key(rows(), part, "k", KEYS) == [[CAP + 50, -CAP, 0, 0]]


def test_another_secret_keeps_other_rows() -> None:
    data: list[Row] = [{"u": 1, "k": "a", "x": float(i)} for i in range(200)]
    kept = [
        table(data).keep_rows(USER, 20, bytes([i]) * 16).capped_sum(USER, Quantity("x"), 0, 10**9) for i in range(8)
    ]
    assert len(set(kept)) > 4


# Broken twins: each makes one known mistake, and the check above must catch it.


def owned(data: Sequence[Row]) -> dict[int, list[Row]]:
    units: dict[int, list[Row]] = defaultdict(list)
    for each in data:
        if each["u"] is not None:
            units[each["u"]].append(each)
    return units


def twin_floats_summed_before_the_clamp(data: Sequence[Row]) -> Any:
    total = 0.0
    for each in data:
        total += 100 * (each["x"] or 0.0)
    return int(max(-(2.0**60), min(2.0**60, total)))


def twin_clamp_lets_nan_through(data: Sequence[Row]) -> Any:
    return sum(max(min(sum(each["x"] for each in mine), UPPER), LOWER) for mine in owned(data).values())


def twin_keeps_one_key_too_few(data: Sequence[Row]) -> list[int]:
    kept = [sorted({each["k"] for each in mine if each["k"]})[: 2 - 1] for mine in owned(data).values()]
    return [sum(key in keys for keys in kept) for key in KEYS]


def twin_keeps_one_key_too_many(data: Sequence[Row]) -> list[int]:
    kept = [sorted({each["k"] for each in mine if each["k"]})[: 2 + 1] for mine in owned(data).values()]
    return [sum(key in keys for keys in kept) for key in KEYS]


def twin_keeps_the_first_rows(data: Sequence[Row]) -> list[str]:
    return sorted(repr(each) for mine in owned(data).values() for each in mine[:3])


def twin_rounds_the_scaled_vector_up(data: Sequence[Row]) -> list[int]:
    answer = dict.fromkeys(KEYS, 0)
    for mine in owned(data).values():
        totals = dict.fromkeys(KEYS, 0)
        for each in mine:
            totals[each["k"]] += CENTS.integer(each["x"])
        norm = sum(map(abs, totals.values()))
        for key, total in totals.items():
            answer[key] += math.ceil(total * CAP / norm) if norm > CAP else total
    return [answer[key] for key in KEYS]


def twin_counts_a_user_in_every_bin_it_touches(data: Sequence[Row]) -> list[int]:
    return [sum(any(each["k"] == key for each in mine) for mine in owned(data).values()) for key in KEYS]


@pytest.mark.parametrize(
    "check",
    [
        lambda: check_sum(twin_floats_summed_before_the_clamp, ORDERED),
        lambda: check_sum(twin_clamp_lets_nan_through, MISSING),
        lambda: check_kept_keys(twin_keeps_one_key_too_few, HEAVY, 2),
        lambda: check_kept_keys(twin_keeps_one_key_too_many, HEAVY, 2),
        lambda: check_order(twin_keeps_the_first_rows, HEAVY),
        lambda: check_vector(twin_rounds_the_scaled_vector_up, HEAVY, "l1"),
        lambda: check_vector(twin_others_beside_the_cap, HEAVY, "l1"),
        lambda: check_vector(by_key_signed, CANCELLING, "l1"),
        lambda: check_vector(by_key_saturated, FLOODED, "l1"),
        lambda: check_histogram(twin_counts_a_user_in_every_bin_it_touches, HEAVY),
    ],
    ids=[
        "float sum",
        "nan path",
        "a key too few",
        "a key too many",
        "first rows",
        "rounds up",
        "others apart",
        "signs cancel",
        "saturated before it is taken away",
        "many bins",
    ],
)
def test_a_broken_twin_is_caught(check: Callable[[], None]) -> None:
    with pytest.raises(AssertionError):
        check()
