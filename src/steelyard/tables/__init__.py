"""Private data behind a few questions: per-unit totals, capped sums, histograms, batches.

``read`` opens a table lazily; a ``Table`` answers only in integers whose change under one added or removed unit is
known in advance (docs/proofs/tables.md). Ibis writes every question once; DuckDB answers it by default, Spark when
one machine is too small. This is the only room that knows the engines, and it loads them only when asked; each name
loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.tables._entries import decoded, entries_of, finite_of, is_untyped, kind_of, numbers_of, texts_of
    from steelyard.tables._files import is_csv, read_column, scan
    from steelyard.tables._keyed import Bins, Capped
    from steelyard.tables._sampling import Limits
    from steelyard.tables._schema import Schema
    from steelyard.tables._sources import read
    from steelyard.tables._table import Table
    from steelyard.tables._totals import LIMIT, Bounded, Quantity

__all__ = [
    "LIMIT",
    "Bins",
    "Bounded",
    "Capped",
    "Limits",
    "Quantity",
    "Schema",
    "Table",
    "decoded",
    "entries_of",
    "finite_of",
    "is_csv",
    "is_untyped",
    "kind_of",
    "numbers_of",
    "read",
    "read_column",
    "scan",
    "texts_of",
]
_HOMES = {
    "_entries": ("decoded", "entries_of", "finite_of", "is_untyped", "kind_of", "numbers_of", "texts_of"),
    "_files": ("is_csv", "read_column", "scan"),
    "_keyed": ("Bins", "Capped"),
    "_sampling": ("Limits",),
    "_schema": ("Schema",),
    "_sources": ("read",),
    "_table": ("Table",),
    "_totals": ("Bounded", "LIMIT", "Quantity"),
}
__getattr__ = loading(__name__, _HOMES)
