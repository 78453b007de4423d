"""Capability: bound what one user adds, choose the bound well, and release totals.

For private data: ``Profile`` and the releases. For data one may look at, the theory: ``optimal_cap``,
``expected_error``, ``tradeoff``, ``bias_bounds`` and their kin. Each name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.bounding._amounts import Amount as Amount
    from steelyard.bounding._amounts import Spend as Spend
    from steelyard.bounding._amounts import bound as bound
    from steelyard.bounding._amounts import check_unit as check_unit
    from steelyard.bounding._amounts import noise_error as noise_error
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
    from steelyard.bounding._bought import check_range as check_range
    from steelyard.bounding._cap_choice import ContributionProfile
    from steelyard.bounding._cap_rule import Bounds as Bounds
    from steelyard.bounding._distinct import CountDistinct
    from steelyard.bounding._division import Division
    from steelyard.bounding._grouping import keep_exact as keep_exact
    from steelyard.bounding._means import Mean, Std, Variance
    from steelyard.bounding._profile import Profile
    from steelyard.bounding._quantiles import Median, Quantile
    from steelyard.bounding._ranks import level_epsilon as level_epsilon
    from steelyard.bounding._ratio import Ratio
    from steelyard.bounding._report import ReportPlan
    from steelyard.bounding._theory import Tradeoff, bound_cap, error_bound, expected_error, optimal_cap, tradeoff
    from steelyard.bounding._together import Together
    from steelyard.bounding._top import TopK
    from steelyard.bounding._totals import Count, CountUsers, Sum
    from steelyard.bounding._values import Histogram
    from steelyard.bounding._within import Within

__all__ = [
    "ContributionProfile",
    "Count",
    "CountDistinct",
    "CountUsers",
    "Division",
    "Histogram",
    "Mean",
    "Median",
    "Profile",
    "Quantile",
    "Ratio",
    "ReportPlan",
    "Std",
    "Sum",
    "Together",
    "TopK",
    "Tradeoff",
    "Variance",
    "Within",
    "bias_bounds",
    "bound_cap",
    "choice_bound",
    "corollary_terms",
    "error_bound",
    "expected_error",
    "heavy_users",
    "kept_rows",
    "kept_share_below",
    "loss_moments",
    "loss_variance",
    "optimal_cap",
    "share_terms",
    "tradeoff",
]
_HOMES = {
    "_amounts": ("Amount", "Spend", "bound", "check_unit", "noise_error"),
    "_bias": (
        *("bias_bounds", "choice_bound", "corollary_terms", "heavy_users", "kept_rows", "kept_share_below"),
        *("loss_moments", "loss_variance", "share_terms"),
    ),
    "_bought": ("check_range",),
    "_cap_choice": ("ContributionProfile",),
    "_cap_rule": ("Bounds",),
    "_distinct": ("CountDistinct",),
    "_division": ("Division",),
    "_grouping": ("keep_exact",),
    "_means": ("Mean", "Std", "Variance"),
    "_profile": ("Profile",),
    "_quantiles": ("Median", "Quantile"),
    "_ranks": ("level_epsilon",),
    "_ratio": ("Ratio",),
    "_report": ("ReportPlan",),
    "_theory": ("Tradeoff", "bound_cap", "error_bound", "expected_error", "optimal_cap", "tradeoff"),
    "_together": ("Together",),
    "_top": ("TopK",),
    "_totals": ("Count", "CountUsers", "Sum"),
    "_values": ("Histogram",),
    "_within": ("Within",),
}
__getattr__ = loading(__name__, _HOMES)
