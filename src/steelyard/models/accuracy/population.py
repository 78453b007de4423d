"""A mean over n rows or users needs an n: the account's own, which is one of its terms and taken at its word.

No row is counted to see whether it is true: another account may hide how many rows the same table has. Sensitivities do
not rest on it. A false n makes every mean a total over n, and the certificate says on what it rests
(docs/proofs/accuracy_first_paths.md).
Law: nothing here sees a table.
"""

from __future__ import annotations

from steelyard.errors import NeighbourMismatch
from steelyard.privacy import Neighbours, Terms


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
