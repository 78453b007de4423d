"""Requests as people and programs write them: tasks as JSON, units as text, options that go together, plans put into words.

What a command line and a server share. Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.requests._accuracy import AccuracyRequest as AccuracyRequest
    from steelyard.requests._accuracy import accuracy_from as accuracy_from
    from steelyard.requests._accuracy import is_met as is_met
    from steelyard.requests._dry_run import DryRun as DryRun
    from steelyard.requests._dry_run import WouldCharge as WouldCharge
    from steelyard.requests._holdouts import open_holdout as open_holdout
    from steelyard.requests._holdouts import settings_kept as settings_kept
    from steelyard.requests._holdouts import settings_typed as settings_typed
    from steelyard.requests._options import fit_options as fit_options
    from steelyard.requests._options import fit_terms as fit_terms
    from steelyard.requests._options import names_accuracy as names_accuracy
    from steelyard.requests._predictions import write_predictions as write_predictions
    from steelyard.requests._replies import Reply as Reply
    from steelyard.requests._replies import account_reply as account_reply
    from steelyard.requests._replies import columns as columns
    from steelyard.requests._replies import fit_plan_reply as fit_plan_reply
    from steelyard.requests._replies import model_chart as model_chart
    from steelyard.requests._replies import model_reply as model_reply
    from steelyard.requests._replies import plan_reply as plan_reply
    from steelyard.requests._replies import release_chart as release_chart
    from steelyard.requests._replies import release_reply as release_reply
    from steelyard.requests._tasks import TASKS as TASKS
    from steelyard.requests._tasks import schema_from as schema_from
    from steelyard.requests._tasks import task_from as task_from
    from steelyard.requests._tasks import terms_from as terms_from
    from steelyard.requests._tasks import unit_from as unit_from
    from steelyard.requests._typed import classes_typed as classes_typed
    from steelyard.requests._typed import feature_typed as feature_typed
    from steelyard.requests._typed import key_typed as key_typed
    from steelyard.requests._typed import types_typed as types_typed
    from steelyard.requests._typed import unit_typed as unit_typed


_HOMES: dict[str, str] = {
    "AccuracyRequest": "_accuracy",
    "DryRun": "_dry_run",
    "Reply": "_replies",
    "TASKS": "_tasks",
    "WouldCharge": "_dry_run",
    "account_reply": "_replies",
    "accuracy_from": "_accuracy",
    "classes_typed": "_typed",
    "columns": "_replies",
    "feature_typed": "_typed",
    "fit_options": "_options",
    "fit_plan_reply": "_replies",
    "fit_terms": "_options",
    "is_met": "_accuracy",
    "key_typed": "_typed",
    "model_chart": "_replies",
    "model_reply": "_replies",
    "names_accuracy": "_options",
    "open_holdout": "_holdouts",
    "plan_reply": "_replies",
    "release_chart": "_replies",
    "release_reply": "_replies",
    "schema_from": "_tasks",
    "settings_kept": "_holdouts",
    "settings_typed": "_holdouts",
    "task_from": "_tasks",
    "terms_from": "_tasks",
    "types_typed": "_typed",
    "unit_from": "_tasks",
    "unit_typed": "_typed",
    "write_predictions": "_predictions",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
