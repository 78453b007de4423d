"""The staircase of a budget: what each entry spent, where the cap stands, and what was refused.

Each step begins where the one before it ended. A refused step is drawn as an empty outline across the cap and moves
nothing, because a refusal costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.charts.chart import Chart, Sheet
from steelyard.charts.marks import Mark, measure, one_line, tag, text
from steelyard.charts.numbers import Number, read, short
from steelyard.charts.rows import ROW, columns_of
from steelyard.errors import InvalidTask

_MOST = 16


@dataclass(frozen=True)
class Spend:
    """One line of a ledger: what it was, what it cost, and whether it was refused."""

    label: str
    amount: Number
    refused: bool = False


@dataclass(frozen=True)
class _Step:
    label: str
    start: float
    end: float
    refused: bool

    def said(self, unit: str) -> str:
        return f"{short(self.end - self.start)}{unit}" + (" refused" if self.refused else "")


def budget(entries: Sequence[Spend], cap: Number, *, title: str = "What the budget was spent on", subtitle: str = "",
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
    x, top = columns_of(sheet, names, said, numbers, one_line(unit), above=34, loud=refusals)
    for i, step in enumerate(steps):
        sheet.add(_bar(x(step.start), x(step.end), top + i * ROW, step.refused, f"{step.label}: {step.said(tail)}"))
    sheet.add(tag("rect", x=x(spent), y=top + len(steps) * ROW + 6, width=max(x(limit) - x(spent), 0), height=16,
                  fill="axis", fill_opacity=0.3))  # fmt: skip
    words = f"cap {short(limit)}{tail}"
    half = measure(words) * 0.55
    sheet.add(
        tag("line", x1=x(limit), x2=x(limit), y1=top - 8, y2=top + ROW * len(names) + 4, stroke="ink", stroke_width=2),
        text(min(max(x(limit), x.start + half), x.end - half), top - 15, words, fill="ink", anchor="middle", bold=True),
    )
    refused = "".join(f" {names[i]}: {said[i]}." for i in refusals)
    return sheet.chart(f"{summary}.{refused}")


def _steps(entries: Sequence[Spend]) -> list[_Step]:
    """The entries as a staircase; of a long list the earlier ones become one step."""
    steps, reached = [], 0.0
    for entry in entries:
        amount = read(entry.amount)
        if amount is None or amount < 0:
            continue
        steps.append(_Step(one_line(entry.label), reached, reached + amount, entry.refused))
        reached += 0.0 if entry.refused else amount
    if len(steps) <= _MOST:
        return steps
    folded = len(steps) - _MOST + 1
    return [_Step(f"{folded} earlier entries", 0.0, steps[folded].start, False), *steps[folded:]]


def _bar(start: float, end: float, top: float, refused: bool, hint: str) -> Mark:
    look = {"fill": "none", "stroke": "orange"} if refused else {"fill": "blue"}
    box = tag("rect", tag("title", hint), x=start, y=top + 6, width=max(end - start, 1.0), height=16, **look,
              stroke_width=1.8 if refused else None, stroke_dasharray="4 3" if refused else None)  # fmt: skip
    riser = tag("line", x1=end, x2=end, y1=top + 22, y2=top + ROW + 6, stroke="axis")
    return box if refused else tag("g", box, riser)
