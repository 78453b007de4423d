"""PoissonRegression: counts by a log-linear model, from labels that are already private and may be negative.

The loss e^s - y s of a score s is affine in the label, so labels without bias lead where true ones lead; its sum is convex
whatever signs noisy labels have, and a ridge on all coefficients keeps its minimum finite where their mean falls below
zero. Other Poisson models refuse negative labels. What is done with private labels is post-processing: nothing is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import EngineMissing, InvalidTask
from steelyard.labels._newton import RIDGES, descend

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

Floats = NDArray[np.float64]


class PoissonRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A log-linear model of counts, fitted to labels that a ``LabelRandomizer`` made private; it adds no privacy itself.

    Give it to ``LabelPrivateRegressor``, or fit it to noisy labels. It minimizes the mean of e^s - y s plus ``alpha``/2 times the
    squared length of all coefficients, the intercept's among them; ``alpha="auto"`` takes the ridge that promises least on new
    records by the noisy labels themselves (``alpha_``), which few records or a small epsilon need.

    *Accuracy:* the model of the true labels, with more records. ``n_iter_`` Newton steps were made.

    >>> X, y = [[0.0], [1.0]] * 500, [-2, 7, 4, 3] * 250
    >>> [round(float(mean), 1) for mean in PoissonRegression().fit(X, y).predict([[0.0], [1.0]])]
    [1.0, 5.0]
    """

    def __init__(self, alpha: float | str = 1e-3, *, max_iter: int = 100, tol: float = 1e-9) -> None:
        self.alpha, self.max_iter, self.tol = alpha, max_iter, tol

    def fit(self, X: Any, y: Any) -> PoissonRegression:
        """Find the coefficients by damped Newton steps."""
        if not (self.alpha == "auto" or (not isinstance(self.alpha, str) and 0 < self.alpha < math.inf)):
            raise InvalidTask(
                f"alpha must be above zero, or 'auto': noisy counts may have a negative mean; got {self.alpha!r}."
            )
        rows, labels = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        wide = np.column_stack([rows, np.ones(len(rows))])
        start = np.zeros(wide.shape[1])
        start[-1] = math.log(max(float(labels.mean()), 0.05))
        theta = (
            self._searched(wide, labels, start) if self.alpha == "auto" else self._at(wide, labels, start, self.alpha)
        )
        self.coef_, self.intercept_ = theta[:-1], float(theta[-1])
        return self

    def _at(self, wide: Floats, labels: Floats, start: Floats, alpha: Any) -> Floats:
        self.alpha_ = float(alpha)
        objective = _PoissonObjective(wide, wide.T @ labels / len(labels), self.alpha_)
        theta, self.n_iter_ = descend(objective, start, self.max_iter, self.tol)
        return theta

    def _searched(self, wide: Floats, labels: Floats, theta: Floats) -> Floats:
        """The fit at the ridge that promises the least loss on new records; weaker ones start where stronger ones ended."""
        found, least, kept = theta, math.inf, RIDGES[0]
        for ridge in RIDGES:
            theta = self._at(wide, labels, theta, ridge)
            promised = _PoissonObjective(wide, wide.T @ labels / len(labels), ridge).promised(theta, labels)
            if not promised < least:
                break
            found, least, kept = theta, promised, ridge
        self.alpha_ = kept
        return found

    def predict(self, X: Any) -> Floats:
        """The count to expect for each row, above zero."""
        check_is_fitted(self, "coef_")
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(np.exp(np.clip(rows @ self.coef_ + self.intercept_, -700, 700)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # scikit-learn's own check is one on labels that are no counts
        return tags


@dataclass(frozen=True)
class _PoissonObjective:
    """The mean of e^s - y s, and a ridge."""

    wide: Floats
    pull: Floats
    alpha: float

    def at(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """The objective, its gradient and its curvature; infinite where a mean is beyond floats."""
        wide, pull = self.wide, self.pull
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.exp(wide @ theta)
            value = float(mean.mean() - pull @ theta + self.alpha / 2 * theta @ theta)
            curvature = (wide.T * mean) @ wide / len(wide) + self.alpha * np.eye(len(theta))
            return value, wide.T @ mean / len(wide) - pull + self.alpha * theta, curvature

    def promised(self, theta: Floats, labels: Floats) -> float:
        """The loss to expect on new records: that on these, and how much a fit flatters itself, tr(H^-1 B)/n (Takeuchi)."""
        value, _, curvature = self.at(theta)
        noise = self.wide * (labels - np.exp(np.clip(self.wide @ theta, -700, 300)))[:, None]
        flattery = np.trace(np.linalg.lstsq(curvature, noise.T @ noise / len(labels), rcond=None)[0]) / len(labels)
        return value - self.alpha / 2 * float(theta @ theta) + float(flattery)

    def step(self, gradient: Floats, curvature: Floats) -> Floats:
        """The step to where the gradient would vanish; of several (columns of one direction, beyond what a ridge tells apart) the least."""
        with np.errstate(all="ignore"):
            scale = 1 / np.sqrt(curvature.diagonal())
            scaled, right = curvature * scale[:, None] * scale, scale * gradient
        if not (np.all(np.isfinite(scaled)) and np.all(np.isfinite(right))):
            return np.zeros_like(gradient)
        return np.asarray(scale * np.linalg.lstsq(scaled, right, rcond=None)[0])
