"""PoissonRegression: counts by a log-linear model, from labels that are already private and may be negative.

The loss e^s - y s of a score s is affine in the label, so labels without bias lead where true ones lead; its sum is convex
whatever signs noisy labels have, and a ridge on all coefficients keeps its minimum finite where their mean falls below
zero. Other Poisson models refuse negative labels. What is done with private labels is post-processing: nothing is charged.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import EngineMissing, InvalidTask

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

Floats = NDArray[np.float64]


class PoissonRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A log-linear model of counts, fitted to labels that a ``LabelRandomizer`` made private; it adds no privacy itself.

    Give it to ``LabelPrivateRegressor``, or fit it to noisy labels. It minimizes the mean of e^s - y s plus ``alpha``/2 times the
    squared length of all coefficients, the intercept's among them.

    *Accuracy:* the model of the true labels, with more records. ``n_iter_`` Newton steps were made.

    >>> X, y = [[0.0], [1.0]] * 500, [-2, 7, 4, 3] * 250
    >>> [round(float(mean), 1) for mean in PoissonRegression().fit(X, y).predict([[0.0], [1.0]])]
    [1.0, 5.0]
    """

    def __init__(self, alpha: float = 1e-3, *, max_iter: int = 100, tol: float = 1e-9) -> None:
        self.alpha, self.max_iter, self.tol = alpha, max_iter, tol

    def fit(self, X: Any, y: Any) -> PoissonRegression:
        """Find the coefficients by damped Newton steps."""
        if not 0 < self.alpha < math.inf:
            raise InvalidTask(f"alpha must be above zero: noisy counts may have a negative mean; got {self.alpha!r}.")
        rows, labels = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        wide = np.column_stack([rows, np.ones(len(rows))])
        theta = np.zeros(wide.shape[1])
        theta[-1] = math.log(max(float(labels.mean()), 0.05))
        pull = wide.T @ labels / len(labels)
        value, gradient, curvature = self._at(wide, pull, theta)
        self.n_iter_ = 0
        while self.n_iter_ < self.max_iter and float(np.abs(gradient).max()) > self.tol:
            step, size = _newton(curvature, gradient), 1.0
            found = self._at(wide, pull, theta - step)
            while not found[0] <= value and size > 1e-12:
                size /= 2
                found = self._at(wide, pull, theta - size * step)
            if not found[0] < value:
                break
            theta, (value, gradient, curvature) = theta - size * step, found
            self.n_iter_ += 1
        self.coef_, self.intercept_ = theta[:-1], float(theta[-1])
        return self

    def _at(self, wide: Floats, pull: Floats, theta: Floats) -> tuple[float, Floats, Floats]:
        """The objective, its gradient and its curvature; infinite where a mean is beyond floats."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.exp(wide @ theta)
            value = float(mean.mean() - pull @ theta + self.alpha / 2 * theta @ theta)
            curvature = (wide.T * mean) @ wide / len(wide) + self.alpha * np.eye(len(theta))
            return value, wide.T @ mean / len(wide) - pull + self.alpha * theta, curvature

    def predict(self, X: Any) -> Floats:
        """The count to expect for each row, above zero."""
        check_is_fitted(self, "coef_")
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(np.exp(np.clip(rows @ self.coef_ + self.intercept_, -700, 700)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # scikit-learn's own check is one on labels that are no counts
        return tags


def _newton(curvature: Floats, gradient: Floats) -> Floats:
    """The step to where the gradient would vanish; of several (columns of one direction, beyond what a ridge tells apart) the least."""
    with np.errstate(all="ignore"):
        scale = 1 / np.sqrt(curvature.diagonal())
        scaled, right = curvature * scale[:, None] * scale, scale * gradient
    if not (np.all(np.isfinite(scaled)) and np.all(np.isfinite(right))):
        return np.zeros_like(gradient)
    return np.asarray(scale * np.linalg.lstsq(scaled, right, rcond=None)[0])
