"""Pictures show what they were given, survive any number and any text, and become files."""

from __future__ import annotations

import importlib
import itertools
import math
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.charts import Chart, Line, Spending, bars, budget, intervals, lines, matrix, tradeoff
from steelyard.charts._marks import measure, one_line, printable
from steelyard.charts._scales import short
from steelyard.errors import EngineMissing, InvalidTask

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {"svg", "title", "desc", "style", "rect", "path", "line", "circle", "text", "tspan", "g"}
Numbers = Sequence[float | None]
WORDS = st.text(st.characters(), max_size=30) | st.sampled_from(
    ["</text><script>alert(1)</script>", "]]>", '" onload="alert(1)', "&amp;", "\x00\ud800\u202e", "<!--", "a\nb" * 40]
)


def all_kinds(words: str, numbers: Numbers) -> dict[str, Chart]:
    """Each kind of chart with the words in every place for words, and the numbers in every place for numbers."""
    said: dict[str, Any] = {"title": words, "subtitle": words, "caption": words}
    names = [words] * len(numbers)
    positive = [None if n is None else abs(n) for n in numbers]
    return {
        "tradeoff": tradeoff(positive, numbers, numbers, numbers, **said, x_title=words, y_title=words),
        "intervals": intervals(names, numbers, numbers, numbers, truths=numbers, **said, x_title=words),
        "bars": bars(names, numbers, positive, **said, x_title=words),
        "budget": budget(
            [Spending(words, n, refused=i % 3 == 2) for i, n in enumerate(positive)], 4, unit=words, **said
        ),
        "lines": lines([Line(words, numbers, numbers, numbers, numbers)], **said, x_title=words, y_title=words),
        "log lines": lines([Line(words, numbers, numbers)] * 2, **said, log_x=True, log_y=True),
        "matrix": matrix([numbers], down=[words], across=names, **said, x_title=words, y_title=words),
    }


KINDS = sorted(all_kinds("x", [1.0]))
U_CURVE = tradeoff([10, 100, 1000], [1, 10, 100], [80, 9, 0], [81, 19, 100])


def faults(markup: str) -> list[str]:
    """What a hostile text managed to do to a picture."""
    try:
        root = ElementTree.fromstring(markup)
    except ElementTree.ParseError as error:
        return [str(error)]
    found = [each.tag for each in root.iter() if each.tag.removeprefix(SVG) not in TAGS]
    return found + [key for each in root.iter() for key in each.attrib if key.startswith("on") or "href" in key]


@settings(max_examples=40, deadline=None)
@given(words=WORDS)
def test_text_never_becomes_markup(words: str) -> None:
    for chart in all_kinds(words, [3.0, 1.0, 2.0]).values():
        assert faults(chart.svg()) == []
        title = ElementTree.fromstring(chart.svg()).find(f"{SVG}title")
        assert title is not None
        assert (title.text or "") == printable(one_line(words)).replace("\r", "\n")


def test_the_markup_check_catches_a_picture_that_does_not_escape() -> None:
    careless = '<svg xmlns="http://www.w3.org/2000/svg"><text x="{0}">{0}</text></svg>'
    assert faults(careless.format("plain")) == []
    assert faults(careless.format("a < b"))
    assert faults(careless.format('" onload="alert(1)'))
    assert faults(careless.format("<script/>"))


@pytest.mark.parametrize(
    "numbers",
    [[0.0], [0.0, 0.0], [-5.0], [7.0], [1e300, -1e300], [1e-320, 1.0], [1e-290, 1e290], [5.0] * 3, [1e16, 1e16 + 2],
     [math.nan, 2.0, None, 3.0], [math.inf, 1.0]],
    ids=str,
)  # fmt: skip
def test_any_numbers_make_a_picture_inside_its_frame(numbers: Numbers) -> None:
    for kind, chart in both_widths(all_kinds("name", numbers)):
        root = ElementTree.fromstring(chart.svg())
        attributes = " ".join(f"{key}={value}" for each in root.iter() for key, value in each.attrib.items())
        assert not re.search(r"\b(nan|inf|None)\b", attributes), kind
        for each in root.iter(f"{SVG}text"):
            left, right = extent(each)
            assert 0 <= left < right <= chart.width, kind
            assert 0 < float(each.attrib["y"]) < chart.height, kind


def both_widths(charts: dict[str, Chart]) -> Iterator[tuple[str, Chart]]:
    """Every chart as a page and as a telephone shows it."""
    for kind, chart in charts.items():
        assert chart.narrow is not None
        yield kind, chart
        yield f"narrow {kind}", chart.narrow


def extent(each: ElementTree.Element) -> tuple[float, float]:
    x, size = float(each.attrib["x"]), float(each.attrib["font-size"])
    parts = [(each.text or "", size), *((part.text or "", float(part.attrib.get("font-size", size))) for part in each)]
    wide = sum(measure(words, own) for words, own in parts)
    start = x - wide * {"middle": 0.5, "end": 1.0}.get(each.attrib.get("text-anchor", "start"), 0.0)
    return start, start + wide


@settings(max_examples=30, deadline=None)
@given(numbers=st.lists(st.floats(-1e9, 1e9) | st.floats(1e-9, 1), min_size=1, max_size=8))
def test_no_two_labels_touch(numbers: list[float]) -> None:
    for _, chart in both_widths(all_kinds("name", numbers)):
        check_labels(chart)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(1e-2, 1e6), st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=9),
    st.sampled_from([None, True, False]),
)
def test_the_names_of_the_curves_keep_clear_of_everything(
    points: list[tuple[float, float, float]], log_y: bool | None
) -> None:
    caps, noise, bias = zip(*points, strict=True)
    curve = tradeoff(caps, noise, bias, [n + b for _, n, b in points], log_y=log_y)
    for _, chart in both_widths({"tradeoff": curve}):
        check_labels(chart)


def check_labels(chart: Chart) -> None:
    texts = ElementTree.fromstring(chart.svg()).iter(f"{SVG}text")
    boxes = [(float(each.attrib["y"]), *extent(each), "".join(each.itertext())) for each in texts]
    for (y1, left1, right1, first), (y2, left2, right2, second) in itertools.combinations(boxes, 2):
        assert abs(y1 - y2) >= 10 or left1 >= right2 or left2 >= right1, (first, second)


@pytest.mark.parametrize("numbers", [[], [None], [math.nan, math.inf]], ids=str)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "budget"])
def test_without_a_number_the_picture_says_so(kind: str, numbers: Numbers) -> None:
    assert ">no data</text>" in all_kinds("name", numbers)[kind].svg()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.just(0.0) | st.floats(1e-6, 1e6)), min_size=1, max_size=20),
    st.sampled_from([None, True]),
)
def test_the_sweet_spot_sits_at_the_minimum(points: list[tuple[int, float]], log_y: bool | None) -> None:
    caps, totals = zip(*points, strict=True)
    root = ElementTree.fromstring(tradeoff(caps, totals, totals, totals, log_y=log_y).svg())
    spot = root.find(f".//{SVG}circle[@class='sy-f-paper sy-s-ink sy-sweet-spot']")
    path = root.find(f".//{SVG}path[@stroke-width='3']")
    assert spot is not None
    assert path is not None
    corners = [(float(x), float(y)) for x, y in re.findall(r"[ML](\S+) ([^ML]+)", path.attrib["d"])]
    here = float(spot.attrib["cx"]), float(spot.attrib["cy"])
    assert any(math.dist(here, corner) < 0.02 for corner in corners)
    assert here[1] >= max(y for _, y in corners) - 0.02  # down is large in SVG
    best = min(points, key=lambda point: point[1])
    assert f"sweet spot is {short(best[1])}, at" in root.findtext(f"{SVG}desc", "")


def test_the_sweet_spot_says_where_its_error_lies_if_that_is_known() -> None:
    caps, total = (10, 100, 1000), (500.0, 200.0, 900.0)
    known = tradeoff(caps, total, total, total, band=((300.0, 150.0, 800.0), (2000.0, 4000.0, 1000.0))).svg()
    assert "error 200, 150 to 4,000" in known
    assert "error 200<" in tradeoff(caps, total, total, total).svg()


def rectangles(chart: Chart, colour: str) -> list[tuple[float, float]]:
    found = ElementTree.fromstring(chart.svg()).iter(f"{SVG}rect")
    boxes = [each.attrib for each in found if colour in each.attrib.get("class", "")]
    return [(float(box["x"]), float(box["x"]) + float(box["width"])) for box in boxes]


def test_each_spending_begins_where_the_last_one_ended_and_a_refusal_moves_nothing() -> None:
    chart = budget(
        [Spending("a", 1), Spending("b", Fraction(1, 2)), Spending("no", 3, refused=True), Spending("c", 1)], 4
    )
    (a0, a1), (b0, b1), (c0, c1) = rectangles(chart, "sy-f-blue")
    ((no0, no1),) = rectangles(chart, "sy-s-orange")
    ((left0, left1),) = rectangles(chart, "sy-f-axis")
    assert [a1, b1, b1, c1] == pytest.approx([b0, c0, no0, left0])
    assert [b1 - b0, c1 - c0, no1 - no0, left1 - left0] == pytest.approx(
        [w * (a1 - a0) for w in (0.5, 1, 3, 1.5)], abs=0.1
    )
    assert no1 > left1  # the refused step is seen to cross the cap
    assert "2.5 of 4 spent (62%); 1.5 left. no: 3 refused." in chart.description


def test_a_long_ledger_is_folded_and_loses_nothing() -> None:
    chart = budget([Spending(f"task {i}", Fraction(1, 100)) for i in range(200)], 4)
    assert "185 earlier entries" in chart.svg()
    assert chart.description.startswith("2 of 4 spent (50%)")


def test_bars_start_at_zero_and_are_as_long_as_their_values() -> None:
    (a0, a1), (b0, b1), (c0, c1) = rectangles(bars("abc", [10, -5, 0], title="t"), "sy-f-blue")
    assert a0 == pytest.approx(b1)
    assert (a1 - a0) == pytest.approx(2 * (b1 - b0), abs=0.05)
    assert c1 - c0 < 1


def test_a_small_probability_does_not_read_as_zero() -> None:
    svg = matrix([[0.996, 0.004], [0, 1]], down="ab", across="ab", title="t").svg()
    assert "&lt;0.01" in svg
    assert re.findall(r'fill-opacity="([^"]+)"', svg)[2:4] == ["0", "1"]


def test_a_fine_matrix_is_drawn_by_blocks() -> None:
    spot = [[1.0 if (r, c) == (150, 299) else 0.0 for c in range(300)] for r in range(200)]
    chart = matrix(spot, down=range(200), across=range(300), title="t")
    assert "Each cell shows the largest of 4 × 5." in chart.svg()
    assert len(rectangles(chart, "sy-f-heat")) < 64 * 64


@pytest.mark.parametrize(
    "wrong",
    [
        partial(tradeoff, [1, 2], [1], [1, 2], [1, 2]),
        partial(bars, ["a"], [1, 2], title="t"),
        partial(matrix, [[1, 2]], down=["a", "b"], across=["c", "d"], title="t"),
        partial(budget, [], math.nan),
        partial(budget, [], -1),
        partial(U_CURVE.svg, "sepia"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(InvalidTask):
        wrong()


def test_a_chart_saves_as_svg_png_or_html_and_nothing_else(tmp_path: Path) -> None:
    assert U_CURVE.save(tmp_path / "a.svg").read_text("utf-8") == U_CURVE.svg()
    assert U_CURVE.save(str(tmp_path / "a.HTML")).read_text("utf-8").startswith("<!doctype html>")
    png = U_CURVE.save(tmp_path / "a.png").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png[16:24]) == (1360, 2 * U_CURVE.height)
    for name in ("a.gif", "a"):
        with pytest.raises(InvalidTask, match=r"\.svg, \.png or \.html"):
            U_CURVE.save(tmp_path / name)
        assert not (tmp_path / name).exists()


def test_png_without_its_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(EngineMissing) as refusal:
        U_CURVE.png()
    assert refusal.value.install == "pip install 'steelyard[charts]'"


def test_png_is_refused_rather_than_drawn_without_words(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = importlib.import_module("resvg_py")
    monkeypatch.setattr(engine, "svg_to_bytes", partial(engine.svg_to_bytes, skip_system_fonts=True))
    with pytest.raises(EngineMissing, match="no font"):
        U_CURVE.png()


def test_a_dark_png_differs_and_a_notebook_shows_the_svg() -> None:
    assert U_CURVE.png("dark", zoom=1) != U_CURVE.png(zoom=1) == U_CURVE.png("auto", zoom=1)
    assert U_CURVE._repr_svg_() == U_CURVE.svg()
    assert U_CURVE._repr_html_().count('role="img"') == 2  # one for a page, one for a telephone
    assert "prefers-color-scheme" in U_CURVE.svg()
    assert "prefers-color-scheme" not in U_CURVE.svg("dark")


def test_the_picture_is_the_same_in_every_process_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from steelyard.charts import tradeoff;"
        "print(tradeoff([10, 100, 1000], [1, 10, 100], [80, 9, 0], [81, 19, 100]).svg());"
        "assert not {'numpy', 'resvg_py', 'sqlite3'} & set(sys.modules)"
    )
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
            capture_output=True, encoding="utf-8", check=True,
        )  # fmt: skip
        assert run.stdout.strip() == U_CURVE.svg()


@settings(deadline=None, max_examples=15)
@given(WORDS)
def test_a_picture_refers_to_nothing_outside_itself(words: str) -> None:
    for chart in all_kinds(words.replace("/", ""), [1.0, 2.0]).values():
        assert re.findall(r"\w+://[^\"]*", chart.svg()) == ["http://www.w3.org/2000/svg"]
        assert not re.search(r"url\(|@import|<image|<use", chart.svg().replace(words, ""))


def test_groups_with_scales_of_their_own_each_fill_the_width() -> None:
    names, values = ["a", "b", "a", "b"], [400_000, 200_000, 2, 1]
    about: dict[str, Any] = {"title": "t", "groups": ["sum", "sum", "median", "median"]}
    shared, apart = (bars(names, values, [1, 1, 1, 1], own_scales=own, **about).svg() for own in (False, True))

    def widths(svg: str) -> list[float]:
        return [float(found) for found in re.findall(r'<rect[^>]* width="([0-9.]+)" height="18"', svg)]

    assert max(widths(shared)[2:]) < 1
    assert widths(apart)[0] == pytest.approx(3 / 2 * widths(apart)[2], rel=0.01)  # its whisker is as wide as half of it
    assert "400k" in shared
    assert "400k" not in apart
    assert "400,000" in apart
