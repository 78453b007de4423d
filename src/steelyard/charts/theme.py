"""Every colour, once for light and once for dark.

The six series colours follow Okabe and Ito's palette for colour-blind readers, moved in lightness until each stands
out 4.5 to 1 from its paper, so that they may colour text too. Rules are plain classes because the PNG engine knows
no CSS variables. Dark rules hold on screens only: paper is always printed light.
"""

from __future__ import annotations

SERIES = ("blue", "orange", "green", "purple", "ochre", "slate")
LIGHT = {
    "paper": "#ffffff", "shade": "#f5f6f7", "grid": "#e4e7ea", "axis": "#8a929b", "muted": "#59616b", "ink": "#1b1f24",
    "blue": "#0067b1", "orange": "#b84a00", "green": "#00775a", "purple": "#9c3f85", "ochre": "#7d6000",
    "slate": "#4d5a68", "heat": "#62aade", "cold": "#ee9a63",
}  # fmt: skip
DARK = {
    "paper": "#15181c", "shade": "#1e2227", "grid": "#2c3138", "axis": "#737c87", "muted": "#a3acb7", "ink": "#e9ecef",
    "blue": "#5cb2f2", "orange": "#ff9454", "green": "#3ccb9f", "purple": "#e793cd", "ochre": "#e2bd4a",
    "slate": "#aab6c3", "heat": "#2a6b9f", "cold": "#9a4f1c",
}  # fmt: skip
FONT = "Inter, 'Helvetica Neue', 'Segoe UI', Roboto, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
MONO = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
THEMES = ("auto", "light", "dark")


def chart_rules(theme: str) -> str:
    """The style sheet of a chart: ``auto`` follows the reader's screen."""
    if theme == "auto":
        return f"{_rules(LIGHT)}@media screen and (prefers-color-scheme: dark){{{_rules(DARK)}}}"
    return _rules(DARK if theme == "dark" else LIGHT)


def page_variables() -> str:
    """The same colours as CSS variables, for pages."""
    dark = f"@media screen and (prefers-color-scheme: dark){{:root{{{_variables(DARK)}}}}}"
    return f":root{{color-scheme:light dark;{_variables(LIGHT)}}}{dark}"


def _rules(colours: dict[str, str]) -> str:
    return "".join(f".sy-f-{name}{{fill:{code}}}.sy-s-{name}{{stroke:{code}}}" for name, code in colours.items())


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{code};" for name, code in colours.items())
