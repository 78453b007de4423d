"""Aggregates as a person types them, several in one request: ``"mean amount lower=0 upper=200"`` beside ``"count cap=20"``.

A part is the name of a command, its columns and its options, each ``name=value`` as the task has it. What is not said of a price is
an equal share of the whole one; by and keys are said once for all.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

from steelyard import bounding
from steelyard.accounting import mu_request
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO, Currency, Terms, positive, whole_number

KINDS = {
    "sum": ("Sum", ("column",)),
    "count": ("Count", ()),
    "count-users": ("CountUsers", ()),
    "count-distinct": ("CountDistinct", ("column",)),
    "ratio": ("Ratio", ("column", "over")),
    "mean": ("Mean", ("column",)),
    "variance": ("Variance", ("column",)),
    "std": ("Std", ("column",)),
    "median": ("Median", ("column",)),
    "quantile": ("Quantile", ("column",)),
    "histogram": ("Histogram", ("column",)),
    "top-k": ("TopK", ("column",)),
}
"""The task and the columns of each kind of part."""

_SHARED = ("by", "keys")
_LISTS = ("edges", "quantile", "values")
_WHOLE = ("max_keys", "rows_per_key", "k")
_TOTALS = ("Sum", "Count", "Ratio")


def part_typed(text: str) -> tuple[Any, dict[str, Any]]:
    """The class of a part and what was said of it.

    >>> kind, said = part_typed("quantile age lower=0 upper=110 cap=1 quantile=0.25,0.75")
    >>> kind.__name__, said["column"], said["quantile"]
    ('Quantile', 'age', ['0.25', '0.75'])
    """
    try:
        words = shlex.split(text)
    except ValueError:
        raise InvalidTask(f"a part has a quotation mark without its other half: {text[:60]!r}.") from None
    name = words[0] if words else ""
    if name not in KINDS:
        raise InvalidTask(f"a part begins with one of {', '.join(KINDS)}; got {text[:60]!r}.")
    class_name, places = KINDS[name]
    kind = getattr(bounding, class_name)
    columns, options = [word for word in words[1:] if "=" not in word], [word for word in words[1:] if "=" in word]
    if len(columns) != len(places):
        wanted = " and ".join(places) or "no column"
        raise InvalidTask(f"{name!r} takes {wanted}, then options as name=value; got {text[:60]!r}.")
    known = [each.name for each in fields(kind) if each.name not in (*places, *_SHARED)]
    said: dict[str, Any] = dict(zip(places, columns, strict=True))
    for option, _, value in (word.partition("=") for word in options):
        if option not in known or option in said:
            once = "twice" if option in said else f"and {name!r} has no such option; it has {', '.join(known)}"
            raise InvalidTask(f"{option!r} stands in {text[:60]!r} {once}.")
        said[option] = _value(class_name, option, value)
    return kind, said


def _value(kind: str, option: str, value: str) -> Any:
    if option in _WHOLE or (option == "cap" and value != "auto" and kind not in _TOTALS):
        return whole_number(value)
    if option in _LISTS and ("," in value or option != "quantile"):
        return value.split(",")
    return {"true": True, "false": False}.get(value, value)


def together_typed(texts: Sequence[str], price: Mapping[str, Any], shared: Mapping[str, Any], terms: Terms) -> Any:
    """All parts as one request; ``price`` is that of the whole, ``shared`` are by, keys and the limit for keys that are found."""
    parts = [part_typed(text) for text in texts]
    alone = [place for place, (_, said) in enumerate(parts) if "epsilon" not in said and "mu" not in said]
    if len(alone) not in (0, len(parts)):
        raise InvalidTask("either every part says its epsilon (or mu), or none does and --epsilon is shared equally.")
    if alone and all(value is None for value in price.values()):
        raise InvalidTask("give --epsilon (or --mu) for all parts together, or each its own as epsilon=... .")
    if not alone and any(value is not None for value in price.values()):
        raise InvalidTask("every part says its own price; leave --epsilon and --mu out.")
    each = equal_shares(price, len(parts), terms) if alone else {}
    found = shared.get("max_keys") if shared.get("keys") is None else None
    keys = {name: shared.get(name) for name in _SHARED} | ({} if found is None else {"max_keys": found})
    return bounding.Together([kind(**each, **keys, **said) for kind, said in parts])


def equal_shares(price: Mapping[str, Any], parts: int, terms: Terms) -> dict[str, Any]:
    """What each of so many aggregates may spend: an equal part of epsilon, or of mu squared."""
    given = {name: value for name, value in price.items() if value is not None}
    if parts == 1 or terms.currency is not Currency.GAUSSIAN:
        return {name: positive(value, name) / parts for name, value in given.items()}
    if "mu" in given:
        micro = math.floor(positive(given["mu"], "mu") * MICRO)
    else:
        micro = mu_request(positive(given["epsilon"], "epsilon"), terms.filter_delta)
    return {"mu": Fraction(math.isqrt(micro * micro // parts), MICRO)}


def part_columns(texts: Sequence[str]) -> list[str]:
    """The columns that parts add up: numbers in a file that states no types."""
    told = [part_typed(text) for text in texts]
    counted = ("CountDistinct", "TopK")
    return [
        said[name]
        for kind, said in told
        for name in ("column", "over")
        if name in said and kind.__name__ not in counted
    ]
