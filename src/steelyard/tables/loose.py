"""Columns without a type of their own: each entry becomes a text, or nothing, by itself.

A column of Python objects shows its type only in its values, so one odd entry would change what all others are, or make
the table refuse. Here the container's type alone decides: objects are text. Law: no entry changes another, and none raises.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any
from uuid import UUID

from steelyard.interrupts import INTERRUPTS


def text_of(entry: Any) -> str | None:
    """One entry as a text; what has no name (missing, NaN, an infinity, no plain value at all) is None.

    >>> text_of(7), text_of(7.0), text_of("ann"), text_of(float("nan"))
    ('7', '7', 'ann', None)
    """
    try:
        if isinstance(entry, str):
            return entry.encode("utf-8", "backslashreplace").decode()
        if isinstance(entry, bytes):
            return f"bytes {entry.hex()}"
        if isinstance(entry, date | UUID) or type(entry).__name__ in ("datetime64", "Timestamp"):
            return str(entry) if entry == entry else None
        return _number(entry) if isinstance(entry, Real | Decimal) or type(entry).__name__.startswith("bool") else None
    except INTERRUPTS:
        raise
    except BaseException:  # whatever an entry's own type raises would tell something about it
        return None


def _number(entry: Any) -> str | None:
    if entry != entry:
        return None
    return str(int(entry)) if entry == int(entry) else repr(float(entry))
