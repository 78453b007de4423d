"""LinearRegression and LogisticRegression for scikit-learn: arrays become a private table, and somebody pays.

A constructor only stores; ``fit`` pays for a task and keeps what was released. X, y and users become one table whose features have a declared length; the account is the caller's, or one in memory of
exactly the estimator's own epsilon and delta. Values are never a reason to refuse: NaN and the infinities follow the
total rule of ``columns``, and no number of rows is wrong, since both are private.
Law: whatever is refused here is refused for its shape, its type or its settings, before anything is charged.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Account
from steelyard.errors import EngineMissing, InvalidTask, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models.arrays import check_kinds, codes, in_order, units
from steelyard.models.columns import SIZE, Features, Floats, Plain
from steelyard.models.fits import FitLinear, FitLogistic
from steelyard.models.losses import LOGISTIC
from steelyard.models.model import Model, shared
from steelyard.noise import Noise
from steelyard.privacy import Number, exact, rows
from steelyard.privacy import users as users_of
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import Table, entries_of, is_untyped, kind_of, read
from steelyard.tables import numbers_of as floats_of

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_consistent_length
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

OWN = (
    "charged to an account in memory of exactly this estimator's epsilon and delta, made by this fit alone: every other "
    "fit (a grid search of K fits makes K) spends again, and nothing adds them up; give account= to keep count"
)
OBSERVED = (
    "classes= was left out, so the labels that occur in y are taken as public knowledge; that is not private if a class "
    "may be rare. Declare classes=[...] to be safe."
)


def features_of(estimator: Any, X: Any, *, reset: bool) -> Floats:
    """X as numbers: its shape and its columns' types are checked, its values and its number of rows are not."""
    found = validate_data(
        estimator, _typed(X), reset=reset, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0
    )
    return np.asarray(found, dtype=np.float64)


def _typed(X: Any) -> Any:
    """X with every entry that is no number as NaN, where a type does not say that all are numbers."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return _typed_frame(X)
    if isinstance(X, list | tuple) and X and all(isinstance(row, list | tuple) for row in X):
        if len({len(row) for row in X}) != 1:
            raise ValueError("the rows of X are not of one length.")
        return np.array([floats_of(row) for row in X])
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 2:
        return np.array([floats_of(row) for row in X]).reshape(X.shape)
    return X


def _typed_frame(X: Any) -> Any:
    """A frame whose columns of objects are numbers; a column that is text by its type is refused."""
    kinds = [kind_of(X.iloc[:0, place]) for place in range(X.shape[1])]
    for name, kind in zip(X.columns, kinds, strict=True):
        if kind in ("text", "bytes", "other values"):
            raise InvalidTask(
                f"column {name!r} of X holds {kind}: make numbers of it first, with an encoder whose categories are public; "
                "nothing was charged."
            )
    if None not in kinds:
        return X
    given = {place: floats_of(X.iloc[:, place]) for place, kind in enumerate(kinds) if kind is None}
    made = X.copy()
    for place, column in given.items():
        made.isetitem(place, column)
    return made


def labels_of(estimator: Any, y: Any) -> Any:
    """y as one column, of whatever kind; one without a type stays as its entries are."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    if is_untyped(y):
        return entries_of(y)
    given = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, ensure_min_samples=0, input_name="y")
    return column_or_1d(given, warn=True)


def numbers_of(estimator: Any, y: Any) -> Floats:
    """y as one column of numbers; an entry that is none is NaN where the column's type does not rule that out."""
    if kind_of(y) not in (None, "numbers", "truth values"):
        raise InvalidTask(f"the labels y must be numbers; got a column of {kind_of(y)}.")
    found = labels_of(estimator, y)
    return floats_of(found) if found.dtype == object else np.asarray(found, dtype=np.float64)


@dataclass(frozen=True)
class Payment:
    """The account that pays for one fit, and what is to be said about it."""

    account: Account
    note: str

    @classmethod
    def read(cls, account: Account | None, epsilon: Number, delta: Number | None, users: Any) -> Payment:
        """The caller's account, if it hides what is to be hidden; else a new one in memory."""
        if account is None:
            unit = rows() if users is None else users_of("user")
            given = {} if delta is None or exact(delta, "delta") == 0 else {"delta": delta}
            return cls(open_account(":memory:", "model", unit=unit, epsilon=epsilon, **given), OWN)
        unit = account.terms.unit
        if unit.kind not in ("rows", "users"):
            raise UnitMismatch(f"a model hides rows or users; account {account.name!r} hides {unit}.")
        if (unit.kind == "users") != (users is not None):
            how = "give users=, one entry for each row" if users is None else "leave users= out, or use one for users"
            raise UnitMismatch(f"account {account.name!r} hides {unit}: {how}.")
        return cls(account, f"charged to account {account.name!r}")

    @property
    def label(self) -> str:
        """What the label's column is called in the table."""
        return f"{self._prefix}y"

    def table(self, X: Floats, y: Any, users: Any) -> Table:
        """The rows as a table; its columns cannot be confused with the unit's."""
        check_consistent_length(X, y)
        columns = {f"{self._prefix}x{i}": np.ascontiguousarray(column) for i, column in enumerate(X.T)}
        unit = self.account.terms.unit
        if users is not None and unit.column is not None:
            whose = column_or_1d(units(users), dtype=None) if hasattr(users, "__len__") else users
            check_consistent_length(X, whose)
            columns = {**columns, unit.column: whose}
        return read({**columns, self.label: np.asarray(y)})

    def features(self, width: int, x_bound: Number | None, norm: str, intercept: bool) -> Features:
        """The features of such a table."""
        if x_bound is None:
            raise InvalidTask(
                "x_bound is needed: the public largest Euclidean length of a row of X. Longer rows are shortened. It must be "
                "known beforehand or bought with PrivateScaler; the largest length in the data is private."
            )
        return Features([Plain(f"{self._prefix}x{i}") for i in range(width)], norm, x_bound, intercept)

    def session(self, table: Table, noise: Noise | None) -> Session:
        """Where the fit is released."""
        return Session(table, self.account, noise=noise)

    @property
    def _prefix(self) -> str:
        column = self.account.terms.unit.column
        return "" if column is None else f"{column}_"


class PrivateEstimator:
    """What private estimators share beside scikit-learn's own classes: how a fit is kept, and honest tags."""

    def _keep(self, payment: Payment, release: Release) -> None:
        """Keep what was released, and pass on what the fit noticed in it."""
        self.account_, self.note_ = payment.account, payment.note
        self.release_, self.guarantee_ = release, release.guarantee
        if "warning" in release.point:
            warnings.warn(str(release.point["warning"]), UserWarning, stacklevel=4)

    def __sklearn_tags__(self) -> Any:
        return honest(super().__sklearn_tags__())  # type: ignore[misc]


def honest(tags: Any) -> Any:
    """Tags that say what private models are: noisy, often poor on a few rows, and indifferent to missing values."""
    tags.non_deterministic = True
    tags.input_tags.allow_nan = True
    for kind in (tags.regressor_tags, tags.classifier_tags):
        if kind is not None:
            kind.poor_score = True
    return tags


@dataclass(eq=False, repr=False)
class LinearRegression(PrivateEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
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

    def fit(self, X: Any, y: Any, users: Any = None) -> LinearRegression:
        """Release a model of y; ``users`` says whose row each one is."""
        lower, upper = _pair(self.y_bounds)
        values = features_of(self, X, reset=True)
        labels = numbers_of(self, y)
        payment = Payment.read(self.account, self.epsilon, self.delta, users)
        features = payment.features(values.shape[1], self.x_bound, self.norm, self.fit_intercept)
        task = FitLinear(features, payment.label, lower, upper, epsilon=self.epsilon, public_rows=self.public_rows)
        release = payment.session(payment.table(values, labels, users), self.noise).release(task)
        self.model_: Model = release.value
        self.expected_excess_ = release.point.get("expected_excess")
        self._keep(payment, release)
        *weights, self.intercept_ = self.model_.coefficients.values()
        self.coef_ = np.array(weights)
        return self

    def predict(self, X: Any) -> Floats:
        """The label of each row, between its bounds."""
        check_is_fitted(self, "model_")
        values = features_of(self, X, reset=False)
        return self.model_.predict(dict(zip(self.model_.features.source, np.ascontiguousarray(values.T), strict=True)))


@dataclass(eq=False, repr=False)
class LogisticRegression(PrivateEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Private logistic regression on arrays or data frames.

    ``x_bound`` is the public typical Euclidean length of a row of X: with ``norm="scale"`` (x / x_bound, 1) is brought to
    length one, with "clip" only longer rows are shortened. *Privacy:* (epsilon, delta) for one row, or for all rows of
    one user with ``users=``; ``delta=None`` is pure. Each fit is charged anew, to ``account`` or to one in memory of
    exactly epsilon and delta (``note_`` says which; a grid search of K fits spends K times). Labels outside ``classes``
    count for nothing (classes that y's type cannot hold are refused); ``classes_`` is in order; NaN and the infinities in
    X count as 0. *Accuracy:* ``expected_excess_`` bounds what the noise adds to the expected sum of losses (divide by your
    number of rows), whatever the data.

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

    def fit(self, X: Any, y: Any, users: Any = None) -> LogisticRegression:
        """Release a model of y; ``users`` says whose row each one is."""
        values = features_of(self, X, reset=True)
        classes, places = self._coded(y)
        payment = Payment.read(self.account, self.epsilon, self.delta, users)
        features = payment.features(values.shape[1], self.x_bound, self.norm, self.fit_intercept)
        task = FitLogistic(
            features,
            payment.label,
            range(len(classes)),
            epsilon=self.epsilon,
            method=self.method,
            ridge=self.ridge,
            cap=self.cap,
            public_rows=self.public_rows,
        )
        release = payment.session(payment.table(values, places, users), self.noise).release(task)
        self.classes_, self.expected_excess_ = classes, release.point.get("expected_excess_sum")
        self._keep(payment, release)
        models = (release.value,) if isinstance(release.value, Model) else release.value.models
        self.models_: tuple[Model, ...] = models
        lines = [list(model.coefficients.values()) for model in models]
        self.coef_, self.intercept_ = np.array(lines)[:, :-1], np.array(lines)[:, -1]
        return self

    def decision_function(self, X: Any) -> Floats:
        """The score of the second class, or of each of more than two."""
        check_is_fitted(self, "models_")
        values = features_of(self, X, reset=False)
        import pyarrow as pa

        source = self.models_[0].features.source
        batch = pa.RecordBatch.from_pydict(dict(zip(source, np.ascontiguousarray(values.T), strict=True)))
        scaled = self.models_[0].features.scaled(batch)
        scores = np.column_stack([scaled.T @ (np.array(model.theta) / SIZE) for model in self.models_])
        return np.asarray(scores[:, 0] if len(self.models_) == 1 else scores)

    def predict_proba(self, X: Any) -> Floats:
        """One column for each class; each row adds up to one."""
        chance = LOGISTIC.mean(self.decision_function(X))
        return np.column_stack([1 - chance, chance]) if chance.ndim == 1 else shared(chance)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[places])

    def _coded(self, y: Any) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """The classes in order, and each label's place among them; -1 for a label that is none of them.

        In order, because scikit-learn takes the columns of ``predict_proba`` to be so, whatever ``classes_`` says.
        """
        if self.classes is None:
            labels = labels_of(self, np.asarray(y) if isinstance(y, list | tuple) else y)
            check_classification_targets(labels)
            warnings.warn(OBSERVED, UserWarning, stacklevel=3)
            classes = np.unique(labels)
        else:
            labels, classes = labels_of(self, y), in_order(self.classes)
        if len(np.unique(classes)) != len(classes) or len(classes) < 2:
            raise ValueError(f"a classifier needs at least two classes, each once; got {len(classes)} class.")
        check_kinds(y, classes.tolist())
        return classes, codes(labels, classes.tolist())


def _pair(bounds: Sequence[Number]) -> tuple[Number, Number]:
    if isinstance(bounds, str) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        raise InvalidTask(f"y_bounds must be the public (lower, upper) of the label; got {bounds!r}.")
    return bounds[0], bounds[1]
