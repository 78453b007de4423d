from __future__ import annotations

import statistics
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.bounding import Count, Sum
from steelyard.bounding._amounts import Amount, Spend
from steelyard.documents import request_of
from steelyard.errors import ColumnMissing, CurrencyMismatch, InvalidTask, TableError, UnitMismatch
from steelyard.ledger import open_account
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import Currency, Loss, Terms, Unit, holdout, labels, rows, users
from steelyard.session import Session
from steelyard.tables import Quantity, read

USERS = 400
DATA: dict[str, list[Any]] = {
    "user": [u for u in range(USERS) for _ in range(1 + u % 5)],
    "amount": [float(u % 11) - 2.0 for u in range(USERS) for _ in range(1 + u % 5)],
    "country": [("FR", "DE", "IT")[(u + i) % 3] for u in range(USERS) for i in range(1 + u % 5)],
    "name": ["x" for u in range(USERS) for _ in range(1 + u % 5)],
}
TABLE = read(DATA)


def terms(unit: Unit = users("user"), *, gaussian: bool = False) -> Terms:  # noqa: B008 - units are frozen
    if gaussian:
        return Terms(unit, Loss.mu(100), Fraction(1), Fraction(1, 10**6))
    return Terms(unit, Loss.pure(100), Fraction(100))


def capped_truth(cap: float, lower: float, key: str | None = None) -> float:
    totals: dict[int, float] = {}
    for user, amount, country in zip(DATA["user"], DATA["amount"], DATA["country"], strict=True):
        if key in (None, country):
            totals[user] = totals.get(user, 0.0) + amount
    return sum(min(max(total, lower), cap) for total in totals.values())


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize(("cap", "lower"), [(10, 0), (5, -8), (3, -3), (40, -10)])
def test_a_sum_is_right_on_average_and_as_noisy_as_it_says(cap: int, lower: int, gaussian: bool) -> None:
    noise, mine = ExactNoise(), terms(gaussian=gaussian)
    plan = Sum("amount", epsilon=1, cap=cap, lower=lower).plan(TABLE.schema, mine)
    error = plan.predicted
    assert error is not None
    draws = [plan.run(TABLE, noise).value for _ in range(8)]
    spend = Spend.read(1, None, mine)
    amount, mechanism = Amount.of_values(Fraction(lower), Fraction(cap), spend), spend.mechanism(spend.steps)
    total = TABLE.capped_sum(mine.unit, Quantity("amount", amount.step), amount.lower, amount.upper)
    draws += [amount.back(mechanism.release([total], noise)[0]) for _ in range(1992)]
    truth = capped_truth(cap, lower)
    assert abs(statistics.fmean(draws) - truth) < 6 * error.noise / 2000**0.5 * 1.5
    assert 0.9 < statistics.fmean(abs(d - truth) for d in draws) / error.noise < 1.1
    covered = sum(abs(d - truth) <= error.interval for d in draws) / len(draws)
    assert 0.93 < covered < 0.97


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_count_is_a_whole_number_near_the_truth(gaussian: bool) -> None:
    plan = Count(epsilon=1, cap=3).plan(TABLE.schema, terms(gaussian=gaussian))
    truth = sum(min(1 + u % 5, 3) for u in range(USERS))
    draws = [plan.run(TABLE, ExactNoise()).value for _ in range(200)]
    assert all(isinstance(draw, int) for draw in draws)
    assert plan.predicted is not None
    noise = plan.predicted.noise
    assert abs(statistics.fmean(draws) - truth) < 6 * noise / 200**0.5 * 1.5
    assert 0.7 < statistics.fmean(abs(d - truth) for d in draws) / noise < 1.4


def test_totals_by_key_keep_the_order_of_the_keys_and_answer_for_absent_ones() -> None:
    plan = Count(epsilon=50, cap=5, by="country", keys=["IT", "XX", "FR"]).plan(TABLE.schema, terms())
    value = plan.present(plan.run(TABLE, ExactNoise()).value)
    assert list(value) == ["IT", "XX", "FR"]
    truth = {key: DATA["country"].count(key) for key in value}
    assert all(abs(value[key] - truth[key]) < 5 for key in value)


def test_where_the_row_is_the_unit_a_count_needs_no_cap() -> None:
    value = Count(epsilon=20).plan(TABLE.schema, terms(rows())).run(TABLE, ExactNoise()).value
    assert abs(value - len(DATA["user"])) < 5


def test_the_price_is_exactly_what_was_asked() -> None:
    account = open_account(":memory:", "a", unit=users("user"), epsilon=4)
    session = Session(TABLE, account)
    assert session.quote(Sum("amount", epsilon="0.1", cap="3.7", lower="-1.9")) == Loss.pure("0.1")
    assert session.quote(Count(epsilon="0.3", cap=7)) == Loss.pure("0.3")


def test_on_a_gaussian_account_epsilon_is_read_at_its_delta() -> None:
    account = open_account(":memory:", "a", unit=users("user"), epsilon=1, delta="1e-6")
    session = Session(TABLE, account)
    assert session.quote(Sum("amount", epsilon=1, cap=3)) == account.terms.cap
    assert session.quote(Sum("amount", mu="0.1", cap=3)) == Loss.mu("0.1")


def test_where_neighbours_replace_the_user_still_pays_no_more_than_asked() -> None:
    account = open_account(":memory:", "a", unit=rows(neighbours="replace", n=4), epsilon=4)
    assert Session(TABLE, account).quote(Count(epsilon=1)) == Loss.pure(1)


@given(
    st.fractions(min_value=Fraction(1, 10**6), max_value=10**9),
    st.fractions(min_value=-(10**9), max_value=0),
    st.integers(1, 10**8),
    st.booleans(),
)
def test_the_grid_never_lets_a_unit_add_more_than_was_paid_for(
    upper: Fraction, lower: Fraction, micro: int, gaussian: bool
) -> None:
    spend = Spend(gaussian, micro)
    amount = Amount.of_values(lower, upper, spend)
    mechanism = spend.mechanism(amount.sensitivity)
    assert lower <= amount.lower * amount.step <= 0 <= amount.upper * amount.step <= upper
    paid = mechanism.mu_squared * 10**12 if isinstance(mechanism, Gaussian) else mechanism.epsilon * 10**6
    assert paid == (micro**2 if gaussian else micro)


@given(st.integers(1, 10**8), st.fractions(min_value=Fraction(1, 100), max_value=Fraction(99, 100)), st.booleans())
def test_a_split_never_costs_more_than_the_whole(micro: int, share: Fraction, gaussian: bool) -> None:
    try:
        first, second = Spend(gaussian, micro).split(share)
    except InvalidTask:
        assert micro < 200
        return
    power = 2 if gaussian else 1
    assert first.micro**power + second.micro**power <= micro**power


# One unit added or removed, against the declared sensitivity; the broken twins must be caught by the same check.


def worst_shift(task: Sum, bounds: type[Amount]) -> Fraction:
    """The largest measured shift of the integer total, over users who bring extreme amounts, per unit of sensitivity."""
    spend = Spend(False, 10**6)
    amount = bounds.of_values(Fraction(str(task.lower)), Fraction(str(task.cap)), spend)
    quantity = Quantity("amount", amount.step)
    worst = Fraction(0)
    for extreme in (1e308, -1e308, float("inf"), float("nan"), 2.0**53, -(2.0**63), -0.0, 5e-324):
        more = read({"user": [1, 1, 2, 2], "amount": [1.0, 2.0, extreme, extreme]})
        less = read({"user": [1, 1], "amount": [1.0, 2.0]})
        shift = more.capped_sum(users("user"), quantity, amount.lower, amount.upper) - less.capped_sum(
            users("user"), quantity, amount.lower, amount.upper
        )
        worst = max(worst, Fraction(abs(shift), amount.sensitivity))
    return worst


class IgnoresLower(Amount):
    """Broken twin: the sensitivity forgets the lower bound."""

    @property
    def sensitivity(self) -> int:
        return max(1, self.upper)


class IgnoresUpper(Amount):
    """Broken twin: the sensitivity forgets the upper bound."""

    @property
    def sensitivity(self) -> int:
        return max(1, -self.lower)


@pytest.mark.parametrize(("cap", "lower"), [(5, -20), (20, -5), (7, 0), (3, -3)])
def test_one_user_never_moves_a_total_by_more_than_the_sensitivity(cap: int, lower: int) -> None:
    assert worst_shift(Sum("amount", epsilon=1, cap=cap, lower=lower), Amount) <= 1


def test_the_twins_with_half_a_sensitivity_are_caught() -> None:
    assert worst_shift(Sum("amount", epsilon=1, cap=5, lower=-20), IgnoresLower) > 1
    assert worst_shift(Sum("amount", epsilon=1, cap=20, lower=-5), IgnoresUpper) > 1


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(12)))
def test_the_order_of_rows_changes_nothing(order: list[int]) -> None:
    values = [0.1, 1e16, -1e16, 3.3, float("nan"), 2.5, -0.0, 7.7, 1e-300, 0.3, 0.2, 0.1]
    table = read({"user": [i % 4 for i in order], "amount": [values[i] for i in order]})
    plan = Sum("amount", epsilon=1, cap=9, lower=-9).plan(table.schema, terms())
    assert plan.run(table, TestNoise(3)).value == plan.run(_sorted(values), TestNoise(3)).value


def _sorted(values: list[float]) -> Any:
    return read({"user": [i % 4 for i in range(12)], "amount": values})


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "abc", "0.0000001"])
def test_an_epsilon_that_is_none_is_refused(epsilon: Any) -> None:
    with pytest.raises(InvalidTask, match=r"epsilon|smallest step"):
        Sum("amount", epsilon=epsilon, cap=1).plan(TABLE.schema, terms())


@pytest.mark.parametrize(
    "arguments", [{}, {"cap": 0}, {"cap": -1}, {"cap": "x"}, {"cap": 1, "lower": 2}, {"cap": 5, "lower": 1}]
)
def test_bounds_that_make_no_sense_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match=r"cap|lower"):
        Sum("amount", epsilon=1, **arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"by": "country"}, {"keys": ["FR"]}, {"by": "country", "keys": []}, {"by": "country", "keys": ["FR", "FR"]},
     {"by": "country", "keys": ["FR"], "max_keys": 0}, {"by": "country", "keys": ["FR"], "rows_per_key": 1.5}],
)  # fmt: skip
def test_groupings_that_make_no_sense_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask, match=r"key|by="):
        Sum("amount", epsilon=1, cap=1, **arguments)


@pytest.mark.parametrize("cap", [0, -1, 1.5, True])
def test_a_count_is_capped_by_whole_rows(cap: Any) -> None:
    with pytest.raises(InvalidTask, match="cap"):
        Count(epsilon=1, cap=cap)


def test_a_count_of_users_rows_needs_a_cap() -> None:
    with pytest.raises(InvalidTask, match="cap"):
        Count(epsilon=1).plan(TABLE.schema, terms())


def test_what_the_schema_rules_out_is_refused_before_anything_is_charged() -> None:
    with pytest.raises(ColumnMissing, match="amount"):
        Sum("amont", epsilon=1, cap=1).plan(TABLE.schema, terms())
    with pytest.raises(TableError, match="string"):
        Sum("name", epsilon=1, cap=1).plan(TABLE.schema, terms())
    with pytest.raises(ColumnMissing, match="country"):
        Count(epsilon=1, cap=1, by="contry", keys=["FR"]).plan(TABLE.schema, terms())


@pytest.mark.parametrize("unit", [labels("amount"), holdout("h")])
def test_totals_protect_users_or_rows_only(unit: Unit) -> None:
    with pytest.raises(UnitMismatch):
        Count(epsilon=1, cap=1).plan(TABLE.schema, terms(unit))


def test_currencies_that_do_not_fit_are_refused() -> None:
    nats = Terms(users("user"), Loss(Currency.NATS, 10**6))
    for task in (Sum("amount", epsilon=1, cap=1), Sum("amount", mu=1, cap=1)):
        with pytest.raises(CurrencyMismatch):
            task.plan(TABLE.schema, nats)
    with pytest.raises(CurrencyMismatch):
        Sum("amount", mu=1, cap=1).plan(TABLE.schema, terms())
    with pytest.raises(InvalidTask, match="epsilon"):
        Sum("amount", cap=1).plan(TABLE.schema, terms())


def test_equal_requests_are_equal_however_they_were_typed() -> None:
    assert request_of(Sum("a", epsilon="1.0", cap=3, keys=["x"], by="c")) == request_of(
        Sum("a", epsilon=1, cap="3", keys=("x",), by="c")
    )


def test_mechanisms_fit_the_account() -> None:
    assert isinstance(Spend(False, 10).mechanism(3), Laplace)
    assert isinstance(Spend(True, 10).mechanism(3), Gaussian)
