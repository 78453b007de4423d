"""Private linear and logistic models, per row and per user, and the most private model that is accurate enough.

Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES: dict[str, str] = {
    "AccuracyFirst": "accuracy.estimator",
    "Capped": "capped",
    "Categorical": "columns",
    "Features": "columns",
    "FitLinear": "linear",
    "FitLogistic": "logistic",
    "LinearRegression": "linear_regression",
    "LogisticRegression": "logistic_regression",
    "Model": "saved",
    "Numeric": "columns",
    "Plain": "columns",
    "PrivateScaler": "scaler",
    "UserDescent": "user_logistic",
    "UserSquares": "user_linear",
    "UserStatistics": "user_linear",
    "theorem_terms": "theorem",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
