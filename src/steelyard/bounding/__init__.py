"""Capability: bound what one user adds, then release totals."""

from __future__ import annotations

from steelyard.bounding.totals import Count, Sum

__all__ = ["Count", "Sum"]
