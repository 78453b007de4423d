"""The private cap: a public grid, sensitivity one, sane answers on every shape of data, honest predictions."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.bounding._cap_choice import (
    ContributionProfile,
    NoisyHistogram,
    TotalsGrid,
    choice_share,
    choose_cap,
    plan_caps,
)
from steelyard.bounding._cap_grid import CapGrid
from steelyard.bounding._cut import Added, Cut
from steelyard.bounding._laws import mean_error, spread_noise
from steelyard.bounding._theory import Tradeoff, capping_bias, expected_error, optimal_cap
from steelyard.demo._story import make_purchases, totals_by_user
from steelyard.demo._tour import SHARE, UPPER
from steelyard.documents import decode
from steelyard.errors import InvalidTask

GRID = CapGrid(1, 2**20)
Totals = np.ndarray


def count(totals: Sequence[float] | Totals, edges: Sequence[int]) -> np.ndarray:
    """Units in half-open bins [edge, next edge), what is outside going to the end bins."""
    places = np.clip(np.searchsorted(edges, np.asarray(totals), side="right") - 1, 0, len(edges) - 2)
    return np.bincount(places, minlength=len(edges) - 1)


def noised(counts: np.ndarray, law: str, level: float, generator: np.random.Generator) -> tuple[float, ...]:
    if law == "gaussian":
        return tuple(counts + np.rint(generator.normal(scale=1 / level, size=counts.size)))
    chance = -math.expm1(-level)
    return tuple(counts + generator.geometric(chance, counts.size) - generator.geometric(chance, counts.size))


def split(level: float, noise: str) -> tuple[float, float]:
    share = float(choice_share(level, noise))
    return share * level, level * (math.sqrt(1 - share**2) if noise == "gaussian" else 1 - share)


def mean_ratio(totals: Totals, level: float, noise: str = "laplace", draws: int = 25) -> float:
    """The mean error with a private cap, all inside the budget, over the best cap's at the full budget."""
    law, generator = "gaussian" if noise == "gaussian" else "laplace", np.random.default_rng(7)
    first, rest = split(level, noise)
    counts, caps = count(totals, GRID.edges), []
    for _ in range(draws):
        seen = NoisyHistogram(GRID, noised(counts, law, first, generator), law, first)
        caps.append(choose_cap(seen, rest, noise).cap)
    chosen = np.array(caps, dtype=float)
    best = expected_error(totals, optimal_cap(totals, level, law), level, law)
    return float(mean_error(capping_bias(totals, chosen), chosen, rest, noise).mean() / best)


def shape(name: str, n: int) -> Totals:
    draw = np.random.default_rng(11)
    made: dict[str, Callable[[], Totals]] = {
        "pareto": lambda: 10 * (1 - draw.random(n)) ** (-1 / 1.7),
        "lognormal": lambda: np.exp(4 + 1.2 * draw.normal(size=n)),
        "gamma": lambda: draw.gamma(0.8, 90, n),
        "uniform": lambda: draw.integers(1, 1000, n).astype(float),
        "constant": lambda: np.full(n, 37.0),
        "small counts": lambda: 1.0 + draw.poisson(1.5, n),
    }
    return np.asarray(np.clip(np.ceil(made[name]()), 0, GRID.upper))


@given(st.integers(1, 10**6), st.integers(0, 2**40), st.lists(st.integers(0, 2**50), max_size=30))
def test_every_total_lies_in_exactly_one_public_bin(resolution: int, extra: int, totals: list[int]) -> None:
    grid = CapGrid(resolution, resolution + extra)
    counts = count(totals, grid.edges)
    assert counts.sum() == len(totals)
    assert counts.size == grid.bins
    assert list(grid.edges) == sorted(set(grid.edges))
    assert grid.edges[-1] == grid.upper + 1
    assert grid.caps[-1] == grid.upper
    assert set(grid.tops) - {0} <= set(grid.caps)
    by_hand = [sum(1 for t in totals if min(t, grid.upper) <= top) for top in grid.tops]
    assert list(np.cumsum(counts)) == by_hand


def largest_move(edges_of: Callable[[list[int]], Sequence[int]], totals: list[int]) -> int:
    """How much removing one user can move the counts, in sum of absolute differences."""
    whole = count(totals, edges_of(totals))
    moves = []
    for at in range(len(totals)):
        rest = totals[:at] + totals[at + 1 :]
        without = count(rest, edges_of(rest))
        size = max(whole.size, without.size)
        moves.append(int(np.abs(np.resize(whole, size) - np.resize(without, size)).sum()))
    return max(moves)


@given(st.lists(st.integers(0, 2**21), min_size=1, max_size=12))
def test_one_user_moves_one_count_by_one(totals: list[int]) -> None:
    assert largest_move(lambda _: GRID.edges, totals) == 1


def test_a_grid_that_looks_at_the_data_is_caught_by_the_same_check() -> None:
    assert largest_move(lambda totals: CapGrid(1, max(totals)).edges, [3, 5, 9, 700]) > 1


def test_the_grid_refuses_what_makes_no_sense() -> None:
    for resolution, upper in ((0, 5), (5, 4), (1, 2**90), (True, 5)):
        with pytest.raises(InvalidTask):
            CapGrid(resolution, upper)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.7, 4.0]), st.sampled_from(["laplace", "gaussian"]))
def test_any_noisy_counts_whatever_give_a_cap_of_the_public_grid(seed: int, level: float, law: str) -> None:
    grid, draw = CapGrid(3, 5000), np.random.default_rng(seed)
    wild = draw.normal(size=grid.bins) * 10.0 ** draw.uniform(-2, 9)
    histogram = NoisyHistogram(grid, tuple(np.rint(wild)), law, level)
    choice = choose_cap(histogram, 2 * level, "laplace")
    assert grid.caps[choice.index] == choice.cap
    best = plan_caps(histogram, 2 * level, "laplace").best
    assert best.cap == choice.cap
    assert all(math.isfinite(v) and v >= 0 for v in (best.bias, best.noise, best.low, best.error, best.high))
    assert choose_cap(histogram, 2 * level, "laplace") == choice


@pytest.mark.parametrize("name", ["pareto", "lognormal", "gamma", "uniform", "constant", "small counts"])
@pytest.mark.parametrize(("noise", "factor"), [("laplace", 3.0), ("gaussian", 2.5)])
def test_with_many_users_the_private_cap_stays_within_its_factor(name: str, noise: str, factor: float) -> None:
    bounded = name in ("uniform", "constant", "small counts")  # nothing above the last full bin is the hard case
    assert mean_ratio(shape(name, 20_000), 0.3, noise, draws=12) <= (2.5 if bounded else 1) * factor


@pytest.mark.parametrize("name", ["pareto", "lognormal", "gamma"])
def test_with_few_users_the_private_cap_degrades_gently(name: str) -> None:
    assert mean_ratio(shape(name, 1000), 0.1) <= 5.0


def test_staircase_noise_breaks_the_price_of_choosing_at_a_high_epsilon() -> None:
    totals = shape("lognormal", 5000)
    assert mean_ratio(totals, 10.0, "staircase") < min(1.2, mean_ratio(totals, 10.0, "laplace"))


def test_a_cap_taken_as_the_largest_bin_that_looks_occupied_is_caught_by_the_same_measure() -> None:
    totals, generator, first, rest = shape("gamma", 20_000), np.random.default_rng(7), 0.075, 0.225
    counts, errors = count(totals, GRID.edges), []
    for _ in range(25):
        top = GRID.tops[int(np.flatnonzero(np.array(noised(counts, "laplace", first, generator)) > 0)[-1])]
        errors.append(expected_error(totals, top, rest))
    best = expected_error(totals, optimal_cap(totals, 0.3), 0.3)
    assert np.mean(errors) / best > 20


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_degenerate_tables_get_sensible_caps(law: str) -> None:
    generator = np.random.default_rng(5)
    for totals, low, high in (([0] * 50_000, 1, 64), ([2**20] * 50_000, 2**20, 2**20), ([5] * 50_000, 5, 64)):
        for _ in range(5):
            seen = noised(count(totals, GRID.edges), law, 0.25, generator)
            assert low <= choose_cap(NoisyHistogram(GRID, seen, law, 0.25), 0.75).cap <= high
    for totals in ([], [100]):
        seen = noised(count(totals, GRID.edges), law, 0.25, generator)
        assert math.isfinite(plan_caps(NoisyHistogram(GRID, seen, law, 0.25), 0.75).best.error)


def test_a_sharp_histogram_nearly_reaches_the_optimum() -> None:
    totals, generator = shape("lognormal", 20_000), np.random.default_rng(3)
    counts, caps = count(totals, GRID.edges), []
    for _ in range(15):
        histogram = NoisyHistogram(GRID, noised(counts, "laplace", 3.0, generator), "laplace", 3.0)
        caps.append(float(choose_cap(histogram, 0.3).cap))
    errors = mean_error(capping_bias(totals, caps), caps, 0.3)
    assert errors.mean() <= 1.15 * expected_error(totals, optimal_cap(totals, 0.3), 0.3)


@pytest.mark.parametrize(("name", "factor"), [("pareto", 4), ("lognormal", 2), ("gamma", 2), ("constant", 4)])
def test_the_predicted_error_is_within_its_factor_on_average(name: str, factor: float) -> None:
    totals, generator = shape(name, 20_000), np.random.default_rng(4)
    counts, logs = count(totals, GRID.edges), []
    for _ in range(15):
        best = plan_caps(NoisyHistogram(GRID, noised(counts, "laplace", 0.1, generator), "laplace", 0.1), 0.3).best
        assert best.noise == pytest.approx(best.cap / 0.3)
        logs.append(math.log(best.error / expected_error(totals, best.cap, 0.3)))
    assert abs(np.mean(logs)) < math.log(factor)


@pytest.mark.parametrize("name", ["pareto", "lognormal", "constant"])
def test_the_error_that_a_plan_predicts_is_not_contradicted_by_the_truth(name: str) -> None:
    totals, generator, held = shape(name, 20_000), np.random.default_rng(6), []
    counts = count(totals, GRID.edges)
    for _ in range(12):
        best = plan_caps(NoisyHistogram(GRID, noised(counts, "laplace", 0.2, generator), "laplace", 0.2), 0.5).best
        held.append(best.low - 1e-6 <= expected_error(totals, best.cap, 0.5) <= best.high)
    assert np.mean(held) >= 0.9


def test_the_demo_shows_no_error_that_its_own_table_contradicts() -> None:
    # the demo's purchases, look and price, over twenty draws of the look
    totals = np.array(totals_by_user(make_purchases()))
    made = TotalsGrid.of_values(Fraction(UPPER), None)
    counts, draw = count(np.ceil(totals / float(made.step)), made.edges), np.random.default_rng(5)
    held, covered, by_noise = [], [], []
    for _ in range(20):
        seen = NoisyHistogram(made.grid, noised(counts, "laplace", 0.2, draw), "laplace", 0.2)
        best = ContributionProfile("amount", "users", made.step, seen).plan(SHARE).best
        held.append(best.low <= expected_error(totals, best.cap, float(SHARE)) <= best.high)
        added = Added(best.cap, float(SHARE), "staircase", scalar=True)
        low, high = Cut.of(seen, Fraction(0), Fraction(best.cap), made.step, added).offsets["0.95"]
        off = capping_bias(totals, [best.cap])[0] - best.cap * spread_noise(float(SHARE), "staircase", 500)
        covered.append(float(((low <= off) & (off <= high)).mean()))
        alone = best.cap * float(np.quantile(spread_noise(float(SHARE), "staircase", 500), 0.975))
        by_noise.append(float((np.abs(off) <= alone).mean()))
    assert all(held)
    assert min(covered) >= 0.9
    assert np.mean(by_noise) < 0.9  # the broken twin, an interval without the bias, is contradicted


def test_a_plan_is_the_whole_curve_and_its_best_is_the_choice() -> None:
    counts = noised(count(shape("pareto", 5000), GRID.edges), "laplace", 0.5, np.random.default_rng(2))
    histogram = NoisyHistogram(GRID, counts, "laplace", 0.5)
    plan, choice = plan_caps(histogram, 1.0), choose_cap(histogram, 1.0)
    assert (plan.best.cap, plan.chosen) == (choice.cap, choice.index)
    assert all(low <= mid <= high for low, mid, high in zip(plan.low, plan.error, plan.high, strict=True))
    assert plan.best.error == min(plan.error)  # the sweet spot is the lowest point of what is drawn
    assert list(plan.bias) == sorted(plan.bias, reverse=True)
    assert plan.error[0] > 3 * plan.best.error
    assert plan.error[-1] > 3 * plan.best.error
    assert decode(Tradeoff, plan.to_json(), "plan") == plan
    assert plan_caps(histogram, 0.1).best.cap <= plan.best.cap


@given(st.integers(1, 1000), st.integers(0, 2**30), st.lists(st.integers(-(2**40), 2**40), max_size=30))
def test_signed_totals_lie_in_one_bin_and_both_signs_get_the_same_bins(
    resolution: int, extra: int, totals: list[int]
) -> None:
    grid = CapGrid(resolution, resolution + extra)
    counts = count(totals, grid.signed_edges)
    assert counts.size == 2 * grid.bins - 1
    assert counts.sum() == len(totals)
    assert list(counts[::-1]) == list(count([-t for t in totals], grid.signed_edges))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("negative", [0.0, 0.05, 0.5])
def test_signed_caps_come_near_the_best_common_cap(law: str, negative: float) -> None:
    generator = np.random.default_rng(9)
    totals = np.ceil(np.exp(4 + 1.2 * generator.normal(size=20_000)))
    totals *= np.where(generator.random(totals.size) < negative, -1, 1)
    caps = np.array(GRID.caps, dtype=float)
    lost = np.abs(capping_bias(totals[totals > 0], caps) - capping_bias(-totals[totals < 0], caps))
    errors, counts, chosen = mean_error(lost, caps, 0.3, law), count(totals, GRID.signed_edges), []
    for _ in range(10):
        histogram = NoisyHistogram(GRID, noised(counts, law, 0.2, generator), law, 0.2, signed=True)
        chosen.append(errors[choose_cap(histogram, 0.3, law).index])
    # equal sides cancel by luck at some caps, which no look can see: one of the cases is at 3.14
    assert np.mean(chosen) <= (3.2 if (law, negative) == ("gaussian", 0.5) else 3.0) * errors.min()


def test_turning_every_sign_leaves_the_signed_cap_alone() -> None:
    totals = np.concatenate([shape("lognormal", 5000), -shape("gamma", 500)])
    counts = count(totals, GRID.signed_edges).astype(float)
    one, other = (NoisyHistogram(GRID, tuple(c), "laplace", 1.0, signed=True) for c in (counts, counts[::-1]))
    ratio = choose_cap(one, 1.0).cap / choose_cap(other, 1.0).cap
    assert 1 / 1.5 < ratio < 1.5


def test_a_choice_takes_a_few_milliseconds_of_cpu() -> None:
    counts = noised(count(shape("pareto", 5000), GRID.edges), "laplace", 0.1, np.random.default_rng(2))
    histogram = NoisyHistogram(GRID, counts, "laplace", 0.1)
    choose_cap(histogram, 0.31)
    spent = []
    for _ in range(5):
        start = time.process_time()
        choose_cap(histogram, 0.31)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.05


def test_a_histogram_of_the_wrong_length_or_law_is_refused() -> None:
    good = (0.0,) * GRID.bins
    for counts, law, level in ((good[:-1], "laplace", 1.0), (good, "staircase", 1.0), (good, "laplace", 0.0)):
        with pytest.raises(InvalidTask):
            NoisyHistogram(GRID, counts, law, level)
        with pytest.raises(InvalidTask):
            NoisyHistogram(GRID, counts, law, level, signed=True)
    with pytest.raises(InvalidTask):
        choose_cap(NoisyHistogram(GRID, good, "laplace", 1.0), 1.0, "cauchy")


@pytest.mark.parametrize("noise", ["laplace", "gaussian", "staircase"])
def test_the_share_spent_on_choosing_is_a_public_fraction(noise: str) -> None:
    assert all(0 < choice_share(level, noise) < 1 for level in (0.01, 1.0, 20.0))
