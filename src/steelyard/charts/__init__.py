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
    from steelyard.charts._chart import Chart
    from steelyard.charts._chart import check_target as check_target
    from steelyard.charts._curves import Line, lines, tradeoff
    from steelyard.charts._heatmap import matrix
    from steelyard.charts._marks import printable as printable
    from steelyard.charts._page import stylesheet as stylesheet
    from steelyard.charts._report import Block as Block
    from steelyard.charts._report import Code as Code
    from steelyard.charts._report import Figure as Figure
    from steelyard.charts._report import Figures as Figures
    from steelyard.charts._report import Report as Report
    from steelyard.charts._report import Section as Section
    from steelyard.charts._report import Tabular as Tabular
    from steelyard.charts._report import fragment as fragment
    from steelyard.charts._rows import Spending as Spending
    from steelyard.charts._rows import bars, intervals
    from steelyard.charts._rows import budget as budget
    from steelyard.charts._scales import at_error as at_error
    from steelyard.charts._scales import short as short

__all__ = ["Chart", "Line", "bars", "intervals", "lines", "matrix", "tradeoff"]
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
