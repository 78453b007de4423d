"""Capability: bound what one user adds, choose the bound well, and release totals.

For private data: ``Profile`` and the releases. For data one may look at, the theory: ``optimal_cap``,
``expected_error``, ``tradeoff``, ``bias_bounds`` and their kin, loaded when first touched.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from steelyard.bounding.gradual import GradualSum
from steelyard.bounding.profile import ContributionProfile, Profile
from steelyard.bounding.spread import Histogram, Mean, Quantile
from steelyard.bounding.together import Together
from steelyard.bounding.totals import Count, CountUsers, Sum

if TYPE_CHECKING:
    from steelyard.bounding.bias import bias_bounds as bias_bounds
    from steelyard.bounding.bias import corollary_terms as corollary_terms
    from steelyard.bounding.bias import heavy_users as heavy_users
    from steelyard.bounding.bias import kept_rows as kept_rows
    from steelyard.bounding.bias import kept_share_below as kept_share_below
    from steelyard.bounding.theory import Tradeoff as Tradeoff
    from steelyard.bounding.theory import bound_cap as bound_cap
    from steelyard.bounding.theory import capped_sum as capped_sum
    from steelyard.bounding.theory import error_bound as error_bound
    from steelyard.bounding.theory import expected_error as expected_error
    from steelyard.bounding.theory import optimal_cap as optimal_cap
    from steelyard.bounding.theory import tradeoff as tradeoff

__all__ = [
    "ContributionProfile",
    "Count",
    "CountUsers",
    "GradualSum",
    "Histogram",
    "Mean",
    "Profile",
    "Quantile",
    "Sum",
    "Together",
]
_BIAS = ("bias_bounds", "corollary_terms", "heavy_users", "kept_rows", "kept_share_below")
_THEORY = ("Tradeoff", "bound_cap", "capped_sum", "error_bound", "expected_error", "optimal_cap", "tradeoff")


def __getattr__(name: str) -> Any:
    home = "bias" if name in _BIAS else "theory" if name in _THEORY else None
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_BIAS, *_THEORY])
