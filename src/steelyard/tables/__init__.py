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
    from steelyard.tables._classes import check_kinds as check_kinds
    from steelyard.tables._classes import codes as codes
    from steelyard.tables._classes import in_order as in_order
    from steelyard.tables._compiled import compiled
    from steelyard.tables._entries import decoded as decoded
    from steelyard.tables._entries import entries_of as entries_of
    from steelyard.tables._entries import finite_of as finite_of
    from steelyard.tables._entries import is_untyped as is_untyped
    from steelyard.tables._entries import kind_of as kind_of
    from steelyard.tables._entries import numbers_of as numbers_of
    from steelyard.tables._entries import texts_of as texts_of
    from steelyard.tables._files import is_csv as is_csv
    from steelyard.tables._files import read_column as read_column
    from steelyard.tables._files import scan as scan
    from steelyard.tables._joint import WIDEST_SQUARED as WIDEST_SQUARED
    from steelyard.tables._joint import Joint as Joint
    from steelyard.tables._joint import moments as moments
    from steelyard.tables._joint import sides as sides
    from steelyard.tables._keyed import Bins as Bins
    from steelyard.tables._keyed import Capped as Capped
    from steelyard.tables._keys import LISTED as LISTED
    from steelyard.tables._keys import KeyDigest as KeyDigest
    from steelyard.tables._keys import KeyList as KeyList
    from steelyard.tables._keys import Keys, keys, months
    from steelyard.tables._keys import check_list as check_list
    from steelyard.tables._keys import read_keys as read_keys
    from steelyard.tables._paper import PaperTable
    from steelyard.tables._rehearsal import Work as Work
    from steelyard.tables._rehearsal import rehearsed as rehearsed
    from steelyard.tables._sampling import Limits as Limits
    from steelyard.tables._schema import Schema
    from steelyard.tables._schema import as_written as as_written
    from steelyard.tables._sources import read
    from steelyard.tables._spark import spark_frame as spark_frame
    from steelyard.tables._spark_files import SparkRecords as SparkRecords
    from steelyard.tables._table import Table
    from steelyard.tables._totals import LIMIT as LIMIT
    from steelyard.tables._totals import Bounded as Bounded
    from steelyard.tables._totals import Quantity as Quantity
    from steelyard.tables._unit_blocks import HeldBlocks as HeldBlocks
    from steelyard.tables._unit_blocks import UnitBlocks as UnitBlocks
    from steelyard.tables._views import PublicTable, public, view
    from steelyard.tables._views import chosen as chosen
    from steelyard.tables._views import view_of as view_of

__all__ = [
    "Capped",
    "Keys",
    "Limits",
    "PaperTable",
    "PublicTable",
    "Quantity",
    "Schema",
    "Table",
    "compiled",
    "keys",
    "months",
    "public",
    "read",
    "view",
]
_HOMES = {
    "_classes": ("check_kinds", "codes", "in_order"),
    "_compiled": ("compiled",),
    "_entries": ("decoded", "entries_of", "finite_of", "is_untyped", "kind_of", "numbers_of", "texts_of"),
    "_files": ("is_csv", "read_column", "scan"),
    "_joint": ("WIDEST_SQUARED", "Joint", "moments", "sides"),
    "_keyed": ("Bins", "Capped"),
    "_keys": ("LISTED", "KeyDigest", "KeyList", "Keys", "check_list", "keys", "months", "read_keys"),
    "_paper": ("PaperTable",),
    "_rehearsal": ("Work", "rehearsed"),
    "_sampling": ("Limits",),
    "_schema": ("Schema", "as_written"),
    "_sources": ("read",),
    "_spark": ("spark_frame",),
    "_spark_files": ("SparkRecords",),
    "_table": ("Table",),
    "_totals": ("Bounded", "LIMIT", "Quantity"),
    "_unit_blocks": ("HeldBlocks", "UnitBlocks"),
    "_views": ("PublicTable", "chosen", "public", "view", "view_of"),
}
__getattr__ = loading(__name__, _HOMES)
