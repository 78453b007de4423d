"""Private linear and logistic models, per row and per user, and the most private model that is accurate enough.

Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.models.accuracy.estimator import AccuracyFirst as AccuracyFirst
    from steelyard.models.columns import Categorical as Categorical
    from steelyard.models.columns import Column as Column
    from steelyard.models.columns import Features as Features
    from steelyard.models.columns import Numeric as Numeric
    from steelyard.models.columns import Plain as Plain
    from steelyard.models.fits import FitLinear as FitLinear
    from steelyard.models.fits import FitLogistic as FitLogistic
    from steelyard.models.losses import LOSSES as LOSSES
    from steelyard.models.losses import LossFunction as LossFunction
    from steelyard.models.model import Model as Model
    from steelyard.models.model import read_models as read_models
    from steelyard.models.regression import LinearRegression as LinearRegression
    from steelyard.models.regression import LogisticRegression as LogisticRegression
    from steelyard.models.rows import Target as Target
    from steelyard.models.scaler import PrivateScaler as PrivateScaler
    from steelyard.models.user_descent import CappedFit as CappedFit
    from steelyard.models.user_descent import UserDescent as UserDescent

_HOMES: dict[str, str] = {
    "AccuracyFirst": "accuracy.estimator",
    "CappedFit": "user_descent",
    "Categorical": "columns",
    "Column": "columns",
    "Features": "columns",
    "FitLinear": "fits",
    "FitLogistic": "fits",
    "LOSSES": "losses",
    "LinearRegression": "regression",
    "LogisticRegression": "regression",
    "LossFunction": "losses",
    "Model": "model",
    "Numeric": "columns",
    "Plain": "columns",
    "PrivateScaler": "scaler",
    "Target": "rows",
    "UserDescent": "user_descent",
    "read_models": "model",
}
__all__ = sorted(_HOMES)
TASKS = ("FitLinear", "FitLogistic")
"""What may be asked of a session by its name."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
