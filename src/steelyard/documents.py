"""Values as JSON and back: one codec over the fields of dataclasses.

``plain`` writes a value and ``decode`` reads one of a stated type. A dataclass is an object of its fields and its ``type``, the
name of its class; exact numbers are texts. Reading is strict: an unknown or missing field, a wrong type, a number no account
could count and a name that was not offered are refused with the path of the field. Nothing is looked up by name but what the
type itself lists, so no document can make anything run.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, cast

from steelyard.errors import InvalidTask
from steelyard.privacy import exact, written

__all__ = ["decode", "read_document", "request_of"]

_TAG = "type"
_DEEPEST, _MOST = 12, 10**5
_LARGEST = 10**38
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def read_document(path: str | os.PathLike[str], what: str) -> Any:
    """A saved JSON document; what cannot be read, is nested too deep or holds no proper numbers is refused by name."""
    try:
        return parse(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidTask(
            f"there is no file {os.fspath(path)} to read {what} from (seen from {os.getcwd()})."
        ) from None
    except (OSError, ValueError) as problem:
        kind = type(problem.__cause__ or problem).__name__
        raise InvalidTask(f"{os.fspath(path)} is not {what} ({kind}).") from None


def load(kind: Any, path: str | os.PathLike[str], what: str, part: str) -> Any:
    """A saved value of this type, by itself or as the ``part`` of a larger document."""
    data = read_document(path, what)
    try:
        return decode(kind, data[part] if isinstance(data, dict) and part in data else data, what.split()[-1])
    except InvalidTask as fault:
        raise InvalidTask(f"{os.fspath(path)} is not {what}: {fault}") from None


def parse(text: str | bytes) -> Any:
    """A JSON text; a field that stands twice is refused (readers differ on what it then says), and so is a NaN."""
    try:
        return json.loads(text, parse_constant=_no_number, object_pairs_hook=_once)
    except (ValueError, RecursionError) as problem:
        raise InvalidTask(f"this is no JSON document ({type(problem).__name__}).") from problem


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a field stands twice")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(text)


def request_of(task: object) -> dict[str, Any]:
    """A task as its own JSON request: the name of its class and its fields; ``decode`` reads it back."""
    parts = {f.name: plain(getattr(task, f.name), typed=True) for f in fields(cast(Any, task))}
    return {_TAG: type(task).__name__, **parts}


def plain(value: Any, *, typed: bool = False) -> Any:
    """A value as JSON: nouns by their own ``to_json``, exact numbers as text.

    ``typed``: decimals and dates say what they are, so that they can be told from a text that looks alike.
    """
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return request_of(value)
    if isinstance(value, dict):
        return [[plain(key, typed=typed), plain(item, typed=typed)] for key, item in value.items()]
    if isinstance(value, list | tuple):
        return [plain(item, typed=typed) for item in value]
    if typed and type(value) in (Decimal, datetime.date):
        return {_TAG: type(value).__name__.lower(), "value": str(value)}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def decode(kind: Any, data: Any, at: str) -> Any:
    """Read back what ``plain`` wrote of a value of this type; ``at`` is what the document is called in a refusal.

    Of a mapping from names to dataclasses: the one that the document's ``type`` names.

    >>> decode(list[int], [1, "2"], "counts")
    Traceback (most recent call last):
    steelyard.errors.InvalidTask: counts[1] must be a whole number of at most 38 digits; got '2'.
    """
    return _tagged(kind, data, at, 0) if isinstance(kind, Mapping) else _read(kind, data, at, 0)


def _read(kind: Any, data: Any, at: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise InvalidTask(f"{at} is nested too deep.")
    origin, parts = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(parts, data, at, depth)
    if isinstance(origin, type) and is_dataclass(origin):
        return _tagged({origin.__name__: origin}, data, at, depth)
    if origin in (Sequence, list, tuple):
        _must(isinstance(data, list) and len(data) <= _MOST, at, f"a list of at most {_MOST} values", data)
        return tuple(_read(parts[0], item, f"{at}[{place}]", depth + 1) for place, item in enumerate(data))
    if origin is Mapping:
        _must(isinstance(data, dict), at, "an object", data)
        return {name: _read(parts[1], item, f"{at}.{name[:40]}", depth + 1) for name, item in data.items()}
    if isinstance(origin, type) and issubclass(origin, Enum):
        names = [each.value for each in origin]
        _must(data in names if isinstance(data, str) else False, at, f"one of {', '.join(names)}", data)
        return origin(data)
    said, fits, make = _SCALARS[origin]
    _must(fits(data), at, said, data)
    return make(data, at)


def _union(kinds: Sequence[Any], data: Any, at: str, depth: int) -> Any:
    """One of several types: an object by its ``type``, anything else by what JSON it is."""
    if isinstance(data, dict):
        known = {kind.__name__: kind for kind in kinds if isinstance(kind, type) and is_dataclass(kind)}
        if known:
            return _tagged(known, data, at, depth)
    kinds = [kind for kind in kinds if not is_dataclass(kind)]
    if Decimal in kinds:  # a Number, as a person types it or as ``plain`` writes it
        kinds = [kind for kind in kinds if kind not in (Decimal, Fraction)]
    for kind in kinds:
        if isinstance(data, list) if kind not in _SCALARS else _SCALARS[kind][1](data):
            return _read(kind, data, at, depth)
    said = [_SCALARS[kind][0] if kind in _SCALARS else "a list" for kind in kinds]
    raise InvalidTask(f"{at} must be {' or '.join(said)}; got {_shown(data)}.")


def _tagged(kinds: Mapping[str, type[Any]], data: Any, at: str, depth: int) -> Any:
    _must(isinstance(data, dict), at, "an object", data)
    name = data.get(_TAG, next(iter(kinds)) if len(kinds) == 1 else None)
    _must(name in kinds if isinstance(name, str) else False, f"{at}.{_TAG}", f"one of {', '.join(kinds)}", name)
    kind: Any = kinds[name]
    given, (hints, required) = {key: item for key, item in data.items() if key != _TAG}, _facts(kind)
    unknown, missing = sorted(set(given) - set(hints)), sorted(required - set(given))
    if unknown or missing:
        said = f"has no field {_shown(unknown[0])}" if unknown else f"needs the field {missing[0]!r}"
        raise InvalidTask(f"{at} is a {name} and {said}; its fields are {', '.join(hints)}.")
    parts = {key: _read(hints[key], item, f"{at}.{key}", depth + 1) for key, item in given.items()}
    try:
        return kind(**parts)
    except InvalidTask as refusal:
        raise InvalidTask(f"{at}: {refusal}") from None
    except _UNREADABLE as problem:  # a constructor that was handed the right types in a wrong combination
        raise InvalidTask(f"{at} is no {name} ({type(problem).__name__}).") from None


@cache
def _facts(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The types of a dataclass's fields, and which of them must be given."""
    found = typing.get_type_hints(kind)
    required = (f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING)
    return {f.name: found[f.name] for f in fields(kind)}, frozenset(required)


def _must(holds: bool, at: str, what: str, data: Any) -> None:
    if not holds:
        raise InvalidTask(f"{at} must be {what}; got {_shown(data)}.")


def _shown(data: Any) -> str:
    """A short scalar as it is, of anything else its kind: a refusal must not grow with what it refuses."""
    if isinstance(data, dict | list):
        return "an object" if isinstance(data, dict) else "a list"
    whole = isinstance(data, int) and abs(data) >= _LARGEST
    return "a larger number" if whole else repr(data[:40] if isinstance(data, str) else data)


def _is_whole(data: Any) -> bool:
    return isinstance(data, int) and not isinstance(data, bool) and abs(data) < _LARGEST


def _is_number(data: Any) -> bool:
    return _is_whole(data) or (isinstance(data, float) and math.isfinite(data))


def _is_text(data: Any) -> bool:
    return isinstance(data, str)


def _is_loose(data: Any) -> bool:
    if isinstance(data, dict):
        return set(data) == {_TAG, "value"} and data[_TAG] in list(_EXACT) and _is_text(data["value"])
    return _is_number(data) or isinstance(data, str | bool | None)


def _loose(data: Any, at: str) -> Any:
    """A value of any kind that a column may hold."""
    if not isinstance(data, dict):
        return data
    try:
        return _EXACT[data[_TAG]](data["value"])
    except (ArithmeticError, ValueError):
        raise InvalidTask(f"{at} must be a {data[_TAG]}; got {_shown(data['value'])}.") from None


def _decimal(text: str) -> Decimal:
    exact(text, "a decimal")  # refuses what is no plain number, and what is out of any range
    return Decimal(text)


def _as_given(data: Any, at: str) -> Any:
    return data


_SCALARS: dict[Any, tuple[str, Callable[[Any], bool], Callable[[Any, str], Any]]] = {
    Any: ("a text, a number, a truth value, or an object of a type and a value", _is_loose, _loose),
    bool: ("true or false", lambda data: isinstance(data, bool), _as_given),
    int: ("a whole number of at most 38 digits", _is_whole, _as_given),
    float: ("a finite number", _is_number, lambda data, at: float(data)),
    str: ("a text", _is_text, _as_given),
    Fraction: ("an exact number, written as a text", _is_text, written),
    types.NoneType: ("null", lambda data: data is None, _as_given),
}
"""What each kind of scalar is called, whether a piece of JSON is one, and how it is read."""
_EXACT: dict[str, Callable[[str], Any]] = {"decimal": _decimal, "date": datetime.date.fromisoformat}
