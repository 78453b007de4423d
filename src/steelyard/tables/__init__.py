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
    from steelyard.tables._classes import check_kinds, codes, in_order
    from steelyard.tables._entries import decoded, entries_of, finite_of, is_untyped, kind_of, numbers_of, texts_of
    from steelyard.tables._files import is_csv, read_column, scan
    from steelyard.tables._joint import WIDEST_SQUARED, Joint, moments, sides
    from steelyard.tables._keyed import Bins, Capped
    from steelyard.tables._keys import LISTED, KeyDigest, KeyList, Keys, check_list, keys, months, read_keys
    from steelyard.tables._paper import PaperTable
    from steelyard.tables._sampling import Limits
    from steelyard.tables._schema import Schema, as_written
    from steelyard.tables._sources import read
    from steelyard.tables._table import Table
    from steelyard.tables._totals import LIMIT, Bounded, Quantity
    from steelyard.tables._unit_blocks import HeldBlocks, UnitBlocks
    from steelyard.tables._views import PublicTable, chosen, public, view, view_of

__all__ = [
    "LIMIT",
    "LISTED",
    "WIDEST_SQUARED",
    "Bins",
    "Bounded",
    "Capped",
    "HeldBlocks",
    "Joint",
    "KeyDigest",
    "KeyList",
    "Keys",
    "Limits",
    "PaperTable",
    "PublicTable",
    "Quantity",
    "Schema",
    "Table",
    "UnitBlocks",
    "as_written",
    "check_kinds",
    "check_list",
    "chosen",
    "codes",
    "decoded",
    "entries_of",
    "finite_of",
    "in_order",
    "is_csv",
    "is_untyped",
    "keys",
    "kind_of",
    "moments",
    "months",
    "numbers_of",
    "public",
    "read",
    "read_column",
    "read_keys",
    "scan",
    "sides",
    "texts_of",
    "view",
    "view_of",
]
_HOMES = {
    "_classes": ("check_kinds", "codes", "in_order"),
    "_entries": ("decoded", "entries_of", "finite_of", "is_untyped", "kind_of", "numbers_of", "texts_of"),
    "_files": ("is_csv", "read_column", "scan"),
    "_joint": ("WIDEST_SQUARED", "Joint", "moments", "sides"),
    "_keyed": ("Bins", "Capped"),
    "_keys": ("LISTED", "KeyDigest", "KeyList", "Keys", "check_list", "keys", "months", "read_keys"),
    "_paper": ("PaperTable",),
    "_sampling": ("Limits",),
    "_schema": ("Schema", "as_written"),
    "_sources": ("read",),
    "_table": ("Table",),
    "_totals": ("Bounded", "LIMIT", "Quantity"),
    "_unit_blocks": ("HeldBlocks", "UnitBlocks"),
    "_views": ("PublicTable", "chosen", "public", "view", "view_of"),
}
__getattr__ = loading(__name__, _HOMES)
