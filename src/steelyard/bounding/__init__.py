"""Capability: bound what one user adds, choose the bound well, and release totals.

For data one may look at: ``theory`` and ``bias``. For private data: ``Profile`` and the releases.
"""

from __future__ import annotations

from steelyard.bounding.gradual import GradualSum
from steelyard.bounding.profile import ContributionProfile, Profile
from steelyard.bounding.spread import Histogram, Mean, Quantile
from steelyard.bounding.totals import Count, CountUsers, Sum

__all__ = ["ContributionProfile", "Count", "CountUsers", "GradualSum", "Histogram", "Mean", "Profile", "Quantile", "Sum"]
