"""The gallery shows every chart there is, as its lines draw it today."""

from __future__ import annotations

import re
from typing import Any

import pytest

import docs_site
import gallery

_TEXT = re.compile(r"<text[^>]*>([^<]*)</text>")


@pytest.fixture(scope="module")
def today() -> dict[str, str]:
    return gallery.drawn()


def words(svg: str) -> set[str]:
    """What is written on a picture, without its numbers: those carry noise."""
    return {text for text in _TEXT.findall(svg) if not any(letter.isdigit() for letter in text)} - {"0"}


def test_the_pictures_are_what_their_lines_draw(today: dict[str, str]) -> None:
    """Run ``python bench/gallery.py`` where this fails after a change that is meant."""
    kept = {
        f"gallery/{path.name}": path.read_text(encoding="utf-8") for path in (gallery.PAGE.parent / "gallery").iterdir()
    }
    assert set(kept) == set(today)
    assert {name: words(svg) for name, svg in kept.items()} == {name: words(svg) for name, svg in today.items()}
    assert all(words(svg) for svg in kept.values())
    assert sum(map(len, kept.values())) < 500_000


def _returns_a_chart(thing: Any) -> bool:
    return bool(thing.is_function and str(thing.returns) == "Chart")


def drawing_names() -> set[str]:
    """Public functions that return a chart, and public classes with a ``chart`` of their own."""
    found = set()
    for room, names in docs_site.rooms().items():
        for name in names:
            thing = docs_site._target(f"{room}.{name}")
            if _returns_a_chart(thing) or (thing.is_class and "chart" in thing.members):
                found.add(name)
    return found


def test_every_chart_of_a_public_name_is_in_the_gallery() -> None:
    page = gallery.PAGE.read_text(encoding="utf-8")
    shown_as = {
        "AccuracyFirst": "path.chart()", "path_chart": "path.chart()", "ContributionProfile": "profile.chart()", "Tradeoff": "profile.plan(",
        "Division": "session.plan(plan).chart()", "Release": "session.release(", "chart": "session.release(", "LabelRandomizer": "randomizer.chart()",
        "HoldoutPlan": "from steelyard.holdout import plan", "Answers": "session.sql(",
    }  # fmt: skip
    found = drawing_names()
    assert {"AccuracyFirst", "Release", "Tradeoff", "bars", "matrix", "tradeoff"} <= found
    assert [name for name in sorted(found) if shown_as.get(name, name) not in page] == []
