"""What noisy labels do to the gradient of a model: a bias that stays, and a variance that falls with the number of records.

The label enters the gradient of a squared, Poisson or logistic loss as -y d(x), d(x) the gradient of the score by the
parameters (for a linear model the features themselves). docs/proofs/labels_noise_loss.md, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.labels._baselines import AddedNoise
from steelyard.labels._mechanism import FiniteMechanism
from steelyard.labels._nodes import COIN, Nodes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GradientError:
    """The expectation of noisy gradient minus true gradient, and the trace of its covariance, over the labels' noise."""

    bias: Floats
    variance: float

    @property
    def squared_bias(self) -> float:
        """The squared length of ``bias``; with ``variance`` it adds up to the mean squared error of the gradient."""
        return float(self.bias @ self.bias)


def gradient_error(mechanism: FiniteMechanism | AddedNoise, labels: Any, slopes: Any) -> GradientError:
    """How far the mean gradient over some records is from the one on their true labels, in bias and in variance.

    ``slopes`` has one row for each label: the gradient of the model's score by its parameters (for a linear model, the
    features and a one). *Privacy:* it reads true labels, so it is for generated or public records, never for release.

    >>> from steelyard.labels import solve_unbiased
    >>> found = gradient_error(solve_unbiased(range(4), [1] * 4, 1).mechanism, [0, 1, 3], [[1.0], [1.0], [1.0]])
    >>> bool(abs(found.squared_bias) < 1e-12), found.variance > 1
    (True, True)
    """
    y, d = np.asarray(labels, dtype=np.float64), np.asarray(slopes, dtype=np.float64)
    if y.ndim != 1 or d.ndim != 2 or len(y) != len(d) or not len(y) or not np.all(np.isfinite(y)):
        raise InvalidTask("gradient_error takes a column of finite labels, and one row of slopes for each.")
    nodes = Nodes(mechanism.inputs)
    below, steps = nodes.places(y)
    above, share = np.minimum(below + 1, len(mechanism.inputs) - 1), steps / 2.0**COIN
    fine = (
        isinstance(mechanism, AddedNoise) and mechanism.bits > 0
    )  # noise on the steps between nodes: no coin is thrown
    bias, error = (np.array([float(x) for x in found]) for found in (mechanism.bias(), mechanism.errors()))
    first = second = np.zeros(len(y))
    for at, part in ((below, 1 - share), (above, share)):
        moved = nodes.floats[at] - y
        first = first + part * (moved + bias[at])
        second = second + part * (error[at] + 2 * bias[at] * moved + moved**2)
    spread = np.full(len(y), error[0]) if fine else np.maximum(second - first**2, 0)
    return GradientError(-(first @ d) / len(y), float(spread @ (d**2).sum(axis=1)) / len(y) ** 2)
