"""A table on paper: the public schema in a table's place, for a process that may not see rows.

A session over one plans, prices and charges exactly as over the table itself, since all of that is decided on the schema and the
identity. Whatever would read a row is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from steelyard.errors import TableError
from steelyard.privacy import Unit
from steelyard.tables._identity import identify
from steelyard.tables._schema import Schema
from steelyard.tables._table import Table


class PaperTable(Table):
    """What is public about a table, without the table.

    ``name`` is the one given to ``read``, so that keys are bound to the same identity in both processes.

    >>> paper = PaperTable({"user": "integer", "amount": "float"}, name="spend")
    >>> paper.identity
    "the table named 'spend'"
    """

    def __init__(self, columns: Mapping[str, str], *, name: str) -> None:
        schema = Schema(columns)
        self.stored, self._identity = True, identify(None, name, {})
        self.view, self._awaiting, self.view_text = None, None, ""
        self.snapshot = nullcontext
        self.__dict__["schema"] = schema

    @property
    def _refusal(self) -> Any:
        raise TableError("this is a table on paper: it has columns and no rows, so it can be planned on and not read.")

    _rows = _base = _engine = _refusal

    def in_period(self, unit: Unit) -> Table:
        """Refused: whether a column of times tells the period is known of the table itself."""
        raise TableError(
            f"a table on paper cannot be planned on for {unit}; plan on the table itself, which is free too."
        )

    def place_of(self, work: Callable[[Table], object]) -> str:
        """Not known here."""
        return ""

    def __repr__(self) -> str:
        return f"PaperTable({', '.join(f'{name}: {kind}' for name, kind in list(self.columns.items())[:20])})"

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        return fragment("Table on paper", Tabular(("column", "kind"), list(self.columns.items())[:20]))
