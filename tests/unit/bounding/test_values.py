"""Mean, Quantile and Histogram: right on average, as noisy as they say, priced as asked; see test_neighbours too."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from steelyard.bounding import Histogram, Mean, Quantile
from steelyard.bounding._values import on_grid
from steelyard.documents import request_of
from steelyard.errors import ColumnMissing, CurrencyMismatch, InvalidTask, TableError, UnitMismatch
from steelyard.ledger import open_account
from steelyard.mechanisms import Laplace
from steelyard.noise import ExactNoise
from steelyard.privacy import Currency, Loss, Terms, holdout, labels, rows, users
from steelyard.session import Session
from steelyard.tables import read
from unit.bounding.remembered import NoNoise, Remembered, terms

USERS, DRAWS = 500, 400
ROWS = [(u, float((u * 37 + i * 11) % 101)) for u in range(USERS) for i in range(1 + u % 3)]
ROWS += [(7, math.nan), (8, math.inf), (9, -math.inf)]
DATA: dict[str, list[Any]] = {"user": [u for u, _ in ROWS], "x": [x for _, x in ROWS], "name": ["n"] * len(ROWS)}
TABLE = read(DATA)
VALUES = sorted(x for _, x in ROWS if math.isfinite(x))
NOISE = ExactNoise()


def draws(task: Any, mine: Terms) -> list[Any]:
    """Many draws over one reading of the rows, after one real run through the engine."""
    known: Any = Remembered(TABLE)
    plan = task.plan(TABLE.schema, mine)
    return [plan.run(TABLE, NOISE), *[plan.run(known, NOISE) for _ in range(DRAWS - 1)]]


def near(value: float, truth: float, deviation: float) -> bool:
    """Whether an average of all draws is within five standard errors of the truth."""
    return abs(value - truth) < 5 * deviation / math.sqrt(DRAWS)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("by_users", [True, False])
def test_a_mean_is_right_on_average_and_as_noisy_as_it_says(by_users: bool, gaussian: bool) -> None:
    task = Mean("x", epsilon=1, lower=-20, upper=110, cap=3)
    found = draws(task, terms(users("user") if by_users else rows(), gaussian=gaussian))
    truth, values = statistics.fmean(VALUES), [each.value for each in found]
    usual = statistics.fmean(each.error.noise for each in found)
    assert near(statistics.fmean(values), truth, 1.5 * usual)
    assert 0.8 < statistics.fmean(abs(value - truth) for value in values) / usual < 1.25
    covered = sum(abs(each.value - truth) <= each.error.interval for each in found) / DRAWS
    assert 0.91 < covered < 0.985
    counted = statistics.fmean(each.point["rows"] for each in found)
    assert abs(counted / len(VALUES) - 1) < 0.05


def test_a_users_many_rows_are_weighed_down_together() -> None:
    data = read({"user": [1] * 100 + [2, 3], "x": [1.0] * 100 + [0.0, 0.0]})
    task = Mean("x", epsilon=1, cap=2)
    assert task.plan(data.schema, terms()).run(data, NoNoise()).value == pytest.approx(2 / 4, abs=1e-4)
    assert task.plan(data.schema, terms(rows())).run(data, NoNoise()).value == pytest.approx(100 / 102, abs=1e-4)


def test_one_pair_has_less_than_half_the_variance_of_a_noisy_sum_over_a_noisy_count() -> None:
    task, mine, count = Mean("x", epsilon=1, lower=0, upper=100, cap=3), terms(), len(VALUES)
    pair = statistics.pvariance([each.value for each in draws(task, mine)])
    half = Laplace(300, Fraction(600)), Laplace(3, Fraction(6))
    total = round(sum(VALUES))
    ratios = [half[0].release([total], NOISE)[0] / max(1, half[1].release([count], NOISE)[0]) for _ in range(DRAWS)]
    assert pair * 2 < statistics.pvariance(ratios)


def test_values_outside_the_bounds_are_moved_to_them() -> None:
    data = read({"user": [1, 2, 3, 4], "x": [-1e308, 1e308, 5.0, None]})
    value = Mean("x", epsilon=1, lower=2, upper=8, cap=1).plan(data.schema, terms()).run(data, NoNoise()).value
    assert value == pytest.approx(5.0, abs=1e-4)


def test_no_rows_at_all_give_the_middle_and_an_honest_error() -> None:
    empty = read({"user": [1], "x": [math.nan]})
    outcome = Mean("x", epsilon=1, lower=2, upper=8, cap=1).plan(empty.schema, terms()).run(empty, NoNoise())
    assert outcome.value == 5.0
    assert outcome.error is not None
    assert outcome.error.interval == 6.0


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_histogram_is_right_in_every_bin(gaussian: bool) -> None:
    edges: list[Any] = [0, 10, "25.5", 60, 90]
    task, mine = Histogram("x", epsilon=1, edges=edges, cap=3), terms(gaussian=gaussian)
    sharp = [0.0, 10.0, 25.5, 60.0, 90.0]
    # the ends catch what lies outside; rows without a value are nowhere
    truth = [sum(a <= x < b for x in VALUES) for a, b in zip([-1e9, *sharp[1:-1]], [*sharp[1:-1], 1e9], strict=True)]
    found, plan = draws(task, mine), task.plan(TABLE.schema, mine)
    error = plan.predicted
    assert error is not None
    assert sum(truth) == len(VALUES)
    for place, want in enumerate(truth):
        values = [each.value[place][2] for each in found]
        assert all(isinstance(value, int) for value in values)
        assert near(statistics.fmean(values), want, 1.5 * error.noise)
        assert 0.8 < statistics.fmean(abs(value - want) for value in values) / error.noise < 1.25
        assert 0.91 < sum(abs(value - want) <= error.interval + 0.5 for value in values) / DRAWS < 0.99
    assert list(plan.present(found[0].value)) == list(pairwise(sharp))


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("quantile", ["0.1", "0.5", "0.95"])
def test_a_quantile_has_the_rank_it_should(quantile: str, gaussian: bool) -> None:
    task = Quantile("x", epsilon=1, quantile=quantile, lower=0, upper=101, resolution=1, cap=3)
    mine = terms(gaussian=gaussian)
    error = task.plan(TABLE.schema, mine).predicted
    assert error is not None
    wanted = float(quantile) * len(VALUES)
    ranks = [abs(sum(x < each.value for x in VALUES) - wanted) for each in draws(task, mine)[:200]]
    spacing = len(VALUES) / 101
    assert sum(rank <= error.interval + spacing for rank in ranks) / 200 > 0.93
    assert statistics.fmean(ranks) <= error.noise + spacing


def test_several_quantiles_come_in_order_for_one_price() -> None:
    task = Quantile("x", epsilon=6, quantile=["0.25", "0.5", "0.75"], lower=0, upper=101, resolution=1, cap=3)
    for each in draws(task, terms())[:200]:
        assert each.value == sorted(each.value)
        assert all(abs(value - want) < 12 for value, want in zip(each.value, (25, 50, 76), strict=True))


def test_prices_are_what_was_asked() -> None:
    one = Session(TABLE, open_account(":memory:", "a", unit=users("user"), epsilon=4))
    two = Session(TABLE, open_account(":memory:", "b", unit=users("user"), epsilon=1, delta="1e-6"))
    half = Session(TABLE, open_account(":memory:", "c", unit=rows(neighbours="replace", n=9), epsilon=4))
    for task in (Mean("x", epsilon="0.3", cap=7), Histogram("x", epsilon="0.3", edges=[0, 1], cap=7)):
        assert one.quote(task) == Loss.pure("0.3")
        assert half.quote(task) == Loss.pure("0.3")
    assert one.quote(Quantile("x", epsilon="0.3", cap=7)) == Loss.pure("0.3")
    four = Quantile("x", epsilon="0.1", quantile=["0.2", "0.3", "0.4", "0.5"], cap=7, interval=False)
    assert one.quote(four) == Loss.pure("0.099999")
    for gaussian in (Mean("x", epsilon=1, cap=7), Histogram("x", epsilon=1, edges=[0, 1], cap=7)):
        assert two.quote(gaussian) == two.account.terms.cap
        assert two.quote(replace(gaussian, epsilon=None, mu="0.2")) == Loss.mu("0.2")
    search = two.quote(Quantile("x", epsilon=1, quantile=["0.2", "0.5"], cap=7))
    assert 0.9999 * two.account.terms.cap.amount < search.amount <= two.account.terms.cap.amount


def test_a_real_release_says_the_same_as_a_run() -> None:
    session = Session(TABLE, open_account(":memory:", "a", unit=users("user"), epsilon=200))
    assert session.release(Mean("x", epsilon=50, upper=100, cap=3)).value == pytest.approx(
        statistics.fmean(VALUES), abs=1
    )
    answer = session.release(Quantile("x", epsilon=50, upper=101, resolution=1, cap=3)).value
    assert abs(answer - 50) < 3
    counts = session.release(Histogram("x", epsilon=50, edges=[0, 50, 101], cap=3)).value
    assert counts[0.0, 50.0] == pytest.approx(sum(x < 50 for x in VALUES), abs=3)


# What is refused, and what the message says to do.


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Mean("x", epsilon=1, lower=3, upper=3, cap=1), "above lower"),
        (lambda: Mean("x", epsilon=1, lower=5, upper=2, cap=1), "above lower"),
        (lambda: Mean("x", epsilon=1, lower=10**15, upper=10**15 + 1, cap=1), "too close together"),
        (lambda: Mean("x", epsilon=1, upper=1e300, cap=1), "1e200"),
        (lambda: Mean("x", epsilon=1, upper="1e-250", cap=1), "1e-200"),
        (lambda: Mean("x", epsilon=1, upper=math.inf, cap=1), "upper"),
        (lambda: Mean("x", epsilon=1, cap=0), "cap must be a whole number"),
        (lambda: Mean("x", epsilon=1, cap=1.5), "cap must be a whole number"),  # type: ignore[arg-type]
        (lambda: Mean("x", epsilon=1, cap=True), "cap must be a whole number"),
        (lambda: Mean("x", epsilon=1, cap=2**31), "cap must be a whole number"),
        (lambda: Mean("x", epsilon=-1, cap=1), "epsilon"),
        (lambda: Histogram("x", epsilon=1, edges=[1], cap=1), "ascending"),
        (lambda: Histogram("x", epsilon=1, edges=[1, 1], cap=1), "ascending"),
        (lambda: Histogram("x", epsilon=1, edges=[2, 1], cap=1), "ascending"),
        (lambda: Histogram("x", epsilon=1, edges=range(5000), cap=1), "4096"),
        (lambda: Histogram("x", epsilon=1, edges=[0, 1, "1.00000000000000000001"], cap=1), "too close"),
        (lambda: Histogram("x", epsilon=1, edges=[0, math.nan], cap=1), "edges"),
        (lambda: Quantile("x", epsilon=1, quantile=0, cap=1), "between 0 and 1"),
        (lambda: Quantile("x", epsilon=1, quantile=1, cap=1), "between 0 and 1"),
        (lambda: Quantile("x", epsilon=1, quantile=[], cap=1), "between 0 and 1"),
        (lambda: Quantile("x", epsilon=1, quantile=["0.5", "0.5"], cap=1), "none twice"),
        (lambda: Quantile("x", epsilon=1, quantile=["0.7", "0.5"], cap=1), "ascending"),
        (lambda: Quantile("x", epsilon=1, resolution="1e-6", cap=1), "too fine"),
        (lambda: Quantile("x", epsilon=1, resolution=0, cap=1), "resolution"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_written_down(make: Any, words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        make()


EACH = [
    Mean("x", epsilon=1, cap=1),
    Histogram("x", epsilon=1, edges=[0, 1], cap=1),
    Quantile("x", epsilon=1, cap=1),
]


@pytest.mark.parametrize("task", EACH)
def test_accounts_and_columns_that_do_not_fit_are_refused_before_the_charge(task: Any) -> None:
    for unit in (labels("x"), holdout("h")):
        with pytest.raises(UnitMismatch, match="users or rows"):
            task.plan(TABLE.schema, terms(unit))
    with pytest.raises(ColumnMissing, match="x"):
        task.plan(read({"user": [1], "y": [1.0]}).schema, terms())
    with pytest.raises(ColumnMissing, match="user"):
        task.plan(read({"x": [1.0]}).schema, terms())
    with pytest.raises(TableError, match="string"):
        replace(task, column="name").plan(TABLE.schema, terms())
    with pytest.raises(InvalidTask, match="most rows one unit"):
        replace(task, cap=None).plan(TABLE.schema, terms())
    replace(task, cap=None).plan(TABLE.schema, terms(rows()))
    with pytest.raises(CurrencyMismatch, match="nats"):
        task.plan(TABLE.schema, Terms(users("user"), Loss(Currency.NATS, 10**6)))
    with pytest.raises(CurrencyMismatch, match="pure"):
        replace(task, epsilon=None, mu=1).plan(TABLE.schema, terms())
    with pytest.raises(InvalidTask, match="epsilon="):
        replace(task, epsilon=None).plan(TABLE.schema, terms())


def test_equal_requests_are_equal_bytes() -> None:
    assert request_of(Mean("x", epsilon="1.0", upper=2.0, cap=1)) == request_of(Mean("x", epsilon=1, upper="2", cap=1))
    assert request_of(Histogram("x", epsilon=1, edges=(0, 1.5), cap=1)) == request_of(
        Histogram("x", epsilon="1", edges=["0", "1.5"], cap=1)
    )


@pytest.mark.parametrize("edges", [(0, Fraction(1, 3), 1), (-(10**12), 0, 7), (Fraction(1, 10**6), 2), (0, 10**150)])
def test_edges_lie_on_the_grid_to_within_half_a_step(edges: tuple[Any, ...]) -> None:
    step, places = on_grid([Fraction(edge) for edge in edges])
    assert all(abs(place * step - edge) <= step / 2 for place, edge in zip(places, edges, strict=True))
    assert max(map(abs, places)) <= 2**52
