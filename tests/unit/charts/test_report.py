"""A report is one file that needs nothing else, and its text is only text."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.charts import Code, Figure, Figures, Report, Section, Tabular, bars
from steelyard.charts._marks import printable
from steelyard.charts._report import Block
from steelyard.errors import InvalidTask

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
WORDS = st.text(st.characters(), min_size=1, max_size=40) | st.sampled_from(
    ["</style><script>alert(1)</script>", "</title><img src=x onerror=alert(1)>", '"><b>', "&lt;", "a `b` c", "`"]
)


def report(words: str) -> Report:
    blocks: list[Block] = [
        words,
        Figures([Figure(words, words)]),
        Tabular([words, "n"], [[words, "1,234"], ["x", "5 ± 2"]], words),
        bars([words], [1.0], title=words),
        Code(words, words),
    ]
    return Report(words, [Section(words, blocks)], lead=words, version="1.2.3", generated=NOON)


class Outline(HTMLParser):
    """The elements and attribute names a browser would see."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("code", "text", "tspan"):  # backticks make code; lines of text depend on their length
            self.seen.append((tag, tuple(name for name, _ in attrs)))


@settings(max_examples=80, deadline=None)
@given(WORDS)
def test_no_text_changes_the_structure_of_the_page(words: str) -> None:
    assert Outline(report(words).html()).seen == Outline(report("plain").html()).seen


def test_the_structure_check_catches_a_page_that_does_not_escape() -> None:
    page = report("plain").html().replace(">plain<", "><img src=x onerror=alert(1)><")
    assert Outline(page).seen != Outline(report("plain").html()).seen


@settings(max_examples=60, deadline=None)
@given(WORDS)
def test_the_page_is_well_formed_and_keeps_the_words(words: str) -> None:
    root = ElementTree.fromstring(report(words).html().partition("\n")[2])
    said = printable(words).replace("\r\n", "\n").replace("\r", "\n")  # as every XML reader must read line ends
    assert root.findtext(".//h1") == said
    assert root.findtext(".//pre") == said


def test_the_page_fetches_nothing_and_runs_nothing() -> None:
    page = report("plain").html()
    assert not re.search(r"://|src=|href=|url\(|@import|<script|<link|<img", page)
    policy = ElementTree.fromstring(page.partition("\n")[2]).find(".//meta[@http-equiv='Content-Security-Policy']")
    assert policy is not None
    assert policy.attrib["content"].startswith("default-src 'none'; style-src 'unsafe-inline'; base-uri")


def test_the_page_says_who_made_it_and_when() -> None:
    assert "Made by steelyard 1.2.3 on 2026-01-02 12:00 UTC." in report("plain").html()
    assert report("plain").html() == report("plain").html()
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", Report("t", []).version)


def test_columns_of_numbers_stand_on_the_right() -> None:
    page = report("plain").html()
    assert '<td class="n">1,234</td>' in page
    assert "<td>plain</td>" in page
    with pytest.raises(InvalidTask, match="needs 2 cells"):
        Report("t", [Section("s", [Tabular(["a", "b"], [["1"]])])]).html()


def test_backticks_set_code() -> None:
    page = Report("t", [Section("s", ["use `sum` or `count", "plain"])]).html()
    assert "<p>use <code>sum</code> or `count</p>" in page


def test_a_report_is_saved_as_html_only(tmp_path: Path) -> None:
    assert report("é").save(tmp_path / "r.html").read_text("utf-8") == report("é").html()
    with pytest.raises(InvalidTask, match=r"\.html"):
        report("x").save(tmp_path / "r.pdf")


def test_nothing_on_a_page_is_cut_off_behind_a_scrollbar() -> None:
    chart = bars(["a", "b"], [1, 2], title="Two")
    page = Report("t", [Section("s", [Code("a refusal " * 40), chart])]).html()
    assert "white-space:pre-wrap" in page
    assert "min-width:4" not in page
    assert page.count('class="sy-wide"') == page.count('class="sy-narrow"') == 1
    assert "@container(max-width:520px){.sy-wide{display:none}.sy-narrow{display:block}}" in page
    assert chart.narrow is not None
    assert chart.narrow.width < 400
