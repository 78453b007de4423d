"""Curves over one number: the trade-off with its sweet spot, and lines with bands.

A point without a number breaks its line. On a logarithmic axis zero lies below the frame, where the line is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.charts._chart import Chart, Sheet, both_widths, clipped
from steelyard.charts._marks import Mark, measure, one_line, tag, text
from steelyard.charts._page import SERIES
from steelyard.charts._scales import Number, Scale, columns, scale, short

_HEIGHT = 280.0
_DASHES = (None, "7 4", "2 4", "9 3 2 3", "5 2", "1 3")
_Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """One named curve, perhaps with a band from ``low`` to ``high``."""

    label: str
    x: Sequence[Number]
    y: Sequence[Number]
    low: Sequence[Number] | None = None
    high: Sequence[Number] | None = None


@both_widths
def tradeoff(caps: Sequence[Number], noise: Sequence[Number], bias: Sequence[Number], total: Sequence[Number], *,
             title: str = "Where the cap balances noise and bias", subtitle: str = "", caption: str = "",
             x_title: str = "cap on one unit's contribution", y_title: str = "expected error",
             log_y: bool | None = None, chosen: Number = None,
             band: Sequence[Sequence[Number]] | None = None) -> Chart:  # fmt: skip
    """The U-curve: noise rises with the cap, bias falls, and the sweet spot, the smallest total drawn, is marked.

    ``chosen`` is the cap that is taken, marked where it is another one; ``band`` holds where the total lies, low and high.
    """
    sheet = Sheet(title, subtitle, caption)
    rows = sorted((cap, n, b, t) for cap, n, b, t in zip(*columns(caps=caps, noise=noise, bias=bias, total=total),
                                                         strict=True)
                  if cap is not None and cap > 0 and n is not None and b is not None and t is not None)  # fmt: skip
    if not rows:
        return sheet.nothing()
    totals = [row[3] for row in rows]
    log_y = min(totals) > 0 and (max(totals) > 20 * min(totals) if log_y is None else log_y)
    named = {"total": totals, "noise": [row[1] for row in rows], "bias": [row[2] for row in rows]}
    # Parts far below the total decide nothing: the frame ends a decade under the sweet spot, at zero when linear.
    floor = min(totals) / 10 if log_y else 0.0
    heights = [max(value, floor) if log_y else value for values in named.values() for value in values]
    heights += [floor, min(totals) * (2 if log_y else 1.3)]  # room for the words above the sweet spot
    right = sheet.right - max(measure(name, 12.5) for name in named) - 14
    x, y = _frame(sheet, [row[0] for row in rows], heights, True, log_y, x_title, y_title, right)
    curves = {name: [(row[0], value) for row, value in zip(rows, values, strict=True)]
              for name, values in named.items()}  # fmt: skip
    drawn = [_curve(points, x, y, SERIES[i], _DASHES[i], width=3 if i == 0 else 2)
             for i, points in enumerate(curves.values())]  # fmt: skip
    around = _around(caps, band) if band else []
    bands = [_band(around, x, y, SERIES[0])] if band else []
    sheet.add(clipped(x.start, y.end - 3, right + 3, y.start + 3, *bands, *reversed(drawn)))
    _end_labels(sheet, curves, x, y)
    best = min(rows, key=lambda row: row[3])
    taken = best if chosen is None else min(rows, key=lambda row: abs(row[0] - float(chosen)))
    if taken[0] != best[0]:
        _taken(sheet, x, y, taken[0], taken[3])
    ends = next((f", {short(low)} to {short(high)}" for cap, _, low, high in around if cap == best[0]), "")
    _sweet_spot(sheet, x, y, best[0], best[3], ends)
    return sheet.chart(f"{one_line(y_title)} against {one_line(x_title)} for {len(rows)} "
                       f"candidate{'s' if len(rows) > 1 else ''}. The sweet "
                       f"spot is {short(best[3])}{ends}, at {short(best[0])}: noise {short(best[1])}, "
                       f"bias {short(best[2])}.")  # fmt: skip


def _around(caps: Sequence[Number], band: Sequence[Sequence[Number]]) -> list[tuple[float, None, float, float]]:
    """The points of a band over caps, in order."""
    read = zip(*columns(caps=caps, low=band[0], high=band[1]), strict=True)
    return sorted((cap, None, low, high) for cap, low, high in read if cap is not None and cap > 0 and low and high)


@both_widths
def lines(series: Sequence[Line], *, title: str, subtitle: str = "", caption: str = "", x_title: str = "",
          y_title: str = "", log_x: bool = False, log_y: bool = False) -> Chart:  # fmt: skip
    """Curves with optional bands, such as accuracy against epsilon."""
    sheet = Sheet(title, subtitle, caption)
    read = [(line.label, _points(line, log_x)) for line in series]
    read = [(label, points) for label, points in read if any(p[1] is not None for p in points)]
    heights = [v for _, points in read for p in points for v in p[1:] if v is not None and (v > 0 or not log_y)]
    if not heights:
        return sheet.nothing()
    looks = [(SERIES[i % len(SERIES)], _DASHES[i % len(_DASHES)]) for i in range(len(read))]
    if len(series) > 1 or any(p[2] is not None for _, points in read for p in points):
        sheet.legend([(tag("path", d="M-11 0H11", stroke=colour, stroke_width=2.5, stroke_dasharray=dash), label)
                      for (label, _), (colour, dash) in zip(read, looks, strict=True)])  # fmt: skip
    x, y = _frame(
        sheet, [p[0] for _, points in read for p in points], heights, log_x, log_y, x_title, y_title, sheet.right
    )
    bands = [_band(points, x, y, colour) for (_, points), (colour, _) in zip(read, looks, strict=True)]
    curves = [_curve([(p[0], p[1]) for p in points], x, y, colour, dash, dots=len(points) <= 12, name=label)
              for (label, points), (colour, dash) in zip(read, looks, strict=True)]  # fmt: skip
    sheet.add(clipped(x.start - 5, y.end - 5, x.end + 5, y.start + 5, *bands, *curves))
    return sheet.chart(" ".join(_told(label, points) for label, points in read))


def _points(line: Line, log_x: bool) -> list[tuple[float, float | None, float | None, float | None]]:
    read = zip(*columns(x=line.x, y=line.y, low=line.low, high=line.high), strict=True)
    return sorted(((x, *rest) for x, *rest in read if x is not None and (x > 0 or not log_x)), key=lambda p: p[0])


def _told(label: str, points: Sequence[tuple[float, float | None, float | None, float | None]]) -> str:
    seen = [(p[0], p[1]) for p in points if p[1] is not None]
    (x0, y0), (x1, y1) = seen[0], seen[-1]
    return f"{one_line(label)}: {short(y0)} at {short(x0)}, {short(y1)} at {short(x1)}."


def _frame(sheet: Sheet, xs: list[float], ys: list[float], log_x: bool, log_y: bool, x_title: str, y_title: str,
           right: float) -> tuple[Scale, Scale]:  # fmt: skip
    top = sheet.y + (34 if y_title else 14)
    y = scale(ys, top + _HEIGHT, top, log=log_y)
    left = sheet.margin + max(measure(label) for label in y.labels) + 8
    x = scale(xs, left, right, log=log_x)
    if y_title:
        sheet.add(text(sheet.margin, top - 16, y_title))
    sheet.bottom_axis(x, top, top + _HEIGHT, x_title)
    sheet.left_axis(y, left, right)
    return x, y


def _curve(points: Sequence[tuple[float, float | None]], x: Scale, y: Scale, colour: str, dash: str | None, *,
           width: float = 2.5, dots: bool = False, name: str = "") -> Mark:  # fmt: skip
    steps, pen_down = [], False
    for px, py in points:
        if py is not None:
            steps.append(f"{'L' if pen_down else 'M'}{x(px):.2f} {y(py):.2f}")
        pen_down = py is not None
    path = tag("path", d="".join(steps), fill="none", stroke=colour, stroke_width=width, stroke_dasharray=dash,
               stroke_linejoin="round", stroke_linecap="round" if dash is None else None)  # fmt: skip
    spots = [tag("circle", tag("title", one_line(f"{name}: {short(py)} at {short(px)}")), cx=x(px), cy=y(py), r=3.2,
                 fill=colour)
             for i, (px, py) in enumerate(points) if py is not None and (dots or _lonely(points, i))]  # fmt: skip
    return tag("g", path, *spots)


def _lonely(points: Sequence[tuple[float, float | None]], place: int) -> bool:
    """Whether no line leads to a point or on from it: without a dot it would not be seen."""
    return all(py is None for _, py in (*points[max(place - 1, 0) : place], *points[place + 1 : place + 2]))


def _band(points: Sequence[tuple[float, float | None, float | None, float | None]], x: Scale, y: Scale,
          colour: str) -> Mark:  # fmt: skip
    there = [(px, low, high) for px, _, low, high in points if low is not None and high is not None]
    corners = [(px, high) for px, _, high in there] + [(px, low) for px, low, _ in reversed(there)]
    d = "".join(f"{'L' if i else 'M'}{x(px):.2f} {y(py):.2f}" for i, (px, py) in enumerate(corners))
    return tag("path", d=d + "Z" if d else "", fill=colour, fill_opacity=0.16)


def _end_labels(sheet: Sheet, curves: dict[str, list[_Point]], x: Scale, y: Scale) -> None:
    """Name each curve where it leaves the frame; names at the right end are pushed apart."""
    ends: list[tuple[float, str]] = []
    floor = y.start - 10
    for name, points in curves.items():
        places = [(x(px), y(py)) for px, py in points]
        last = max((i for i, place in enumerate(places) if place[1] <= y.start + 1e-6), default=-1)
        if last == len(places) - 1:
            ends.append((places[last][1], name))
        elif last >= 0:
            (x0, y0), (x1, y1) = places[last : last + 2]
            leaves = x0 + (x1 - x0) * (y.start - y0) / (y1 - y0)
            colour = SERIES[list(curves).index(name)]
            place = min(leaves + 4, x.end - measure(name, 12.5))
            sheet.add(text(place, floor, name, size=12.5, fill=colour, halo=True))
            floor -= 16
    # Curves are named from the top down, each at its end or under the name before it, never below the frame.
    above = y.end - 16
    for i, (end, name) in enumerate(sorted(ends, key=lambda end: end[0])):
        above = min(max(end, above + 16), y.start - 16 * (len(ends) - 1 - i))
        colour = SERIES[list(curves).index(name)]
        sheet.add(text(x.end + 10, above + 4, name, size=12.5, fill=colour, bold=name == "total"))


def _taken(sheet: Sheet, x: Scale, y: Scale, cap: float, total: float) -> None:
    """A mark on the cap that is taken, where it is not the smallest total: the choice weighs tails that the total averages."""
    words = f"taken: {short(cap)}"
    place = min(max(x(cap), x.start + measure(words) / 2 + 6), x.end - measure(words) / 2 - 6)
    sheet.add(
        tag("line", x1=x(cap), x2=x(cap), y1=y(total), y2=y.start, stroke="ink", stroke_dasharray="1 3"),
        tag("circle", cx=x(cap), cy=y(total), r=3.5, fill="ink", class_="sy-taken"),
        text(place, y.start - 6, words, anchor="middle", halo=True),
    )


def _sweet_spot(sheet: Sheet, x: Scale, y: Scale, cap: float, total: float, ends: str) -> None:
    """A ring on the smallest total, a line down to its cap, and words inside the U: the total, and where it lies if that is known."""
    px, py = x(cap), y(total)
    words = (f"sweet spot: {short(cap)}", f"error {short(total)}{ends}")
    half = max(measure(words[0], 13) * 1.06, measure(words[1])) / 2
    place = min(max(px, x.start + half + 6), x.end - half - 6)
    up = max(py - 34, y.end + 30)
    sheet.add(
        tag("line", x1=px, x2=px, y1=py, y2=y.start, stroke="ink", stroke_dasharray="2 3"),
        tag("line", x1=px, x2=px, y1=up + 4, y2=py, stroke="ink"),
        tag("circle", cx=px, cy=py, r=6, fill="paper", stroke="ink", stroke_width=2.5, class_="sy-sweet-spot"),
        text(place, up - 18, words[0], size=13, fill="ink", anchor="middle", bold=True, halo=True),
        text(place, up - 3, words[1], anchor="middle", halo=True),
    )
