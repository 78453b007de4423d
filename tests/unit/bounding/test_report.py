"""A plan for a whole report: every tolerance is kept at the least price, the price is divided truly, and one charge pays for it."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.accounting import price
from steelyard.bounding import (
    ContributionProfile,
    Count,
    CountUsers,
    Histogram,
    Mean,
    Quantile,
    ReportPlan,
    Sum,
    Within,
)
from steelyard.bounding._chances import ChanceCurve, nearest, shares
from steelyard.bounding._laws import LAWS, noise_tail, spread_noise
from steelyard.bounding._odds import Odds, Rooms
from steelyard.bounding._reading import ErrorReading
from steelyard.bounding._totals import CountedUnits
from steelyard.documents import request_of
from steelyard.errors import BudgetExceeded, InvalidTask, KeyConflict, SteelyardError, TableError
from steelyard.noise import TestNoise
from steelyard.privacy import Currency, Loss, Terms, users
from steelyard.requests import task_from
from steelyard.tables import Schema
from unit.bounding.remembered import Remembered

SCHEMA = Schema({"user": "integer", "x": "float", "land": "string"})
NOTHING = Loss.zero(Currency.PURE)
KEYS = ["FR", "DE", "ES"]
BY: dict[str, Any] = {"by": "land", "keys": KEYS}
PEOPLE = 3000
DRAW = np.random.default_rng(5)
SPENT = np.minimum(np.ceil(20 * (1 - DRAW.random(PEOPLE)) ** (-1 / 1.3)), 9000)
LAND = np.array(KEYS)[DRAW.integers(0, 3, PEOPLE)]


def table() -> Any:
    return sy.read({"user": np.arange(PEOPLE), "x": SPENT, "land": LAND})


def account(currency: str = "pure", epsilon: int = 60) -> Any:
    delta = {"delta": "1e-6"} if currency == "gaussian" else {}
    return sy.open_account(":memory:", "spend", unit=sy.users("user"), epsilon=epsilon, **delta)


def looked(currency: str = "pure", **more: Any) -> tuple[Any, ContributionProfile]:
    """A session, and a sharp profile of its totals."""
    session = sy.Session(table(), account(currency), noise=TestNoise(3))
    task = sy.Profile(None if more else "x", epsilon=8, upper=64 if more else 2**14, resolution=1, **more)
    return session, session.release(task).value


def report(profile: ContributionProfile) -> ReportPlan:
    return sy.Plan(
        {
            "spent": (Sum("x", cap=profile), 8000),
            "people": (CountUsers(), 15),
            "by land": (CountUsers(max_keys=3, **BY), 60),
            "spent by land": (Sum("x", cap=profile, **BY), 30_000),
            "capped": Within(Sum("x", cap=100), 900, noise_alone=True),
        },
        profile,
        confidence="0.8",
    )


TRUTH = {
    "spent": SPENT.sum(),
    "people": PEOPLE,
    "by land": {key: int(np.sum(np.array(key) == LAND)) for key in KEYS},
    "spent by land": {key: float(np.sum(SPENT[np.array(key) == LAND])) for key in KEYS},
    "capped": np.minimum(SPENT, 100).sum(),
}
TOLERANCE = {"spent": 8000, "people": 15, "by land": 60, "spent by land": 30_000, "capped": 900}


def misses(division: Any, draws: int) -> np.ndarray[Any, Any]:
    """Of draws of the noise, which numbers were further off than their tolerance."""
    rows, noise = Remembered(table()), TestNoise(11)
    found = []
    for _ in range(draws):
        values = division.present(division.run(rows, noise).value)
        found.append([_off(values[name], TRUTH[name]) > TOLERANCE[name] for name in TRUTH])
    return np.array(found)


def _off(value: Any, truth: Any) -> float:
    if isinstance(truth, dict):
        return float(max(abs(value[key] - truth[key]) for key in truth))
    return float(abs(value - truth))


def kept(division: Any, draws: int = 200) -> bool:
    """Whether all tolerances held together as often as was said, up to three deviations of so many draws."""
    together = 1 - misses(division, draws).any(axis=1).mean()
    said = division.confidence
    return bool(together >= said - 3 * np.sqrt(said * (1 - said) / draws))


@pytest.mark.parametrize("currency", ["pure", "gaussian"])
def test_all_tolerances_hold_together_as_often_as_is_said(currency: str) -> None:
    session, profile = looked(currency)
    division = session.plan(report(profile))
    assert kept(division)
    assert all(0 < share.chance < 0.2 for share in division.shares)
    assert sum(share.chance for share in division.shares) <= 0.2 * (1 + 1e-9)


def test_a_plan_that_ignores_the_bias_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    session, profile = looked()
    with monkeypatch.context() as twin:
        twin.setattr(ContributionProfile, "lost", lambda self, caps: np.zeros((2000, len(caps))))
        division = session.plan(report(profile))
    assert not kept(division)


def test_a_plan_that_counts_one_number_at_a_time_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    session, profile = looked()
    with monkeypatch.context() as twin:
        twin.setattr(ErrorReading, "cells", 1)
        twin.setattr("steelyard.bounding._report.shares", lambda curves, chance, squared: [chance] * len(curves))
        division = session.plan(report(profile))
    assert not kept(division)


@pytest.mark.parametrize("currency", ["pure", "gaussian"])
def test_the_price_is_that_of_the_parts_and_is_charged_once(currency: str) -> None:
    session, profile = looked(currency)
    before, plan = session.account.spent, report(profile)
    division = session.plan(plan)
    assert session.account.spent == before
    parts = Loss(before.currency, sum(share.cost.amount for share in division.shares))
    release = session.release(plan, key="all")
    assert session.account.spent - before == parts == division.cost == session.quote(plan)
    assert list(release.value) == list(TRUTH)
    again = session.release(plan, key="all")
    assert again.value == release.value
    assert again.stored_on is not None
    assert session.account.spent - before == parts


def test_the_release_tells_every_error_beside_its_number() -> None:
    session, profile = looked()
    release = session.release(report(profile))
    parts = {part["name"]: part for part in release.point["parts"]}
    assert parts["spent"]["error"]["bias"] is not None
    assert parts["spent"]["point"]["cap"] == session.plan(report(profile)).shares[0].cap
    assert parts["capped"]["error"]["bias"] is None
    assert sy.Release.from_json(release.to_json()).point == release.point


def test_other_tolerances_under_the_same_key_are_refused() -> None:
    session = sy.Session(table(), account())
    session.release(sy.Plan([(CountUsers(), 15)]), key="all")
    with pytest.raises(KeyConflict):
        session.release(sy.Plan([(CountUsers(), 16)]), key="all")


def test_too_dear_a_report_is_refused_before_anything_is_charged() -> None:
    session = sy.Session(table(), account(epsilon=1))
    with pytest.raises(BudgetExceeded):
        session.release(sy.Plan([(CountUsers(), 1)]))
    assert session.account.spent == NOTHING


def test_a_part_that_fails_fails_the_whole_once_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    session, plan = sy.Session(table(), account()), sy.Plan([(CountUsers(), 15), (CountUsers(max_keys=3, **BY), 60)])
    ran: list[int] = []

    def fails(*_: Any, **__: Any) -> None:
        ran.append(1)
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(CountedUnits, "told", fails)
        with pytest.raises(TableError, match="for good"):
            session.release(plan, key="all")
    assert session.account.spent == session.quote(plan)
    with pytest.raises(TableError, match="for good"):
        session.release(plan, key="all")
    assert ran == [1]
    assert session.account.spent == session.quote(plan)


def test_a_plan_is_made_on_paper_and_is_the_one_made_on_rows() -> None:
    session, profile = looked()
    plan, terms = report(profile), session.account.terms
    paper = plan.plan(Schema({"user": "integer", "x": "float", "land": "string"}), terms)
    assert paper.event == session.plan(plan).event
    assert price(paper.event, terms) == paper.cost


def test_a_plan_travels_as_json() -> None:
    _, profile = looked()
    for plan in (
        report(profile),
        sy.Plan([(Mean("x", lower=0, upper=9, cap=1), "3%"), (Count(cap=2), 7)], confidence=0.9),
    ):
        assert task_from(request_of(plan)) == plan


def test_the_division_costs_no_more_than_even_chances_or_equal_prices() -> None:
    session, profile = looked()
    plan = report(profile)
    division = session.plan(plan)
    readings = [ErrorReading.of(each, plan.profiles, SCHEMA, session.account.terms) for each in plan.wishes]
    even = [reading.odds().least(0.2 / 5)[0] for reading in readings]
    assert float(division.cost.value) < sum(even) < 5 * max(even)


def test_no_small_exchange_of_chances_is_cheaper() -> None:
    session, profile = looked()
    division = session.plan(report(profile))
    readings = [ErrorReading.of(each, (profile,), SCHEMA, session.account.terms) for each in report(profile).wishes]
    odds, given = [reading.odds() for reading in readings], [share.chance for share in division.shares]
    now = sum(each.least(chance)[0] for each, chance in zip(odds, given, strict=True))
    for giver in range(5):
        for taker in range(5):
            moved = list(given)
            moved[giver], moved[taker] = given[giver] * 0.8, given[taker] + given[giver] * 0.2
            other = sum(each.least(chance)[0] for each, chance in zip(odds, moved, strict=True))
            assert giver == taker or other > 0.99 * now


def test_the_savings_are_what_another_plan_would_save() -> None:
    session, profile = looked()
    plan = report(profile)
    division = session.plan(plan)
    dear = division.expensive
    rest = sy.Plan([each for each in plan.wishes if each.name != dear.name], profile, confidence="0.8")
    assert 1 - session.quote(rest).amount / division.cost.amount == pytest.approx(dear.if_dropped, abs=0.02)
    wider = [Within(e.task, 2 * e.tolerance, noise_alone=e.noise_alone, name=e.name) if e.name == dear.name else e
             for e in plan.wishes]  # fmt: skip
    saved = 1 - session.quote(sy.Plan(wider, profile, confidence="0.8")).amount / division.cost.amount
    assert saved == pytest.approx(division.saved, abs=0.02)
    assert dear.name in str(division)


@pytest.mark.parametrize(
    ("task", "facts", "truth"),
    [
        (Count(cap=2), {}, lambda rows: 2.0 * rows),
        (Mean("x", lower=0, upper=10, cap=2), {"rows": 6000}, lambda rows: 4.0),
        (Histogram("x", edges=[0, 5, 10], cap=2), {}, lambda rows: {(0.0, 5.0): rows, (5.0, 10.0): rows}),
        (Quantile("x", quantile=["0.25", "0.75"], lower=0, upper=10, cap=2, resolution="0.01"), {}, None),
    ],
)
@pytest.mark.parametrize("currency", ["pure", "gaussian"])
def test_values_of_every_kind_keep_their_tolerance(
    task: Any, facts: Any, truth: Callable[[int], Any] | None, currency: str
) -> None:
    within: dict[type, float] = {Count: 60, Mean: 0.06, Histogram: 60, Quantile: 300}
    people, at = 3000, within[type(task)]
    values = np.sort(np.concatenate([np.linspace(1, 4, people), np.linspace(5, 6, people)]))
    rows = sy.read({"user": np.tile(np.arange(people), 2), "x": values})
    session = sy.Session(rows, account(currency))
    plan = sy.Plan([Within(task, at, noise_alone=True, **facts)], confidence="0.7")
    division: Any = session.plan(plan)
    missed, asked, noise = 0, Remembered(rows), TestNoise(2)
    for _ in range(60):
        value = next(iter(division.present(division.run(asked, noise).value).values()))
        if truth is None:
            off = max(
                abs(np.searchsorted(values, each) - q * values.size)
                for each, q in zip(value, (0.25, 0.75), strict=True)
            )
        else:
            true = np.mean(values) if isinstance(task, Mean) else truth(people)
            off = _off(value, true)
        missed += off > at
    assert missed <= 60 * 0.3 + 3 * np.sqrt(60 * 0.21)


def test_a_profile_of_rows_bounds_what_a_cap_on_rows_leaves_out() -> None:
    rows = sy.read(
        {"user": np.repeat(np.arange(2000), np.where(np.arange(2000) % 50, 1, 30)), "x": np.full(2000 + 40 * 29, 3.0)}
    )
    session: Any = sy.Session(rows, account())
    profile = session.release(sy.Profile(rows=True, epsilon=10, upper=64)).value
    counted = session.plan(sy.Plan([Within(Histogram("x", edges=[0, 9], cap=64), 300)], profile))
    assert counted.shares[0].plan.predicted is not None
    mean = sy.Plan([(Mean("x", lower=0, upper=9, cap=64), 1)], profile)
    assert session.plan(mean).cost.amount > 0
    with pytest.raises(InvalidTask, match="without any noise, because of what the cap may cut off"):
        session.plan(sy.Plan([Within(Histogram("x", edges=[0, 9], cap=1), 300)], profile))


def test_a_tolerance_below_the_bias_of_a_fixed_cap_is_refused_with_the_nearest_that_can_be_met() -> None:
    session, profile = looked()
    wish = Within(Sum("x", cap=100), 500, name="spent")
    with pytest.raises(InvalidTask, match="spent: a tolerance of 500 is met at no epsilon") as refusal:
        session.plan(sy.Plan([wish], profile))
    reading = ErrorReading.of(wish, (profile,), SCHEMA, session.account.terms)
    near = 500 * nearest(reading, 0.05)
    assert f"{near:,.0f}" in str(refusal.value)
    true = np.maximum(SPENT - 100, 0).sum()
    assert 0.9 * true < near < 1.5 * true
    assert session.plan(sy.Plan([Within(Sum("x", cap=100), 1.01 * near)], profile)).cost.amount > 0
    assert session.account.spent == Loss.pure(8)


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ({}, "1 to 200 numbers"),
        ("revenue", "dictionary of names"),
        ([CountUsers()], r"\(task, tolerance\)"),
        ([(CountUsers(), 1, 2)], r"\(task, tolerance\)"),
        ([("CountUsers", 1)], "takes Sum, Count"),
        ([(CountUsers(epsilon=1), 1)], "leave epsilon and mu out"),
        ([(CountUsers(), 0)], "above zero"),
        ([(CountUsers(), -3)], "above zero"),
        ([(CountUsers(), float("nan"))], "tolerance"),
        ([(CountUsers(), float("inf"))], "tolerance"),
        ([(CountUsers(), "5 people")], "tolerance"),
        ([(CountUsers(), "%")], "tolerance"),
        ([(CountUsers(), "100%")], "below 100%"),
        ([(CountUsers(), "-2%")], "above zero"),
        ([(CountUsers(), "2%")], "2% of what"),
        ([(CountUsers(), True)], "tolerance"),
        ([Within(CountUsers(), 1, name="a"), Within(CountUsers(), 2, name="a")], "two numbers are called"),
        ({3: (CountUsers(), 1)}, "name of a number"),
        ([(Sum("x", upper=9), 1)], "bought inside the release"),
        ([(Count(), 1)], "bought inside the release"),
        ([(Sum("x", cap=9), 1)], "nothing is known of what a cap of 9 cuts off"),
        ([(Count(cap=9), 1)], "profile of rows"),
        ([(Sum("nowhere", cap=9), 1)], "nowhere"),
        ([(Histogram("x", edges=[0, 1], cap=3), 5)], "cap of 3 rows"),
        ([(Histogram("x", edges=[0, 1], cap=3, ranges=True), 5)], "ranges=True"),
        ([(Mean("x", lower=0, upper=1, cap=3), 5)], "cap of 3 rows"),
        ([Within(Mean("x", lower=0, upper=1, cap=3), "0.1", noise_alone=True)], "give rows="),
        ([(CountUsers(by="land", max_keys=2), 5)], "how many keys"),
        ([(CountUsers(max_keys=2, **BY), 5)], "max_keys and rows_per_key leave out"),
        ([(CountUsers(), "1e-300")], "tolerance must be"),
    ],
)  # fmt: skip
def test_what_makes_no_plan_is_refused_before_a_charge(numbers: Any, told: str) -> None:
    session = sy.Session(table(), account())
    with pytest.raises(SteelyardError, match=told):
        session.release(sy.Plan(numbers))
    assert session.account.spent == NOTHING


@pytest.mark.parametrize(
    ("more", "told"),
    [({"confidence": 1}, "confidence"), ({"confidence": 0.2}, "confidence"), ({"profile": "p.json"}, "dictionary|profile"),
     ({"profile": [3]}, "released profile")],
)  # fmt: skip
def test_odd_settings_are_refused(more: Any, told: str) -> None:
    with pytest.raises(InvalidTask, match=told):
        sy.Plan([(CountUsers(), 5)], **more)


def test_a_relative_tolerance_is_of_what_the_profile_tells_or_of_a_public_size() -> None:
    session, profile = looked()
    share = session.plan(sy.Plan([(Sum("x", cap=profile), "10%")])).cost.amount
    same = session.plan(sy.Plan([(Sum("x", cap=profile), float(SPENT.sum()) / 10)])).cost.amount
    assert share == pytest.approx(same, rel=0.1)
    given = session.plan(sy.Plan([Within(CountUsers(), "1%", of=3000)])).cost
    assert given == session.plan(sy.Plan([(CountUsers(), 30)])).cost


def test_where_neighbours_replace_a_unit_the_price_is_what_it_does() -> None:
    terms = Terms(users("user", neighbours="replace", n=PEOPLE), Loss.pure(60), Fraction(60))
    plain = Terms(users("user"), Loss.pure(60), Fraction(60))
    plan = sy.Plan([(CountUsers(), 15)])
    assert plan.plan(SCHEMA, terms).cost.amount == pytest.approx(2 * plan.plan(SCHEMA, plain).cost.amount, abs=2)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("level", [0.01, 0.7, 6.0])
def test_tails_of_noise_agree_with_its_quantiles(law: str, level: float) -> None:
    sizes = spread_noise(level, law, 400)[200:]
    left = (199.5 - np.arange(200)) / 400
    assert noise_tail(sizes, level, law) == pytest.approx(left, rel=1e-5)
    assert np.all(noise_tail(sizes, level, law) >= left * (1 - 1e-9))


def test_fewer_rows_never_make_a_miss_less_likely() -> None:
    lost = np.abs(np.random.default_rng(2).normal(size=(2000, 3))) * 50
    rooms = Rooms.of(np.array([120.0]), lost)
    odds = Odds(
        (None,) * 3, np.array([10.0, 20.0, 40.0]), rooms, 4, lambda size, level: noise_tail(size, level, "laplace")
    )
    near, far = (noise_tail(np.maximum(side, 0) / odds.bounds, 1.0) for side in (120 - lost, 120 + lost))
    exact = np.where(lost < 120, np.minimum(near + far + 6 * noise_tail(120 / odds.bounds, 1.0), 1), 1).mean(axis=0)
    found = odds.miss(np.ones(3))
    assert np.all(found >= exact)
    assert found == pytest.approx(exact, rel=0.1)


def test_numbers_that_cannot_share_the_chance_are_found_out() -> None:
    lost = np.concatenate([np.zeros((1940, 1)), np.full((60, 1), 99.0)])
    odds = Odds((None,), np.ones(1), Rooms.of(np.array([50.0]), lost), 1, lambda size, level: noise_tail(size, level))
    curve = ChanceCurve.of(odds, 0.05)
    assert shares([curve], 0.05, squared=False) is not None
    assert shares([curve, curve], 0.05, squared=False) is None


def test_a_profile_at_a_cap_uses_it_and_tells_what_it_cuts_off() -> None:
    session, profile = looked()
    pinned = profile.at(100)
    error = session.plan(Sum("x", epsilon=1, cap=pinned)).predicted
    true = np.maximum(SPENT - 100, 0).sum()
    assert error is not None
    assert error.bias_low <= true <= error.bias_high
    assert profile.cut(100).low <= true <= profile.cut(100).high
    assert ContributionProfile.from_json(pinned.to_json()) == pinned
    assert "cap" not in profile.to_json()
    assert session.release(Sum("x", epsilon=1, cap=pinned)).point["cap"] == 100
    counts = session.release(sy.Profile(rows=True, epsilon=1, upper=9)).value
    for odd in (0, -1, "nan", "1/2"):
        with pytest.raises(InvalidTask):
            counts.at(odd)
