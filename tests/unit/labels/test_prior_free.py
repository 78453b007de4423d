"""Piecewise and hybrid tables: exactly private, exactly unbiased, as good as the continuous mechanisms."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.labels import LabelRandomizer
from steelyard.labels._check import check
from steelyard.labels._mechanism import Column, FiniteMechanism
from steelyard.labels._prior_free import (
    hybrid,
    piecewise,
    piecewise_variance,
    two_point_variance,
    window_columns,
)


def hybrid_variance(label: float, lower: float, upper: float, epsilon: float) -> float:
    """The variance of the hybrid of piecewise (chance 1 - e^(-epsilon/2), above epsilon 0.61) and two-point."""
    share = -math.expm1(-epsilon / 2) if epsilon > 0.61 else 0.0
    wide = piecewise_variance(label, lower, upper, epsilon)
    return share * wide + (1 - share) * two_point_variance(label, lower, upper, epsilon)


MAKERS = {"piecewise": piecewise, "hybrid": hybrid}
FORMULAS = {"piecewise": piecewise_variance, "hybrid": hybrid_variance}


@pytest.mark.parametrize("name", MAKERS)
@settings(max_examples=30, deadline=None)
@given(
    steps=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    epsilon=st.sampled_from(["0.01", "0.3", "0.61", "0.62", "1", "2.5", "6", "12", "32"]),
    lattice=st.integers(1, 7),
)
def test_every_table_is_exactly_private_and_exactly_unbiased(
    name: str, steps: list[int], epsilon: str, lattice: int
) -> None:
    inputs = [Fraction(sum(steps[:i]), lattice) for i in range(len(steps) + 1)]
    mechanism = MAKERS[name](inputs, epsilon)
    report = mechanism.verify()
    assert report.passed, report.findings
    assert report.bias == 0


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("epsilon", [0.1, 0.61, 1.0, 2.0, 4.0, 6.0])
def test_the_variance_is_that_of_the_continuous_mechanism(name: str, epsilon: float) -> None:
    mechanism = MAKERS[name](range(401), epsilon)
    for label, error in zip(mechanism.inputs, mechanism.errors(), strict=True):
        assert float(error) == pytest.approx(FORMULAS[name](float(label), 0, 400, epsilon), rel=0.02)


def test_the_hybrid_is_two_point_while_epsilon_is_small() -> None:
    assert len(hybrid(range(9), "0.61").outputs) == 2
    small, large = hybrid(range(9), "0.5"), hybrid(range(9), 3)
    assert float(small.errors()[2]) == pytest.approx(two_point_variance(2, 0, 8, 0.5))
    worst = [float(max(made(range(9), 3).errors())) for made in (hybrid, piecewise)]
    assert float(max(large.errors())) <= worst[1] * 1.001


def longer_for_the_largest(mechanism: FiniteMechanism) -> FiniteMechanism:
    """A window one output longer for the largest label alone, taken from the far end so that the row still sums up."""
    last, columns = len(mechanism.inputs) - 1, list(mechanism.columns)
    rows = [[column.weight(i) for i in range(last + 1)] for column in columns]
    edge = next(j for j, row in enumerate(rows) if row[last] > row[0]) - 1
    rows[edge][last], rows[0][last] = max(rows[-2]), rows[0][last] + rows[edge][last] - max(rows[-2])
    twins = [Column.of(c.output, row) for c, row in zip(columns, rows, strict=True)]
    return FiniteMechanism(mechanism.inputs, mechanism.epsilon, tuple(twins), True)


def steeper(mechanism: FiniteMechanism) -> FiniteMechanism:
    """The same windows with high rounded up instead of down."""
    highs = {max(column.weights) for column in mechanism.columns}
    high = max(highs)
    twins = [
        Column(c.output, c.starts, tuple(w + (w == high) for w in c.weights)) if high in c.weights else c
        for c in mechanism.columns
    ]
    return FiniteMechanism(mechanism.inputs, mechanism.epsilon, tuple(twins), True)


@pytest.mark.parametrize("twin", [longer_for_the_largest, steeper])
def test_windows_of_unequal_length_and_ratios_rounded_up_are_caught(twin: Any) -> None:
    honest = piecewise(range(11), 1)
    assert check(honest.to_json()).passed
    assert not check(twin(honest).to_json()).passed


def test_labels_without_a_common_step_are_refused() -> None:
    with pytest.raises(InvalidTask, match="no common step"):
        piecewise([0, Fraction(1, 10**6), 1], 1)


def test_rows_of_any_total_are_filled_to_the_last_weight() -> None:
    for total in (10**9, 2**62 - 2, 2**40 + 1):
        columns = window_columns(tuple(Fraction(i) for i in range(5)), Fraction(2), total)
        for row in range(5):
            assert sum(column.weight(row) for column in columns) == total
            mean = sum(column.weight(row) * column.output for column in columns) / total
            assert mean == row
        assert all(max(c.weights) <= math.exp(2) * min(c.weights) for c in columns)


@pytest.mark.parametrize(("epsilon", "most"), [(4, 2.5), (8, 8.0)])
def test_balanced_pays_at_the_ends_for_what_it_gains_between(epsilon: int, most: float) -> None:
    ours, simple = (
        LabelRandomizer(epsilon, 0, 200, method).fit().mechanism_.errors() for method in ("balanced", "two_point")
    )
    assert most * 0.9 < max(ours[0] / simple[0], ours[-1] / simple[-1]) <= most
    assert 2 * ours[100] < simple[100]
