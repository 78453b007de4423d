"""One small tree of tags, for SVG and HTML alike, and how wide text is.

Every picture and page is built from ``Mark``; the only place that turns text into markup is ``Mark.xml``, so no
caller can forget to escape. Colours are names (``fill="blue"``): the theme decides what they look like.
The law: text never becomes markup, and nothing depends on the clock, the machine or the order of a set.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from html import escape

# What XML forbids, and the marks that reverse the reading direction of what follows them.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_CLOSED = {"path", "rect", "line", "circle", "meta"}
_LEVEL = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "−0123456789")
_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[] ·"), frozenset("mwMW@%—…")


@dataclass(frozen=True, slots=True)
class Mark:
    """One element: its name, its attributes, and what is inside."""

    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    inside: tuple[Mark | str, ...] = ()

    def xml(self) -> str:
        """The markup, with all text escaped."""
        head = self.name + "".join(f' {key}="{escape(printable(value))}"' for key, value in self.attributes)
        if self.name in _CLOSED and not self.inside:
            return f"<{head}/>"
        body = (part.xml() if isinstance(part, Mark) else escape(printable(part), quote=False) for part in self.inside)
        return f"<{head}>{''.join(body)}</{self.name}>"


def tag(name: str, *inside: Mark | str, **attributes: str | float | None) -> Mark:
    """Build a mark: ``None`` attributes vanish, ``_`` reads ``-``, and a colour name becomes a class."""
    plain, classes = [], []
    for key, value in attributes.items():
        if key in ("fill", "stroke") and value not in (None, "none"):
            classes.append(f"sy-{key[0]}-{value}")
        elif key == "class_":
            classes.extend([str(value)] if value else [])
        elif value is not None:
            plain.append((key.replace("_", "-"), value if isinstance(value, str) else coordinate(value)))
    kind = [("class", " ".join(classes))] if classes else []
    return Mark(name, tuple(kind + plain), inside)


def text(x: float, y: float, words: str, *, size: float = 12, fill: str = "muted", anchor: str = "start",
         bold: bool = False, halo: bool = False) -> Mark:  # fmt: skip
    """A line of text on its baseline; ``halo`` keeps it legible above lines."""
    return tag("text", *_raised(one_line(words), size), x=x, y=y, font_size=size, fill=fill,
               text_anchor=None if anchor == "start" else anchor, font_weight=600 if bold else None,
               stroke="paper" if halo else None, stroke_width=4 if halo else None,
               stroke_linejoin="round" if halo else None, paint_order="stroke" if halo else None)  # fmt: skip


def _raised(words: str, size: float) -> list[Mark | str]:
    """Powers as small raised digits: many fonts lack the characters, and a substitute font looks foreign."""
    pieces: list[Mark | str] = []
    for i, piece in enumerate(re.split("([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", words)):
        if i % 2:
            pieces.append(tag("tspan", piece.translate(_LEVEL), font_size=size * 0.75, dy=-size * 0.36))
        elif piece:
            pieces.append(tag("tspan", piece, dy=size * 0.36) if i else piece)
    return pieces


def coordinate(value: float) -> str:
    """A number for an attribute: two decimals are finer than any screen."""
    return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")


def printable(words: str) -> str:
    """The same text with what XML forbids, or what would reorder its neighbours, shown as U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", words)


def one_line(words: str) -> str:
    """The same text with every run of white space as one space."""
    return " ".join(words.split())


def measure(words: str, size: float = 12) -> float:
    """About how wide the text is, on the generous side: fonts differ, and labels must not touch."""
    return size * sum(map(_advance, words))


def _advance(letter: str) -> float:
    if letter in _NARROW:
        return 0.34
    if letter in _WIDE:
        return 0.92
    if ord(letter) in _LEVEL:
        return 0.45
    if unicodedata.combining(letter):
        return 0.0
    return 1.0 if unicodedata.east_asian_width(letter) in "WF" else 0.68 if letter.isupper() else 0.58


def fit(words: str, width: float, size: float = 12) -> str:
    """The text, cut with an ellipsis where it is wider than ``width``."""
    words = one_line(words)
    if measure(words, size) <= width:
        return words
    while words and measure(words + "…", size) > width:
        words = words[:-1]
    return words.rstrip() + "…"


def wrap(words: str, width: float, size: float, most: int = 4) -> list[str]:
    """The text in at most ``most`` lines no wider than ``width``."""
    lines: list[str] = []
    for word in words.split():
        if lines and measure(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    if len(lines) > most:
        lines[most - 1 :] = [" ".join(lines[most - 1 :])]
    return [fit(line, width, size) for line in lines]
