"""Charts on a page, each followed by its numbers as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from steelyard.charts import Chart

_ROWS = 200


@dataclass(frozen=True)
class Picture:
    """A chart as markup of our own, and the same numbers as rows."""

    picture: Markup
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    caption: str = "The same numbers as a table"


def shown(chart: Chart, header: Sequence[str] = (), rows: Sequence[Sequence[str]] = (), caption: str = "") -> Picture:
    """A chart and its table; ``Chart`` escapes its texts itself."""
    more = f" (the first {_ROWS} of {len(rows):,})" if len(rows) > _ROWS else ""
    said = caption or "The same numbers as a table"
    return Picture(Markup(chart.figure().xml()), header, rows[:_ROWS], said + more)
