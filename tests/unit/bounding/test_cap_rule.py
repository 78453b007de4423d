"""The three ways to a cap, and above all the private one: its accuracy, its exact price, and what it is fed."""

from __future__ import annotations

import statistics
from fractions import Fraction
from typing import Any

import pytest

from steelyard.accounting._gaussian import mu_request
from steelyard.bounding import ContributionProfile, Count, Profile, Sum
from steelyard.bounding._amounts import Amount, Spend
from steelyard.bounding._theory import expected_error
from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.noise import ExactNoise
from steelyard.privacy import rows, users
from steelyard.session import Session
from steelyard.tables import Quantity, read
from unit.bounding.remembered import USER, Remembered, seen_in, terms

USERS = 1500
TOTALS = [round(5 + 900 * (u / USERS) ** 12, 2) for u in range(USERS)]
SIGNED = [total * (-1 if u % 3 == 0 else 1) for u, total in enumerate(TOTALS)]
SIZES = [1 + round(60 * (u / USERS) ** 8) for u in range(USERS)]
TABLE = read({"user": list(range(USERS)), "x": TOTALS, "s": SIGNED})
MANY = read({"user": [u for u in range(USERS) for _ in range(SIZES[u])]})
NOISE, DRAWS = ExactNoise(), 200


def study(task: Any, table: Any, mine: Any, totals: list[float]) -> tuple[float, float, float]:
    """The mean error, the mean predicted error, and how often the noise stayed in its interval about the capped sum."""
    known, truth = Remembered(table), sum(totals)
    plan = task.plan(table.schema, mine)
    found = [plan.run(table, NOISE), *[plan.run(known, NOISE) for _ in range(DRAWS - 1)]]
    errors, said, inside = [], [], 0
    for each in found:
        low, high = each.point["lower"], each.point["cap"]
        capped = sum(min(max(total, low), high) for total in totals)
        inside += abs(each.value - capped) <= each.error.interval + 0.5
        errors.append(abs(each.value - truth))
        said.append(each.error.noise + (each.error.bias or 0.0))
    return statistics.fmean(errors), statistics.fmean(said), inside / DRAWS


@pytest.mark.parametrize("gaussian", [False, True])
def test_a_private_cap_comes_near_the_best_one_and_says_how_near(gaussian: bool) -> None:
    epsilon = 3 if gaussian else 1
    error, said, inside = study(Sum("x", epsilon=epsilon, upper=10**4), TABLE, terms(gaussian=gaussian), TOTALS)
    level = mu_request(Fraction(3), Fraction(1, 10**6)) / 10**6 if gaussian else 1.0
    best = min(expected_error(TOTALS, 2 ** (i / 4), level) for i in range(8, 48))
    assert error < 4 * best
    assert 0.4 < said / error < 2.5
    assert 0.9 < inside < 0.99


def test_a_private_cap_on_rows_and_on_signed_totals_works_too() -> None:
    sizes = [float(size) for size in SIZES]
    error, said, inside = study(Count(epsilon=1, upper=1000), MANY, terms(), sizes)
    assert error < 0.12 * sum(sizes)
    assert 0.9 < inside < 0.99
    assert 0.4 < said / error < 2.5
    error, said, inside = study(Sum("s", epsilon=1, lower=-(10**4), upper=10**4), TABLE, terms(), SIGNED)
    assert error < 0.5 * sum(map(abs, SIGNED))
    assert 0.9 < inside < 0.99
    error, said, inside = study(Sum("x", epsilon=1, upper=10**4), TABLE, terms(rows()), TOTALS)
    assert 0.9 < inside < 0.99


def test_a_profile_serves_releases_with_the_cap_it_plans() -> None:
    profile = ContributionProfile.from_json(
        Profile("x", epsilon=3, upper=10**4).plan(TABLE.schema, terms()).run(TABLE, NOISE).value
    )
    error, said, inside = study(Sum("x", epsilon=1, cap=profile), TABLE, terms(), TOTALS)
    best = min(expected_error(TOTALS, 2 ** (i / 4), 1.0) for i in range(8, 48))
    assert error < 2.5 * best
    assert 0.4 < said / error < 2.5
    assert 0.9 < inside < 0.99


def test_the_interval_covers_the_noise_about_the_total_within_asymmetric_bounds() -> None:
    task = Sum("s", epsilon=1, lower=-50, upper=10**4)
    for _ in range(3):
        point = task.plan(TABLE.schema, terms()).run(TABLE, NOISE).point
        assert -50 <= point["lower"] <= 0 < point["cap"] <= 10**4


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize(
    "task",
    [Sum("x", epsilon=1, upper=10**4), Sum("s", epsilon=1, lower=-9, upper=10), Count(epsilon=1, upper=100)],
)
def test_look_and_total_together_cost_what_was_asked(task: Any, gaussian: bool) -> None:
    more: dict[str, Any] = {"delta": "1e-6"} if gaussian else {}
    account = open_account(":memory:", "a", unit=users("user"), epsilon=1, **more)
    session = Session(TABLE, account)
    quoted, cap = session.quote(task), account.terms.cap
    assert quoted <= cap
    slack = 2 * round(cap.amount**0.5) + 1 if gaussian else 0  # a share of mu is rounded down to a micro
    assert quoted.amount >= cap.amount - slack
    session.release(task)
    assert account.spent == quoted


def test_what_is_charged_does_not_depend_on_the_cap_that_is_chosen() -> None:
    task, mine = Sum("x", epsilon=1, upper=10**4), terms()
    events, caps = set(), set()
    for seed in range(12):
        outcome_events = seen_in(task, TABLE, mine, seed)
        events.add(tuple(str(sorted(seen.event.parameters.items())) for seen in outcome_events))
    small = read({"user": [1, 2], "x": [1.0, 1.0]})
    events.add(tuple(str(sorted(seen.event.parameters.items())) for seen in seen_in(task, small, mine)))
    for table in (TABLE, small):
        caps.add(task.plan(table.schema, mine).run(table, NOISE).point["cap"])
    assert len(events) == 1
    assert len(caps) == 2


def test_the_total_is_fed_as_many_steps_whatever_the_cap() -> None:
    spend = Spend(False, 123_457)
    sensitivity = spend.mechanism(spend.steps).sensitivity
    for cap in (Fraction(1, 3), Fraction(7), Fraction(10**9, 7)):
        for lower in (Fraction(0), -cap, -cap / 3, -3 * cap):
            assert Amount.of_values(lower, cap, spend).sensitivity == sensitivity
    assert Spend(False, 10**12).steps == 2**50  # a huge epsilon still fits the engine's integers


def test_the_second_step_is_the_capped_total_at_the_first_steps_choice() -> None:
    from steelyard.mechanisms._observe import observing
    from steelyard.noise import TestNoise

    task, mine = Sum("x", epsilon=1, upper=10**4), terms()
    with observing() as seen:
        outcome = task.plan(TABLE.schema, mine).run(TABLE, TestNoise(4))
    _, total = seen
    _, share = task._rule.parts(Spend.read(1, None, mine))
    cap = next(
        c * task._rule.grid(gaussian=True).step
        for c in task._rule.grid(gaussian=True).grid.caps
        if float(c * task._rule.grid(gaussian=True).step) == outcome.point["cap"]
    )
    amount = Amount.of_values(Fraction(0), cap, share)
    assert total.values == (TABLE.capped_sum(USER, Quantity("x", amount.step), amount.lower, amount.upper),)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Sum("x", epsilon=1), "upper=, the public largest"),
        (lambda: Sum("x", epsilon=1, cap="automatic"), "cap"),
        (lambda: Sum("x", epsilon=1, cap=0), "above zero"),
        (lambda: Sum("x", epsilon=1, cap="1e-300"), "1e-200"),
        (lambda: Sum("x", epsilon=1, cap=1, lower=1), "zero or below"),
        (lambda: Sum("x", epsilon=1, upper=-1), "upper"),
        (lambda: Sum("x", epsilon=1, upper=0), "upper"),
        (lambda: Sum("x", epsilon=1, upper=5, resolution=6), "resolution"),
        (lambda: Count(epsilon=1, cap="2.5"), "whole number of rows"),
        (lambda: Count(epsilon=1, upper="2.5"), "whole number of rows"),
    ],
)
def test_caps_that_make_no_sense_are_refused(make: Any, words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        make()


def test_a_profile_of_another_kind_is_refused() -> None:
    profile = ContributionProfile.from_json(
        Profile(rows=True, epsilon=3, upper=64).plan(MANY.schema, terms()).run(MANY, NOISE).value
    )
    with pytest.raises(InvalidTask, match="another kind"):
        Sum("x", epsilon=1, cap=profile)
    assert Count(epsilon=1, cap=profile).plan(TABLE.schema, terms()).predicted is not None


def test_too_little_to_share_is_refused_before_the_charge() -> None:
    account = open_account(":memory:", "a", unit=users("user"), epsilon=1)
    with pytest.raises(InvalidTask, match="too little to share"):
        Session(TABLE, account).release(Sum("x", epsilon="0.000001", upper=10))
    assert account.spent.amount == 0
