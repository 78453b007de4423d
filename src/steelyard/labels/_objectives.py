"""Losses for gradient boosting that take noisy labels of any sign: gradient and curvature, as LightGBM and XGBoost want them.

Both libraries' own Poisson and logistic objectives refuse negative labels, though neither loss needs them to be positive. With an
objective of one's own, predictions are scores that start at zero; give an ``init_score`` or ``base_score`` to start elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_FAR = 30.0  # scores beyond are as good as this one, and squares of e^30 are floats


def poisson_objective(labels: Any, scores: Any) -> tuple[Floats, Floats]:
    """The first and second derivative of e^s - y s by the score; the model of a count is e^score.

    ``LGBMRegressor(objective=poisson_objective)``, ``XGBRegressor(objective=poisson_objective)``: predictions are then scores.

    >>> [part.tolist() for part in poisson_objective([-2.0, 3.0], [0.0, 0.0])]
    [[3.0, -2.0], [1.0, 1.0]]
    """
    mean = np.exp(np.clip(np.asarray(scores, dtype=np.float64), -_FAR, _FAR))
    return mean - np.asarray(labels, dtype=np.float64), np.maximum(mean, 1e-6)


def logistic_objective(labels: Any, scores: Any) -> tuple[Floats, Floats]:
    """The first and second derivative of log(1 + e^s) - y s by the score; the chance of a one is 1/(1 + e^-score).

    >>> [part.tolist() for part in logistic_objective([-0.5, 1.5], [0.0, 0.0])]
    [[1.0, -1.0], [0.25, 0.25]]
    """
    chance = 0.5 * (1 + np.tanh(np.asarray(scores, dtype=np.float64) / 2))
    return chance - np.asarray(labels, dtype=np.float64), np.maximum(chance * (1 - chance), 1e-6)
