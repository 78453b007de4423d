"""Differential privacy at the right operating point: find it, do the release, write its cost on one durable ledger.

``import steelyard as sy`` loads nothing heavy; each name below is imported when it is first touched.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.2.0"

_HOMES = {
    "Account": "ledger",
    "AccuracyFirst": "models",
    "Categorical": "models",
    "ContributionProfile": "bounding",
    "Count": "bounding",
    "CountDistinct": "bounding",
    "CountUsers": "bounding",
    "Currency": "privacy",
    "Features": "models",
    "FitLinear": "models",
    "FitLogistic": "models",
    "FitPoisson": "models",
    "GradualSum": "models.accuracy",
    "Guarantee": "release",
    "Histogram": "bounding",
    "Holdout": "holdout",
    "LabelPrivateClassifier": "labels",
    "LabelPrivateRegressor": "labels",
    "LabelRandomizer": "labels",
    "Ledger": "ledger",
    "LinearRegression": "models",
    "LogisticRegression": "models",
    "Loss": "privacy",
    "Mean": "bounding",
    "Median": "bounding",
    "Numeric": "models",
    "Plan": "bounding",
    "PoissonRegression": "labels",
    "PrivateScaler": "models",
    "PrivateSearchCV": "models",
    "Profile": "bounding",
    "Quantile": "bounding",
    "Question": "holdout",
    "Ratio": "bounding",
    "Release": "release",
    "Session": "session",
    "Std": "bounding",
    "Sum": "bounding",
    "Together": "bounding",
    "TopK": "bounding",
    "Unit": "privacy",
    "Variance": "bounding",
    "Within": "bounding",
    "audit": "",
    "connect": "client",
    "enter": "outside",
    "errors": "",
    "first_above": "models.accuracy",
    "holdout": "",
    "keys": "tables",
    "labels": "",
    "months": "tables",
    "open_account": "ledger",
    "public": "tables",
    "read": "tables",
    "rows": "privacy",
    "users": "privacy",
    "view": "tables",
}
_CALLED = {"Plan": "ReportPlan"}
"""Names that are another in their room, where a plan is what any one task will do."""
__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # a type checker knows every name, and finds one that is misspelt

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'steelyard' has no attribute {name!r}")
        if home == "":
            return importlib.import_module(f"steelyard.{name}")
        found = globals()[name] = getattr(importlib.import_module(f"steelyard.{home}"), _CALLED.get(name, name))
        return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if TYPE_CHECKING:
    from steelyard import audit as audit
    from steelyard import errors as errors
    from steelyard.bounding import ContributionProfile as ContributionProfile
    from steelyard.bounding import Count as Count
    from steelyard.bounding import CountDistinct as CountDistinct
    from steelyard.bounding import CountUsers as CountUsers
    from steelyard.bounding import Histogram as Histogram
    from steelyard.bounding import Mean as Mean
    from steelyard.bounding import Median as Median
    from steelyard.bounding import Profile as Profile
    from steelyard.bounding import Quantile as Quantile
    from steelyard.bounding import Ratio as Ratio
    from steelyard.bounding import ReportPlan
    from steelyard.bounding import Std as Std
    from steelyard.bounding import Sum as Sum
    from steelyard.bounding import Together as Together
    from steelyard.bounding import TopK as TopK
    from steelyard.bounding import Variance as Variance
    from steelyard.bounding import Within as Within
    from steelyard.client import connect as connect
    from steelyard.holdout._holdout import Holdout as Holdout
    from steelyard.holdout._question import Question as Question
    from steelyard.labels._classifier import LabelPrivateClassifier as LabelPrivateClassifier
    from steelyard.labels._poisson import PoissonRegression as PoissonRegression
    from steelyard.labels._randomizer import LabelRandomizer as LabelRandomizer
    from steelyard.labels._regressor import LabelPrivateRegressor as LabelPrivateRegressor
    from steelyard.ledger import Account as Account
    from steelyard.ledger import Ledger as Ledger
    from steelyard.ledger import open_account as open_account
    from steelyard.models import Categorical as Categorical
    from steelyard.models import Features as Features
    from steelyard.models import FitLinear as FitLinear
    from steelyard.models import FitLogistic as FitLogistic
    from steelyard.models import FitPoisson as FitPoisson
    from steelyard.models import LinearRegression as LinearRegression
    from steelyard.models import LogisticRegression as LogisticRegression
    from steelyard.models import Numeric as Numeric
    from steelyard.models import PrivateScaler as PrivateScaler
    from steelyard.models import PrivateSearchCV as PrivateSearchCV
    from steelyard.models.accuracy import GradualSum as GradualSum
    from steelyard.models.accuracy import first_above as first_above
    from steelyard.models.accuracy._estimator import AccuracyFirst as AccuracyFirst
    from steelyard.outside import enter as enter
    from steelyard.privacy import Currency as Currency
    from steelyard.privacy import Loss as Loss
    from steelyard.privacy import Unit as Unit
    from steelyard.privacy import holdout as holdout
    from steelyard.privacy import labels as labels
    from steelyard.privacy import rows as rows
    from steelyard.privacy import users as users
    from steelyard.release import Guarantee as Guarantee
    from steelyard.release import Release as Release
    from steelyard.session import Session as Session
    from steelyard.tables import keys as keys
    from steelyard.tables import months as months
    from steelyard.tables import public as public
    from steelyard.tables import read as read
    from steelyard.tables import view as view

    Plan = ReportPlan
