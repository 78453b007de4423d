"""Bias bounds hold on every instance; the total variation bound is attained; Proposition 5 holds with one half."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.bounding._bias import bias_bounds, corollary_terms, heavy_users, kept_rows, kept_share_below
from steelyard.errors import InvalidTask

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
    assert free.variance > 0  # the papers' bound does not vanish
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
