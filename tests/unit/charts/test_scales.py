"""Ticks and numbers are what a person would have written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.charts._scales import columns, read, round_step, scale, science, short, tick_labels, with_error
from steelyard.errors import InvalidTask

FINITE = st.floats(-1e300, 1e300)


def is_one_two_five(value: float) -> bool:
    return f"{value:.6e}".partition("e")[0] in ("1.000000", "2.000000", "5.000000")


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0, 100], (0, 20, 40, 60, 80, 100)),
        ([0.13, 0.87], (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
        ([-3, 7], (-4, -2, 0, 2, 4, 6, 8)),
        ([0, 0], (-1, -0.5, 0, 0.5, 1)),
        ([], (0, 0.2, 0.4, 0.6, 0.8, 1.0)),
    ],
)
def test_linear_ticks_are_round(values: list[float], ticks: tuple[float, ...]) -> None:
    assert scale(values, 0, 1).ticks == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([1, 20], (1, 2, 5, 10, 20)),
        ([10, 100_000], (10, 100, 1000, 10_000, 100_000)),
        ([3e-6, 0.4], (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1)),
        ([500], (200, 500, 1000)),
        ([-1, 0, 7, 8], (5, 10)),
    ],
)
def test_log_ticks_are_decades_or_one_two_five(values: list[float], ticks: tuple[float, ...]) -> None:
    assert scale(values, 0, 1, log=True).ticks == pytest.approx(ticks)


@given(st.floats(1e-300, 1e300))
def test_a_step_is_one_two_or_five_times_a_power_of_ten(least: float) -> None:
    step = round_step(least)
    assert is_one_two_five(step)
    assert least * (1 - 1e-8) <= step < least * 2.6


@given(st.lists(FINITE, min_size=1, max_size=6), st.booleans(), st.booleans())
def test_every_value_and_tick_lies_on_the_scale(values: list[float], log: bool, tight: bool) -> None:
    drawn = [v for v in map(read, values) if v is not None and (v > 0 or not log)]
    x = scale(drawn, 40, 600, log=log, tight=tight)
    places = [x(value) for value in drawn] + [x(tick) for tick in x.ticks]
    assert all(40 - 1e-4 <= place <= 600 + 1e-4 for place in places)
    assert list(x.ticks) == sorted(set(x.ticks))
    assert len(x.labels) == len(x.ticks) <= 13


@given(st.floats(1e-3, 1e3), st.floats(1e-2, 1e2))
def test_no_two_tick_labels_are_the_same(low: float, span: float) -> None:
    labels = scale([low, low + span], 0, 1).labels
    assert len(labels) == len(set(labels)) >= 2


def test_numbers_are_written_for_people() -> None:
    told = {0.0: "0", 5458.0: "5,458", 12_345.0: "12.3k", 999_999.0: "1M", 2.5e9: "2.5G", -3.14159: "−3.14"}
    assert {value: short(value) for value in told} == told
    assert [short(1e-6), science(-1e30), short(3.2e-5)] == ["10⁻⁶", "−10³⁰", "3.2×10⁻⁵"]
    assert tick_labels([0, 5000, 10_000]) == ["0", "5k", "10k"]
    assert tick_labels([0, 0.5, 1.0]) == ["0", "0.5", "1.0"]
    assert with_error(-1234.5, 88) == "−1,234 ± 88"
    assert with_error(5, 0) == "5 ± 0"


@given(FINITE)
def test_a_short_number_stays_short_and_says_the_value(value: float) -> None:
    words = short(value)
    assert len(words) <= 12
    powers = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
    if 1e-3 <= abs(value) < 1e20:
        said = float(words.rstrip("kMGTPE").replace("−", "-").replace(",", "")) * powers.get(words[-1], 1)
        assert said == pytest.approx(value, rel=6e-3)


def test_what_is_no_number_is_left_out_or_refused() -> None:
    assert [read(v) for v in (None, math.nan, math.inf, 10**400, 1e-320, 3)] == [None, None, None, None, 0.0, 3.0]
    with pytest.raises(InvalidTask, match="draws numbers"):
        read("seven")  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match="2 caps, 1 noise"):
        columns(caps=[1, 2], noise=[1])
