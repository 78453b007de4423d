"""Requests as people and programs write them: tasks as JSON, units as text, options that go together, plans put into words.

What a command line and a server share. Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.requests.accuracy import AccuracyRequest as AccuracyRequest
    from steelyard.requests.accuracy import accuracy_from as accuracy_from
    from steelyard.requests.accuracy import is_met as is_met
    from steelyard.requests.dry_run import DryRun as DryRun
    from steelyard.requests.dry_run import WouldCharge as WouldCharge
    from steelyard.requests.holdouts import open_holdout as open_holdout
    from steelyard.requests.holdouts import settings_kept as settings_kept
    from steelyard.requests.holdouts import settings_typed as settings_typed
    from steelyard.requests.options import fit_options as fit_options
    from steelyard.requests.options import fit_terms as fit_terms
    from steelyard.requests.options import names_accuracy as names_accuracy
    from steelyard.requests.predictions import write_predictions as write_predictions
    from steelyard.requests.replies import Reply as Reply
    from steelyard.requests.replies import account_reply as account_reply
    from steelyard.requests.replies import columns as columns
    from steelyard.requests.replies import fit_plan_reply as fit_plan_reply
    from steelyard.requests.replies import model_chart as model_chart
    from steelyard.requests.replies import model_reply as model_reply
    from steelyard.requests.replies import plan_reply as plan_reply
    from steelyard.requests.replies import release_chart as release_chart
    from steelyard.requests.replies import release_reply as release_reply
    from steelyard.requests.tasks import TASKS as TASKS
    from steelyard.requests.tasks import schema_from as schema_from
    from steelyard.requests.tasks import task_from as task_from
    from steelyard.requests.tasks import terms_from as terms_from
    from steelyard.requests.tasks import unit_from as unit_from
    from steelyard.requests.typed import classes_typed as classes_typed
    from steelyard.requests.typed import feature_typed as feature_typed
    from steelyard.requests.typed import key_typed as key_typed
    from steelyard.requests.typed import types_typed as types_typed
    from steelyard.requests.typed import unit_typed as unit_typed

_NAMES = {
    "accuracy": ("AccuracyRequest", "accuracy_from", "is_met"),
    "dry_run": ("DryRun", "WouldCharge"),
    "holdouts": ("open_holdout", "settings_kept", "settings_typed"),
    "options": ("fit_options", "fit_terms", "names_accuracy"),
    "predictions": ("write_predictions",),
    "replies": (
        *("Reply", "account_reply", "columns", "fit_plan_reply", "model_chart", "model_reply"),
        *("plan_reply", "release_chart", "release_reply"),
    ),
    "tasks": ("TASKS", "schema_from", "task_from", "terms_from", "unit_from"),
    "typed": ("classes_typed", "feature_typed", "key_typed", "types_typed", "unit_typed"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
