"""Damped Newton steps for convex objectives with a ridge: what the fitters of noisy labels share."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask

Floats = NDArray[np.float64]
RIDGES = tuple(
    10.0 ** (power / 2) for power in range(1, -11, -1)
)  # tried from the strongest on, until one is no better


class NewtonObjective(Protocol):
    """Something to make least: its value, gradient and curvature at a point, and the step that curvature suggests."""

    def at(self, theta: Floats) -> tuple[float, Floats, Any]:
        """Value, gradient, and whatever ``step`` needs to know of the curvature here."""

    def step(self, gradient: Floats, curvature: Any) -> Floats:
        """How far to go back along the coefficients; halved until the value falls."""


def descend(objective: NewtonObjective, theta: Floats, most: int, tolerance: float) -> tuple[Floats, int]:
    """The point where no entry of the gradient is above ``tolerance``, and the steps made; at most ``most`` of them."""
    value, gradient, curvature = objective.at(theta)
    made = 0
    while made < most and float(np.abs(gradient).max()) > tolerance:
        step, size = objective.step(gradient, curvature), 1.0
        found = objective.at(theta - step)
        while not found[0] <= value and size > 1e-12:
            size /= 2
            found = objective.at(theta - size * step)
        if not found[0] < value:
            break
        theta, (value, gradient, curvature) = theta - size * step, found
        made += 1
    return theta, made


def weighed(sample_weight: Any, rows: Any) -> tuple[Any, Floats, float]:
    """Which records count, their weights as shares that add up to one, and the total: a weight is how often a record is there."""
    from sklearn.utils.validation import _check_sample_weight

    weights = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
    heard, total = weights > 0, float(weights.sum())
    if not 0 < total < np.inf:
        raise InvalidTask("sample_weight must be above zero for some record, and add up to a finite number.")
    return (slice(None) if heard.all() else np.flatnonzero(heard)), weights[heard] / total, total


def with_constant(rows: Any) -> Any:
    """The rows, dense or sparse, with a column of ones after their own."""
    ones = np.ones((rows.shape[0], 1))
    if not hasattr(rows, "multiply"):
        return np.hstack([rows, ones])
    from scipy.sparse import hstack

    return hstack([rows, ones], format="csr")


def times(rows: Any, values: Floats) -> Any:
    """Each row times its own number."""
    return rows * values[:, None] if isinstance(rows, np.ndarray) else rows.multiply(values[:, None])


def products(rows: Any, values: Floats) -> Floats:
    """The sum of each row's products with itself, times its own number."""
    found = times(rows, values).T @ rows
    return np.asarray(found.toarray() if hasattr(found, "toarray") else found)
