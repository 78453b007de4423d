"""Every picture in one place: plain numbers in, a ``Chart`` or a ``Report`` out.

Charts know no capability, no table and no ledger. They are hand-written SVG and need nothing installed; only PNG
needs the extra ``charts``. Each is drawn twice, for a page and for a telephone; a page shows the one that fits.

>>> from steelyard.charts import tradeoff
>>> chart = tradeoff(caps=[1, 10, 100], noise=[1, 10, 100], bias=[90, 8, 0], total=[91, 18, 100])
>>> chart.svg().startswith("<svg")
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.charts._chart import Chart, check_target
    from steelyard.charts._curves import Line, lines, tradeoff
    from steelyard.charts._heatmap import matrix
    from steelyard.charts._marks import printable
    from steelyard.charts._page import stylesheet
    from steelyard.charts._report import Block, Code, Figure, Figures, Report, Section, Tabular, fragment
    from steelyard.charts._rows import Spending, bars, budget, intervals
    from steelyard.charts._scales import at_error, short

__all__ = [
    "Block",
    "Chart",
    "Code",
    "Figure",
    "Figures",
    "Line",
    "Report",
    "Section",
    "Spending",
    "Tabular",
    "at_error",
    "bars",
    "budget",
    "check_target",
    "fragment",
    "intervals",
    "lines",
    "matrix",
    "printable",
    "short",
    "stylesheet",
    "tradeoff",
]
_HOMES = {
    "_chart": ("Chart", "check_target"),
    "_curves": ("Line", "lines", "tradeoff"),
    "_heatmap": ("matrix",),
    "_marks": ("printable",),
    "_page": ("stylesheet",),
    "_report": ("Block", "Code", "Figure", "Figures", "Report", "Section", "Tabular", "fragment"),
    "_rows": ("Spending", "bars", "budget", "intervals"),
    "_scales": ("at_error", "short"),
}
__getattr__ = loading(__name__, _HOMES)
