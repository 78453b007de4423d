"""Tasks as JSON, and the schema that a plan needs beside them.

``request_of`` (in ``documents``) writes a task; ``task_from`` reads it back, from a fixed list of classes. So a process that may
not read rows can be handed a task, plan it on a schema and charge it. Law: nothing here reads a row or an account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import steelyard.models as models
from steelyard.bounding import (
    Count,
    CountDistinct,
    CountUsers,
    Histogram,
    Mean,
    Median,
    Profile,
    Quantile,
    Ratio,
    ReportPlan,
    Std,
    Sum,
    Together,
    TopK,
    Variance,
)
from steelyard.documents import decode, parse
from steelyard.errors import InvalidTask
from steelyard.holdout import Question
from steelyard.models.accuracy import GradualSum
from steelyard.plan import Task
from steelyard.session import Dialogue
from steelyard.tables import KeyDigest, Schema, read_keys

TASKS: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Sum, Count, CountUsers, CountDistinct, Ratio, Mean, Variance, Std, Median, Quantile, Histogram),
        *(TopK, Profile, Together, ReportPlan, GradualSum),
        *(getattr(models, name) for name in models.TASKS),
        Question,
    )
}
"""Every task and dialogue that a request may name."""


def task_from(request: Any, *, keys: Any = None) -> Task | Dialogue[Any]:
    """The task of a request, as JSON text or already parsed; anything odd about it is refused by name.

    More than ten thousand keys stand in a request by their digest alone: give them again as ``keys``, to plan the task.

    >>> task_from('{"type": "Sum", "column": "amount", "epsilon": "1/2", "cap": 100}').cap
    Fraction(100, 1)
    """
    task = decode(TASKS, _parsed(request), "task")
    return cast(Task, task if keys is None else _with_keys(task, keys))


def _with_keys(task: Any, keys: Any) -> Any:
    """The task, or each of several, with the keys that it names by their digest."""
    if isinstance(task, Together):
        return Together([_with_keys(each, keys) for each in task.tasks])
    if not isinstance(getattr(task, "keys", None), KeyDigest):
        raise InvalidTask("this request says its keys itself, or has none; leave keys= out.")
    by = task.column if isinstance(task, TopK) and task.by is None else task.by
    found = read_keys(keys, [by] if isinstance(by, str) else by)
    assert not isinstance(found, KeyDigest)
    return replace(task, keys=task.keys.checked(found))


def schema_from(request: Any) -> Schema:
    """A schema as an object of column names and their kinds."""
    return Schema(decode(Mapping[str, str], _parsed(request), "schema"))


def _parsed(request: Any) -> Any:
    return parse(request) if isinstance(request, str | bytes) else request
