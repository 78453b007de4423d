"""Questions as a form: which kinds there are, what each asks for, and the task that a filled form means.

A form's texts become the fields of a task, in the kinds that its columns publicly have; what is odd about them the task refuses itself, by
name, and the refusal is shown at its field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from steelyard.bounding import Count, CountDistinct, CountUsers, Histogram, Mean, Profile, Quantile, Std, Sum
from steelyard.errors import InvalidTask
from steelyard.privacy import Terms, decimal_text, exact
from steelyard.requests import keys_typed

_NUMBERS = ("integer", "float", "decimal")


@dataclass(frozen=True)
class Field:
    """One field of a form: its name in the task, its label, and what is shown in it."""

    name: str
    label: str
    hint: str = ""
    optional: bool = False
    mode: str = ""
    value: str = ""
    problem: str = ""
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Kind:
    """One kind of question: the task it makes, its words, its fields, and what its error is measured in."""

    task: type[Any]
    words: str
    told: str
    fields: tuple[Field, ...]
    error: str = "off by at most this much, in 95% of draws"


_COLUMN = Field("column", "Of which column")
_BY = Field("by", "For each", "an answer for every value of a column", optional=True)
_KEYS = Field("keys", "Values", "which of them, separated by commas; public, because you name them", optional=True)
_LOOK = Field("look", "Or take the cap from", "a look that was released before", optional=True)
_ROWS = Field("cap", "Rows of one person that count", "more of them are left out; a public number", mode="numeric")
_LOWER = Field("lower", "Smallest value", "values below count as this one", mode="decimal")
_UPPER = Field("upper", "Largest value", "values above count as this one", mode="decimal")
_KINDS = {
    "count": Kind(
        Count, "How many rows", "Counts rows. One person can have many, so a cap says how many of them may count.",
        (_ROWS, _BY, _KEYS), "rows too many or too few, in 95% of draws",
    ),
    "people": Kind(
        CountUsers, "How many people", "Counts everybody once, so nothing is cut off.", (_BY, _KEYS),
        "people too many or too few, in 95% of draws",
    ),
    "sum": Kind(
        Sum, "Total", "Adds a column up. A cap says how much of one person may count: a small one loses truth, a large one needs noise.",
        (
            _COLUMN, Field("cap", "At most this much of one person", "a public number", optional=True, mode="decimal"),
            _LOOK, _BY, _KEYS,
        ),
        "off by at most this much, in 95% of draws",
    ),
    "mean": Kind(
        Mean, "Average", "The average of a column between two public bounds.", (_COLUMN, _LOWER, _UPPER, _ROWS, _BY, _KEYS),
    ),
    "quantile": Kind(
        Quantile, "Median", "The value below which a share of the rows lies.",
        (_COLUMN, Field("quantile", "Share of rows below", "0.5 is the median", mode="decimal", value="0.5"), _LOWER, _UPPER, _ROWS),
    ),
    "spread": Kind(
        Std, "Spread", "The standard deviation of a column between two public bounds.", (_COLUMN, _LOWER, _UPPER, _ROWS),
    ),
    "distinct": Kind(
        CountDistinct, "How many different", "How many different values a column has, each person counting for a few of them.",
        (
            Field("column", "Values of which column"),
            Field("cap", "Values of one person that count", "more of them are left out; a public number", mode="numeric"),
        ),
        "values too many or too few, in 95% of draws",
    ),
    "histogram": Kind(
        Histogram, "Distribution", "How many rows lie between public edges.",
        (_COLUMN, Field("edges", "Edges", "such as 0, 10, 20, 50, 100"), _ROWS), "rows in each range, in 95% of draws",
    ),
    "look": Kind(
        Profile, "Look for a cap", "One private look at how much people contribute. From it, every later plan for a total is free.",
        (_COLUMN, Field("upper", "Largest total worth considering", "of one person; a public number", mode="decimal")),
        "people in each bin, in 95% of draws",
    ),
}  # fmt: skip
KINDS: Mapping[str, Kind] = _KINDS


def fields_of(kind: str, given: Mapping[str, str], columns: Mapping[str, str], hidden: str | None,
              looks: tuple[tuple[str, str], ...], problem: str = "") -> list[Field]:  # fmt: skip
    """The fields of a form as they were filled, with their choices; a problem stands at the field that it names.

    The ``hidden`` column says whose a row is; nobody adds that up.
    """
    numbers = tuple((name, name) for name, found in columns.items() if found in _NUMBERS and name != hidden)
    every = (("", "nothing: one answer"), *((name, name) for name in columns if name != hidden))
    any_column = tuple((name, name) for name in columns if name != hidden)
    choices = {
        "column": any_column if kind == "distinct" else numbers or any_column,
        "by": every,
        "look": (("", "none"), *looks),
    }
    wished = [each for each in KINDS[kind].fields if each.name != "look" or looks]
    at = _field_of(problem, wished)
    return [
        replace(
            each, value=given.get(each.name, each.value), options=choices.get(each.name, ()),
            problem=problem if each.name == at else "",
        )
        for each in wished
    ]  # fmt: skip


def _field_of(problem: str, fields: list[Field]) -> str:
    """The field that a refusal speaks of first, by its name."""
    places = {each.name: re.search(rf"\b{each.name}\b", problem) for each in fields}
    found = {name: match.start() for name, match in places.items() if match}
    return min(found, key=lambda name: found[name], default="")


def is_filled(kind: str, given: Mapping[str, str]) -> bool:
    """Whether everything that a question needs was filled in."""
    needed = [each.name for each in KINDS[kind].fields if not each.optional]
    enough = all(given.get(name, "").strip() for name in needed)
    return enough and (kind != "sum" or bool(given.get("cap", "").strip() or given.get("look")))


def wishes(kind: str, given: Mapping[str, str], columns: Mapping[str, str], look: Any = None) -> dict[str, Any]:
    """The fields of the task, without its price; a ``look`` stands for the cap where one was chosen."""
    texts = {each.name: given.get(each.name, "").strip() for each in KINDS[kind].fields}
    found: dict[str, Any] = {
        name: text for name, text in texts.items() if text and name not in ("by", "keys", "look", "edges")
    }
    if "column" in texts and texts["column"] not in columns:
        raise InvalidTask(f"column must be one of {', '.join(columns)}.")
    if texts.get("edges"):
        found["edges"] = [each.strip() for each in texts["edges"].split(",")]
    if texts.get("by"):
        found |= _grouped(texts["by"], texts.get("keys", ""), columns)
    if "cap" in found:
        found["cap"] = _whole(found["cap"])
    return {**found, "cap": look} if look is not None else found


def _grouped(by: str, keys: str, columns: Mapping[str, str]) -> dict[str, Any]:
    if by not in columns:
        raise InvalidTask(f"by must be one of {', '.join(columns)}.")
    if keys.startswith("@"):  # which names a file on a command line
        raise InvalidTask("keys are typed here one by one; one that begins with @ stands in double quotes.")
    if not keys:
        raise InvalidTask("keys must name the values to count, separated by commas: which values there are is private.")
    tidy = ",".join(part.strip() for part in keys.split(",")) if '"' not in keys else keys
    return {"by": by, "keys": keys_typed(tidy, by, columns)}


def _whole(text: str) -> Any:
    number = exact(text, "cap")
    return int(number) if number.denominator == 1 else text


def priced(kind: str, wished: Mapping[str, Any], price: str, terms: Terms) -> Any:
    """The task at a price: an epsilon, or a mu where the account has no delta to read one at."""
    return KINDS[kind].task(**wished, **{_price_name(terms): price})


def _price_name(terms: Terms) -> str:
    return "epsilon" if terms.epsilon is not None else "mu"


def currency(terms: Terms) -> str:
    """The letter of what is spent."""
    return "ε" if terms.epsilon is not None else "μ"


def as_python(task: Any, name: str, key: str, origin: str) -> str:
    """The same question as a program would ask it."""
    given = ", ".join(f"{each}={_spelled(value)}" for each, value in _given(task))
    lines = [
        "import os", "import steelyard as sy", "",
        f'server = sy.connect("{origin}", token=os.environ["STEELYARD_TOKEN"])',
        f"session = server[{name!r}]",
        f"task = sy.{type(task).__name__}({given})",
        f"answer = session.release(task, key={key!r})",
    ]  # fmt: skip
    return "\n".join(lines)


def _given(task: Any) -> list[tuple[str, Any]]:
    """What was said of a task, apart from its defaults."""
    fields = type(task).__dataclass_fields__
    return [(name, getattr(task, name)) for name in fields if getattr(task, name) != fields[name].default]


def _spelled(value: Any) -> str:
    if hasattr(value, "histogram"):
        return "profile"
    if hasattr(value, "denominator") and not isinstance(value, bool | int):
        return repr(decimal_text(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_spelled, value))}]"
    return repr(value)
