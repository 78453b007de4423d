"""Requests as people and programs write them: tasks as JSON, units as text, options that go together, plans put into words.

What a command line and a server share. Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.requests._accuracy import AccuracyRequest
    from steelyard.requests._dry_run import DryRun, WouldCharge
    from steelyard.requests._holdouts import open_holdout, settings_kept, settings_typed
    from steelyard.requests._options import fit_options, fit_terms
    from steelyard.requests._predictions import write_predictions
    from steelyard.requests._replies import Reply, columns, release_chart
    from steelyard.requests._tasks import schema_from, task_from
    from steelyard.requests._typed import classes_typed, feature_typed, key_typed, types_typed, unit_typed

__all__ = [
    "AccuracyRequest",
    "DryRun",
    "Reply",
    "WouldCharge",
    "classes_typed",
    "columns",
    "feature_typed",
    "fit_options",
    "fit_terms",
    "key_typed",
    "open_holdout",
    "release_chart",
    "schema_from",
    "settings_kept",
    "settings_typed",
    "task_from",
    "types_typed",
    "unit_typed",
    "write_predictions",
]
_HOMES = {
    "_accuracy": ("AccuracyRequest",),
    "_dry_run": ("DryRun", "WouldCharge"),
    "_holdouts": ("open_holdout", "settings_kept", "settings_typed"),
    "_options": ("fit_options", "fit_terms"),
    "_predictions": ("write_predictions",),
    "_replies": ("Reply", "columns", "release_chart"),
    "_tasks": ("schema_from", "task_from"),
    "_typed": ("classes_typed", "feature_typed", "key_typed", "types_typed", "unit_typed"),
}
__getattr__ = loading(__name__, _HOMES)
