"""Tasks as JSON Schema: the same types that ``documents.decode`` reads, told to programs in other languages.

A schema is as wide as the types: what is accepted by it may still make no sense, and is then refused by name.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

from steelyard.requests._tasks import TASKS

_SCALARS: dict[Any, dict[str, Any]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    Fraction: {"type": "string", "description": "an exact number, such as 1/3 or 0.25"},
    Decimal: {"type": "string"},
    types.NoneType: {"type": "null"},
    Any: {"type": ["string", "number", "boolean", "null", "object"]},
}


def task_schemas() -> dict[str, dict[str, Any]]:
    """The schema of every task that a server answers, and of what stands in them, by name."""
    found: dict[str, dict[str, Any]] = {}
    for kind in TASKS.values():
        if hasattr(kind, "plan"):
            _of(kind, found)
    return dict(sorted(found.items()))


def task_names() -> list[str]:
    """The names of the tasks that a server answers."""
    return [name for name, kind in TASKS.items() if hasattr(kind, "plan")]


def _of(kind: Any, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    origin, parts = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _any_of([_of(part, found) for part in parts])
    if isinstance(origin, type) and is_dataclass(origin):
        return _object(origin, found)
    if origin in (Sequence, list, tuple):
        return {"type": "array", "items": _any_of([_of(part, found) for part in parts if part is not ...])}
    if origin is Mapping:
        return {"type": "object", "additionalProperties": _of(parts[1], found)}
    if isinstance(origin, type) and issubclass(origin, Enum):
        return {"type": "string", "enum": [each.value for each in origin]}
    return _SCALARS[origin]


def _object(kind: Any, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A reference to the schema of a dataclass, which is made once."""
    name = kind.__name__
    if name not in found:
        found[name] = {}
        hints = typing.get_type_hints(kind)
        known = {f.name: _of(hints[f.name], found) for f in fields(kind)}
        required = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
        found[name] |= {
            "type": "object",
            "description": (kind.__doc__ or "").strip().split("\n")[0],
            "properties": {"type": {"const": name}, **known},
            "required": ["type", *required],
            "additionalProperties": False,
        }
    return {"$ref": f"#/components/schemas/{name}"}


def _any_of(choices: list[dict[str, Any]]) -> dict[str, Any]:
    several = [each for place, each in enumerate(choices) if each not in choices[:place]]
    return several[0] if len(several) == 1 else {"anyOf": several}
