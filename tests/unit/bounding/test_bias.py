"""Bias bounds hold on every instance; the total variation bound is attained; Proposition 5 holds with one half."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.bounding import Sum, Together
from steelyard.bounding._bias import (
    bias_bounds,
    choice_bound,
    corollary_terms,
    heavy_users,
    kept_rows,
    kept_share_below,
    loss_moments,
    loss_variance,
    share_terms,
)
from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.noise import TestNoise
from steelyard.privacy import users as hidden
from steelyard.session import Session
from steelyard.tables import read

USERS = st.lists(st.tuples(st.integers(1, 500), st.floats(0.0, 1.0)), min_size=1, max_size=25)


def measured(counts: np.ndarray, losses: np.ndarray, row_cap: float) -> tuple[float, float]:
    """The bias of these losses, and their variance over rows."""
    kept = np.minimum(counts, row_cap)
    before, after = counts / counts.sum(), kept / kept.sum()
    mean = (before * losses).sum()
    return abs(((after - before) * losses).sum()), float((before * (losses - mean) ** 2).sum())


@given(USERS, st.integers(1, 500))
def test_no_bound_is_ever_violated(users: list[tuple[int, float]], row_cap: int) -> None:
    counts, losses = np.array([u[0] for u in users], float), np.array([u[1] for u in users])
    bias, variance = measured(counts, losses, row_cap)
    bounds = bias_bounds(counts, row_cap, variance)
    assert bounds.centred is not None
    assert bounds.variance is not None
    assert bounds.spread is not None
    assert bias <= bounds.best + 1e-12
    assert bounds.total_variation <= bounds.entropy + 1e-9
    assert bounds.spread <= bounds.centred + 1e-9
    assert bounds.centred <= bounds.variance / math.sqrt(2) + 1e-9


def test_a_cap_that_cuts_nothing_has_no_bias_at_all() -> None:
    bounds = bias_bounds([1, 257, 1, 1, 14], 257, 0.058)
    assert (bounds.total_variation, bounds.centred, bounds.spread) == (0.0, 0.0, 0.0)


@given(USERS, st.integers(1, 500))
def test_the_total_variation_bound_is_attained(users: list[tuple[int, float]], row_cap: int) -> None:
    counts = np.array([u[0] for u in users], float)
    kept = np.minimum(counts, row_cap)
    worst = (kept / kept.sum() > counts / counts.sum()).astype(float)
    assert measured(counts, worst, row_cap)[0] == pytest.approx(bias_bounds(counts, row_cap).total_variation, abs=1e-12)


def test_half_the_centred_bound_would_be_caught() -> None:
    counts, losses = np.array([1.0] * 9 + [9.0]), np.array([0.0] * 9 + [1.0])
    bias, variance = measured(counts, losses, 1)
    spread = bias_bounds(counts, 1, variance).spread
    assert spread is not None
    assert bias == pytest.approx(spread)  # attained by the heavy user, so any smaller bound breaks


def test_the_bounds_vanish_when_nothing_is_capped_and_when_losses_agree() -> None:
    free, alike = bias_bounds([1, 2, 3], 3, 0.2), bias_bounds([1, 2, 30], 3, 0.0)
    assert (free.total_variation, free.entropy, free.centred, free.spread) == (0.0, 0.0, 0.0, 0.0)
    assert free.variance is not None
    assert free.variance > 0  # the bound of Amin et al. does not vanish
    assert alike.best == 0.0


def test_rows_kept_and_heavy_users_are_counted() -> None:
    assert kept_rows([1, 5, 9], 5) == 11.0
    assert kept_rows([], 5) == 0.0
    assert heavy_users([0.5, 0.3, 0.1, 0.1], 0.1) == 2
    assert bias_bounds([], 5, 0.1).best == 0.0


def test_the_corollary_has_twice_the_bias_and_changes_form_below_a_quarter() -> None:
    terms = corollary_terms([10] * 5 + [50], 10, 1.0, delta=0.1, dimension=3, constant=2.0)
    share = 60 / 100
    assert terms.bias == pytest.approx(2 * math.sqrt(1 - share))
    assert terms.bias >= 2 * bias_bounds([10] * 5 + [50], 10).entropy
    assert terms.sample == pytest.approx(math.sqrt(3 * math.log(1000) / 60))
    assert terms.noise == pytest.approx(2 * (10 * math.log(10) / 60) ** 2)
    assert terms.total == pytest.approx(terms.bias + terms.sample + terms.noise)
    few = corollary_terms([1, 99], 1, 1.0, delta=0.1, dimension=3)
    assert few.bias == pytest.approx(2 * math.sqrt(0.5 * math.log(50)))


@given(st.floats(0.25, 1.0))
def test_the_corollary_bias_follows_from_the_entropy_bound_above_a_quarter(share: float) -> None:
    assert math.sqrt(0.5 * math.log(1 / share)) <= math.sqrt(1 - share) + 1e-12


@given(st.integers(1, 60), st.floats(0.001, 1.0), st.floats(1.0, 40.0))
def test_half_of_the_smaller_of_mean_and_cap_bounds_a_capped_binomial(rows: int, share: float, row_cap: float) -> None:
    hits = np.arange(rows + 1)
    logs = [math.lgamma(rows + 1) - math.lgamma(k + 1) - math.lgamma(rows - k + 1) for k in hits]
    inside = share < 1
    chance = np.exp(logs + hits * math.log(share) + (rows - hits) * math.log1p(-share)) if inside else hits == rows
    mean = float((chance * np.minimum(hits, row_cap)).sum())
    assert mean >= min(rows * share, row_cap) / 2 * (1 - 1e-9)


def test_the_share_kept_is_above_its_bound_as_often_as_promised() -> None:
    generator, rows, share_cap, delta = np.random.default_rng(2), 400, 0.02, 0.1
    shares = 1 / np.arange(1, 200) ** 1.5
    shares /= shares.sum()
    bound = kept_share_below(shares, share_cap, rows, delta)
    assert bound > share_cap * heavy_users(shares, share_cap) / 4 - math.sqrt(math.log(1 / delta) / (2 * rows))
    kept = np.minimum(generator.multinomial(rows, shares, size=500), share_cap * rows).sum(axis=1) / rows
    assert (kept < bound).mean() <= delta


def test_what_makes_no_sense_is_refused() -> None:
    for call in (
        lambda: bias_bounds([1.0], 0),
        lambda: bias_bounds([-1.0], 1),
        lambda: bias_bounds([1.0], 1, -0.1),
        lambda: heavy_users([0.7, 0.7], 0.1),
        lambda: kept_share_below([0.5], 0.001, 10, 0.1),
        lambda: corollary_terms([1], 1, 1.0, delta=2.0, dimension=1),
        lambda: corollary_terms([], 1, 1.0, delta=0.5, dimension=1),
    ):
        with pytest.raises(InvalidTask):
            call()


def test_heavy_users_fill_their_cap_all_at_once() -> None:
    """K(gamma): n_tau >= K tau in all of 300 samples; without the margin the twin is caught."""
    shares, rows, delta, cap = np.array([0.2] * 4 + [0.001] * 200), 20_000, 0.05, 0.199
    least = heavy_users(shares, 0.12, rows=rows, delta=delta)
    assert least == 4
    assert heavy_users(shares, cap, rows=rows, delta=delta) == 0
    source = np.random.default_rng(5)
    samples = source.multinomial(rows, shares, size=300)
    assert (np.minimum(samples, 0.12 * rows).sum(axis=1) >= least * 0.12 * rows).all()
    with pytest.raises(InvalidTask):
        heavy_users(shares, cap, rows=0)
    heavy = (samples[:, :4] > cap * rows).all(axis=1)
    assert 0 < heavy.mean() < 0.9  # users above gamma alone do not all bring gamma n rows


def test_the_terms_in_shares_are_the_workshop_papers() -> None:
    shares = 1 / np.arange(1.0, 200) ** 1.5
    shares /= shares.sum()
    terms = share_terms(shares, 0.05, 10**6, 2.0, delta=0.1, dimension=3)
    after = np.minimum(shares, 0.05) / np.minimum(shares, 0.05).sum()
    assert terms.bias == pytest.approx(np.abs(after - shares).sum())
    assert terms.sample == pytest.approx(400 * math.sqrt(3 * math.log(10**6 / 3) / 10**6))
    margin = math.sqrt(4 * math.log(10**7) / 10**6)
    assert terms.noise == pytest.approx(3 / (2 * (shares > 0.05 + margin).sum()))
    assert share_terms(shares, 0.9, 10**6, 2.0, delta=0.1, dimension=3).noise == math.inf
    for bad in ({"share_cap": 0}, {"rows": 2}, {"epsilon": 0}, {"delta": 1}):
        given = {"share_cap": 0.1, "rows": 100, "epsilon": 1, "delta": 0.1} | bad
        with pytest.raises(InvalidTask):
            share_terms(shares, dimension=3, **given)


@pytest.mark.parametrize("dimension", [1, 2])
def test_lemma_one_bounds_a_choice_over_the_ball_with_sums_and_not_with_means(dimension: int) -> None:
    """Draws with density exp(-epsilon S/(2 tau)) on a fine grid of the ball: S convex losses between 0 and 1."""
    cap, rows, epsilon, delta = 3, 2_000, 1.0, 0.1
    source = np.random.default_rng(7)
    axes = np.linspace(-1, 1, 101)
    ball = axes[:, None] if dimension == 1 else np.stack(np.meshgrid(axes, axes), -1).reshape(-1, 2)
    ball = ball[np.linalg.norm(ball, axis=1) <= 1]
    x = source.normal(size=(rows, dimension))
    x /= np.linalg.norm(x, axis=1)[:, None]
    y = x @ np.full(dimension, 0.4)
    sums = (np.abs(ball @ x.T - y) / 2).sum(axis=1)
    bound = choice_bound(cap, rows, epsilon, dimension=dimension, delta=delta)

    def beyond(weight: float) -> float:
        chances = np.exp(-weight * (sums - sums.min()))
        return float(chances[sums > sums.min() + bound * rows].sum() / chances.sum())

    assert beyond(epsilon / (2 * cap)) <= delta
    assert beyond(epsilon / (2 * cap * rows)) > delta  # the paper's exponent: a mean of losses in place of their sum
    with pytest.raises(InvalidTask):
        choice_bound(cap, 0, epsilon, dimension=dimension, delta=delta)


@given(USERS)
def test_the_variance_of_losses_is_the_papers(users: list[tuple[int, float]]) -> None:
    counts, means = np.array([u[0] for u in users]), np.array([u[1] for u in users])
    whose = np.repeat(np.arange(len(users)), counts)
    _, variance = measured(counts.astype(float), means, 1)
    found = loss_variance(np.column_stack([np.repeat(means, counts), np.zeros(counts.sum())]), whose)
    assert found[0] == pytest.approx(variance, abs=1e-9)
    assert found[1] == 0


def test_moments_are_each_users_own_and_never_beyond_the_cap() -> None:
    source = np.random.default_rng(8)
    whose = np.array(["a"] * 50 + ["b"] * 3 + [None, math.nan] + ["c"], dtype=object)
    losses = source.normal(size=(len(whose), 2)) * 3
    losses[:4] = [[math.nan, math.inf], [-math.inf, 1e308], [0.5, 0.5], [-1e308, math.nan]]
    found = loss_moments(losses, whose, 7)
    assert found["user"].tolist() == ["a", "b", "c"]
    assert found["weight"].tolist() == [7, 3, 1]
    for name in ("first_0", "second_0", "first_1", "second_1"):
        assert found[name].min() >= 0
        assert (found[name] <= found["weight"]).all()
    alone = loss_moments(losses[:50], whose[:50], 7)
    assert [alone[name][0] for name in alone] == [found[name][0] for name in found]
    free = loss_moments(losses, whose, math.inf)["weight"]
    assert free.max() == 50  # the twin: whole users move a sum by all their rows
    for bad in ((losses, whose[:3], 7), (losses, whose, 0), (losses[:, :, None], whose, 7)):
        with pytest.raises(InvalidTask):
            loss_moments(*bad)


def test_the_variance_of_a_class_can_be_bought_at_the_desk() -> None:
    source = np.random.default_rng(9)
    whose = np.repeat(np.arange(3000), source.integers(1, 6, 3000))
    own = source.uniform(0.1, 0.9, 3000)[whose]
    losses = np.clip(np.column_stack([own, own / 2]) + source.normal(size=(len(whose), 2)) * 0.05, 0, 1)
    moments = loss_moments(losses, whose, 5)
    account = open_account(":memory:", "variance", unit=hidden("user"), epsilon=1)
    names = ["weight", "first_0", "second_0", "first_1", "second_1"]
    asked = Together([Sum(name, epsilon="0.2", cap=5) for name in names])
    told = Session(read(moments), account, noise=TestNoise(2)).release(asked)
    assert told.guarantee.spent.value <= 1
    weight, *others = told.value
    bought = [second / weight - (first / weight) ** 2 for first, second in zip(others[::2], others[1::2], strict=True)]
    assert bought == pytest.approx(loss_variance(losses, whose).tolist(), rel=0.15)
