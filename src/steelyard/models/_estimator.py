"""What the scikit-learn estimators share: arrays become a private table, and somebody pays.

X, y and users become one table whose features have a declared length; the account is the caller's, or one in memory of
exactly the estimator's own epsilon and delta. Values are never a reason to refuse: NaN and the infinities follow the
total rule of ``columns``, and no number of rows is wrong, since both are private.
Law: whatever is refused here is refused for its shape, its type or its settings, before anything is charged.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Account, check_account
from steelyard.desk import paid_by
from steelyard.errors import EngineMissing, InvalidTask, UnitMismatch
from steelyard.ledger import open_account
from steelyard.models._columns import Features, Floats, Plain, by_column
from steelyard.models._search_cost import Charged
from steelyard.noise import Noise
from steelyard.privacy import Number, Unit, exact, positive, rows
from steelyard.privacy import users as users_of
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import Table, entries_of, is_untyped, kind_of, read, texts_of
from steelyard.tables import numbers_of as floats_of

try:
    from scipy.sparse import issparse
    from sklearn.utils import check_consistent_length
    from sklearn.utils.validation import check_array, column_or_1d, validate_data
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None


def features_of(estimator: Any, X: Any, *, reset: bool) -> Floats:
    """X as numbers: its shape and its columns' types are checked, its values and its number of rows are not."""
    found = validate_data(
        estimator, _typed(X), reset=reset, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0
    )
    return np.asarray(found, dtype=np.float64)


def _typed(X: Any) -> Any:
    """X with every entry that is no number, or that is masked, as NaN, where a type does not say that all are numbers.

    *Privacy:* a sparse X is made dense, since which entries it stores is private; refused is what its type and shape rule out.
    """
    if issparse(X):
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise InvalidTask(f"a sparse X is a table of numbers; got {X.ndim} dimension(s) of {X.dtype}.")
        return X.astype(np.float64).toarray(order="F")
    if isinstance(X, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(X), np.nan, _typed(np.asarray(X.data)))
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return _typed_frame(X)
    if hasattr(X, "get_columns"):
        return type(X)([type(column)(column.name, _column(column.name, column)) for column in X.get_columns()])
    if hasattr(X, "column_names"):
        import pyarrow as pa

        columns = zip(X.column_names, X.columns, strict=True)
        return type(X).from_arrays([pa.array(_column(name, column)) for name, column in columns], X.column_names)
    if isinstance(X, list | tuple) and X and all(map(_is_row, X)):
        if len({len(row) for row in X}) != 1:
            raise ValueError("the rows of X are not of one length.")
        return np.array([floats_of(entries_of(row)) for row in X])
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind not in "biufc":
        if X.dtype != object:
            raise InvalidTask(f"X must hold numbers; got an array of {X.dtype}: make numbers of it first.")
        return np.array([floats_of(row) for row in X]).reshape(X.shape)
    return X


def _is_row(row: Any) -> bool:
    return isinstance(row, list | tuple) or getattr(row, "ndim", 0) == 1


def _column(name: object, column: Any) -> Floats:
    return floats_of(column, f"the values of column {name!r} of X")


def _typed_frame(X: Any) -> Any:
    """A frame whose columns are NumPy's numbers; a column that is text by its type is refused."""
    kinds = [kind_of(X.iloc[:0, place]) for place in range(X.shape[1])]
    for name, kind in zip(X.columns, kinds, strict=True):
        if kind in ("text", "bytes", "other values"):
            raise InvalidTask(
                f"column {name!r} of X holds {kind}: make numbers of it first, with an encoder whose categories are public; "
                "nothing was charged."
            )
    plain = [isinstance(dtype, np.dtype) and dtype.kind != "O" for dtype in X.dtypes]
    if all(plain):
        return X
    given = {place: _column(X.columns[place], X.iloc[:, place]) for place, is_plain in enumerate(plain) if not is_plain}
    made = X.copy()
    for place, column in given.items():
        made.isetitem(place, column)
    return made


def labels_of(estimator: Any, y: Any) -> Any:
    """y as one column, of whatever kind; one without a type stays as its entries are."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    if is_untyped(y) or (isinstance(y, np.ma.MaskedArray) and y.ndim == 1):
        return entries_of(y)
    given = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, ensure_min_samples=0, input_name="y")
    return column_or_1d(given, warn=True)


def numbers_of(estimator: Any, y: Any) -> Floats:
    """y as one column of numbers; an entry that is none is NaN where the column's type does not rule that out."""
    found, kind = labels_of(estimator, y), kind_of(y)
    if kind not in (None, "numbers", "truth values"):
        raise InvalidTask(f"the labels y must be numbers; got a column of {kind}.")
    return floats_of(found) if found.dtype == object else np.asarray(found, dtype=np.float64)


def weights_of(sample_weight: Any, rows: int, bound: Number) -> Floats | None:
    """Weights as shares of their public bound; what is no number counts for nothing.

    *Privacy:* a weight is its row's own: clipped to the bound, never compared with others, and no reason to refuse.
    """
    if sample_weight is None:
        return None
    most = float(positive(bound, "weight_bound"))
    given = (
        np.full(rows, float(sample_weight))
        if isinstance(sample_weight, int | float)
        else floats_of(sample_weight, "weights")
    )
    with np.errstate(all="ignore"):
        return np.where(np.abs(given) < np.inf, np.clip(given / most, 0.0, 1.0), 0.0)


@dataclass(frozen=True)
class Payment:
    """The account that pays for one fit, and what is to be said about it."""

    account: Account
    unit: Unit
    given: bool

    @classmethod
    def read(
        cls, account: Account | None, epsilon: Number, delta: Number | None, users: Any, unit: Unit | None = None
    ) -> Payment:
        """The caller's account, if it hides what is to be hidden; else a new one in memory, for this unit or for rows or users."""
        if account is None:
            if epsilon is None:
                raise InvalidTask(
                    "epsilon= says what a fit may spend; give a number such as epsilon=1, or an account= and an epsilon."
                )
            unit = unit or (rows() if users is None else users_of("user"))
            apart = None if delta is None or exact(delta, "delta") == 0 else delta
            return cls(open_account(":memory:", "model", unit=unit, epsilon=epsilon, delta=apart), unit, False)
        check_account(account)
        unit = account.terms.unit
        if unit.kind not in ("rows", "users", "labels"):
            raise UnitMismatch(f"a model hides rows, users or labels; account {account.name!r} hides {unit}.")
        if (unit.kind == "users") != (users is not None):
            how = "give users=, one entry for each row" if users is None else "leave users= out, or use one for users"
            raise UnitMismatch(f"account {account.name!r} hides {unit}: {how}.")
        return cls(account, unit, True)

    @property
    def note(self) -> str:
        """Who pays, in words."""
        return paid_by(self.account if self.given else None)

    @property
    def label(self) -> str:
        """What the label's column is called in the table."""
        unit = self.unit
        return unit.column if unit.kind == "labels" and unit.column is not None else f"{self._prefix}y"

    @property
    def weight(self) -> str:
        """What the column of weights is called in the table."""
        return f"{self._prefix}weight"

    def source(self, width: int, names: Sequence[str] | None = None) -> list[str]:
        """What the features are called in the table: as in the caller's own, unless an engine would confuse the names."""
        others = [
            self.label,
            self.weight,
            *([] if self.unit.column is None else [self.unit.column]),
        ]
        if (
            names is not None
            and all(names)
            and len({n.casefold() for n in [*names, *others]}) == width + len({*others})
        ):
            return [str(name) for name in names]
        return [f"{self._prefix}x{i}" for i in range(width)]

    def _table(self, X: Floats, y: Any, users: Any, names: Sequence[str] | None, weights: Floats | None) -> Table:
        """The rows as a table; its columns cannot be confused with the unit's."""
        check_consistent_length(X, y, weights)
        columns = dict(zip(self.source(X.shape[1], names), by_column(X), strict=True))
        if weights is not None:
            columns[self.weight] = weights
        unit = self.unit
        if users is not None and unit.column is not None:
            whose = column_or_1d(units(users), dtype=None) if hasattr(users, "__len__") else users
            check_consistent_length(X, whose)
            columns = {**columns, unit.column: whose}
        return read({**columns, self.label: np.asarray(y)})

    def features(
        self, width: int, x_bound: Number | None, norm: str, intercept: bool, names: Sequence[str] | None = None
    ) -> Features:
        """The features of such a table."""
        if x_bound is None:
            raise InvalidTask(
                "x_bound is needed: the public largest Euclidean length of a row of X. Longer rows are shortened. It must be "
                "known beforehand or bought with PrivateScaler; the largest length in the data is private."
            )
        return Features([Plain(name) for name in self.source(width, names)], norm, x_bound, intercept)

    def session(
        self,
        noise: Noise | None,
        X: Floats,
        y: Any,
        users: Any,
        names: Sequence[str] | None = None,
        weights: Floats | None = None,
    ) -> Session:
        """Where the fit is released: on these rows."""
        return Session(self._table(X, y, users, names, weights), self.account, noise=noise)

    @property
    def _prefix(self) -> str:
        column = self.unit.column
        return "" if column is None else f"{column}_"


class PrivateEstimator(Charged):
    """What private estimators share beside scikit-learn's own classes: how a fit is kept, and honest tags."""

    def _keep(self, payment: Payment, release: Release) -> None:
        """Keep what was released, and pass on what the fit noticed in it."""
        self.account_, self.note_ = payment.account, payment.note
        self.release_, self.guarantee_ = release, release.guarantee
        if "warning" in release.point:
            warnings.warn(str(release.point["warning"]), UserWarning, stacklevel=3)

    @property
    def _names(self) -> Any:
        """The names of X's columns, where it had any."""
        return getattr(self, "feature_names_in_", None)

    def __sklearn_tags__(self) -> Any:
        return honest(super().__sklearn_tags__())  # type: ignore[misc]


def honest(tags: Any) -> Any:
    """Tags that say what private models are: noisy, often poor on a few rows, and indifferent to missing values."""
    tags.non_deterministic = True
    tags.input_tags.allow_nan = True
    tags.input_tags.sparse = True
    for kind in (tags.regressor_tags, tags.classifier_tags):
        if kind is not None:
            kind.poor_score = True
    return tags


def units(users: Any) -> NDArray[Any]:
    """Whose row each one is: a typed NumPy array as it is, anything else as one text for each entry by itself.

    *Privacy:* read as one column, one odd id would turn all others into floats or texts, and ids above 2^53 into one user.
    """
    if isinstance(users, np.ndarray) and users.dtype.kind in "biufUSM" and not isinstance(users, np.ma.MaskedArray):
        return users
    if getattr(users, "ndim", 1) != 1:
        raise InvalidTask("users= is one column: whose row each one is.")
    return texts_of(users)
