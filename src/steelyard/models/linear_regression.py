"""LinearRegression: a scikit-learn estimator over ``FitLinear``.

The constructor only stores; ``fit`` makes a private table of X, y and users, pays, and keeps what was released. Every
prediction lies between the label's declared bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Account
from steelyard.errors import EngineMissing, InvalidTask
from steelyard.models.estimator import Payment, features_of, honest, numbers_of, warn_of
from steelyard.models.linear import FitLinear
from steelyard.models.saved import Model
from steelyard.noise import Noise
from steelyard.privacy import Number

try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None


class LinearRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Private least squares on arrays or data frames.

    ``x_bound`` is the public largest Euclidean length of a row of X (longer rows are shortened), ``y_bounds`` the public
    bounds of y (labels outside are moved to the nearest). *Privacy:* (epsilon, delta) for one row, or for all rows of
    one user with ``users=``; each fit is charged anew, to ``account`` or to one in memory of exactly epsilon and delta
    (``note_`` says which; a grid search of K fits spends K times, and without an account nothing adds that up). NaN and
    the infinities count as 0, or as the middle of ``y_bounds``. *Accuracy:* ``expected_excess_`` estimates what the
    noise adds to the mean squared error.

    >>> X = [[0.0], [0.5], [1.0]] * 1000
    >>> y = [1, 2, 3] * 1000
    >>> model = LinearRegression(epsilon=1, delta=1e-6, x_bound=1, y_bounds=(0, 4)).fit(X, y)
    >>> bool(abs(model.predict([[0.5]])[0] - 2) < 0.5)
    True
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        delta: Number | None = 1e-6,
        x_bound: Number | None = 1.0,
        y_bounds: Sequence[Number] = (-1, 1),
        account: Account | None = None,
        *,
        norm: str = "clip",
        fit_intercept: bool = True,
        public_rows: int | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.epsilon, self.delta, self.x_bound, self.y_bounds = epsilon, delta, x_bound, y_bounds
        self.account, self.norm, self.fit_intercept, self.noise = account, norm, fit_intercept, noise
        self.public_rows = public_rows

    def fit(self, X: Any, y: Any, users: Any = None) -> LinearRegression:
        """Release a model of y; ``users`` says whose row each one is."""
        lower, upper = _pair(self.y_bounds)
        values = features_of(self, X, reset=True)
        labels = numbers_of(self, y)
        payment = Payment.read(self.account, self.epsilon, self.delta, users)
        features = payment.features(values.shape[1], self.x_bound, self.norm, self.fit_intercept)
        task = FitLinear(features, payment.label, lower, upper, epsilon=self.epsilon, public_rows=self.public_rows)
        release = payment.session(payment.table(values, labels, users), self.noise).release(task)
        self.account_, self.note_, self.release_, self.guarantee_ = (
            payment.account,
            payment.note,
            release,
            release.guarantee,
        )
        self.model_: Model = release.value
        self.expected_excess_ = release.point.get("expected_excess")
        warn_of(release)
        *weights, self.intercept_ = self.model_.coefficients.values()
        self.coef_ = np.array(weights)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The label of each row, between its bounds."""
        check_is_fitted(self, "model_")
        values = features_of(self, X, reset=False)
        return self.model_.predict(dict(zip(self.model_.features.source, np.ascontiguousarray(values.T), strict=True)))

    def __sklearn_tags__(self) -> Any:
        return honest(super().__sklearn_tags__())


def _pair(bounds: Sequence[Number]) -> tuple[Number, Number]:
    if isinstance(bounds, str) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise InvalidTask(f"y_bounds must be the public (lower, upper) of the label; got {bounds!r}.")
    return bounds[0], bounds[1]
