"""One row for each name: released values with their intervals, and bars with noise whiskers.

Rows leave room for long names on the left and say the numbers on the right, so that the picture can also be read
as a table. Rows without a number are left out, and the caption says how many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from steelyard.charts.chart import MARGIN, RIGHT, Chart, Sheet
from steelyard.charts.marks import Mark, fit, measure, one_line, tag, text
from steelyard.charts.numbers import Number, columns, short, with_error
from steelyard.charts.scales import Scale, scale

ROW = 28.0
_MOST = 40
_Row = tuple[str, float, float, float, float | None]


def intervals(labels: Sequence[object], values: Sequence[Number], lows: Sequence[Number], highs: Sequence[Number], *,
              truths: Sequence[Number] | None = None, title: str, subtitle: str = "", caption: str = "",
              x_title: str = "", confidence: str = "") -> Chart:  # fmt: skip
    """Released values with their intervals, beside the truth where it is known (generated data only)."""
    table = columns(labels=[0] * len(labels), values=values, lows=lows, highs=highs, truths=truths)
    rows = _whole(labels, table)
    sheet = Sheet(title, subtitle, _left_out(caption, len(labels), rows))
    if not rows:
        return sheet.nothing()
    keys = [(_whisker(0, -11, 11, "blue", dot=True), f"released, with {confidence or 'its'} interval")]
    if any(row[4] is not None for row in rows):
        keys.append((_truth(0, 0), "truth"))
    sheet.legend(keys)

    def draw(row: _Row, x: Scale, y: float) -> list[Mark]:
        truth = [] if row[4] is None else [_truth(x(row[4]), y)]
        return [*truth, _whisker(y, x(row[2]), x(row[3]), "blue", dot=True, at=x(row[1]))]

    numbers = [value for row in rows for value in row[1:] if isinstance(value, float)]
    return _rows(sheet, rows, numbers, draw, x_title)


def bars(labels: Sequence[object], values: Sequence[Number], errors: Sequence[Number] | None = None, *, title: str,
         subtitle: str = "", caption: str = "", x_title: str = "") -> Chart:  # fmt: skip
    """One bar for each group, with a whisker for its noise."""
    _, middle, error = columns(labels=[0] * len(labels), values=values, errors=errors)
    lows = [None if v is None else v - abs(e or 0) for v, e in zip(middle, error, strict=True)]
    highs = [None if v is None else v + abs(e or 0) for v, e in zip(middle, error, strict=True)]
    rows = _whole(labels, [middle, middle, lows, highs, [None] * len(middle)])
    sheet = Sheet(title, subtitle, _left_out(caption, len(labels), rows))
    if not rows:
        return sheet.nothing()

    def draw(row: _Row, x: Scale, y: float) -> list[Mark]:
        start, end = sorted((x(0), x(row[1])))
        bar = tag("rect", x=start, y=y - 9, width=max(end - start, 0.5), height=18, fill="blue", fill_opacity=0.55)
        return [bar, _whisker(y, x(row[2]), x(row[3]), "ink")] if row[3] > row[2] else [bar]

    return _rows(sheet, rows, [0.0, *(value for row in rows for value in row[1:4])], draw, x_title)


def _whole(labels: Sequence[object], table: Sequence[Sequence[float | None]]) -> list[_Row]:
    found = zip(labels, *table[1:], strict=True)
    return [(one_line(str(label)), value, min(low, high), max(low, high), truth)
            for label, value, low, high, truth in found
            if value is not None and low is not None and high is not None]  # fmt: skip


def _left_out(caption: str, given: int, rows: Sequence[_Row]) -> str:
    notes = [caption] if caption else []
    if 0 < len(rows) < given:
        notes.append(f"Rows without a number, left out: {given - len(rows)}.")
    if len(rows) > _MOST:
        notes.append(f"The first {_MOST} of {len(rows):,} rows are drawn.")
    return " ".join(notes)


def _rows(sheet: Sheet, rows: Sequence[_Row], numbers: Sequence[float],
          draw: Callable[[_Row, Scale, float], list[Mark]], x_title: str) -> Chart:  # fmt: skip
    shown = rows[:_MOST]
    said = [_say(row) for row in shown]
    x, top = columns_of(sheet, [row[0] for row in shown], said, numbers, x_title)
    for i, (row, words) in enumerate(zip(shown, said, strict=True)):
        y = top + (i + 0.5) * ROW
        hint = row[0] + ": " + words + ("" if row[4] is None else f" (truth {short(row[4])})")
        sheet.add(tag("g", tag("title", hint), *draw(row, x, y)))
    told = "; ".join(f"{row[0]} {words}" for row, words in zip(shown[:12], said, strict=False))
    return sheet.chart(f"{len(rows)} rows. {told}{'; and more' if len(rows) > 12 else ''}.")


def columns_of(sheet: Sheet, names: Sequence[str], said: Sequence[str], numbers: Sequence[float],
               x_title: str, *, above: float = 10, loud: Collection[int] = ()) -> tuple[Scale, float]:  # fmt: skip
    """Names on the left, words on the right, a scale between them; returns the scale and the first row's top."""
    left = MARGIN + min(max(measure(name, 12.5) for name in names), 190) + 12
    right = RIGHT - max(measure(words) for words in said) - 16
    top = sheet.y + above
    bottom = top + ROW * len(names) + 4
    x = scale(numbers, left, right, target=5, tight=True)
    sheet.bottom_axis(x, top, bottom, x_title)
    for i, (name, words) in enumerate(zip(names, said, strict=True)):
        y = top + (i + 0.5) * ROW + 4
        sheet.add(text(left - 12, y, fit(name, 190, 12.5), size=12.5, fill="ink", anchor="end"))
        sheet.add(text(RIGHT, y, words, fill="orange" if i in loud else "muted", anchor="end"))
    return x, top


def _say(row: _Row) -> str:
    up, down = row[3] - row[1], row[1] - row[2]
    if row[3] == row[2]:
        return short(row[1])
    even = abs(up - down) <= 0.02 * max(abs(up), abs(down))
    return with_error(row[1], max(up, down)) if even else f"{short(row[2])} to {short(row[3])}"


def _truth(x: float, y: float) -> Mark:
    return tag("line", x1=x, x2=x, y1=y - 9, y2=y + 9, stroke="orange", stroke_width=3)


def _whisker(y: float, low: float, high: float, colour: str, *, dot: bool = False, at: float = 0.0) -> Mark:
    d = f"M{low:.2f} {y:.2f}H{high:.2f}M{low:.2f} {y - 4:.2f}v8M{high:.2f} {y - 4:.2f}v8"
    line = tag("path", d=d, stroke=colour, stroke_width=1.8, fill="none")
    return tag("g", line, tag("circle", cx=at, cy=y, r=4, fill=colour)) if dot else line
