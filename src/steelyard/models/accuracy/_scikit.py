"""What makes AccuracyFirst a scikit-learn estimator where that is installed; tasks on a session do without.

It is around another estimator: it has the methods that one has, its tags, and refuses what has the wrong shape.
Law: whatever is refused here is refused for its shape or its type, before anything is charged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.models._fits import FitLogistic

LEARNT = ("model_", "coef_", "intercept_")


def bases() -> tuple[Any, ...]:
    """The classes to build on."""
    try:
        from sklearn.base import BaseEstimator, MetaEstimatorMixin
    except ImportError:
        return (object,)
    return MetaEstimatorMixin, BaseEstimator


def like_inner(name: str) -> Callable[[Any], Any]:
    """A method that is there where the inner estimator has one of that name, or a task gives such a model."""
    try:
        from sklearn.utils.metaestimators import available_if
    except ImportError:
        return lambda method: method
    tasks = () if name == "score" else (FitLogistic,)
    made: Callable[[Any], Any] = available_if(
        lambda self: hasattr(self.estimator, name) or isinstance(self.estimator, tasks)
    )
    return made


def arrays(estimator: Any, X: Any, y: Any, users: Any, *, reset: bool) -> tuple[NDArray[np.float64], Any]:
    """X as numbers and y as one column (of numbers, for a linear model), with as many entries; their values are never a reason to refuse."""
    from steelyard.models._estimator import features_of, labels_of, numbers_of
    from steelyard.models._regression import LinearRegression

    if y is None:
        raise InvalidTask(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    column = numbers_of if isinstance(estimator.estimator, LinearRegression) else labels_of
    values, labels = features_of(estimator, X, reset=reset), column(estimator, y)
    for name, given in (("y", labels), ("users", users)):
        if given is not None and len(given) != len(values):
            raise InvalidTask(f"X has {len(values)} rows and {name} has {len(given)} entries: give one for each row.")
    return values, labels


def forget(estimator: Any, names: Iterable[str] | None = None) -> None:
    """Drop these fitted attributes, or all of them: what is left must never be of another fit."""
    for name in list(vars(estimator)) if names is None else names:
        if name.endswith("_") and not name.startswith("_") and hasattr(estimator, name):
            delattr(estimator, name)


def tags_like(tags: Any, inner: Any) -> Any:
    """The tags of the inner estimator, where it decides."""
    from sklearn.utils import get_tags

    found = get_tags(inner)
    for name in ("estimator_type", "target_tags", "input_tags", "classifier_tags", "regressor_tags"):
        setattr(tags, name, getattr(found, name))
    return tags
