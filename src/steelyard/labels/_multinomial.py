"""MultinomialRegression: classes by a log-linear model, from label vectors that are already private and may be negative.

The loss log(sum e^s) - z.s of scores s is affine in the label vector z, so vectors without bias lead where true ones lead; it
is convex whatever signs they have, and a ridge on all coefficients keeps its minimum finite. The same loss, asked on noisy
vectors, is right on average too, so the ridge is chosen by it and an estimate of how much a fit flatters itself (Takeuchi's
criterion). All of it is post-processing: nothing is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import EngineMissing, InvalidTask
from steelyard.labels._newton import RIDGES, descend, times, weighed, with_constant

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

Floats = NDArray[np.float64]


def chances(scores: Floats) -> Floats:
    """The probabilities of classes with these scores, row by row."""
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


@dataclass
class _MultinomialObjective:
    """The mean loss of label vectors and a ridge, over coefficients of columns whose entries that are not zero have mean square one."""

    rows: Any
    scale: Floats
    pull: Floats
    gram: Floats
    shares: Floats
    total: float
    alpha: float = 0.0

    @classmethod
    def of(cls, rows: Any, vectors: Floats, shares: Floats, total: float) -> _MultinomialObjective:
        """From rows (dense or sparse, a constant last), one label vector and one share of all for each."""
        squares, filled = (
            _added(rows * rows if isinstance(rows, np.ndarray) else rows.multiply(rows), shares),
            _added(rows != 0, shares),
        )
        scale = np.where(squares > 0, np.sqrt(squares / np.where(filled > 0, filled, 1.0)), 1.0)
        gram = rows.T @ times(rows, shares)
        gram = (gram.toarray() if hasattr(gram, "toarray") else gram) / np.outer(scale, scale)
        pull = np.asarray(rows.T @ (vectors * shares[:, None])) / scale[:, None]
        return cls(rows, scale, pull, gram, shares, total)

    def scores(self, theta: Floats) -> Floats:
        """One column of scores for each class."""
        return np.asarray(self.rows @ (theta / self.scale[:, None]))

    def back(self, values: Floats) -> Floats:
        """The mean over rows of what each adds to a gradient."""
        return np.asarray(self.rows.T @ (values * self.shares[:, None]) / self.scale[:, None])

    def at(self, theta: Floats) -> tuple[float, Floats, Floats]:
        """The objective, its gradient, and the chances that its curvature is made of."""
        scores = self.scores(theta)
        top = scores.max(axis=1, keepdims=True)
        likely = chances(scores)
        value = float(self.shares @ (top[:, 0] + np.log(np.exp(scores - top).sum(axis=1))))
        value += float(self.alpha / 2 * (theta * theta).sum() - (self.pull * theta).sum())
        return value, self.back(likely) - self.pull + self.alpha * theta, likely

    def step(self, gradient: Floats, likely: Floats) -> Floats:
        """Conjugate gradients for the Newton step, preconditioned by rows that all have the mean curvature."""
        mean = float((self.shares @ (likely * (1 - likely))).mean()) or 1e-9
        inner = np.linalg.inv(mean * self.gram + self.alpha * np.eye(len(self.gram)))
        found, left = np.zeros_like(gradient), gradient.copy()
        way = near = inner @ left
        power = float((left * near).sum())
        goal = power * 1e-4
        for _ in range(50):
            bent = self.bend(way, likely)
            size = power / max(float((way * bent).sum()), 1e-300)
            found, left = found + size * way, left - size * bent
            near = inner @ left
            before, power = power, float((left * near).sum())
            if power <= goal:
                break
            way = near + power / before * way
        return found

    def bend(self, way: Floats, likely: Floats) -> Floats:
        """The curvature applied to a direction."""
        moved = likely * self.scores(way)
        return self.back(moved - likely * moved.sum(axis=1, keepdims=True)) + self.alpha * way

    def flattery(self, likely: Floats, vectors: Floats) -> float:
        """By how much the loss on its own records is below that on new ones, expected: tr(H^-1 B)/n (Takeuchi).

        H is the curvature, class by class (exact for two classes), B the covariance of what a record adds to the gradient.
        """
        count, total = likely.shape[1], 0.0
        spread = self.shares @ (vectors - likely) ** 2
        for number in range(count):
            curve = likely[:, number] * (1 - likely[:, number]) * (count / (count - 1)) * self.shares
            bent = times(self.rows, curve).T @ self.rows
            bent = np.asarray(bent.todense() if hasattr(bent, "todense") else bent)
            bent = bent / np.outer(self.scale, self.scale) + self.alpha * np.eye(len(self.gram))
            total += spread[number] * float(np.trace(np.linalg.solve(bent, self.gram)))
        return total / self.total


class MultinomialRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A log-linear model of classes, fitted to label vectors that were made private; it adds no privacy itself.

    ``y`` has one column for each class (what ``LabelPrivateClassifier`` gives it), or is one column of noisy zeros and ones
    (from a ``LabelRandomizer`` with lower 0 and upper 1): the chance of a one. Entries may be any numbers. It minimizes
    the mean of log(sum e^s) - y.s plus ``alpha``/2 times the squared length of all coefficients, the constant's among them, of
    columns brought to one size (that of their entries that are not zero); ``alpha="auto"`` takes the ridge that promises least on new records (``alpha_``).

    *Accuracy:* the model of the true labels, with more records. ``predict`` gives probabilities.

    >>> X, y = [[0.0], [1.0]] * 500, [-0.6, 1.5, 1.2, -0.1] * 250
    >>> [round(float(p), 1) for p in MultinomialRegression(alpha=1e-4).fit(X, y).predict([[0.0], [1.0]])]
    [0.3, 0.7]
    """

    def __init__(self, alpha: float | str = "auto", *, max_iter: int = 100, tol: float = 1e-7) -> None:
        self.alpha, self.max_iter, self.tol = alpha, max_iter, tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultinomialRegression:
        """Find the coefficients by damped Newton steps; ``sample_weight`` is how often each record counts."""
        if not (self.alpha == "auto" or (not isinstance(self.alpha, str) and 0 < self.alpha < math.inf)):
            raise InvalidTask(f"alpha must be above zero, or 'auto': noisy labels may be negative; got {self.alpha!r}.")
        rows, labels = validate_data(
            self, X, y, dtype=np.float64, y_numeric=True, multi_output=True, accept_sparse="csr"
        )
        vectors = np.asarray(labels, dtype=np.float64)
        self._single = vectors.ndim == 1 or vectors.shape[1] == 1
        if self._single:
            ones = column_or_1d(vectors, warn=True)
            vectors = np.column_stack([1 - ones, ones])
        heard, shares, total = weighed(sample_weight, rows)
        rows, vectors = rows[heard], vectors[heard]
        objective = _MultinomialObjective.of(with_constant(rows), vectors, shares, total)
        theta = self._searched(objective, vectors) if self.alpha == "auto" else self._at(objective, float(self.alpha))
        theta = (theta - theta.mean(axis=1, keepdims=True)) / objective.scale[:, None]
        self.coef_, self.intercept_ = theta[:-1].T, theta[-1]
        return self

    def _at(self, objective: _MultinomialObjective, alpha: float, start: Floats | None = None) -> Floats:
        objective.alpha = self.alpha_ = alpha
        start = np.zeros_like(objective.pull) if start is None else start
        theta, self.n_iter_ = descend(objective, start, self.max_iter, self.tol)
        return theta

    def _searched(self, objective: _MultinomialObjective, vectors: Floats) -> Floats:
        """The fit at the ridge that promises the least loss on new records; weaker ones start where stronger ones ended."""
        theta = np.zeros_like(objective.pull)
        found, least, kept = theta, math.inf, RIDGES[0]
        for ridge in RIDGES:
            theta = self._at(objective, ridge, theta)
            value, _, likely = objective.at(theta)
            lost = value - ridge / 2 * float((theta * theta).sum())
            promised = lost + objective.flattery(likely, vectors)
            if (
                lost < 0 or not promised < least
            ):  # no model loses less than nothing: this one has learnt the noise by heart
                break
            found, least, kept = theta, promised, ridge
        self.alpha_ = kept
        return found

    def predict(self, X: Any) -> Floats:
        """The probability of each class, one column for each; of a one, where the labels were one column."""
        check_is_fitted(self, "coef_")
        rows = validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False)
        found = chances(np.asarray(rows @ self.coef_.T) + self.intercept_)
        return np.asarray(found[:, 1]) if self._single else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # scikit-learn's own check is one on labels that are no probabilities
        return tags


def _added(rows: Any, shares: Floats) -> Floats:
    """The sum of rows by their shares."""
    return np.asarray(rows.T @ shares, dtype=np.float64).reshape(-1)
