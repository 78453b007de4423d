"""Capability: bound what one user adds, choose the bound well, and release totals.

For private data: ``Profile`` and the releases. For data one may look at, the theory: ``optimal_cap``,
``expected_error``, ``tradeoff``, ``bias_bounds`` and their kin. Each name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.bounding._amounts import Amount, Spend, bound, check_unit, finite, noise_error
    from steelyard.bounding._bias import (
        bias_bounds,
        choice_bound,
        corollary_terms,
        heavy_users,
        kept_rows,
        kept_share_below,
        loss_moments,
        loss_variance,
        share_terms,
    )
    from steelyard.bounding._cap_choice import ContributionProfile
    from steelyard.bounding._cap_rule import Bounds
    from steelyard.bounding._grouping import check_list, keep_exact
    from steelyard.bounding._profile import Profile
    from steelyard.bounding._ranks import level_epsilon
    from steelyard.bounding._theory import Tradeoff, bound_cap, error_bound, expected_error, optimal_cap, tradeoff
    from steelyard.bounding._totals import Count, CountUsers, Sum, Together
    from steelyard.bounding._values import Histogram, Mean, Quantile, check_range

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
    "check_list",
    "check_range",
    "check_unit",
    "choice_bound",
    "corollary_terms",
    "error_bound",
    "expected_error",
    "finite",
    "heavy_users",
    "keep_exact",
    "kept_rows",
    "kept_share_below",
    "level_epsilon",
    "loss_moments",
    "loss_variance",
    "noise_error",
    "optimal_cap",
    "share_terms",
    "tradeoff",
]
_HOMES = {
    "_amounts": ("Amount", "Spend", "bound", "check_unit", "finite", "noise_error"),
    "_bias": (
        *("bias_bounds", "choice_bound", "corollary_terms", "heavy_users", "kept_rows", "kept_share_below"),
        *("loss_moments", "loss_variance", "share_terms"),
    ),
    "_cap_choice": ("ContributionProfile",),
    "_cap_rule": ("Bounds",),
    "_grouping": ("check_list", "keep_exact"),
    "_profile": ("Profile",),
    "_ranks": ("level_epsilon",),
    "_theory": ("Tradeoff", "bound_cap", "error_bound", "expected_error", "optimal_cap", "tradeoff"),
    "_totals": ("Count", "CountUsers", "Sum", "Together"),
    "_values": ("Histogram", "Mean", "Quantile", "check_range"),
}
__getattr__ = loading(__name__, _HOMES)
