"""Every picture in one place: plain numbers in, a ``Chart`` or a ``Report`` out.

Charts know no capability, no table and no ledger. They are hand-written SVG and need nothing installed; only PNG
needs the extra ``charts``.

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
    from steelyard.charts._report import Code, Figure, Figures, Report, Section, Tabular
    from steelyard.charts._rows import Spending, bars, budget, intervals

__all__ = [
    "Chart",
    "Code",
    "Figure",
    "Figures",
    "Line",
    "Report",
    "Section",
    "Spending",
    "Tabular",
    "bars",
    "budget",
    "check_target",
    "intervals",
    "lines",
    "matrix",
    "tradeoff",
]
_HOMES = {
    "_chart": ("Chart", "check_target"),
    "_curves": ("Line", "lines", "tradeoff"),
    "_heatmap": ("matrix",),
    "_report": ("Code", "Figure", "Figures", "Report", "Section", "Tabular"),
    "_rows": ("Spending", "bars", "budget", "intervals"),
}
__getattr__ = loading(__name__, _HOMES)
