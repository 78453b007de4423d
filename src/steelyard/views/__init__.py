"""Views: what may stand between a stored table and a question without mixing people.

One checker over one syntax tree, deny by default. It checks a statement and translates it in the same pass, so that what runs is what
was checked and nothing else (docs/proofs/views.md). It knows no engine and reads no row: it is given relations by name and gives one back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.views._parsing import condition as condition
    from steelyard.views._parsing import expression as expression
    from steelyard.views._parsing import query as query
    from steelyard.views._relation import Relation as Relation
    from steelyard.views._relation import private_leaf as private_leaf
    from steelyard.views._relation import public_leaf as public_leaf
    from steelyard.views._select import Checker as Checker

__all__: list[str] = []
__getattr__ = loading(
    __name__,
    {
        "_parsing": ("condition", "expression", "query"),
        "_relation": ("Relation", "private_leaf", "public_leaf"),
        "_select": ("Checker",),
    },
)
