"""Caps that know how many numbers they serve: the choice for K keys, beside the one for a single total."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.bounding import ContributionProfile, Count, CountUsers, Sum
from steelyard.bounding._cap_choice import NoisyHistogram, choice_share, choose_cap, plan_caps
from steelyard.bounding._cap_grid import CapGrid
from steelyard.bounding._laws import mean_error, mean_noise
from steelyard.bounding._serving import Serving
from steelyard.errors import InvalidTask
from steelyard.noise import ExactNoise
from steelyard.privacy import rows
from steelyard.tables import Capped, Limits, Quantity, read
from unit.bounding.remembered import USER, Remembered, seen_in, terms

GRID = CapGrid(1, 2**20)
CAPS = np.array(GRID.caps, dtype=float)
TOTALS = np.ceil(100 * (1 - np.random.default_rng(3).random(5000)) ** (-1 / 1.3))
KEYS = 100


def counted(level: float, seed: int) -> NoisyHistogram:
    counts = np.bincount(np.searchsorted(GRID.tops, np.minimum(TOTALS, GRID.upper)), minlength=GRID.bins)
    noise = np.random.default_rng(seed).laplace(scale=1 / level, size=counts.size).round()
    return NoisyHistogram(GRID, tuple(counts + noise), "laplace", level)


def over_keys(cap: float, level: float) -> float:
    """The exact mean error over keys that units reach one each, at even shares."""
    owner = np.arange(TOTALS.size) % KEYS
    lost = np.bincount(owner, np.maximum(TOTALS - cap, 0.0), KEYS)
    return float(mean_error(lost, np.full(KEYS, cap), level).mean())


def ratio(serving: Serving) -> float:
    """The mean error of caps chosen for ``serving`` over that of the best fixed cap at the whole price."""
    first = float(choice_share(1.0, "laplace", serving.keys))
    errors = [
        over_keys(choose_cap(counted(first, seed), 1 - first, "laplace", serving).cap, 1 - first) for seed in range(8)
    ]
    return statistics.fmean(errors) / min(over_keys(cap, 1.0) for cap in CAPS)


def test_a_cap_for_many_keys_comes_near_the_best_one_and_a_cap_for_one_total_does_not() -> None:
    assert ratio(Serving(KEYS)) < 1.5
    assert ratio(Serving()) > 1.5  # the broken twin: K = 1


@pytest.mark.parametrize("keys", [10, 100, 1000])
def test_the_cap_for_keys_cuts_about_as_many_users_as_keys_over_epsilon(keys: int) -> None:
    cap = choose_cap(counted(2.0, 1), 0.5, "laplace", Serving(keys)).cap
    cut = int((cap < TOTALS).sum())
    assert keys / 0.5 / 1.6 < cut < keys / 0.5 * 1.6


def test_the_mean_over_keys_is_worst_where_one_key_loses_everything() -> None:
    serving, lost, caps = Serving(7), np.array([[50.0]]), np.array([20.0])
    said = float(serving.loss(lost, caps, 1.0, "laplace")[0, 0])
    draw = np.random.default_rng(2)
    for _ in range(50):
        parts = 50 * draw.dirichlet(np.full(7, 0.3))
        assert float(mean_error(parts, np.full(7, 20.0), 1.0).sum()) <= said + 1e-9


def test_one_key_is_the_plain_choice() -> None:
    seen = counted(0.5, 4)
    for minimise in ("mean", "relative", "total"):
        assert choose_cap(seen, 1.0, "laplace", Serving(1, minimise)) == choose_cap(seen, 1.0, "laplace")
    assert plan_caps(seen, 1.0).keys == 1


def test_which_error_matters_moves_the_cap_as_it_should() -> None:
    seen = counted(1.0, 5)
    relative, mean, total = (
        choose_cap(seen, 1.0, "laplace", Serving(KEYS, how)).cap for how in ("relative", "mean", "total")
    )
    assert relative < mean < total < choose_cap(seen, 1.0, "laplace").cap
    with pytest.raises(InvalidTask, match="minimise must be one of mean, relative, total"):
        Sum("x", epsilon=1, cap=3, minimise="most")
    with pytest.raises(InvalidTask, match="minimise must be one of"):
        Count(epsilon=1, cap=3, minimise="most")


def test_a_profile_plans_for_keys_in_means_over_them() -> None:
    profile = ContributionProfile("x", "user", Fraction(1), counted(1.0, 6))
    alone, many = profile.plan(1).best, profile.plan(1, keys=KEYS).best
    assert many.cap < alone.cap / 4
    assert many.noise == pytest.approx(many.cap * mean_noise(1.0))
    assert many == profile.plan(1, keys=[f"k{i}" for i in range(KEYS)]).best
    assert many.error < over_keys(many.cap, 1.0) * 1.5
    relative = profile.plan(1, keys=KEYS, minimise="relative").best
    assert relative.cap < many.cap
    squared = profile.plan(1, delta="1e-6", keys=KEYS).best  # an L2 cap, of units that reach some keys each
    assert squared.cap < profile.plan(1, delta="1e-6").best.cap / 4
    with pytest.raises(InvalidTask, match="number of keys"):
        profile.plan(1, keys=0)


WIDE = 40
SPREAD: dict[str, list[Any]] = {"user": [], "k": [], "x": []}
for user in range(1200):
    for place in range(1 + user % 3):
        SPREAD["user"].append(user)
        SPREAD["k"].append(f"k{(user * 7 + place * 11) % WIDE}")
        SPREAD["x"].append(20 * (1 - (user + 0.5) / 1200) ** -0.8)
TABLE = read(SPREAD)
NAMES = [f"k{i}" for i in range(WIDE)]


def norms(power: int) -> list[float]:
    cells: dict[Any, float] = {}
    for user, key, value in zip(SPREAD["user"], SPREAD["k"], SPREAD["x"], strict=True):
        cells[user, key] = cells.get((user, key), 0.0) + value
    sums: dict[Any, float] = {}
    for (user, _), value in cells.items():
        sums[user] = sums.get(user, 0.0) + value**power
    return [value ** (1 / power) for value in sums.values()]


@pytest.mark.parametrize("gaussian", [False, True])
def test_an_automatic_cap_by_key_is_near_the_best_through_the_public_call(gaussian: bool) -> None:
    task, mine = Sum("x", epsilon=1, upper=10**5, by="k", keys=NAMES), terms(gaussian=gaussian)
    known: Any = Remembered(TABLE)
    plan = task.plan(TABLE.schema, mine)
    caps = [plan.run(known, ExactNoise()).point["cap"] for _ in range(12)]
    sizes = sorted(norms(2 if gaussian else 1), reverse=True)
    level = 0.2367 if gaussian else 1.0
    rank = WIDE * mean_noise(level, "gaussian" if gaussian else "laplace")
    assert sizes[math.ceil(rank * 3)] < statistics.median(caps) < sizes[math.floor(rank / 3)]


def test_found_keys_are_bounded_for_as_many_as_were_found() -> None:
    task = Sum("x", epsilon=6, upper=10**5, by="k", max_keys=3)
    outcome = task.plan(TABLE.schema, terms(gaussian=True, aside=True)).run(TABLE, ExactNoise())
    assert outcome.value
    assert outcome.point["cap"] < sorted(norms(2), reverse=True)[5]


def test_norms_by_key_count_every_unit_once_whatever_it_holds() -> None:
    edges = [0, 2, 4, 8, 2**50]
    values = [1.0, 3.0, math.nan, -4.0, 1e308, -1e308, None, 0.0]
    data = {"user": [1, 1, 1, 2, 3, 3, 4, None], "k": ["a", "b", "a", "a", "a", "b", "b", "a"], "x": values}
    table, part = read(data), Capped(Quantity("x"), 0)
    assert table.norms_histogram(USER, part, edges, "k", ["a", "b"], Limits()) == [1, 0, 2, 1]
    squared = Capped(Quantity("x"), 0, "l2")
    assert table.norms_histogram(USER, squared, edges, "k", ["a", "b"], Limits()) == [1, 1, 1, 1]
    assert table.norms_histogram(USER, part, edges, "k", ["b"], Limits()) == [1, 1, 0, 1]
    assert sum(table.norms_histogram(USER, part, edges, "k", None, Limits(1, 1))) == 4
    assert sum(table.norms_histogram(rows(), part, edges, "k", None, Limits())) == 8
    assert table.norms_histogram(USER, part, edges, "k", [], Limits()) == [0, 0, 0, 0]


@pytest.mark.parametrize("gaussian", [False, True])
def test_one_user_moves_one_count_of_norms_by_one(gaussian: bool) -> None:
    task, mine = Count(epsilon=1, upper=64, by="k", keys=["a", "b"]), terms(gaussian=gaussian)
    base: dict[str, list[Any]] = {"user": [1, 1, 2], "k": ["a", "b", "a"]}
    more = {"user": [*base["user"], *[9] * 40], "k": [*base["k"], *["a", "b"] * 20]}
    less, seen = (seen_in(task, read(data), mine)[0] for data in (base, more))
    assert less.event == seen.event
    moves = [abs(a - b) for a, b in zip(less.values, seen.values, strict=True)]
    assert sorted(moves)[-2:] == [0, 1]


@pytest.mark.parametrize("gaussian", [False, True])
def test_users_by_key_need_no_limit_and_the_chosen_one_is_near_the_best(gaussian: bool) -> None:
    mine, known = terms(gaussian=gaussian), Remembered(TABLE)
    truth = {name: len({u for u, k in zip(SPREAD["user"], SPREAD["k"], strict=True) if k == name}) for name in NAMES}
    table: Any = known

    def error(task: CountUsers) -> float:
        plan = task.plan(TABLE.schema, mine)
        runs = [plan.present(plan.run(table, ExactNoise()).value) for _ in range(8)]
        return statistics.fmean(abs(run[name] - truth[name]) for run in runs for name in NAMES)

    asked: Any = {"epsilon": 1, "by": "k", "keys": NAMES}
    best = min(error(CountUsers(**asked, max_keys=most)) for most in (1, 2, 3))
    assert error(CountUsers(**asked)) < 2 * best
    found = CountUsers(**asked).plan(TABLE.schema, mine).run(table, ExactNoise())
    assert found.error is not None
    assert found.error.bias is not None
    assert "under any one of them" in found.error.note


def test_users_by_key_where_rows_are_hidden_and_where_keys_are_found() -> None:
    plan = CountUsers(epsilon=1, by="k", keys=NAMES).plan(TABLE.schema, terms(rows()))
    assert plan.run(TABLE, ExactNoise()).point["cap"] == 1
    with pytest.raises(InvalidTask, match="max_keys="):
        CountUsers(epsilon=1, by="k")
    limited = Sum("x", epsilon=1, cap=10, by="k", keys=NAMES, max_keys=2).plan(TABLE.schema, terms())
    assert limited.predicted is not None
    assert "counts under 2 of them" in limited.predicted.note


def test_several_looks_in_one_pass_are_each_what_it_is_alone() -> None:
    table = read(
        {"user": [1, 1, 2, 3, 3, 3], "k": ["a", "b", "a", "a", "b", None], "v": [3.0, -4.0, 2.0, 9.0, 9.0, 1.0]}
    )
    looks: list[Any] = [
        (Capped(Quantity("v"), 0, "l1"), [0, 3, 8, 100]),
        (Capped(Quantity("v"), 0, "l2"), [0, 6, 100]),
        (Capped(Quantity(None), 0, "l1"), [0, 2, 3, 9]),
    ]
    for unit in (USER, rows()):
        together = table.norms_histograms(unit, looks, "k", ["a", "b"], Limits())
        assert together == [
            table.norms_histogram(unit, part, edges, "k", ["a", "b"], Limits()) for part, edges in looks
        ]
    assert together[0] == [1, 2, 2]


def test_a_total_that_no_sixty_four_bits_hold_is_cut_and_not_wrapped() -> None:
    size = 3000  # each row counts 2^53 steps, all together above 2^64
    table = read({"user": [1] * size, "k": ["a"] * size, "v": [1e300] * (size - 1) + [-1e300]})
    part = Capped(Quantity("v"), 2**40)
    assert table.norms_histogram(USER, part, [0, 2**50 - 1, 2**50, 2**51], "k", ["a"], Limits()) == [0, 0, 1]
    assert table.sums_by_key(USER, [part], "k", ["a"]) == [[2**40]]
