"""One row for each name: released values with their intervals, bars with noise whiskers, and the staircase of a budget.

Rows leave room for long names on the left and say the numbers on the right, so that the picture can also be read
as a table; on a narrow page both stand above their bar. Rows without a number are left out, and the caption says how many.

A budget shows what each entry spent, where the cap stands, and what was refused: each step begins where the one before
it ended. A refused step is drawn as an empty outline across the cap and moves
nothing, because a refusal costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from steelyard.charts._chart import Chart, Sheet, both_widths
from steelyard.charts._marks import Mark, fit, measure, one_line, tag, text
from steelyard.charts._scales import Number, Scale, columns, read, scale, short, with_error
from steelyard.errors import InvalidTask

ROW, TALL_ROW = 28.0, 46.0
_MOST = 96  # more than the bins of any profile: its last bin decides the cap
_MOST_STEPS = 16
_Row = tuple[str, float, float, float, float | None]


@both_widths
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


@both_widths
def bars(labels: Sequence[object], values: Sequence[Number], errors: Sequence[Number] | None = None, *, title: str,
         ends: Sequence[tuple[Number, Number]] | None = None, groups: Sequence[str] | None = None,
         subtitle: str = "", caption: str = "", x_title: str = "", own_scales: bool = False) -> Chart:  # fmt: skip
    """One bar for each name, with a whisker for its noise: ``errors`` to both sides, or from one of its ``ends`` to the other.

    ``groups`` names the group of each bar; bars of one group stand together under its name. With ``own_scales`` each group fills the
    width by itself, and the axis shows zero alone: sums, counts and medians cannot be compared by length.
    """
    _, middle, error = columns(labels=[0] * len(labels), values=values, errors=errors)
    lows = [None if v is None else v - abs(e or 0) for v, e in zip(middle, error, strict=True)]
    highs = [None if v is None else v + abs(e or 0) for v, e in zip(middle, error, strict=True)]
    if ends is not None:
        _, lows, highs = columns(labels=middle, lows=[low for low, _ in ends], highs=[high for _, high in ends])
    rows = _whole(labels, [middle, middle, lows, highs, [None] * len(middle)])
    kept = [v is not None and low is not None and high is not None
            for v, low, high in zip(middle, lows, highs, strict=True)]  # fmt: skip
    groups = [one_line(name) for name, keep in zip(groups or [""] * len(labels), kept, strict=True) if keep]
    sheet = Sheet(title, subtitle, _left_out(caption, len(labels), rows))
    if not rows:
        return sheet.nothing()

    def draw(row: _Row, x: Scale, y: float) -> list[Mark]:
        start, end = sorted((x(0), x(row[1])))
        bar = tag("rect", x=start, y=y - 9, width=max(end - start, 0.5), height=18, fill="blue", fill_opacity=0.55)
        return [bar, _whisker(y, x(row[2]), x(row[3]), "ink")] if row[3] > row[2] else [bar]

    largest = dict.fromkeys(groups, 0.0)
    for name, row in zip(groups, rows, strict=True):
        largest[name] = max(largest[name], *map(abs, row[1:4]))
    sizes = [largest[name] or 1.0 for name in groups] if own_scales and len(largest) > 1 else []
    drawn = [_shrunk(row, size) for row, size in zip(rows, sizes or [1.0] * len(rows), strict=True)]
    numbers = [0.0, *(value for row in drawn for value in row[1:4])]
    return _rows(sheet, rows, numbers, draw, x_title, groups, drawn, zero_alone=bool(sizes))


def _shrunk(row: _Row, size: float) -> _Row:
    return row[0], row[1] / size, row[2] / size, row[3] / size, None


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
          draw: Callable[[_Row, Scale, float], list[Mark]], x_title: str, groups: Sequence[str] = (),
          drawn: Sequence[_Row] = (), *, zero_alone: bool = False) -> Chart:  # fmt: skip
    shown = rows[:_MOST]
    said = [_say(row) for row in shown]
    names = [row[0] for row in shown]
    table = columns_of(sheet, names, said, numbers, x_title, groups=groups[:_MOST], zero_alone=zero_alone)
    for i, (row, words) in enumerate(zip(shown, said, strict=True)):
        hint = row[0] + ": " + words + ("" if row[4] is None else f" (truth {short(row[4])})")
        sheet.add(tag("g", tag("title", hint), *draw((drawn or rows)[i], table.x, table.middles[i])))
    told = "; ".join(f"{row[0]} {words}" for row, words in zip(shown[:12], said, strict=False))
    return sheet.chart(f"{len(rows)} rows. {told}{'; and more' if len(rows) > 12 else ''}.")


@dataclass(frozen=True)
class _Table:
    """Where rows stand: their scale, the first one's top, the middle of each one's bar, and the end of the last."""

    x: Scale
    top: float
    middles: tuple[float, ...]
    bottom: float


def columns_of(sheet: Sheet, names: Sequence[str], said: Sequence[str], numbers: Sequence[float], x_title: str, *,
               above: float = 10, loud: Collection[int] = (), groups: Sequence[str] = (),
               zero_alone: bool = False) -> _Table:  # fmt: skip
    """Names on the left, words on the right, a scale between them; on narrow paper both stand above their bar."""
    stacked, row = sheet.narrow, TALL_ROW if sheet.narrow else ROW
    left = sheet.margin + (0 if stacked else min(max(measure(name, 12.5) for name in names), 190) + 12)
    right = sheet.right - (0 if stacked else max(measure(words) for words in said) + 16)
    top = sheet.y + above
    starts, headings, y = [], [], top
    for i in range(len(names)):
        if groups and groups[i] and (i == 0 or groups[i] != groups[i - 1]):
            headings.append((y + 20, groups[i]))
            y += ROW
        starts.append(y)
        y += row
    x = scale(numbers, left, right, target=3 if stacked else 5, tight=True)
    x = replace(x, ticks=(0.0,)) if zero_alone else x
    sheet.bottom_axis(x, top, y + 4, x_title)
    for place, name in headings:
        sheet.add(
            text(
                sheet.margin, place, fit(name, right - sheet.margin, 12.5), size=12.5, fill="ink", bold=True, halo=True
            )
        )
    for i, (start, name, words) in enumerate(zip(starts, names, said, strict=True)):
        line, room = start + 18, sheet.right - left - measure(words) - 10 if stacked else 190.0
        place, anchor = (left, "start") if stacked else (left - 12, "end")
        sheet.add(text(place, line, fit(name, room, 12.5), size=12.5, fill="ink", anchor=anchor, halo=stacked))
        sheet.add(text(sheet.right, line, words, fill="orange" if i in loud else "muted", anchor="end", halo=stacked))
    return _Table(x, top, tuple(start + (33 if stacked else row / 2) for start in starts), y + 4)


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


@dataclass(frozen=True)
class Spending:
    """One line of a ledger: what it was, what it cost, and whether it was refused."""

    label: str
    amount: Number
    refused: bool = False


@dataclass(frozen=True)
class _Stair:
    label: str
    start: float
    end: float
    refused: bool

    def said(self, unit: str) -> str:
        return f"{short(self.end - self.start)}{unit}" + (" refused" if self.refused else "")


@both_widths
def budget(entries: Sequence[Spending], cap: Number, *, title: str = "What the budget was spent on", subtitle: str = "",
           caption: str = "", unit: str = "") -> Chart:  # fmt: skip
    """A staircase of spendings against the cap, with refusals marked."""
    limit = read(cap)
    if limit is None or limit < 0:
        raise InvalidTask(f"the cap of a budget is a number from zero up, not {cap!r}.")
    steps = _steps(entries)
    spent = max((step.end for step in steps if not step.refused), default=0.0)
    tail = f" {one_line(unit)}" if unit else ""
    share = f" ({spent / limit:.0%})" if limit else ""
    summary = f"{short(spent)} of {short(limit)}{tail} spent{share}; {short(max(limit - spent, 0.0))}{tail} left"
    sheet = Sheet(title, subtitle or summary, caption)
    if not steps and not limit:
        return sheet.nothing()
    names = [step.label for step in steps] + ["left"]
    said = [step.said(tail) for step in steps] + [f"{short(max(limit - spent, 0.0))}{tail}"]
    refusals = [i for i, step in enumerate(steps) if step.refused]
    numbers = [0.0, limit, *(step.end for step in steps)]
    behind = len(sheet.marks)
    table = columns_of(sheet, names, said, numbers, one_line(unit), above=34, loud=refusals)
    x, top = table.x, table.top
    for i, step in enumerate(steps):
        hint, ends = f"{step.label}: {step.said(tail)}", (x(step.start), x(step.end))
        sheet.add(_bar(*ends, table.middles[i], table.middles[i + 1], step.refused, hint))
    sheet.add(tag("rect", x=x(spent), y=table.middles[-1] - 8, width=max(x(limit) - x(spent), 0), height=16,
                  fill="axis", fill_opacity=0.3))  # fmt: skip
    words = f"cap {short(limit)}{tail}"
    half = measure(words) * 0.55
    sheet.marks.insert(
        behind, tag("line", x1=x(limit), x2=x(limit), y1=top - 8, y2=table.bottom, stroke="ink", stroke_width=2)
    )  # words may cross it
    sheet.add(
        text(min(max(x(limit), x.start + half), x.end - half), top - 15, words, fill="ink", anchor="middle", bold=True),
    )
    refused = "".join(f" {names[i]}: {said[i]}." for i in refusals)
    return sheet.chart(f"{summary}.{refused}")


def _steps(entries: Sequence[Spending]) -> list[_Stair]:
    """The entries as a staircase; of a long list the earlier ones become one step."""
    steps, reached = [], 0.0
    for entry in entries:
        amount = read(entry.amount)
        if amount is None or amount < 0:
            continue
        steps.append(_Stair(one_line(entry.label), reached, reached + amount, entry.refused))
        reached += 0.0 if entry.refused else amount
    if len(steps) <= _MOST_STEPS:
        return steps
    folded = len(steps) - _MOST_STEPS + 1
    return [_Stair(f"{folded} earlier entries", 0.0, steps[folded].start, False), *steps[folded:]]


def _bar(start: float, end: float, middle: float, following: float, refused: bool, hint: str) -> Mark:
    look = {"fill": "none", "stroke": "orange"} if refused else {"fill": "blue"}
    box = tag("rect", tag("title", hint), x=start, y=middle - 8, width=max(end - start, 1.0), height=16, **look,
              stroke_width=1.8 if refused else None, stroke_dasharray="4 3" if refused else None)  # fmt: skip
    riser = tag("line", x1=end, x2=end, y1=middle + 8, y2=following - 8, stroke="axis")
    return box if refused else tag("g", box, riser)
