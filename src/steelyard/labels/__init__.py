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
    "AddedNoise": "baselines",
    "CheckReport": "check",
    "Column": "mechanism",
    "Compromise": "solve.frontier",
    "DualCertificate": "mechanism",
    "FiniteMechanism": "mechanism",
    "KINDS": "baselines",
    "LabelFile": "files",
    "LabelPrivateRegressor": "regressor",
    "LabelRandomizer": "randomizer",
    "METHODS": "choice",
    "Nodes": "nodes",
    "Sandwich": "solve.continuous",
    "Solution": "solve.unbiased",
    "debiased_response": "baselines",
    "discrete_laplace_variance": "baselines",
    "draw_errors": "charts",
    "draw_mechanism": "charts",
    "hybrid": "prior_free",
    "hybrid_variance": "prior_free",
    "judge": "document",
    "laplace_variance": "baselines",
    "pack": "packing",
    "piecewise": "prior_free",
    "piecewise_variance": "prior_free",
    "plain": "document",
    "randomize_parquet": "files",
    "randomized_response": "baselines",
    "read": "document",
    "response_on_bins": "bins",
    "response_with_prior": "baselines",
    "restore": "document",
    "sampler_of": "sampler",
    "solve_compromise": "solve.frontier",
    "solve_continuous": "solve.continuous",
    "solve_unbiased": "solve.unbiased",
    "staircase_variance": "baselines",
    "two_point": "prior_free",
    "two_point_variance": "prior_free",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


class _Labels(ModuleType):
    """A module that can be called, because ``labels`` names both a package and a unit of privacy."""

    def __call__(self, column: str) -> Unit:
        """Hide one row's label; everything else about the row is public."""
        return unit_of_labels(column)


sys.modules[__name__].__class__ = _Labels
