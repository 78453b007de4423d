"""Requests as people and programs write them: tasks as JSON, units as text, options that go together, plans put into words.

What a command line and a server share. Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.requests._accuracy import AccuracyRequest
    from steelyard.requests._dry_run import DryRun, WouldCharge
    from steelyard.requests._holdouts import settings_kept, settings_typed
    from steelyard.requests._opening import open_holdout, read_labels
    from steelyard.requests._options import fit_options, fit_terms
    from steelyard.requests._parts import part_columns, together_typed
    from steelyard.requests._predictions import write_predictions
    from steelyard.requests._replies import Reply, columns
    from steelyard.requests._reports import paper_schema, read_report, report_terms, summed_columns
    from steelyard.requests._schemas import task_names, task_schemas
    from steelyard.requests._spending import spending_chart, spending_report, spending_rows, task_in_words
    from steelyard.requests._sql import Asked, ask
    from steelyard.requests._sql_answers import Answers
    from steelyard.requests._tasks import schema_from, task_from
    from steelyard.requests._typed import by_typed, classes_typed, feature_typed, keys_typed, types_typed, unit_typed

__all__ = [
    "AccuracyRequest",
    "Answers",
    "Asked",
    "DryRun",
    "Reply",
    "WouldCharge",
    "ask",
    "by_typed",
    "classes_typed",
    "columns",
    "feature_typed",
    "fit_options",
    "fit_terms",
    "keys_typed",
    "open_holdout",
    "paper_schema",
    "part_columns",
    "read_labels",
    "read_report",
    "report_terms",
    "schema_from",
    "settings_kept",
    "settings_typed",
    "spending_chart",
    "spending_report",
    "spending_rows",
    "summed_columns",
    "task_from",
    "task_in_words",
    "task_names",
    "task_schemas",
    "together_typed",
    "types_typed",
    "unit_typed",
    "write_predictions",
]
_HOMES = {
    "_accuracy": ("AccuracyRequest",),
    "_dry_run": ("DryRun", "WouldCharge"),
    "_holdouts": ("settings_kept", "settings_typed"),
    "_opening": ("open_holdout", "read_labels"),
    "_options": ("fit_options", "fit_terms"),
    "_parts": ("part_columns", "together_typed"),
    "_predictions": ("write_predictions",),
    "_replies": ("Reply", "columns"),
    "_reports": ("paper_schema", "read_report", "report_terms", "summed_columns"),
    "_spending": ("spending_chart", "spending_report", "spending_rows", "task_in_words"),
    "_schemas": ("task_names", "task_schemas"),
    "_sql": ("Asked", "ask"),
    "_sql_answers": ("Answers",),
    "_tasks": ("schema_from", "task_from"),
    "_typed": ("by_typed", "classes_typed", "feature_typed", "keys_typed", "types_typed", "unit_typed"),
}
__getattr__ = loading(__name__, _HOMES)
