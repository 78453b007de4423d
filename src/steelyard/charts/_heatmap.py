"""A matrix as a picture: the probabilities of a mechanism, one shaded cell for each pair.

Shades run from the paper to a middle tone that dark and light text both stand out from; negative cells are warm.
A matrix too fine to see is drawn by blocks, each showing its largest cell, and the caption says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.charts._chart import Chart, Sheet, both_widths
from steelyard.charts._marks import fit, measure, one_line, tag, text
from steelyard.charts._scales import Number, columns, short

_MOST = 64
_Cells = list[list[float | None]]


@both_widths
def matrix(values: Sequence[Sequence[Number]], *, down: Sequence[object], across: Sequence[object], title: str,
           subtitle: str = "", caption: str = "", x_title: str = "", y_title: str = "") -> Chart:  # fmt: skip
    """A heat map with its numbers written in where there is room."""
    cells = [columns(across=[0] * len(across), cells=line)[1] for line in values]
    columns(down=[0] * len(down), rows=[0] * len(cells))
    tall, wide = -(-len(down) // _MOST) or 1, -(-len(across) // _MOST) or 1
    if tall > 1 or wide > 1:
        caption = f"{caption} Each cell shows the largest of {tall} × {wide}.".strip()
    sheet = Sheet(title, subtitle, caption)
    blocks = _blocks(cells, tall, wide)
    seen = [cell for line in blocks for cell in line if cell is not None]
    if not seen:
        return sheet.nothing()
    _draw(sheet, blocks, _words(down)[::tall], _words(across)[::wide], max(map(abs, seen)), x_title, y_title)
    _ramp(sheet, min(seen), max(map(abs, seen)))
    return sheet.chart(f"{len(down)} rows and {len(across)} columns, from {short(min(seen))} to {short(max(seen))}.")


def _words(names: Sequence[object]) -> list[str]:
    return [one_line(str(name)) for name in names]


def _draw(sheet: Sheet, cells: _Cells, down: Sequence[str], across: Sequence[str], largest: float, x_title: str,
          y_title: str) -> None:  # fmt: skip
    # Whole pixels, or hair-lines of paper show between the cells.
    left = sheet.margin + round(min(max(map(measure, (*down, y_title + " ↓"))), 150)) + 10
    width = min((sheet.right - left) // len(across), 64.0)
    height = min(max(360 // len(down), 4.0), 40.0, max(width, 22.0))
    top = round(sheet.y) + (26 if x_title or y_title else 8) + 20
    _names(sheet, across, down, left, top, width, height, x_title, y_title)
    for r, line in enumerate(cells):
        for c, cell in enumerate(line):
            if cell is not None:
                _cell(sheet, cell, largest, left + c * width, top + r * height, width, height,
                      f"{down[r]}, {across[c]}: {short(cell)}")  # fmt: skip
    sheet.add(tag("rect", x=left - 0.5, y=top - 0.5, width=len(across) * width, height=len(down) * height, fill="none",
                  stroke="grid"))  # fmt: skip
    sheet.y = top + len(down) * height + 6


def _blocks(cells: _Cells, tall: int, wide: int) -> _Cells:
    def largest(r: int, c: int) -> float | None:
        block = [cell for line in cells[r : r + tall] for cell in line[c : c + wide] if cell is not None]
        return max(block, key=abs, default=None)

    across = len(cells[0]) if cells else 0
    return [[largest(r, c) for c in range(0, across, wide)] for r in range(0, len(cells), tall)]


def _names(sheet: Sheet, across: Sequence[str], down: Sequence[str], left: float, top: float, width: float,
           height: float, x_title: str, y_title: str) -> None:  # fmt: skip
    if x_title:
        sheet.add(text(left, top - 28, f"{fit(x_title, sheet.right - left - 20)} →"))
    if y_title:
        sheet.add(text(left - 10, top - 28, f"{fit(y_title, 130)} ↓", anchor="end"))
    free = 0.0
    stride = -(-int(max(measure(fit(name, 90)) for name in across) + 8) // int(max(width, 1)))
    for c in range(0, len(across), stride):
        name = fit(across[c], 90)
        half = measure(name) / 2
        place = min(left + (c + 0.5) * width, sheet.width - 6 - half)
        if place - half >= free:
            sheet.add(text(place, top - 8, name, anchor="middle"))
            free = place + half
    for r in range(0, len(down), -(-18 // max(int(height), 1))):
        sheet.add(text(left - 10, top + (r + 0.5) * height + 4, fit(down[r], 150), anchor="end"))


def _cell(sheet: Sheet, cell: float, largest: float, x: float, y: float, width: float, height: float,
          hint: str) -> None:  # fmt: skip
    gap = 1.0 if width > 10 else 0.0
    sheet.add(tag("rect", tag("title", hint), x=x, y=y, width=width - gap, height=height - gap,
                  fill="heat" if cell >= 0 else "cold", fill_opacity=abs(cell) / (largest or 1),
                  shape_rendering="crispEdges"))  # fmt: skip
    words = _said(cell, largest)
    if measure(words, 11) < width - 4 and height >= 16:
        sheet.add(text(x + (width - gap) / 2, y + height / 2 + 4, words, size=11, fill="ink", anchor="middle"))


def _said(cell: float, largest: float) -> str:
    """Two decimals among probabilities; one that is small but possible must not read as zero."""
    if largest > 1 or cell == 0:
        return short(cell)
    return short(round(cell, 2)) if abs(cell) >= 0.005 else "<0.01" if cell > 0 else ">−0.01"


def _ramp(sheet: Sheet, smallest: float, largest: float) -> None:
    lowest = -largest if smallest < 0 else 0.0
    sheet.y += 22
    x = sheet.margin + measure(short(lowest)) + 8
    sheet.add(text(sheet.margin, sheet.y, short(lowest)), text(x + 128, sheet.y, short(largest)))
    sheet.add(tag("rect", x=x, y=sheet.y - 10, width=120, height=12, fill="none", stroke="grid"))
    for i in range(12):
        value = i / 11 if lowest == 0 else i / 5.5 - 1
        sheet.add(tag("rect", x=x + i * 10, y=sheet.y - 10, width=10, height=12, fill="heat" if value >= 0 else "cold",
                      fill_opacity=abs(value)))  # fmt: skip
