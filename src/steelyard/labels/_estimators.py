"""What other people's estimators make of noisy labels: losses that noise bends or breaks, and a rehearsal before money is spent.

A loss is found by the name of an estimator's class or of a parameter of it, or of any estimator inside it (steps, members,
grids); no library is imported. A rehearsal fits a copy to made-up labels that lie where noisy ones do, on the public
features: an estimator that refuses such labels does so before anything is charged.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import EngineMissing, InvalidTask

try:
    from sklearn.base import clone
    from sklearn.utils import _safe_indexing
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

_NAMES = ("loss", "criterion", "objective", "loss_function", "obj", "application", "app", "loss_fn")
_BENT = {
    "absolute_error", "absolute", "absoluteerror", "mae", "l1", "regression_l1", "mean_absolute_error", "quantile",
    "quantileerror", "multiquantile", "multi_quantile", "loglinquantile", "pinball", "huber", "pseudohubererror", "fair",
    "epsilon_insensitive", "squared_epsilon_insensitive", "mape", "mean_absolute_percentage_error", "smape", "expectile",
    "expectileerror", "logcosh", "lq", "msle", "squaredlogerror", "rmsewithuncertainty", "hinge", "squared_hinge",
    "modified_huber", "perceptron", "friedman_absolute",
}  # fmt: skip
_BENT_CLASSES = {
    "HuberRegressor", "QuantileRegressor", "SVR", "NuSVR", "LinearSVR", "RANSACRegressor", "TheilSenRegressor",
    "PassiveAggressiveRegressor", "AdaBoostRegressor",
}  # fmt: skip
_ENDLESS = {"gamma", "tweedie"}
_ENDLESS_CLASSES = {"GammaRegressor", "TweedieRegressor"}
ROWS = 256  # of the features, for a rehearsal


def bent_loss(estimator: Any) -> str | None:
    """The loss of an estimator or of one inside it, if labels with no bias are not enough for it; None otherwise."""
    return _found(estimator, _BENT, _BENT_CLASSES)


def endless_loss(estimator: Any) -> str | None:
    """The loss of an estimator or of one inside it, if it has no least value where labels may be negative; None otherwise."""
    found = _found(estimator, _ENDLESS, _ENDLESS_CLASSES)
    return None if found == "TweedieRegressor" and getattr(estimator, "power", 2) in (0, 1) else found


def _found(estimator: Any, losses: set[str], classes: set[str]) -> str | None:
    for name, value in _settings(estimator):
        if isinstance(value, str):
            if name in _NAMES and {value.lower(), *value.lower().split(":")} & losses:
                return value
        elif type(value).__name__ in classes or (losses is _BENT and _bends(value)):
            return type(value).__name__
    return None


def _bends(thing: Any) -> bool:
    """Whether it trains on a function of the label that is no straight line, as far as a few made-up labels tell."""
    if type(thing).__name__ != "TransformedTargetRegressor":
        return False
    if thing.transformer is not None:
        return type(thing.transformer).__name__ in {"PowerTransformer", "QuantileTransformer"} or (
            type(thing.transformer).__name__ == "FunctionTransformer" and not _straight(thing.transformer.func)
        )
    return not _straight(thing.func)


def _straight(function: Any) -> bool:
    if function is None:
        return True
    labels = np.linspace(-10.0, 10.0, 9)
    try:
        with np.errstate(all="ignore"):
            told = np.asarray(function(labels), dtype=float)
    except Exception:  # what it makes of labels like these the rehearsal will tell
        return True
    bends = np.abs(np.diff(told, 2))
    return bool(np.all(np.isfinite(told)) and bends.max() <= 1e-6 * max(1e-300, float(np.abs(told).max())))


def _settings(thing: Any, name: str = "", depth: int = 8) -> Iterator[tuple[str, Any]]:
    """Every parameter of an estimator, of those inside it, and every value that a grid would give one."""
    yield name, thing
    if depth and isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _settings(value, str(key).rpartition("__")[2], depth - 1)
    elif depth and isinstance(thing, list | tuple | set):
        for value in list(thing)[:1000]:
            yield from _settings(value, name, depth - 1)
    elif depth and hasattr(thing, "get_params") and not isinstance(thing, type):
        for key, value in {**_attributes(thing), **thing.get_params(deep=False)}.items():
            yield from _settings(value, key, depth - 1)


def _attributes(thing: Any) -> dict[str, Any]:
    """Loss names that an estimator holds without calling them parameters."""
    return {name: value for name in _NAMES if isinstance(value := getattr(thing, name, None), str)}


def check_loss(estimator: Any, *, biased: bool) -> None:
    """Refuse an estimator whose loss noisy labels bend, or leave without a minimum."""
    bent, endless = bent_loss(estimator), endless_loss(estimator)
    if bent is not None and not biased:
        raise InvalidTask(
            f"{bent} is not affine in the label: on noisy labels with no bias it learns something else. Use a squared, "
            "Poisson or logistic loss, or method='rr_on_bins', which keeps noisy labels near the true ones. Nothing was charged."
        )
    if endless is not None and not biased:
        raise InvalidTask(
            f"{endless} has no least value where a label is negative, and noisy labels are. PoissonRegression() models the "
            "same mean by the same log-linear scores and has one. Nothing was charged."
        )


def rehearse(estimator: Any, X: Any, labels: NDArray[Any], fit_params: Mapping[str, Any]) -> None:
    """Fit a copy to made-up labels; what it refuses, it refuses before anything is charged.

    *Privacy:* ``labels`` are made of public numbers, one for each row; the true ones are not looked at. A few rows are tried
    first, and all of them where those do not do.
    """
    tries = [slice(None)] if fit_params or len(labels) <= ROWS else [slice(0, ROWS), slice(None)]
    for here in tries:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = X if here == slice(None) else _safe_indexing(X, np.arange(ROWS))
                clone(estimator).fit(given, labels[here], **fit_params)
        except Exception as problem:
            if here == tries[-1]:
                problem.add_note(
                    "steelyard: this was a rehearsal on made-up labels that lie where noisy ones do (below lower and above upper too). "
                    "Nothing was charged. PoissonRegression and MultinomialRegression take such labels, and so does any squared loss."
                )
                raise
        else:
            return
