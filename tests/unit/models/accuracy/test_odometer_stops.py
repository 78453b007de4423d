"""What a path has cost, told at a stop chosen by whoever is ahead: the odometer holds, the fixed-time curve does not."""

from __future__ import annotations

import numpy as np

from steelyard.accounting._odometers import MixtureOdometer

DELTA, PATHS = 1e-2, 20_000
V = np.geomspace(1e-4, 10, 120)


def crossed(bound: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The share of paths whose privacy loss is ever above the bound."""
    draws = np.random.default_rng(5)
    step = np.sqrt(np.diff(np.concatenate([[0.0], V])))
    loss = V / 2 + np.cumsum(draws.standard_normal((PATHS, len(V))) * step, axis=1)
    return float(np.mean((loss > bound).any(axis=1)))


def test_the_odometer_covers_every_stop_at_once() -> None:
    odometer = MixtureOdometer(DELTA, tuned_at=1e-3)
    assert crossed(np.array([odometer.epsilon(float(v)) for v in V])) <= DELTA


def test_the_fixed_time_curve_at_a_chosen_stop_is_caught() -> None:
    assert crossed(V / 2 + np.sqrt(V) * 2.3263) > 10 * DELTA
