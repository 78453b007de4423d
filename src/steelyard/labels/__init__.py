"""Labels made private one by one: randomizers, the optimal unbiased one, and the judge of all of them.

Names load when first used, so importing this package costs nothing. The package is also the unit constructor of the
same public name: ``labels("column")`` hides one row's label.
"""

from __future__ import annotations

import sys
from types import ModuleType

from steelyard.lazy import loading
from steelyard.privacy import Unit
from steelyard.privacy import labels as unit_of_labels

_HOMES: dict[str, str] = {
    "LabelFile": "_files",
    "LabelPrivateClassifier": "_classifier",
    "LabelPrivateRegressor": "_regressor",
    "LabelRandomizer": "_randomizer",
    "MultinomialRegression": "_multinomial",
    "PoissonRegression": "_poisson",
    "draw_errors": "_charts",
    "draw_mechanism": "_charts",
    "gradient_error": "_gradients",
    "judge": "_document",
    "laplace_variance": "_baselines",
    "logistic_objective": "_objectives",
    "pack": "_packing",
    "poisson_objective": "_objectives",
    "randomize_parquet": "_files",
    "randomize_spark": "_executors",
    "read": "_document",
    "restore": "_document",
    "solve_continuous": "solve._continuous",
    "solve_unbiased": "solve._unbiased",
    "two_point_variance": "_prior_free",
}
__all__ = [
    "LabelPrivateClassifier",
    "LabelPrivateRegressor",
    "LabelRandomizer",
    "MultinomialRegression",
    "PoissonRegression",
    "gradient_error",
    "judge",
    "logistic_objective",
    "poisson_objective",
    "solve_continuous",
    "solve_unbiased",
]

__getattr__ = loading(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


class _Labels(ModuleType):
    """A module that can be called, because ``labels`` names both a package and a unit of privacy."""

    def __call__(self, column: str) -> Unit:
        """Hide one row's label; everything else about the row is public."""
        return unit_of_labels(column)


sys.modules[__name__].__class__ = _Labels
