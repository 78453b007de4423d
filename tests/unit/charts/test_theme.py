"""Colours can be told apart: from their paper by everybody, and from each other by colour-blind readers."""

from __future__ import annotations

import itertools

import pytest

from steelyard.charts._page import DARK, LIGHT, SERIES

RGB = tuple[float, float, float]
THEMES = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
# Machado, Oliveira and Fernandes (2009), severity 1, in linear RGB.
BLIND = {
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}


def linear(code: str) -> RGB:
    red, green, blue = (int(code[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return _curve(red), _curve(green), _curve(blue)


def _curve(share: float) -> float:
    return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    low, high = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (linear(first), linear(second)))
    return (high + 0.05) / (low + 0.05)


def blend(top: str, under: str, opacity: float) -> str:
    shares = [(int(top[i : i + 2], 16), int(under[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a * opacity + b * (1 - opacity)):02x}" for a, b in shares)


def seen_by(kind: str, code: str) -> RGB:
    """CIE Lab of the colour as that reader sees it."""
    rgb = linear(code)
    r, g, b = (min(max(sum(w * c for w, c in zip(row, rgb, strict=True)), 0.0), 1.0) for row in BLIND[kind])
    x, y, z = (
        (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505,
        0.2126 * r + 0.7152 * g + 0.0722 * b,
        (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089,
    )
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@THEMES
def test_words_and_series_stand_out_from_the_paper(colours: dict[str, str]) -> None:
    for name in ("ink", "muted", *SERIES):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
        assert contrast(colours[name], colours["shade"]) >= 4.5, name
    assert contrast(colours["axis"], colours["paper"]) >= 3


@THEMES
@pytest.mark.parametrize("kind", BLIND)
def test_the_first_series_differ_for_colour_blind_readers(colours: dict[str, str], kind: str) -> None:
    for first, second in itertools.combinations(SERIES[:3], 2):
        a, b = seen_by(kind, colours[first]), seen_by(kind, colours[second])
        assert sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) ** 0.5 >= 15, (first, second)


@THEMES
@pytest.mark.parametrize("tone", ["heat", "cold"])
def test_numbers_in_a_matrix_are_legible_on_every_shade(colours: dict[str, str], tone: str) -> None:
    shades = [blend(colours[tone], colours["paper"], step / 20) for step in range(21)]
    assert min(contrast(colours["ink"], shade) for shade in shades) >= 4.5


def test_both_themes_name_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys() >= set(SERIES)
