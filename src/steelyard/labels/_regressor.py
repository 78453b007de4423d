"""LabelPrivateRegressor: any scikit-learn regressor, trained on noisy labels; its predictions are public.

The labels are randomized in ``fit`` and nowhere else; what the model does with them is post-processing. Noisy labels
without bias lead to the same model as true ones, with more data, for every loss that is affine in the label: squared,
Poisson, gamma, Tweedie, logistic. For absolute, quantile, Huber and epsilon-insensitive losses they do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.account import Account
from steelyard.errors import EngineMissing, InvalidTask
from steelyard.labels._choice import BIASED
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.noise import Noise

try:
    from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
    from sklearn.utils import check_consistent_length, get_tags
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

_BENT = {"absolute_error", "mae", "l1", "quantile", "pinball", "huber", "epsilon_insensitive",
         "squared_epsilon_insensitive", "friedman_absolute", "absolute", "fair", "mape"}  # fmt: skip
_BENT_CLASSES = {"HuberRegressor", "QuantileRegressor", "SVR", "NuSVR", "LinearSVR", "RANSACRegressor",
                 "TheilSenRegressor"}  # fmt: skip


_KEPT = (
    "steelyard: the labels were randomized and paid for before the estimator failed, and are kept in noisy_; train any other "
    "model on them for nothing. Noisy labels lie outside [lower, upper]: an estimator that refuses negative ones cannot use them."
)


def _numbers(y: Any) -> Any:
    """The labels as one column of finite floats; what cannot be one is refused with a text that repeats no label."""
    try:
        found = check_array(y, ensure_2d=False, dtype="numeric", input_name="y")
    except (TypeError, ValueError) as problem:
        if not any(word in str(problem).lower() for word in ("convert", "argument must be")):
            raise
        raise ValueError("the labels y must be numbers.") from None
    return column_or_1d(found, warn=True).astype(np.float64)


def bent_loss(estimator: Any) -> str | None:
    """The loss of an estimator, if it is one for which labels with no bias are not enough; None otherwise."""
    for step in [estimator, *(part for _, part in getattr(estimator, "steps", []))]:
        if type(step).__name__ in _BENT_CLASSES:
            return type(step).__name__
        for name in ("loss", "criterion", "objective", "loss_function"):
            loss = getattr(step, name, None)
            if isinstance(loss, str) and loss.lower().partition(":")[2 if ":" in loss else 0] in _BENT:
                return loss
    return None


class LabelPrivateRegressor(RegressorMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Trains ``estimator`` on labels made private by a ``LabelRandomizer``; features are taken as public.

    *Privacy:* the model is epsilon-private for a change of one label; each fit is charged anew (to ``account``, or to
    one in memory of exactly epsilon: a grid search of K fits then spends K times epsilon, and nothing adds it up).
    *Accuracy:* the same model as on true labels in the limit, for losses that are affine in the label. The noisy labels stay
    in ``noisy_``, also when the estimator refuses them (noisy labels may be negative): they are paid for, and any other
    model may be trained on them for nothing.

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
    ) -> None:
        self.estimator, self.epsilon, self.lower, self.upper = estimator, epsilon, lower, upper
        self.method, self.prior, self.account = method, prior, account
        self.nodes, self.noise = nodes, noise

    def fit(self, X: Any, y: Any, **fit_params: Any) -> LabelPrivateRegressor:
        """Randomize the labels once, then train on them."""
        randomizer = LabelRandomizer(
            self.epsilon, self.lower, self.upper, self.method, self.prior, account=self.account, nodes=self.nodes,
            noise=self.noise,
        )  # fmt: skip
        self._refuse_bent(randomizer.method)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        labels = _numbers(y)
        estimator = clone(self.estimator)
        check_consistent_length(X, labels)
        self.noisy_ = randomizer.fit_transform(labels)
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

    def _refuse_bent(self, method: str) -> None:
        if self.estimator is None:
            raise InvalidTask("LabelPrivateRegressor needs an estimator to train, such as Ridge().")
        bent = bent_loss(self.estimator)
        if bent is not None and method not in BIASED:
            raise InvalidTask(
                f"{bent} is not affine in the label: on noisy labels with no bias it learns something else. Use a squared, "
                "Poisson or logistic loss, or method='rr_on_bins', which keeps noisy labels near the true ones."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags = get_tags(self.estimator).input_tags
        tags.non_deterministic = True
        tags.regressor_tags.poor_score = True
        return tags
