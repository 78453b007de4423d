"""Capability: bound what one user adds, choose the bound well, and release totals.

For private data: ``Profile`` and the releases. For data one may look at, the theory: ``optimal_cap``,
``expected_error``, ``tradeoff``, ``bias_bounds`` and their kin. Each name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.bounding.amounts import Amount, Spend, bound, check_unit, finite, noise_error
    from steelyard.bounding.bias import bias_bounds, corollary_terms, heavy_users, kept_rows, kept_share_below
    from steelyard.bounding.cap_choice import ContributionProfile
    from steelyard.bounding.cap_rule import Bounds
    from steelyard.bounding.grouping import check_list, keep_exact
    from steelyard.bounding.profile import Profile
    from steelyard.bounding.ranks import level_epsilon
    from steelyard.bounding.theory import (
        Tradeoff,
        bound_cap,
        capped_sum,
        error_bound,
        expected_error,
        optimal_cap,
        tradeoff,
    )
    from steelyard.bounding.totals import Count, CountUsers, Sum, Together
    from steelyard.bounding.values import Histogram, Mean, Quantile, check_range

__all__ = [
    "Amount",
    "Bounds",
    "ContributionProfile",
    "Count",
    "CountUsers",
    "Histogram",
    "Mean",
    "Profile",
    "Quantile",
    "Spend",
    "Sum",
    "Together",
    "Tradeoff",
    "bias_bounds",
    "bound",
    "bound_cap",
    "capped_sum",
    "check_list",
    "check_range",
    "check_unit",
    "corollary_terms",
    "error_bound",
    "expected_error",
    "finite",
    "heavy_users",
    "keep_exact",
    "kept_rows",
    "kept_share_below",
    "level_epsilon",
    "noise_error",
    "optimal_cap",
    "tradeoff",
]
_HOMES = {
    "amounts": ("Amount", "Spend", "bound", "check_unit", "finite", "noise_error"),
    "bias": ("bias_bounds", "corollary_terms", "heavy_users", "kept_rows", "kept_share_below"),
    "cap_choice": ("ContributionProfile",),
    "cap_rule": ("Bounds",),
    "grouping": ("check_list", "keep_exact"),
    "profile": ("Profile",),
    "ranks": ("level_epsilon",),
    "theory": ("Tradeoff", "bound_cap", "capped_sum", "error_bound", "expected_error", "optimal_cap", "tradeoff"),
    "totals": ("Count", "CountUsers", "Sum", "Together"),
    "values": ("Histogram", "Mean", "Quantile", "check_range"),
}
__getattr__ = loading(__name__, _HOMES)
