"""Requests as people and programs write them: tasks as JSON, units as text, options that go together, plans put into words.

What a command line and a server share. Names load when first used, so importing this package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.requests.tasks import TASKS as TASKS
    from steelyard.requests.tasks import schema_from as schema_from
    from steelyard.requests.tasks import task_from as task_from
    from steelyard.requests.tasks import terms_from as terms_from
    from steelyard.requests.tasks import unit_from as unit_from

_HOMES = dict.fromkeys(("TASKS", "schema_from", "task_from", "terms_from", "unit_from"), "tasks")
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
