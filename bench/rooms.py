"""Draw which room imports which: docs/rooms.svg, from the imports themselves.

    python bench/rooms.py            writes docs/rooms.svg
    python bench/rooms.py FILE       writes it elsewhere

A room is a folder (or file) of ``src/steelyard``; its layer is the one the import contract in pyproject.toml gives it. An arrow
means that the upper room imports the lower one, in a function or at its top; arrows that follow from others are left out, and so
are those to the rooms that every room speaks with.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import house
from steelyard.charts._marks import Mark, tag, text
from steelyard.charts._page import FONT, chart_rules

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "rooms.svg"
PURPOSES = {
    "cli": "commands",
    "demo": "tour",
    "server": "web and worker",
    "client": "over HTTP",
    "requests": "tasks as JSON",
    "audit": "attacks, checks",
    "labels": "label randomizers",
    "models": "private models",
    "holdout": "honest holdouts",
    "outside": "runs done elsewhere",
    "bounding": "totals, caps",
    "session": "table and account",
    "desk": "charge, then answer",
    "release": "what leaves",
    "answers": "tables, words",
    "charts": "pictures",
    "mechanisms": "noise with a price",
    "ledger": "durable accounts",
    "account": "who pays",
    "plan": "what a task says",
    "documents": "JSON and back",
    "tables": "private rows",
    "views": "checked queries",
    "noise": "exact draws",
    "accounting": "prices",
    "privacy": "exact nouns",
    "errors": "refusals",
    "interrupts": "stops",
    "threads": "one at a time",
    "lazy": "loading",
}
WIDE, TALL, GAP, ROW = 132.0, 58.0, 18.0, 98.0
MARGIN = 24.0


def layers() -> list[list[str]]:
    """The rooms of each layer, top to bottom, as the import contract lists them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [[room.strip() for room in layer.split("|")] for layer in contracts[0]["layers"]]


def imported() -> dict[str, set[str]]:
    """The rooms that each room imports, whether at the top of a module or inside a function; not for types alone."""
    found: dict[str, set[str]] = defaultdict(set)
    known = {room for layer in layers() for room in layer}
    for name, path in house.modules().items():
        here = house.room(name)
        for module in _imports(ast.parse(path.read_text())):
            there = house.room(module)
            if here in known and there in known and here != there:
                found[here].add(there)
    return found


def _imports(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.module == house.PACKAGE:
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module and child.module.startswith(house.PACKAGE):
            yield child.module
        yield from _imports(child)


def needed(graph: dict[str, set[str]]) -> dict[str, list[str]]:
    """The arrows that do not follow from others."""

    def below(room: str) -> set[str]:
        return graph.get(room, set()).union(*(below(other) for other in graph.get(room, set())))

    return {
        room: sorted(other for other in others if not any(other in below(way) for way in others - {other}))
        for room, others in graph.items()
    }


class Plan:
    """Where boxes stand and arrows bend: a long arrow passes each layer in a lane of its own, never behind a box."""

    def __init__(self, rows: list[list[str]], arrows: dict[str, list[str]]) -> None:
        level = {room: place for place, row in enumerate(rows) for room in row}
        self.rows = [list(row) for row in rows]
        self.ways: list[list[str]] = []
        for room, others in sorted(arrows.items()):
            for other in others:
                lanes = [f"{room} > {other} {k}" for k in range(level[room] + 1, level[other])]
                for lane, place in zip(lanes, range(level[room] + 1, level[other]), strict=True):
                    self.rows[place].append(lane)
                self.ways.append([room, *lanes, other])
        self.near: dict[str, list[str]] = defaultdict(list)
        for way in self.ways:
            for one, other in pairwise(way):
                self.near[one].append(other)
                self.near[other].append(one)
        self.across = {each: place * 100.0 for row in self.rows for place, each in enumerate(row)}
        for _ in range(60):
            for row in self.rows:
                self._settle(row)
        left = min(self.across[each] - _width(each) / 2 for each in self.across)
        self.across = {each: x - left + MARGIN for each, x in self.across.items()}
        self.width = max(self.across[each] + _width(each) / 2 for each in self.across) + MARGIN

    def _settle(self, row: list[str]) -> None:
        """Put a row in the order, and about at the places, of what its boxes and lanes are tied to."""
        wish = {each: _mean([self.across[other] for other in self.near[each]], self.across[each]) for each in row}
        row.sort(key=lambda each: (wish[each], each))
        x, places = 0.0, []
        for each in row:
            x += _width(each) / 2 + GAP / 2
            places.append(x)
            x += _width(each) / 2 + GAP / 2
        shift = _mean([wish[each] - place for each, place in zip(row, places, strict=True)], 0.0)
        self.across.update({each: place + shift for each, place in zip(row, places, strict=True)})

    def point(self, each: str, level: int) -> tuple[float, float]:
        """The middle of a box or a lane."""
        return self.across[each], MARGIN + TALL / 2 + level * ROW


def _width(each: str) -> float:
    return 10.0 if ">" in each else WIDE


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def drawing() -> str:
    """The picture as SVG."""
    every = layers()
    base = [room for row in every for room in row if room in house.PLAIN]
    rows = [kept for row in every if (kept := [room for room in row if room not in house.PLAIN])]
    shown = {room: others - house.PLAIN for room, others in imported().items() if room not in house.PLAIN}
    plan = Plan(rows, needed(shown))
    level = {each: place for place, row in enumerate(plan.rows) for each in row}
    foot = MARGIN + len(rows) * ROW
    marks = [tag("rect", x=0, y=0, width=plan.width, height=foot + TALL + 2 * MARGIN, fill="paper")]
    marks += [_arrow([plan.point(each, level[each]) for each in way]) for way in plan.ways]
    marks += [part for row in rows for room in row for part in _box(room, *plan.point(room, level[room]))]
    marks += _band(base, plan.width, foot)
    body = tag(
        "svg",
        tag("title", "The rooms of steelyard, and which imports which"),
        tag("style", f"text{{font-family:{FONT}}}{chart_rules('auto')}"),
        *marks,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {plan.width:g} {foot + TALL + 2 * MARGIN:g}",
        role="img",
    )
    return body.xml() + "\n"


def _band(base: list[str], width: float, top: float) -> list[Mark]:
    """What every room speaks with, in one band at the bottom."""
    step = (width - 2 * MARGIN) / len(base)
    marks = [
        tag("rect", x=MARGIN / 2, y=top - 6, width=width - MARGIN, height=TALL + 34, rx=9, fill="shade"),
        text(width / 2, top + 12, "every room speaks with these", size=11.5, anchor="middle"),
    ]
    middles = ((room, MARGIN + (place + 0.5) * step) for place, room in enumerate(base))
    return marks + [part for room, x in middles for part in _box(room, x, top + 22 + TALL / 2 - 4, "axis")]


def _arrow(way: list[tuple[float, float]]) -> Mark:
    (x, y), (to_x, to_y) = way[0], way[-1]
    lanes = [(a, b + side * TALL / 2) for a, b in way[1:-1] for side in (-1, 1)]  # straight past the boxes of a layer
    points = [(x, y + TALL / 2), *lanes, (to_x, to_y - TALL / 2 - 6)]
    line = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (left, upper), (right, lower) in pairwise(points):
        middle = (upper + lower) / 2
        line += f"C{left:.1f} {middle:.1f} {right:.1f} {middle:.1f} {right:.1f} {lower:.1f}"
    end_x, end_y = points[-1]
    head = f"M{end_x - 4:.1f} {end_y - 2:.1f}L{end_x:.1f} {end_y + 6:.1f}L{end_x + 4:.1f} {end_y - 2:.1f}Z"
    return tag(
        "g",
        tag("path", d=line, fill="none", stroke="axis", stroke_width=1.4),
        tag("path", d=head, fill="axis"),
    )


def _box(room: str, x: float, y: float, edge: str = "blue") -> list[Mark]:
    return [
        tag("rect", x=x - WIDE / 2, y=y - TALL / 2, width=WIDE, height=TALL, rx=7, fill="paper", stroke=edge,
            stroke_width=1.4),
        text(x, y - 10, room, size=14, fill="ink", anchor="middle", bold=True),
        text(x, y + 6, PURPOSES[room], size=11.5, fill="muted", anchor="middle"),
        text(x, y + 21, f"{lines(room):,} lines", size=10.5, fill="muted", anchor="middle"),
    ]  # fmt: skip


def lines(room: str) -> int:
    """The lines of a room, to the nearest hundred (a small one to the nearest ten)."""
    count = sum(path.read_text().count("\n") for name, path in house.modules().items() if house.room(name) == room)
    return round(count, -2 if count >= 1000 else -1)


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE).write_text(drawing(), encoding="utf-8")
