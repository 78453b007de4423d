"""A report's plan as a person writes it in a file: numbers with their tolerances, in TOML.

    unit = "users:customer"
    profile = ["spent.json"]

    [numbers.revenue]
    task = "sum"
    column = "amount"
    tolerance = "2%"

Each number is a task by its name and its own options, with ``tolerance`` and what else ``Within`` takes beside them. Profiles are files,
read from beside the report. Law: nothing here reads a row or an account, and a name that means nothing is refused by name.
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from steelyard.bounding import (
    ContributionProfile,
    Count,
    CountDistinct,
    CountUsers,
    Histogram,
    Mean,
    Median,
    Quantile,
    Ratio,
    ReportPlan,
    Std,
    Sum,
    TopK,
    Variance,
    Within,
)
from steelyard.documents import decode, plain
from steelyard.errors import InvalidTask
from steelyard.privacy import Currency, Loss, Terms, Unit, probability
from steelyard.requests._typed import unit_typed
from steelyard.tables import Schema

_OF_ROWS = (Mean, Variance, Std, Median, Quantile, Ratio)
_KINDS: dict[str, Any] = {
    kind.__name__.lower(): kind for kind in (Sum, Count, CountUsers, CountDistinct, *_OF_ROWS, Histogram, TopK)
}
_SAID = ("tolerance", "of", "rows", "noise_alone")
_WHOLE = ("unit", "delta", "confidence", "profile", "numbers")
_COLUMNS: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "float", datetime.date: "date"}


def read_report(path: str) -> tuple[ReportPlan, Mapping[str, Any]]:
    """The plan that a file holds, and what it says of the account: ``unit`` and ``delta``, where it does."""
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        said = f": {problem}" if isinstance(problem, tomllib.TOMLDecodeError) else ""
        raise InvalidTask(f"{path} is no report in TOML ({type(problem).__name__}{said}).") from None
    _known(data, _WHOLE, path)
    numbers, folder = data.get("numbers"), Path(path).parent
    if not isinstance(numbers, dict) or not numbers:
        raise InvalidTask(f"{path} needs a table [numbers.NAME] for each number of the report.")
    wishes = {name: _wish(name, each, folder) for name, each in numbers.items()}
    looks = data.get("profile", [])
    profiles = [_profile(each, folder) for each in (looks if isinstance(looks, list) else [looks])]
    return ReportPlan(wishes, profiles, data.get("confidence", Fraction(95, 100))), data


def report_terms(given: Mapping[str, Any], unit: str | None, delta: str | None) -> Terms:
    """Terms to plan a report on where no account is named: whom it hides, and with a delta Gaussian noise."""
    who = unit if unit is not None else given.get("unit")
    if not isinstance(who, str):
        raise InvalidTask('say whom the report hides: unit = "users:COLUMN" in the file, or --unit, or an account.')
    hidden: Unit = unit_typed(who)
    apart = probability(delta if delta is not None else given.get("delta", 0), "delta")
    return Terms(hidden, Loss.zero(Currency.GAUSSIAN if apart else Currency.PURE), None, apart)


def paper_schema(plan: ReportPlan, unit: Unit) -> Schema:
    """The columns that a report speaks of, as it speaks of them, where no table is at hand."""
    found: dict[str, str] = {} if unit.column is None or unit.kind != "users" else {unit.column: "string"}
    for wish in plan.wishes:
        task: Any = wish.task
        by = task.column if isinstance(task, TopK) else task.by
        if isinstance(task, CountDistinct):
            found.setdefault(task.column, "string")
        for name in _numbers_of(task):
            found.setdefault(name, "float")
        if by is not None:
            names = (by,) if isinstance(by, str) else tuple(by)
            first: Any = next(iter(task.keys), "") if task.keys is not None else ""
            for name, key in zip(names, (first,) if len(names) == 1 else first, strict=False):
                found[name] = next((kind for type_, kind in _COLUMNS.items() if type(key) is type_), "string")
    return Schema(found)


def summed_columns(plan: ReportPlan) -> list[str]:
    """The columns whose values are added up or compared."""
    return list(dict.fromkeys(name for wish in plan.wishes for name in _numbers_of(wish.task)))


def _numbers_of(task: Any) -> tuple[str, ...]:
    """The columns of a task that hold numbers."""
    if isinstance(task, Count | CountUsers | CountDistinct | TopK):
        return ()
    return (task.column, task.over) if isinstance(task, Ratio) else (task.column,)


def _wish(name: str, given: Any, folder: Path) -> Within:
    if not isinstance(given, dict) or "task" not in given or "tolerance" not in given:
        raise InvalidTask(f"numbers.{name} needs task and tolerance.")
    kind = _KINDS.get(str(given["task"]).lower().replace("-", "").replace("_", ""))
    if kind is None:
        raise InvalidTask(f"numbers.{name}.task must be one of {', '.join(_KINDS)}; got {given['task']!r}.")
    own = {key: each for key, each in given.items() if key not in ("task", *_SAID)}
    if "rows" in given and kind not in _OF_ROWS:
        raise InvalidTask(f"numbers.{name}.rows is for means, variances, quantiles and ratios; leave it out.")
    if isinstance(own.get("cap"), str) and own["cap"].endswith(".json"):
        own["cap"] = _profile(own["cap"], folder).to_json()
    task = decode({kind.__name__: kind}, {"type": kind.__name__, **_as_json(own)}, f"numbers.{name}")
    return Within(task, **{key: given[key] for key in _SAID if key in given})


def _as_json(value: Any) -> Any:
    """A TOML value as the codec of requests reads it: dates say what they are."""
    if isinstance(value, dict):
        return {key: _as_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    if isinstance(value, datetime.datetime | datetime.time):
        raise InvalidTask("a report has dates, and no times of day.")
    return plain(value, typed=True) if isinstance(value, datetime.date) else value


def _profile(path: Any, folder: Path) -> ContributionProfile:
    if not isinstance(path, str):
        raise InvalidTask(
            f"profile is the name of a file that steelyard profile --out wrote, or a list of them; got {path!r}."
        )
    return ContributionProfile.load(folder / path)


def _known(given: Mapping[str, Any], names: tuple[str, ...], at: str) -> None:
    odd = sorted(set(given) - set(names))
    if odd:
        raise InvalidTask(f"{at} has no {odd[0]!r}; a report has {', '.join(names)}.")
