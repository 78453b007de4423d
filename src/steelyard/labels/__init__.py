"""Labels made private one by one: randomizers, the optimal unbiased one, and the judge of all of them.

Names load when first used, so importing this package costs nothing. The package is also the unit constructor of the
same public name: ``labels("column")`` hides one row's label.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from steelyard.privacy import Unit
from steelyard.privacy import labels as unit_of_labels

_HOMES = {
    "AddedNoise": "added",
    "Certificate": "mechanism",
    "Column": "mechanism",
    "Compromise": "frontier",
    "FiniteMechanism": "mechanism",
    "LabelPrivateRegressor": "regressor",
    "LabelRandomizer": "randomizer",
    "Nodes": "continuous",
    "Report": "check",
    "Sandwich": "sandwich",
    "Solution": "solver",
    "debiased_response": "classic",
    "discrete_laplace_variance": "additive",
    "hybrid": "windows",
    "hybrid_variance": "additive",
    "laplace_variance": "additive",
    "judge": "saved",
    "piecewise": "windows",
    "piecewise_variance": "additive",
    "randomize_parquet": "streams",
    "randomized_response": "classic",
    "response_on_bins": "bins",
    "response_with_prior": "classic",
    "solve_compromise": "frontier",
    "solve_continuous": "sandwich",
    "solve_unbiased": "solver",
    "staircase_variance": "additive",
    "two_point": "classic",
    "two_point_variance": "additive",
}


class _Labels(ModuleType):
    """A module that can be called, because ``labels`` names both a package and a unit of privacy."""

    def __call__(self, column: str) -> Unit:
        """Hide one row's label; everything else about the row is public."""
        return unit_of_labels(column)

    def __getattr__(self, name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{self.__name__}.{_HOMES[name]}"), name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_HOMES})


sys.modules[__name__].__class__ = _Labels
