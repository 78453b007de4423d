"""LinearRegression and LogisticRegression: scikit-learn estimators over ``FitLinear`` and ``FitLogistic``.

A constructor only stores; ``fit`` makes a private table of X, y and users, pays for a task and keeps what was released.
Classes should be declared: which labels occur is data, and without a declaration they are read off y, with a warning.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Account
from steelyard.errors import EngineMissing, InvalidTask
from steelyard.models._columns import Floats, by_column
from steelyard.models._estimator import Payment, PrivateEstimator, features_of, labels_of, numbers_of, weights_of
from steelyard.models._fits import FitLinear, FitLogistic
from steelyard.models._losses import LOGISTIC
from steelyard.models._model import Model, OneVsRest, shared
from steelyard.noise import Noise
from steelyard.privacy import Number, decimal_text, positive
from steelyard.tables import check_kinds, codes, in_order

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

OBSERVED = (
    "classes= was left out, so the labels that occur in y are taken as public knowledge; that is not private if a class "
    "may be rare. Declare classes=[...] to be safe."
)


@dataclass(eq=False, repr=False)
class LinearRegression(PrivateEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Private least squares on arrays or data frames.

    ``x_bound`` is the public largest Euclidean length of a row of X (longer rows are shortened), ``y_bounds`` the public
    bounds of y (labels outside are moved to the nearest). *Privacy:* (epsilon, delta) for one row, or for all rows of
    one user with ``users=``; each fit is charged anew, to ``account`` or to one in memory of exactly epsilon and delta
    (``note_`` says which; a grid search of K fits spends K times, and without an account nothing adds that up). NaN and
    the infinities count as 0, or as the middle of ``y_bounds``. ``method``, ``cap``, ``candidates`` and ``radius`` are those of
    ``FitLinear``. ``sample_weight`` counts up to the public ``weight_bound``. *Accuracy:* ``expected_excess_`` estimates what the noise of least squares adds to the mean squared error.

    >>> X = [[0.0], [0.5], [1.0]] * 1000
    >>> y = [1, 2, 3] * 1000
    >>> model = LinearRegression(epsilon=1, delta=1e-6, x_bound=1, y_bounds=(0, 4)).fit(X, y)
    >>> bool(abs(model.predict([[0.5]])[0] - 2) < 0.5)
    True
    """

    epsilon: Number = 1.0
    delta: Number | None = 1e-6
    x_bound: Number | None = 1.0
    y_bounds: Sequence[Number] = (-1, 1)
    account: Account | None = None
    _: KW_ONLY
    norm: str = "clip"
    fit_intercept: bool = True
    public_rows: int | None = None
    noise: Noise | None = None
    method: str = "auto"
    ridge: Number | None = None
    cap: int | None = None
    candidates: Sequence[Sequence[float]] | None = None
    radius: Number | None = None
    weight_bound: Number = 1

    def fit(self, X: Any, y: Any, users: Any = None, sample_weight: Any = None) -> LinearRegression:
        """Release a model of y; ``users`` says whose row each one is, ``sample_weight`` how much it counts."""
        lower, upper = _pair(self.y_bounds)
        values = features_of(self, X, reset=True)
        labels, weights = numbers_of(self, y), weights_of(sample_weight, len(values), self.weight_bound)
        payment = Payment.read(self.account, self.epsilon, self.delta, users)
        _warn_not_pure(payment.account, self.delta)
        features = payment.features(values.shape[1], self.x_bound, self.norm, self.fit_intercept, self._names)
        task = FitLinear(features, payment.label, lower, upper, **_way(self, payment, weights))
        release = payment.session(self.noise, values, labels, users, self._names, weights).release(task)
        self.expected_excess_ = release.point.get("expected_excess")
        self._keep(payment, release)
        self.adopt((release.value,), values.shape[1])
        return self

    def adopt(self, models: Sequence[Model], width: int) -> None:
        """Predict with a released model of so many columns."""
        (self.model_,), self.n_features_in_ = models, width
        *weights, self.intercept_ = self.model_.coefficients.values()
        self.coef_ = np.array(weights)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON, as ``Model.load`` and ``steelyard predict`` read it."""
        check_is_fitted(self, "model_")
        self.model_.save(path)

    def predict(self, X: Any) -> Floats:
        """The label of each row, between its bounds."""
        check_is_fitted(self, "model_")
        values = features_of(self, X, reset=False)
        return self.model_.predict(dict(zip(self.model_.features.source, by_column(values), strict=True)))


@dataclass(eq=False, repr=False)
class LogisticRegression(PrivateEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Private logistic regression on arrays or data frames.

    ``x_bound`` is the public typical Euclidean length of a row of X: with ``norm="scale"`` (x / x_bound, 1) is brought to
    length one, with "clip" only longer rows are shortened. *Privacy:* (epsilon, delta) for one row, or for all rows of
    one user with ``users=``; ``delta=None`` is pure. Each fit is charged anew, to ``account`` or to one in memory of
    exactly epsilon and delta (``note_`` says which; a grid search of K fits spends K times). Labels outside ``classes``
    count for nothing (classes that y's type cannot hold are refused); ``classes_`` is in order; NaN and the infinities in
    X count as 0. ``sample_weight`` counts up to the public ``weight_bound``; ``class_weight`` is a public number for each class. ``method``, ``ridge``, ``cap``, ``candidates`` and ``radius`` are those of ``FitLogistic``. *Accuracy:*
    ``expected_excess_`` bounds what the noise adds to the expected sum of losses (divide by your number of rows), whatever the
    data, but for ``release_.point["expected_excess_row"]`` of each row.

    >>> X, y = [[-1.0], [1.0]] * 2000, [0, 1] * 2000
    >>> model = LogisticRegression(epsilon=1, delta=1e-6, classes=[0, 1]).fit(X, y)
    >>> model.predict([[-1.0], [1.0]]).tolist()
    [0, 1]
    """

    epsilon: Number = 1.0
    delta: Number | None = 1e-6
    classes: Sequence[Any] | None = None
    x_bound: Number | None = 1.0
    method: str = "auto"
    account: Account | None = None
    _: KW_ONLY
    ridge: Number | None = None
    norm: str = "scale"
    fit_intercept: bool = True
    cap: int | None = None
    public_rows: int | None = None
    noise: Noise | None = None
    candidates: Sequence[Sequence[float]] | None = None
    radius: Number | None = None
    weight_bound: Number = 1
    class_weight: Mapping[Any, Number] | None = None

    def fit(self, X: Any, y: Any, users: Any = None, sample_weight: Any = None) -> LogisticRegression:
        """Release a model of y; ``users`` says whose row each one is, ``sample_weight`` how much it counts."""
        values = features_of(self, X, reset=True)
        classes, places = self.coded(y)
        weights = self._weighed(weights_of(sample_weight, len(values), self.weight_bound), classes, places)
        payment = Payment.read(self.account, self.epsilon, self.delta, users)
        _warn_not_pure(payment.account, self.delta)
        features = payment.features(values.shape[1], self.x_bound, self.norm, self.fit_intercept, self._names)
        task = FitLogistic(features, payment.label, range(len(classes)), **_way(self, payment, weights))
        release = payment.session(self.noise, values, places, users, self._names, weights).release(task)
        self.classes_, self.expected_excess_ = classes, release.point.get("expected_excess_sum")
        self._keep(payment, release)
        models = (release.value,) if isinstance(release.value, Model) else release.value.models
        self.adopt(models, values.shape[1])
        return self

    def _weighed(self, weights: Floats | None, classes: NDArray[Any], places: NDArray[np.int64]) -> Floats | None:
        """Weights times those of the classes, as shares of the largest; classes without a weight have 1."""
        if self.class_weight is None:
            return weights
        if not isinstance(self.class_weight, Mapping):
            raise InvalidTask(
                "class_weight is a public number for each class, such as {0: 1, 1: 5}; 'balanced' would count the labels, and how many there "
                "are of each class is private. Buy the counts, or give what you know. Nothing was charged."
            )
        each = [positive(self.class_weight.get(value, 1), "class_weight") for value in classes.tolist()]
        shares = np.array([*(float(one / max(each)) for one in each), 0.0])
        return np.asarray(shares[places] if weights is None else shares[places] * weights)

    def adopt(self, models: Sequence[Model], width: int) -> None:
        """Predict with released models of so many columns, one for the second class or one for each."""
        if self.classes is not None:
            self.classes_ = in_order(self.classes)
        self.models_, self.n_features_in_ = of_classes(models, self.classes_.tolist()), width
        lines = [list(model.coefficients.values()) for model in self.models_]
        self.coef_, self.intercept_ = np.array(lines)[:, :-1], np.array(lines)[:, -1]

    def decision_function(self, X: Any) -> Floats:
        """The score of the second class, or of each of more than two."""
        check_is_fitted(self, "models_")
        values = features_of(self, X, reset=False)
        import pyarrow as pa

        source = self.models_[0].features.source
        batch = pa.RecordBatch.from_pydict(dict(zip(source, by_column(values), strict=True)))
        scaled = self.models_[0].features.scaled(batch)
        scores = np.column_stack([model.scores(scaled) for model in self.models_])
        return np.asarray(scores[:, 0] if len(self.models_) == 1 else scores)

    def predict_proba(self, X: Any) -> Floats:
        """One column for each class; each row adds up to one."""
        chance = LOGISTIC.mean(self.decision_function(X))
        return np.column_stack([1 - chance, chance]) if chance.ndim == 1 else shared(chance)

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithms of the same, exact where a probability is too small for a number."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([-np.logaddexp(0.0, scores), -np.logaddexp(0.0, -scores)])
        return np.log(self.predict_proba(X))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, or one for each of several classes, as JSON that ``steelyard predict`` reads."""
        check_is_fitted(self, "models_")
        (self.models_[0] if len(self.models_) == 1 else OneVsRest(self.models_)).save(path)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[places])

    def coded(self, y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The classes in order, and each label's place among them; -1 for a label that is none of them.

        In order, because scikit-learn takes the columns of ``predict_proba`` to be so, whatever ``classes_`` says.
        """
        if self.classes is None:
            if self.account is not None and self.account.terms.unit.kind == "labels":
                raise InvalidTask(
                    "this account hides labels, and which of them occur would show in the classes: declare classes=[...]."
                )
            labels = labels_of(self, np.asarray(y) if isinstance(y, list | tuple) else y)
            check_classification_targets(labels)
            warnings.warn(OBSERVED, UserWarning, stacklevel=3)
            classes = np.unique(labels)
        else:
            labels, classes = labels_of(self, y), in_order(self.classes)
        if len(np.unique(classes)) != len(classes) or len(classes) < 2:
            twice = f"{len(classes) - len(np.unique(classes))} of them given twice" if len(classes) > 1 else "1 class"
            raise ValueError(f"a classifier needs at least two classes, each once; got {twice}.")
        check_kinds(y, classes.tolist())
        return classes, codes(labels, classes.tolist())


def of_classes(models: Sequence[Model], classes: list[Any]) -> tuple[Model, ...]:
    """The models with the classes as they are called, in place of the places that were fitted."""
    if len(models) == 1:
        return (replace(models[0], positive=classes[1], negative=classes[0]),)
    return tuple(replace(model, positive=value) for model, value in zip(models, classes, strict=True))


def _way(estimator: LinearRegression | LogisticRegression, payment: Payment, weights: Floats | None) -> dict[str, Any]:
    """How to fit, and at what price, as a task takes it."""
    names = ("epsilon", "method", "ridge", "cap", "public_rows", "candidates", "radius")
    weight = {} if weights is None else {"weight": payment.weight}
    return {name: getattr(estimator, name) for name in names} | weight


def _warn_not_pure(account: Account, delta: Number | None) -> None:
    """Say so where pure epsilon was asked for and the account's promise has a delta; nothing is charged yet."""
    if delta is None and account.terms.delta:
        warnings.warn(
            f"delta=None asks for pure epsilon, and account {account.name!r} promises less: this fit is charged at its delta of "
            f"{decimal_text(account.terms.delta)}. Open an account without delta, or leave delta= out.",
            UserWarning,
            stacklevel=3,
        )


def _pair(bounds: Sequence[Number]) -> tuple[Number, Number]:
    if isinstance(bounds, str) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise InvalidTask(f"y_bounds must be the public (lower, upper) of the label; got {bounds!r}.")
    return bounds[0], bounds[1]
