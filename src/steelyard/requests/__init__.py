"""Requests as people and programs write them: tasks as JSON, units as text, options that go together, plans put into words.

What a command line and a server share. Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.requests._accuracy import AccuracyRequest as AccuracyRequest
    from steelyard.requests._dry_run import DryRun
    from steelyard.requests._holdouts import settings_kept as settings_kept
    from steelyard.requests._holdouts import settings_typed as settings_typed
    from steelyard.requests._opening import open_holdout as open_holdout
    from steelyard.requests._opening import read_labels as read_labels
    from steelyard.requests._options import fit_options as fit_options
    from steelyard.requests._options import fit_terms as fit_terms
    from steelyard.requests._parts import part_columns as part_columns
    from steelyard.requests._parts import together_typed as together_typed
    from steelyard.requests._predictions import write_predictions as write_predictions
    from steelyard.requests._replies import Reply as Reply
    from steelyard.requests._replies import columns as columns
    from steelyard.requests._reports import paper_schema as paper_schema
    from steelyard.requests._reports import read_report as read_report
    from steelyard.requests._reports import report_terms as report_terms
    from steelyard.requests._reports import summed_columns as summed_columns
    from steelyard.requests._schemas import task_names as task_names
    from steelyard.requests._schemas import task_schemas as task_schemas
    from steelyard.requests._spending import spending_report as spending_report
    from steelyard.requests._spending import spending_rows as spending_rows
    from steelyard.requests._sql import Asked
    from steelyard.requests._sql import ask as ask
    from steelyard.requests._sql_answers import Answers
    from steelyard.requests._tasks import schema_from, task_from
    from steelyard.requests._typed import by_typed as by_typed
    from steelyard.requests._typed import classes_typed as classes_typed
    from steelyard.requests._typed import feature_typed as feature_typed
    from steelyard.requests._typed import keys_typed as keys_typed
    from steelyard.requests._typed import types_typed as types_typed
    from steelyard.requests._typed import unit_typed as unit_typed

__all__ = ["Answers", "Asked", "DryRun", "schema_from", "task_from"]
_HOMES = {
    "_dry_run": ("DryRun",),
    "_accuracy": ("AccuracyRequest",),
    "_holdouts": ("settings_kept", "settings_typed"),
    "_opening": ("open_holdout", "read_labels"),
    "_options": ("fit_options", "fit_terms"),
    "_parts": ("part_columns", "together_typed"),
    "_predictions": ("write_predictions",),
    "_replies": ("Reply", "columns"),
    "_reports": ("paper_schema", "read_report", "report_terms", "summed_columns"),
    "_spending": ("spending_report", "spending_rows"),
    "_schemas": ("task_names", "task_schemas"),
    "_sql": ("Asked", "ask"),
    "_sql_answers": ("Answers",),
    "_tasks": ("schema_from", "task_from"),
    "_typed": ("by_typed", "classes_typed", "feature_typed", "keys_typed", "types_typed", "unit_typed"),
}
__getattr__ = loading(__name__, _HOMES)
