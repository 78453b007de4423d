"""Private linear, logistic and Poisson models, per row, per user or per label, and the most private model that is accurate enough.

Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.models._columns import Categorical as Categorical
    from steelyard.models._columns import Features as Features
    from steelyard.models._columns import Numeric as Numeric
    from steelyard.models._columns import Plain as Plain
    from steelyard.models._fits import FitLinear as FitLinear
    from steelyard.models._fits import FitLogistic as FitLogistic
    from steelyard.models._losses import LOSSES
    from steelyard.models._model import Model as Model
    from steelyard.models._model import read_models as read_models
    from steelyard.models._poisson_fit import FitPoisson as FitPoisson
    from steelyard.models._regression import LinearRegression as LinearRegression
    from steelyard.models._regression import LogisticRegression as LogisticRegression
    from steelyard.models._scaler import PrivateScaler as PrivateScaler
    from steelyard.models._search import PrivateSearchCV as PrivateSearchCV
    from steelyard.models._search_cost import SearchCost as SearchCost
    from steelyard.models._search_cost import search_cost as search_cost
    from steelyard.models._user_descent import CappedFit as CappedFit
    from steelyard.models._user_descent import UserDescent as UserDescent
    from steelyard.models.accuracy._estimator import AccuracyFirst as AccuracyFirst

_HOMES: dict[str, str] = {
    "LOSSES": "_losses",
    "AccuracyFirst": "accuracy._estimator",
    "CappedFit": "_user_descent",
    "Categorical": "_columns",
    "Features": "_columns",
    "FitLinear": "_fits",
    "FitLogistic": "_fits",
    "FitPoisson": "_poisson_fit",
    "LinearRegression": "_regression",
    "LogisticRegression": "_regression",
    "Model": "_model",
    "Numeric": "_columns",
    "Plain": "_columns",
    "PrivateScaler": "_scaler",
    "PrivateSearchCV": "_search",
    "SearchCost": "_search_cost",
    "UserDescent": "_user_descent",
    "read_models": "_model",
    "search_cost": "_search_cost",
}
__all__ = [
    "LOSSES",
    "AccuracyFirst",
    "CappedFit",
    "Categorical",
    "Features",
    "FitLinear",
    "FitLogistic",
    "FitPoisson",
    "LinearRegression",
    "LogisticRegression",
    "Model",
    "Numeric",
    "PrivateScaler",
    "PrivateSearchCV",
    "SearchCost",
    "UserDescent",
    "search_cost",
]
TASKS = ("FitLinear", "FitLogistic", "FitPoisson")
"""What may be asked of a session by its name."""

__getattr__ = loading(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
