"""The compromise between variance and bias: exact tables, true bounds, and the two known ends."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.labels._bins import response_on_bins
from steelyard.labels.solve._frontier import solve_compromise
from steelyard.labels.solve._unbiased import solve_unbiased

PRIOR = [6, 1, 1, 1, 1, 0, 2, 1]
WEIGHTS = ["1.001", "1.5", "4", "20", "1000", "1000000"]


@pytest.mark.parametrize("epsilon", ["0.5", "2", "6"])
def test_the_frontier_runs_from_bins_to_the_unbiased_optimum(epsilon: str) -> None:
    points = [solve_compromise(range(8), PRIOR, epsilon, weight) for weight in WEIGHTS]
    assert all(point.mechanism.verify().passed for point in points)
    variances, biases = [p.variance for p in points], [p.squared_bias for p in points]
    assert variances == sorted(variances)
    assert biases == sorted(biases, reverse=True)
    bins = response_on_bins(range(8), PRIOR, epsilon)
    error = float(np.average([float(e) for e in bins.errors()], weights=PRIOR))
    assert points[0].variance + points[0].squared_bias == pytest.approx(error, rel=1e-4)
    assert points[-1].value == pytest.approx(solve_unbiased(range(8), PRIOR, epsilon).value, rel=1e-4)


@pytest.mark.parametrize("epsilon", ["0.5", "2", "6"])
def test_larger_weights_are_certified_and_every_bound_holds(epsilon: str) -> None:
    for weight in WEIGHTS:
        point = solve_compromise(range(8), PRIOR, epsilon, weight)
        assert point.lower_bound <= point.value
        assert point.converged == (point.gap <= 1e-6)
        assert point.converged or float(weight) < 4


def test_no_other_mechanism_at_hand_beats_the_compromise() -> None:
    prior = np.array(PRIOR) / sum(PRIOR)
    for weight in (1.5, 5.0, 50.0):
        found = solve_compromise(range(8), PRIOR, 2, weight)
        rivals = [response_on_bins(range(8), PRIOR, 2), solve_unbiased(range(8), PRIOR, 2).mechanism]
        rivals += [solve_compromise(range(8), PRIOR, 2, other).mechanism for other in (3.0, 10.0)]
        for rival in rivals:
            bias = np.array([float(b) for b in rival.bias()])
            errors = np.array([float(e) for e in rival.errors()])
            assert found.value <= float(prior @ (errors + (weight - 1) * bias**2)) * (1 + 1e-6)


def test_senseless_weights_and_priors_are_refused() -> None:
    with pytest.raises(InvalidTask, match="above 1"):
        solve_compromise(range(3), [1, 1, 1], 1, 1)
    with pytest.raises(InvalidTask, match="at least two labels"):
        solve_compromise(range(3), [0, 1, 0], 1, 2)
