"""A report that is one file: prose, key figures, tables, charts and receipts, made to be read and printed.

No script, no network, no font to fetch. Text is only ever text; ``backticks`` set code, and nothing else is markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path

from steelyard.charts._chart import Chart
from steelyard.charts._marks import Mark, tag
from steelyard.charts._page import notebook_rules, page
from steelyard.errors import InvalidTask

_NUMBER = re.compile(r"[<≤≥~±+−-]?\s*[\d.,]+\s*([kMGTPE%]|×10\S+)?(\s*±.*)?")


@dataclass(frozen=True)
class Figure:
    """A number worth a second look, and what it is."""

    value: str
    caption: str


@dataclass(frozen=True)
class Figures:
    """A row of key figures."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Tabular:
    """A small table; columns of numbers line up on the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""


@dataclass(frozen=True)
class Code:
    """Words to be kept as they are: a command, a receipt."""

    text: str
    caption: str = ""


Block = str | Chart | Figures | Tabular | Code
"""What a section of a report is made of; text is a paragraph."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    heading: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Report:
    """A title, a lead and sections; ``html()`` or ``save("report.html")`` make the page."""

    title: str
    sections: Sequence[Section]
    lead: str = ""
    version: str = field(default_factory=lambda: _version())
    generated: datetime = field(default_factory=lambda: datetime.now(UTC))

    def html(self) -> str:
        """The whole page."""
        head = tag("header", tag("h1", self.title), *([_prose(self.lead, "lead")] if self.lead else []))
        sections = [
            tag("section", tag("h2", section.heading), *map(_block, section.blocks)) for section in self.sections
        ]
        when = self.generated.strftime("%Y-%m-%d %H:%M %Z").strip()
        foot = tag("footer", f"Made by steelyard {self.version} on {when}.")
        return page(self.title, head, tag("main", *sections), foot)

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the page; the name must end in .html."""
        target = Path(path)
        if target.suffix.lower() != ".html":
            raise InvalidTask(f"a report is saved as .html, not as {target.suffix or 'a name without suffix'}.")
        target.write_text(self.html(), encoding="utf-8", newline="\n")
        return target


def fragment(title: str, *blocks: Block) -> str:
    """A piece of a page for a notebook: a heading and what stands under it, all text escaped.

    >>> fragment("Users & rows", "a < b").endswith("<h4>Users &amp; rows</h4><p>a &lt; b</p></div>")
    True
    """
    return tag("div", tag("style", notebook_rules()), tag("h4", title), *map(_block, blocks), class_="sy").xml()


def _version() -> str:
    from importlib import metadata  # slow to load, and only reports need it

    return metadata.version("steelyard")


def _block(block: Block) -> Mark:
    if isinstance(block, str):
        return _prose(block)
    if isinstance(block, Chart):
        return block.figure()
    if isinstance(block, Figures):
        pairs = [tag("div", tag("dt", each.caption), tag("dd", each.value)) for each in block.figures]
        return tag("dl", *pairs, class_="figures")
    return _figure(tag("pre", block.text) if isinstance(block, Code) else _table(block), block.caption)


def _prose(words: str, kind: str = "") -> Mark:
    pieces = words.split("`")
    if len(pieces) % 2 == 0:  # an odd backtick is only a backtick
        pieces[-2:] = ["`".join(pieces[-2:])]
    return tag("p", *(tag("code", piece) if i % 2 else piece for i, piece in enumerate(pieces)), class_=kind)


def _figure(inside: Mark, caption: str) -> Mark:
    """A table or a text, which may be wider than a narrow screen: then it scrolls, and a keyboard reaches it."""
    said = [tag("figcaption", caption)] if caption else []
    return tag("figure", inside, *said, tabindex="0", aria_label=caption or inside.name)


def _table(table: Tabular) -> Mark:
    wide = len(table.header)
    if any(len(row) != wide for row in table.rows):
        raise InvalidTask(f"every row of a table needs {wide} cells, one for each header.")
    words = [[str(cell) for cell in row] for row in table.rows]
    kinds = ["n" if words and all(_NUMBER.fullmatch(row[i]) for row in words) else "" for i in range(wide)]
    named = any(table.header)
    head = tag("thead", tag("tr", *(tag("th", name, class_=kind, scope="col")
                                    for name, kind in zip(table.header, kinds, strict=True))))  # fmt: skip
    body = [tag("tr", *(tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True))) for row in words]
    return tag("table", *([head] if named else []), tag("tbody", *body))
