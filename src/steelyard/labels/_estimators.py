"""What other people's estimators make of noisy labels: losses that noise bends or breaks, and a rehearsal before money is spent.

A loss is found by the name of an estimator's class, of one that it is derived from or of a parameter of it, or of any estimator inside
it (steps, members, grids); no library is imported. A rehearsal fits a copy to made-up labels that lie where noisy ones do, on the public
features: an estimator that refuses such labels does so before anything is charged.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from itertools import islice
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
_LABELS = np.array([-1.0, -0.95, -0.85, -0.7, -0.5, -0.25, 0.05, 0.45, 1.0])
_REACHES = (1e1, 1e3, 1e5, 1e7)  # a shifted logarithm is nearly straight near zero
_SEVERAL = (list, tuple, set, np.ndarray)
_MOST = 1000  # of the values of a list or a grid


def bent_loss(estimator: Any) -> str | None:
    """The loss of an estimator or of one inside it, if labels with no bias are not enough for it; None otherwise."""
    return _found(estimator, _BENT, _BENT_CLASSES)


def endless_loss(estimator: Any) -> str | None:
    """The loss of an estimator or of one inside it, if it has no least value where labels may be negative; None otherwise."""
    if "TweedieRegressor" in _kinds(estimator) and getattr(estimator, "power", 2) in (0, 1):
        return None
    return _found(estimator, _ENDLESS, _ENDLESS_CLASSES)


def _found(estimator: Any, losses: set[str], classes: set[str]) -> str | None:
    for name, value in _settings(estimator):
        if isinstance(value, str):
            if name in _NAMES and {value.lower(), *value.lower().split(":")} & losses:
                return value
        elif _kinds(value) & classes or (losses is _BENT and _bends(value)):
            return type(value).__name__
    return None


def _kinds(thing: Any) -> set[str]:
    """The names of its class and of all that this is derived from."""
    return {each.__name__ for each in type(thing).__mro__}


def _bends(thing: Any) -> bool:
    """Whether it learns a median, or a function of the label that is no straight line, as far as a few made-up labels tell."""
    kinds = _kinds(thing)
    if "DummyRegressor" in kinds:
        return getattr(thing, "strategy", None) in ("median", "quantile")
    return "TransformedTargetRegressor" in kinds and any(_bent_at(thing, reach) for reach in _REACHES)


def _bent_at(thing: Any, reach: float) -> bool:
    """Whether a line through what it makes of lopsided labels up to ``reach`` misses some of it."""
    labels = reach * _LABELS[:, None]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            told = _trained_on(thing, labels)
            told = np.asarray(told.toarray() if hasattr(told, "toarray") else told, dtype=float).reshape(
                len(labels), -1
            )
    except Exception:  # what it makes of labels like these the rehearsal will tell
        return False
    if not np.all(np.isfinite(told)):
        return True
    lines = np.column_stack([_LABELS, np.ones_like(_LABELS)])
    off = told - lines @ np.linalg.lstsq(lines, told, rcond=None)[0]
    return bool(np.abs(off).max(initial=0.0) > 1e-6 * np.abs(told).max(initial=0.0))


def _trained_on(thing: Any, labels: NDArray[np.float64]) -> Any:
    """What a regressor of a transformed target makes of a column of labels before it trains on it."""
    if thing.transformer is not None:
        return clone(thing.transformer).fit(labels).transform(labels)
    return labels if thing.func is None else thing.func(labels)


def _settings(thing: Any, name: str = "", depth: int = 8) -> Iterator[tuple[str, Any]]:
    """Every parameter of an estimator, of those inside it, and every value that a grid would give one."""
    yield name, thing
    if depth and isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _settings(value, str(key).rpartition("__")[2], depth - 1)
    elif depth and isinstance(thing, _SEVERAL):
        for value in _few(thing):
            yield from _settings(value, name, depth - 1)
    elif depth and hasattr(thing, "get_params") and not isinstance(thing, type):
        for key, value in {**_attributes(thing), **thing.get_params(deep=False)}.items():
            yield from _settings(value, key, depth - 1)
        for candidate in _candidates(thing):
            yield from _settings(candidate, "", depth - 1)


def _few(values: Any) -> Iterator[Any]:
    """The first values of a list or an array, which may have no dimension and is then one value."""
    return islice(np.atleast_1d(values) if isinstance(values, np.ndarray) else values, _MOST)


def _candidates(search: Any) -> Iterator[Any]:
    """What a search makes of its estimator, by one value of its grids at a time."""
    estimator = getattr(search, "estimator", None)
    given = [getattr(search, name, None) for name in ("param_grid", "param_distributions")]
    grids = [grid for each in given for grid in (each if isinstance(each, list | tuple) else [each])]
    for key, values in ((key, values) for grid in grids if isinstance(grid, Mapping) for key, values in grid.items()):
        for value in _few(values) if isinstance(values, _SEVERAL) else []:
            try:
                yield clone(estimator).set_params(**{key: value})
            except Exception:  # the rehearsal will tell
                continue


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
