"""LabelPrivateRegressor: any scikit-learn regressor, trained on noisy labels; its predictions are public.

The labels are randomized in ``fit`` and nowhere else; what the model does with them is post-processing. Noisy labels
without bias lead to the same model as true ones, with more data, for every loss that is affine in the label: squared,
Poisson, gamma, Tweedie, logistic. For absolute, quantile, Huber and epsilon-insensitive losses they do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Account
from steelyard.errors import EngineMissing, InvalidTask
from steelyard.labels._choice import BIASED
from steelyard.labels._estimators import check_loss, rehearse
from steelyard.labels._nodes import Nodes
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.noise import Noise
from steelyard.tables import kind_of, numbers_of

try:
    from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone, is_classifier
    from sklearn.utils import check_consistent_length, get_tags
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

_KEPT = (
    "steelyard: the labels were randomized and paid for before the estimator failed, and are kept in noisy_; train any other "
    "model on them for nothing. Noisy labels lie outside [lower, upper]: an estimator that refuses negative ones cannot use them."
)


class LabelPrivateRegressor(RegressorMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Trains ``estimator`` on labels made private by a ``LabelRandomizer``; features are taken as public.

    *Privacy:* the model is epsilon-private for a change of one label; each fit is charged anew (to ``account``, or to
    one in memory of exactly epsilon: a grid search of K fits then spends K times epsilon, and nothing adds it up).
    *Accuracy:* the same model as on true labels in the limit, for losses that are affine in the label. The noisy labels stay
    in ``noisy_``: they are paid for, and any other model may be trained on them for nothing. Before the charge a copy of the
    estimator is fitted to made-up labels that lie where noisy ones do, so that one that refuses them costs nothing.

    ``LabelPrivateRegressor(GridSearchCV(...))`` pays once and searches on the noisy labels; a search over this estimator pays for
    each of its fits. ``missing``, ``unbiased``, ``nodes`` and ``column`` are those of ``LabelRandomizer``.

    >>> from sklearn.linear_model import LinearRegression
    >>> model = LabelPrivateRegressor(LinearRegression(), epsilon=4, lower=0, upper=10)
    >>> model.fit([[0.0], [1.0], [2.0]] * 100, [1, 5, 9] * 100).predict([[1.0]]).shape
    (1,)
    """

    def __init__(
        self,
        estimator: Any = None,
        epsilon: Any = 1.0,
        lower: Any = 0,
        upper: Any = 1,
        method: str = "auto",
        prior: Any = None,
        account: Account | None = None,
        *,
        nodes: Any = None,
        noise: Noise | None = None,
        unbiased: bool = True,
        missing: Any = None,
        column: str | None = None,
    ) -> None:
        self.estimator, self.epsilon, self.lower, self.upper = estimator, epsilon, lower, upper
        self.method, self.prior, self.account = method, prior, account
        self.nodes, self.noise, self.unbiased = nodes, noise, unbiased
        self.missing, self.column = missing, column

    def fit(
        self, X: Any, y: Any, *, ids: Any = None, groups: Any = None, key: str | None = None, **fit_params: Any
    ) -> LabelPrivateRegressor:
        """Randomize the labels once, then train on them; ``ids``, ``groups`` and ``key`` are those of ``LabelRandomizer``."""
        randomizer = LabelRandomizer(
            self.epsilon, self.lower, self.upper, self.method, self.prior, account=self.account, nodes=self.nodes,
            noise=self.noise, unbiased=self.unbiased, missing=self.missing, column=self.column,
        )  # fmt: skip
        if self.estimator is None:
            raise InvalidTask("LabelPrivateRegressor needs an estimator to train, such as Ridge().")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if is_classifier(self.estimator):
            raise InvalidTask(
                f"{type(self.estimator).__name__} is a classifier, and this learns numbers; LabelPrivateClassifier learns classes. Nothing was charged."
            )
        biased = self.method in BIASED
        check_loss(self.estimator, biased=biased)
        labels = _numbers(y, finite=self.missing is None)
        estimator = clone(self.estimator)
        check_consistent_length(X, labels)
        rehearse(self.estimator, X, made_up(randomizer.grid()[0], len(labels), biased=biased), fit_params)
        self.noisy_ = randomizer.fit_transform(labels, ids, groups=groups, key=key)
        self.randomizer_, self.guarantee_, self.note_ = randomizer, randomizer.guarantee_, randomizer.note_
        try:
            self.estimator_ = estimator.fit(X, self.noisy_, **fit_params)
        except Exception as problem:
            problem.add_note(_KEPT)
            raise
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict(self, X: Any) -> Any:
        """What the model predicts; nothing is randomized here."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags = get_tags(self.estimator).input_tags
        tags.non_deterministic = True
        tags.regressor_tags.poor_score = True
        return tags


def made_up(nodes: Nodes, size: int, *, biased: bool) -> NDArray[np.float64]:
    """Labels for a rehearsal, made of public numbers: the ends of the range in turn, or as far beyond them as noisy labels lie."""
    low, high = float(nodes.lower), float(nodes.upper)
    beyond = 0.0 if biased else high - low + max(low, 0.0)
    return np.where(
        np.arange(size) % 3 == 0, low - beyond, np.where(np.arange(size) % 3 == 1, high + beyond, (low + high) / 2)
    )


def _numbers(y: Any, *, finite: bool) -> NDArray[np.float64]:
    """The labels as one column of floats; what cannot be one is refused with a text that repeats no label."""
    if kind_of(y) not in (None, "numbers", "truth values") and not _complex(y):
        raise ValueError(f"the labels y must be numbers; got a column of {kind_of(y)}.")
    plain = isinstance(y, np.ndarray) and y.dtype.kind in "biuf" and not isinstance(y, np.ma.MaskedArray)
    if (
        not plain
        and not _complex(y)
        and hasattr(y, "dtype")
        and getattr(y, "ndim", 1) == 1
        and str(y.dtype) != "object"
    ):
        found = numbers_of(y)  # a nullable, Arrow or Polars column
        y = found if not finite else np.where(np.isfinite(found), found, np.nan)
    try:
        found = check_array(
            y, ensure_2d=False, dtype="numeric", input_name="y", ensure_all_finite=finite, ensure_min_samples=0
        )
    except (TypeError, ValueError) as problem:
        if not any(word in str(problem).lower() for word in ("convert", "argument must be")):
            raise
        raise ValueError("the labels y must be numbers.") from None
    return np.asarray(column_or_1d(found, warn=True), dtype=np.float64)


def _complex(y: Any) -> bool:
    return getattr(getattr(y, "dtype", None), "kind", "") == "c"
