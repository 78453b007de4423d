"""A finished picture, and the sheet it is drawn on.

``Sheet`` fills a page from the top: title, subtitle, legend, plot, caption; a chart kind only draws its plot.
``Chart`` is what remains: a frozen tree of marks that becomes SVG, PNG or a page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec

from steelyard.charts._marks import Mark, fit, measure, one_line, tag, text, wrap
from steelyard.charts._page import FONT, THEMES, chart_rules, notebook_rules, page
from steelyard.charts._scales import Scale
from steelyard.errors import EngineMissing, InvalidTask

WIDE, NARROW = 680.0, 390.0
_paper = ContextVar("width of the paper that is drawn on", default=WIDE)
_P = ParamSpec("_P")


def both_widths(draw: Callable[_P, Chart]) -> Callable[_P, Chart]:
    """Draw a chart for a page, and once more for the width of a telephone."""

    @wraps(draw)
    def drawn(*args: _P.args, **options: _P.kwargs) -> Chart:
        wide, token = draw(*args, **options), _paper.set(NARROW)
        try:
            return replace(wide, narrow=draw(*args, **options))
        finally:
            _paper.reset(token)

    return drawn


@dataclass(frozen=True, repr=False)
class Chart:
    """A picture of plain numbers; shows itself in a notebook, and saves itself as .svg, .png or .html.

    ``narrow`` is the same picture for a telephone, where there is one: pages show whichever fits.
    """

    title: str
    description: str
    height: float
    marks: tuple[Mark, ...]
    width: float = WIDE
    narrow: Chart | None = None

    def __repr__(self) -> str:
        return f"Chart({fit(self.title, 600)!r}); .save('chart.svg') writes it"

    def svg(self, theme: str = "auto") -> str:
        """The picture as one self-contained SVG document; ``theme`` is ``auto``, ``light`` or ``dark``."""
        if theme not in THEMES:
            raise InvalidTask(f"a theme is one of {', '.join(THEMES)}, not {theme!r}.")
        return self.mark(tag("style", chart_rules(theme)), xmlns="http://www.w3.org/2000/svg").xml()

    def mark(self, *first: Mark, **attributes: str) -> Mark:
        """The picture as a mark, to be put inside a page that carries the style."""
        told = tag("title", one_line(self.title)), tag("desc", one_line(self.description))
        paper = tag("rect", width=self.width, height=self.height, fill="paper")
        box = {"viewBox": f"0 0 {self.width:.0f} {self.height:.0f}", "role": "img", "aria-label": one_line(self.title)}
        return tag("svg", *told, *first, paper, *self.marks, **attributes, width=self.width, height=self.height, **box,
                   font_family=FONT)  # fmt: skip

    def figure(self) -> Mark:
        """Both widths, to be put inside a page whose style shows the one that fits."""
        if self.narrow is None:
            return tag("figure", self.mark(), class_="chart")
        return tag("figure", self.mark(class_="sy-wide"), self.narrow.mark(class_="sy-narrow"), class_="chart")

    def png(self, theme: str = "light", *, zoom: int = 2) -> bytes:
        """The picture as PNG, ``zoom`` times as large as drawn."""
        svg_to_bytes = _engine()
        probe = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20">{}</svg>'
        letter = f'<text y="18" font-family="{FONT}">M</text>'
        if svg_to_bytes(probe.format(letter)) == svg_to_bytes(probe.format("")):
            raise EngineMissing("the PNG engine finds no font here (a picture saved as .svg needs none).",
                                install="apt-get install fonts-dejavu-core")  # fmt: skip
        return bytes(svg_to_bytes(self.svg("light" if theme == "auto" else theme), zoom=zoom))

    def html(self) -> str:
        """The picture as a page of its own."""
        return page(self.title, self.figure())

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the picture; the suffix says how: .svg, .png or .html."""
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix == ".png":
            target.write_bytes(self.png())
        elif suffix in (".svg", ".html"):
            target.write_text(self.svg() if suffix == ".svg" else self.html(), encoding="utf-8", newline="\n")
        else:
            raise InvalidTask(f"a chart is saved as .svg, .png or .html, not as {suffix or 'a name without suffix'}.")
        return target

    def _repr_svg_(self) -> str:
        return self.svg()

    def _repr_html_(self) -> str:
        return tag("div", tag("style", notebook_rules()), self.figure(), class_="sy").xml()


def check_target(path: str | PathLike[str]) -> None:
    """Refuse, before anything is paid for, a file that no chart could be saved to."""
    target = Path(path)
    if target.suffix.lower() not in (".svg", ".png", ".html"):
        raise InvalidTask(
            f"a chart is saved as .svg, .png or .html, not as {target.suffix or 'a name without suffix'}."
        )
    if not target.absolute().parent.is_dir():
        raise InvalidTask(f"there is no folder {target.absolute().parent} to save a chart in.")
    if target.suffix.lower() == ".png":
        _engine()


def _engine() -> Any:
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        raise EngineMissing("PNG pictures need an engine.", install="pip install 'steelyard[charts]'") from None
    return svg_to_bytes


class Sheet:
    """Paper being filled from the top; ``y`` is the first free line."""

    def __init__(self, title: str, subtitle: str, caption: str) -> None:
        self.title, self.caption = title, caption
        self.width = _paper.get()
        self.narrow = self.width < WIDE
        self.margin = 14.0 if self.narrow else 24.0
        self.right = self.width - self.margin
        self.marks: list[Mark] = []
        self.y = 18.0
        self._paragraph(title, size=17, fill="ink", bold=True)
        self._paragraph(subtitle, size=13, fill="muted")
        self.y += 8

    def _paragraph(self, words: str, *, size: float, fill: str, bold: bool = False) -> None:
        for line in wrap(
            words,
            self.right - self.margin,
            size * ((1.16 if self.narrow else 1.06) if bold else 1),
            8 if self.narrow else 4,
        ):
            self.y += size * 1.4
            self.marks.append(text(self.margin, self.y, line, size=size, fill=fill, bold=bold))

    def add(self, *marks: Mark) -> None:
        self.marks.extend(marks)

    def legend(self, entries: Sequence[tuple[Mark, str]]) -> None:
        """A row of keys, each drawn around the origin in 22 by 12, with its words; wraps where it must."""
        x = self.margin
        self.y += 20
        for key, words in entries:
            words = fit(words, 260)
            if x > self.margin and x + 28 + measure(words) > self.right:
                x, self.y = self.margin, self.y + 20
            self.add(tag("g", key, transform=f"translate({x + 11:.0f} {self.y - 4:.0f})"))
            self.add(text(x + 28, self.y, words, fill="ink"))
            x += 28 + measure(words) + 22
        self.y += 6

    def bottom_axis(self, x: Scale, top: float, bottom: float, title: str) -> None:
        """Upright grid lines with labels under them; labels that would touch are left out."""
        free = -1e9
        for tick, label in zip(x.ticks, x.labels, strict=True):
            place, half = x(tick), measure(label) / 2
            strong = tick == 0 and not x.log
            self.add(tag("line", x1=place, x2=place, y1=top, y2=bottom, stroke="axis" if strong else "grid"))
            middle = min(max(place, half + 2), self.width - half - 2)
            if middle - half > free:
                self.add(text(middle, bottom + 18, label, anchor="middle"))
                free = middle + half + 8
        self.y = bottom + 22
        if title:
            self.y += 18
            self.add(text((x.start + x.end) / 2, self.y, fit(title, self.right - self.margin), anchor="middle"))

    def left_axis(self, y: Scale, left: float, right: float) -> None:
        """Level grid lines with labels to the left of them."""
        for tick, label in zip(y.ticks, y.labels, strict=True):
            strong = tick == 0 and not y.log
            self.add(tag("line", x1=left, x2=right, y1=y(tick), y2=y(tick), stroke="axis" if strong else "grid"))
            self.add(text(left - 8, y(tick) + 4, label, anchor="end"))

    def chart(self, description: str) -> Chart:
        """Add the caption and close the sheet."""
        if self.caption:
            self.y += 10
            self._paragraph(self.caption, size=11.5, fill="muted")
        return Chart(self.title, description, round(self.y + 22), tuple(self.marks), self.width)

    def nothing(self) -> Chart:
        """The same sheet with a plain word where the plot would be."""
        top, self.y = self.y + 10, self.y + 150
        box = tag("rect", x=self.margin, y=top, width=self.right - self.margin, height=140, rx=6, fill="shade")
        self.add(box, text(self.width / 2, top + 75, "no data", size=14, anchor="middle"))
        return self.chart("There is no data to draw.")


def clipped(left: float, top: float, right: float, bottom: float, *marks: Mark) -> Mark:
    """The marks, cut at the frame; a nested svg needs no id, so many charts can share one page."""
    width, height = right - left, bottom - top
    return tag("svg", *marks, x=left, y=top, width=width, height=height,
               viewBox=f"{left:.2f} {top:.2f} {width:.2f} {height:.2f}")  # fmt: skip
