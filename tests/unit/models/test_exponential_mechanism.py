"""Choosing among public models: integer losses that only rise, and an exact law of the choice."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounting._prices import price
from steelyard.audit._suite import pure
from steelyard.errors import InvalidTask
from steelyard.models._columns import SIZE
from steelyard.models._exponential_mechanism import Hypotheses
from steelyard.models._losses import CEILING, LOGISTIC
from steelyard.models._rows import Rows
from steelyard.noise import TestNoise
from steelyard.privacy import rows

CANDIDATES = [[3.0, 0.0], [-3.0, 0.0], [0.0, 500.0], [0.0, 0.0]]


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 6.28), st.integers(0, 100))
def test_one_row_raises_every_cost_by_at_most_the_declared_ceiling(angle: float, seed: int) -> None:
    choice = Hypotheses(CANDIDATES, 10**6)
    data = np.rint(np.random.default_rng(seed).normal(size=(10, 2)) * SIZE / 4)
    row = np.trunc([[SIZE * np.cos(angle), SIZE * np.sin(angle)]])
    (before,), (after,) = choice.costs(data), choice.costs(np.vstack([data, row]))
    assert all(0 <= b - a <= choice.mechanism.sensitivity for a, b in zip(before, after, strict=True))


def test_a_loss_without_a_ceiling_would_break_the_declared_sensitivity() -> None:
    margins = np.array([-16.0])
    assert np.logaddexp(0, -margins)[0] > CEILING
    assert LOGISTIC.costs(margins).tolist() == [CEILING << 16]


def test_the_better_model_is_chosen_and_the_price_is_exact() -> None:
    x = np.rint(np.random.default_rng(1).normal(size=(2000, 2)) * SIZE / 4)
    choice = Hypotheses(CANDIDATES, 500_000)
    fitted = choice.fit(Rows(x, np.where(x[:, 0] > 0, 1.0, -1.0), None), TestNoise(2))
    assert fitted.coefficients.tolist() == CANDIDATES[0]
    assert price(choice.event, pure(rows())).amount == 500_000


def test_without_rows_every_candidate_is_as_likely_as_another() -> None:
    choice, noise = Hypotheses(CANDIDATES, 10**6), TestNoise(5)
    empty = Rows(np.zeros((0, 2)), np.zeros(0), None)
    counts = np.bincount([choice.fit(empty, noise).details["chosen"] for _ in range(2000)], minlength=4)
    assert abs(counts - 500).max() < 5 * math.sqrt(500)


def test_candidates_without_meaning_are_refused() -> None:
    for bad in ([], [[1.0], [1.0, 2.0]], [[math.nan]], [[1000.0]]):
        with pytest.raises(InvalidTask):
            Hypotheses(bad, 10**6)
    with pytest.raises(InvalidTask):
        Hypotheses(CANDIDATES, 0)
