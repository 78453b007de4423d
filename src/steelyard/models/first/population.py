"""A mean over n rows is only a mean if there are n rows: the account's n is compared with the table before any charge.

Neighbours that replace a row have the same number of rows, so the count is the same for every table that an adversary
has to tell apart, and whether it equals a declared n tells nothing about anybody (docs/proofs/accuracy_first_paths.md).
Law: only accounts whose rows are replaced come here; everywhere else the number of rows is secret.
"""

from __future__ import annotations

from steelyard.errors import NeighbourMismatch, TableError
from steelyard.privacy import Neighbours, Terms
from steelyard.tables import Table


def public_n(terms: Terms) -> int:
    """The n of an account that replaces rows; any other account hides it and is refused."""
    unit = terms.unit
    if unit.kind != "rows" or unit.neighbours is not Neighbours.REPLACE or unit.n is None:
        raise NeighbourMismatch(
            "an accuracy is about the mean over n rows, so n must be public: open the account with "
            f"unit=rows(neighbours='replace', n=...). This one hides {unit}."
        )
    return unit.n


def check_population(table: Table, terms: Terms) -> None:
    """Refuse a table whose number of rows is not the account's n."""
    n = public_n(terms)
    found = table.count_units(terms.unit)
    if found != n:
        raise TableError(
            f"the account speaks of {n:,} rows and the table has {found:,}: a mean over one is none over the other. "
            "Open an account with the table's own n."
        )
