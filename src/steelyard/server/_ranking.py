"""Ranks that say what is known: where intervals overlap, a rank is a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def ranked(entries: Sequence[dict[str, Any]], *, higher_is_better: bool = True) -> list[dict[str, Any]]:
    """Entries with ``value``, ``low`` and ``high``, best first, each with the ranks it may have from ``rank`` to ``rank_to``.

    >>> teams = [{"team": "a", "value": 0.8, "low": 0.75, "high": 0.85}, {"team": "b", "value": 0.5, "low": 0.45, "high": 0.55}]
    >>> [(each["team"], each["rank"], each["rank_to"]) for each in ranked(teams)]
    [('a', 1, 1), ('b', 2, 2)]
    >>> close = [{"team": "a", "value": 0.8, "low": 0.7, "high": 0.9}, {"team": "b", "value": 0.79, "low": 0.7, "high": 0.9}]
    >>> [(each["team"], each["rank"], each["rank_to"]) for each in ranked(close)]
    [('a', 1, 2), ('b', 1, 2)]
    """
    sign = 1 if higher_is_better else -1
    ordered = sorted(entries, key=lambda each: -sign * each["value"])
    return [
        {
            **each,
            "rank": 1 + sum(_above(other, each, sign) for other in ordered),
            "rank_to": len(ordered) - sum(_above(each, other, sign) for other in ordered),
        }
        for each in ordered
    ]


def _above(one: dict[str, Any], other: dict[str, Any], sign: int) -> bool:
    """Whether one is certainly better than the other."""
    return bool(one["low"] > other["high"]) if sign > 0 else bool(one["high"] < other["low"])
