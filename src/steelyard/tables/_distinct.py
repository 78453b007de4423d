"""How many different values there are, each unit counting for at most so many of its own.

Of each unit's different pairs of key and value the first ``cap`` are kept, in the order of a keyed digest of unit, key and value; a
value counts once under a key where any unit kept it there. All caps are answered in one pass: a value's place is the least that any
unit gives it.
Law: what is kept of a unit is a function of that unit's rows and the secret alone, so one unit changes the counts by at most ``cap``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steelyard.privacy import Unit
from steelyard.tables._keyed import whole
from steelyard.tables._sampling import Limits, content, digest_of, key_names
from steelyard.tables._totals import WIDE


def distinct(rows: Any, unit: Unit, caps: Sequence[int], limits: Limits) -> Any:
    """One row per key of rows ``(u, k, v)``: ``k``, the number of its values ``n``, and for each cap those kept ``s0``, ``s1``, …"""
    import ibis

    names = key_names(rows)
    if unit.column is None:
        placed = rows.select(*names, "v").distinct().mutate(r=whole(0))
    else:
        pairs = rows.select("u", *names, "v").distinct()
        told = pairs.mutate(d=digest_of(limits.secret, content(pairs, ["u", *names, "v"])))
        order = [told[name] for name in ("d", *names, "v")]
        placed = told.mutate(r=ibis.row_number().over(group_by=told.u, order_by=order))
    first = placed.group_by(*names, "v").agg(r=placed.r.min())
    kept = {f"s{i}": first.count(where=first.r < whole(cap)).cast(WIDE) for i, cap in enumerate(caps)}
    return first.group_by(*names).agg(n=first.count(), **kept)
