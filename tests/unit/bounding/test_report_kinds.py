"""Variances, medians, ratios, different values and top values in a report's plan: each keeps its tolerance at the price that is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.bounding import CountDistinct, Median, Profile, Ratio, Std, TopK, Variance, Within
from steelyard.documents import request_of
from steelyard.errors import InvalidTask
from steelyard.noise import TestNoise
from steelyard.requests import task_from
from unit.bounding.remembered import Remembered

PEOPLE, PRODUCTS = 3000, 30
DRAW = np.random.default_rng(3)
WHOSE = np.tile(np.arange(PEOPLE), 2)
X = np.concatenate([np.linspace(1, 4, PEOPLE), np.linspace(5, 6, PEOPLE)])
VIEWS = np.full(2 * PEOPLE, 5.0)
SOLD = np.minimum(DRAW.geometric(0.1, 2 * PEOPLE), PRODUCTS) - 1
NAMES = [f"p{at}" for at in range(PRODUCTS)]


def table() -> Any:
    return sy.read({"user": WHOSE, "x": X, "views": VIEWS, "product": np.array(NAMES)[SOLD]})


def account(currency: str) -> Any:
    delta = {"delta": "1e-6"} if currency == "gaussian" else {}
    return sy.open_account(":memory:", "kinds", unit=sy.users("user"), epsilon=60, **delta)


def holders() -> dict[str, int]:
    pairs = {(int(user), int(sold)) for user, sold in zip(WHOSE, SOLD, strict=True)}
    return {name: sum(sold == at for _, sold in pairs) for at, name in enumerate(NAMES)}


def off(wish: Within, value: Any) -> float:
    """How far a value is from the truth, in the unit of its tolerance."""
    if isinstance(wish.task, TopK):
        every = holders()
        behind = max(every[name] for name in every if name not in value) - min(every[name] for name in value)
        return float(max(behind, *(abs(count - every[name]) for name, count in value.items())))
    if isinstance(wish.task, Median):
        return float(abs(np.searchsorted(np.sort(X), value) - X.size / 2))
    truth = {
        Variance: X.var(),
        Std: X.std(),
        Ratio: X.sum() / VIEWS.sum(),
        CountDistinct: len(set(SOLD.tolist())),
    }
    return float(abs(value - truth[type(wish.task)]))


BOUNDS: dict[str, Any] = {"lower": 0, "upper": 8, "cap": 2}
WISHES = [
    Within(Variance("x", **BOUNDS), "0.5", rows=2 * PEOPLE, noise_alone=True),
    Within(Std("x", **BOUNDS), "0.2", rows=2 * PEOPLE, of="1.5", noise_alone=True),
    Within(Median("x", resolution="0.01", **BOUNDS), 300, noise_alone=True),
    Within(Ratio("x", "views", cap=12, over_cap=10), "0.02", rows=30_000, of="0.8", noise_alone=True),
    Within(CountDistinct("product", cap=2), 4, noise_alone=True),
    Within(TopK("product", k=3, keys=NAMES), 60),
]


def missed(wish: Within, currency: str, draws: int = 60, *, claimed: float = 1.0) -> int:
    """How often a plan at a confidence of 0.7 misses, its price being for a tolerance so many times as wide."""
    session: Any = sy.Session(table(), account(currency))
    asked = Within(wish.task, claimed * float(wish.tolerance), wish.of, wish.rows, wish.noise_alone)
    division: Any = session.plan(sy.Plan([asked], confidence="0.7"))
    rows, noise, found = Remembered(table()), TestNoise(4), 0
    for _ in range(draws):
        value = next(iter(division.present(division.run(rows, noise).value).values()))
        found += off(wish, value) > float(wish.tolerance)
    return found


@pytest.mark.parametrize("currency", ["pure", "gaussian"])
@pytest.mark.parametrize("wish", WISHES, ids=lambda wish: type(wish.task).__name__)
def test_every_kind_keeps_its_tolerance(wish: Within, currency: str) -> None:
    draws = 30 if isinstance(wish.task, TopK) else 60
    assert missed(wish, currency, draws) <= draws * 0.3 + 3 * np.sqrt(draws * 0.21)


@pytest.mark.parametrize("wish", [WISHES[3], WISHES[4], WISHES[5]], ids=lambda wish: type(wish.task).__name__)
def test_a_price_for_a_tolerance_four_times_as_wide_is_caught(wish: Within) -> None:
    assert missed(wish, "pure", claimed=4.0) > 60 * 0.3 + 3 * np.sqrt(60 * 0.21)


def variance(sums: Any) -> Any:
    whole = sums.sum(axis=0)
    return np.clip(sums[2] / whole - ((sums[2] + sums[1] / 2) / whole) ** 2, 0, 0.25)


def furthest(times: float) -> float:
    """How far noised sums move a variance, over what is said of it; ``times`` shrinks what is said."""
    draw, worst = np.random.default_rng(8), 0.0
    for rows in (40, 400):
        y = draw.choice([0.0, 1.0, 0.5], size=(rows, 4000)) * draw.random(4000) ** draw.choice([0, 1], size=4000)
        sums = np.array([((1 - y) ** 2).sum(axis=0), (2 * y * (1 - y)).sum(axis=0), (y**2).sum(axis=0)])
        noise = rows * draw.uniform(0.001, 0.2, 4000) * draw.choice([-1.0, 0.0, 1.0], size=(3, 4000))
        most = np.abs(noise).max(axis=0)
        ratio = most / (rows - 3 * most)
        moved = np.abs(variance(sums + noise) - variance(sums))
        worst = max(worst, float((moved / np.maximum(times * (ratio + 2.25 * ratio**2), 1e-12)).max()))
    return worst


def test_a_variance_moves_no_further_than_the_proof_says_and_a_smaller_bound_is_caught() -> None:
    assert furthest(1.0) <= 1 + 1e-9
    assert furthest(0.8) > 1


def test_a_profile_of_rows_tells_how_many_rows_a_variance_has() -> None:
    session: Any = sy.Session(table(), account("pure"))
    profile = session.release(Profile(rows=True, epsilon=10, upper=8)).value
    told = session.plan(sy.Plan([(Variance("x", lower=0, upper=8, cap=8), 2)], profile))
    said = session.plan(sy.Plan([Within(Variance("x", lower=0, upper=8, cap=8), 2, rows=2 * PEOPLE, noise_alone=True)]))
    assert told.cost.amount == pytest.approx(said.cost.amount, rel=0.05)


def test_kinds_travel_as_json_and_have_names_of_their_own() -> None:
    plan: Any = sy.Plan(list(WISHES))
    assert [each.name for each in plan.wishes][3:] == [
        "Ratio of x", "CountDistinct of product", "TopK of product",
    ]  # fmt: skip
    assert task_from(request_of(plan)) == plan


@pytest.mark.parametrize(
    ("wish", "told"),
    [
        (Within(Variance("x", **BOUNDS), 1), "cap of 2 rows"),
        (Within(Std("x", **BOUNDS), 1, noise_alone=True), "error of a std falls"),
        (Within(Variance("x", lower="auto", upper="auto", cap=2), 1), "bounds that are bought"),
        (Within(Variance("x", **BOUNDS), "5%", rows=9, noise_alone=True), "5% of what"),
        (Within(Ratio("x", "views", cap=12, over_cap=10), 1, rows=9, of=1), "weigh down"),
        (Within(Ratio("x", "views", cap=12, over_cap=10), 1, noise_alone=True), "give rows="),
        (Within(Ratio("x", "views", upper=12, over_cap=10), 1, noise_alone=True), "cap= and over_cap= as numbers"),
        (Within(CountDistinct("product"), 1, noise_alone=True), "cap= as numbers"),
        (Within(CountDistinct("product", cap=2), 1), "only units with more than 2"),
        (Within(CountDistinct("product", cap=2, by="product", max_keys=2), 1, noise_alone=True), "what will be found"),
        (Within(TopK("product", max_keys=2), 1), "what will be found"),
        (Within(TopK("product", by="x", keys=[1], values=["a"], cap=2), 1), "first values under each key"),
    ],
)  # fmt: skip
def test_what_is_not_known_beforehand_is_refused(wish: Within, told: str) -> None:
    with pytest.raises(InvalidTask, match=told):
        sy.Session(table(), account("pure")).plan(sy.Plan([wish]))
