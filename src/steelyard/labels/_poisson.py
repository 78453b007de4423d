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
from steelyard.labels._newton import RIDGES, descend, products, weighed, with_constant

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> PoissonRegression:
        """Find the coefficients by damped Newton steps; ``sample_weight`` is how often each record counts."""
        if not (self.alpha == "auto" or (not isinstance(self.alpha, str) and 0 < self.alpha < math.inf)):
            raise InvalidTask(
                f"alpha must be above zero, or 'auto': noisy counts may have a negative mean; got {self.alpha!r}."
            )
        rows, labels = validate_data(self, X, y, dtype=np.float64, y_numeric=True, accept_sparse="csr")
        heard, shares, total = weighed(sample_weight, rows)
        wide, labels = with_constant(rows)[heard], labels[heard]
        objective = _PoissonObjective(wide, labels, shares, total)
        start = np.zeros(wide.shape[1])
        start[-1] = math.log(max(float(shares @ labels), 0.05))
        theta = self._searched(objective, start) if self.alpha == "auto" else self._at(objective, start, self.alpha)
        self.coef_, self.intercept_ = theta[:-1], float(theta[-1])
        return self

    def _at(self, objective: _PoissonObjective, start: Floats, alpha: Any) -> Floats:
        objective.alpha = self.alpha_ = float(alpha)
        theta, self.n_iter_ = descend(objective, start, self.max_iter, self.tol)
        return theta

    def _searched(self, objective: _PoissonObjective, theta: Floats) -> Floats:
        """The fit at the ridge that promises the least loss on new records; weaker ones start where stronger ones ended."""
        found, least, kept = theta, math.inf, RIDGES[0]
        for ridge in RIDGES:
            theta = self._at(objective, theta, ridge)
            promised = objective.promised(theta)
            if not promised < least:
                break
            found, least, kept = theta, promised, ridge
        self.alpha_ = kept
        return found

    def predict(self, X: Any) -> Floats:
        """The count to expect for each row, above zero."""
        check_is_fitted(self, "coef_")
        rows = validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False)
        return np.asarray(np.exp(np.clip(rows @ self.coef_ + self.intercept_, -700, 700)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.regressor_tags.poor_score = True  # scikit-learn's own check is one on labels that are no counts
        return tags


@dataclass
class _PoissonObjective:
    """The mean of e^s - y s over records that count by their shares, and a ridge."""

    wide: Any
    labels: Floats
    shares: Floats
    total: float
    alpha: float = 0.0

    def __post_init__(self) -> None:
        self.pull = self.wide.T @ (self.labels * self.shares)

    def at(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """The objective, its gradient and its curvature; infinite where a mean is beyond floats."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.exp(self.wide @ theta) * self.shares
            value = float(mean.sum() - self.pull @ theta + self.alpha / 2 * theta @ theta)
            curvature = products(self.wide, mean) + self.alpha * np.eye(len(theta))
            return value, self.wide.T @ mean - self.pull + self.alpha * theta, curvature

    def promised(self, theta: Floats) -> float:
        """The loss to expect on new records: that on these, and how much a fit flatters itself, tr(H^-1 B)/n (Takeuchi)."""
        value, _, curvature = self.at(theta)
        off = self.labels - np.exp(np.clip(self.wide @ theta, -700, 300))
        spread = products(self.wide, off**2 * self.shares)
        flattery = np.trace(np.linalg.lstsq(curvature, spread, rcond=None)[0]) / self.total
        return value - self.alpha / 2 * float(theta @ theta) + float(flattery)

    def step(self, gradient: Floats, curvature: Floats) -> Floats:
        """The step to where the gradient would vanish; of several (columns of one direction, beyond what a ridge tells apart) the least."""
        with np.errstate(all="ignore"):
            scale = 1 / np.sqrt(curvature.diagonal())
            scaled, right = curvature * scale[:, None] * scale, scale * gradient
        if not (np.all(np.isfinite(scaled)) and np.all(np.isfinite(right))):
            return np.zeros_like(gradient)
        return np.asarray(scale * np.linalg.lstsq(scaled, right, rcond=None)[0])
