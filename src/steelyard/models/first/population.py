"""A mean over n rows or users is only a mean if there are n: the account's n is compared with the table before any charge.

Neighbours that replace a row, or a user, have as many of them, so the count is the same for every table that an adversary
has to tell apart, and whether it equals a declared n tells nothing about anybody (docs/proofs/accuracy_first_paths.md).
Law: only accounts whose rows or users are replaced come here; everywhere else their number is secret.
"""

from __future__ import annotations

from steelyard.errors import NeighbourMismatch, TableError
from steelyard.privacy import Neighbours, Terms
from steelyard.tables import Table


def public_n(terms: Terms) -> int:
    """The n of an account that replaces rows or users; any other account hides it and is refused."""
    unit = terms.unit
    if unit.kind not in ("rows", "users") or unit.neighbours is not Neighbours.REPLACE or unit.n is None:
        how = f"users({unit.column!r}, " if unit.kind == "users" else "rows("
        raise NeighbourMismatch(
            "an accuracy is about the mean over n rows, or n users, so n must be public: open the account with "
            f"unit={how}neighbours='replace', n=...). This one hides {unit}."
        )
    return unit.n


def check_population(table: Table, terms: Terms) -> None:
    """Refuse a table whose number of rows, or users, is not the account's n."""
    n, kind = public_n(terms), terms.unit.kind
    found = table.count_units(terms.unit)
    if found != n:
        raise TableError(
            f"the account speaks of {n:,} {kind} and the table has {found:,}: a mean over one is none over the other. "
            "Open an account with the table's own n."
        )
