"""What the tables must answer, in plain Python over a list of rows: the oracle of every engine."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from steelyard.privacy import Unit
from steelyard.tables import Capped, Limits, Quantity

Row = dict[str, Any]
SATURATION = 2**50


def identity(value: Any) -> Any:
    """One zero; NaN is nobody."""
    if isinstance(value, float):
        return None if math.isnan(value) else value + 0.0
    return value


def totals(rows: Sequence[Row], unit: Unit, quantity: Quantity) -> list[int]:
    """Each unit's total."""
    sums: dict[Any, int] = defaultdict(int)
    for number, row in enumerate(rows):
        owner = number if unit.column is None else identity(row[unit.column])
        if owner is not None:
            sums[owner] += quantity.integer(row[quantity.column] if quantity.column else None)
    return list(sums.values())


def capped_sum(rows: Sequence[Row], unit: Unit, quantity: Quantity, lower: int, upper: int) -> int:
    """The sum of the clamped totals."""
    return sum(max(lower, min(upper, total)) for total in totals(rows, unit, quantity))


def histogram(rows: Sequence[Row], unit: Unit, quantity: Quantity, edges: Sequence[int]) -> list[int]:
    """Units per bin, the outer bins open."""
    counts = [0] * (len(edges) - 1)
    for total in totals(rows, unit, quantity):
        counts[sum(total >= edge for edge in edges[1:-1])] += 1
    return counts


def sums_by_key(
    rows: Sequence[Row],
    unit: Unit,
    part: Capped,
    by: str | Sequence[str],
    keys: Sequence[Any],
    limits: Limits | None = None,
) -> list[int]:
    """Capped sums for public keys, with every bound done by exact integers."""
    bounds = limits or Limits()
    max_keys, rows_per_key, secret = bounds.max_keys, bounds.rows_per_key, bounds.secret
    owned: dict[Any, dict[Any, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, row in enumerate(rows):
        owner = number if unit.column is None else identity(row[unit.column])
        key = identity(row[by]) if isinstance(by, str) else tuple(identity(row[name]) for name in by)
        if owner is not None and key in keys:
            value = part.quantity.integer(row[part.quantity.column] if part.quantity.column else None)
            owned[owner][key].append(value)
    answer = dict.fromkeys(keys, 0)
    for owner, lists in owned.items():
        vector = {}
        for key, values in lists.items():
            place = list(keys).index(key)  # what is hashed of a public key
            kept = values if rows_per_key is None else sample(values, rows_per_key, secret, owner, place)
            vector[key] = max(-SATURATION, min(SATURATION, sum(kept)))
        if max_keys is not None and len(vector) > max_keys:
            places = {key: list(keys).index(key) for key in vector}
            order = sorted(vector, key=lambda key: (digest(secret, text(owner) + text(places[key])), places[key]))
            vector = {key: vector[key] for key in order[:max_keys]}
        for key, value in scale(vector, part).items():
            answer[key] += value
    return [answer[key] for key in keys]


def found_units(rows: Sequence[Row], unit: Unit, by: Sequence[str], most: int, secret: bytes) -> dict[Any, int]:
    """How many units stand under each key, each under at most so many."""
    owned: dict[Any, set[Any]] = defaultdict(set)
    for row in rows:
        owner, key = identity(row[str(unit.column)]), tuple(identity(row[name]) for name in by)
        if owner is not None and None not in key:
            owned[owner].add(key)
    answer: Counter[Any] = Counter()
    for owner, found in owned.items():
        order = sorted(found, key=lambda key: (digest(secret, text(owner) + "".join(map(text, key))), key))
        answer.update(order[:most])
    return dict(answer)


def scale(vector: dict[Any, int], part: Capped) -> dict[Any, int]:
    """Toward zero, into the ball of radius ``cap``."""
    if part.norm == "l1":
        norm = sum(map(abs, vector.values()))
    else:
        square = sum(value**2 for value in vector.values())
        norm = math.isqrt(square)
        norm += norm**2 < square
    if norm <= part.cap:
        return vector
    return {key: int(math.copysign(1, value)) * (abs(value) * part.cap // norm) for key, value in vector.items()}


def text(value: Any) -> str:
    """A value with its length before it."""
    if value is None:
        return "-:"
    word = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{len(word)}:{word}"


def digest(secret: bytes, content: str) -> str:
    """Sixty-four bits of the keyed digest, as text."""
    key = hashlib.sha256(secret).hexdigest()[:32]
    return hashlib.sha256((key + content).encode()).hexdigest()[:16]


def sample(values: Sequence[int], limit: int, secret: bytes, owner: Any, key: Any) -> list[int]:
    """At most ``limit`` of a unit's rows under a key, in the order of their digests."""
    if len(values) <= limit:
        return list(values)
    seen: Counter[int] = Counter()
    order = []
    for value in values:
        content = text(owner) + text(key) + text(value)
        order.append((digest(secret, content + str(seen[value])), value))
        seen[value] += 1
    return [value for _, value in sorted(order)[:limit]]


def kept_rows(rows: Sequence[Row], column: str, columns: Sequence[str], limit: int, secret: bytes) -> list[Row]:
    """At most ``limit`` rows of each unit, in the order of their digests."""
    owned: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        if identity(row[column]) is not None:
            owned[identity(row[column])].append(row)
    kept: list[Row] = []
    for owner, mine in owned.items():
        seen: Counter[str] = Counter()
        order = []
        for row in mine:
            content = "".join(text(row[name]) for name in columns) + text(owner)
            order.append((digest(secret, content + str(seen[content])), content, seen[content], row))
            seen[content] += 1
        chosen = sorted(order, key=lambda each: each[:3])[:limit] if len(mine) > limit else order
        kept.extend(each[3] for each in chosen)
    return kept
