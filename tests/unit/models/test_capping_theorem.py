"""The terms of Theorem 1: what each must do at its ends, and that they explain but do not choose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from papers import capped_figures
from papers.models_figures import theorem_terms
from steelyard.errors import InvalidTask

COUNTS = st.lists(st.integers(1, 5000), min_size=1, max_size=40)


@given(COUNTS)
def test_without_a_cap_there_is_no_bias_and_sampling_falls_as_caps_rise(counts: list[int]) -> None:
    terms = theorem_terms(counts, epsilon=1, dimension=3)
    assert terms.bias[-1] == 0
    assert terms.capped_users[-1] == 0
    assert list(terms.sampling) == sorted(terms.sampling, reverse=True)
    assert list(terms.capped_users) == sorted(terms.capped_users, reverse=True)


@given(COUNTS, st.integers(1, 5000))
def test_the_bias_term_bounds_twice_the_bias_of_any_losses(counts: list[int], cap: int) -> None:
    rows = np.array(counts, dtype=float)
    kept = np.minimum(rows, cap)
    moved = kept / kept.sum() - rows / rows.sum()
    worst = 2 * np.maximum(moved, 0).sum()  # losses of 1 where the cap adds weight, else 0
    (bias,) = theorem_terms(counts, 1, 3, caps=[cap]).bias
    assert bias == pytest.approx(worst, abs=1e-9)
    assert bias > worst / 2 or worst == 0  # the same check would catch the factor 2 left out


def test_users_of_equal_weight_have_no_bias_at_any_cap() -> None:
    assert max(theorem_terms([64] * 10, 1, 3).bias) == pytest.approx(0)


def test_noise_falls_with_epsilon_squared_and_the_constants_are_the_callers() -> None:
    low, high = theorem_terms([9] * 50, 1, 3, caps=[4]), theorem_terms([9] * 50, 2, 3, caps=[4])
    assert low.privacy[0] == pytest.approx(4 * high.privacy[0])
    scaled = theorem_terms([9] * 50, 1, 3, caps=[4], constants=(2, 3))
    assert scaled.sampling[0] == pytest.approx(2 * low.sampling[0])
    assert scaled.privacy[0] == pytest.approx(3 * low.privacy[0])
    assert low.total[0] == pytest.approx(low.bias[0] + low.sampling[0] + low.privacy[0])


def test_a_released_histogram_may_hold_negative_counts() -> None:
    terms = theorem_terms([1.0, 3.0, 6.0, 12.0], 1, 3, users=[100.0, 20.4, -7.0, 3.0])
    assert terms.caps[0] == 1
    assert max(terms.capped_users) == 23


def test_the_chart_names_every_term_and_marks_no_best_cap() -> None:
    drawn = theorem_terms([1, 2, 400], 1, 3).chart().svg()
    assert all(name in drawn for name in ("bias", "sampling", "privacy"))
    assert "sweet spot" not in drawn


def test_what_makes_no_sense_is_refused() -> None:
    for counts, epsilon, people in (([], 1, None), ([1], 0, None), ([1], 1, [1, 2]), ([float("nan")], 1, None)):
        with pytest.raises(InvalidTask):
            theorem_terms(counts, epsilon, 3, users=people)


def test_measured_trade_offs_add_up_and_lose_their_bias_as_caps_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capped_figures, "CAPS", (1, 10, 10_000))
    data = capped_figures.made("logistic", 400, 3)
    found = capped_figures.curve(data, "logistic", "objective", 2.0, 1, 400)
    assert found["total"] == pytest.approx([a + b for a, b in zip(found["noise"], found["bias"], strict=True)])
    assert found["bias"][0] > found["bias"][-1] == pytest.approx(0, abs=1e-12)
    panels = [capped_figures.panel(found, "logistic", way, "made up") for way in capped_figures.WAYS] * 2
    assert capped_figures.together(panels).count("sweet spot:") == 6
