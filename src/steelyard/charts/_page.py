"""Every colour, once for light and once for dark, and the page around charts and reports.

The six series colours follow Okabe and Ito's palette for colour-blind readers, moved in lightness until each stands
out 4.5 to 1 from its paper, so that they may colour text too. Rules are plain classes because the PNG engine knows
no CSS variables. Dark rules hold on screens only: paper is always printed light.

A page is one file: inline style, no script, nothing fetched. The content policy in the head makes the browser keep that promise even if some text ever slipped through.
"""

from __future__ import annotations

from steelyard.charts._marks import Mark, one_line, tag

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


_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = f"""
*{{box-sizing:border-box}}
html{{background:var(--shade);-webkit-text-size-adjust:100%}}
body{{margin:0 auto;max-width:800px;padding:56px 36px 40px;background:var(--paper);color:var(--ink);
font:16px/1.6 {FONT};min-height:100vh;overflow-wrap:break-word}}
h1{{font-size:32px;line-height:1.2;letter-spacing:-.015em;margin:0 0 12px;text-wrap:balance}}
h2{{font-size:21px;line-height:1.3;letter-spacing:-.005em;margin:0 0 10px}}
p{{margin:0 0 14px;max-width:68ch}}
.lead{{font-size:18px;color:var(--muted)}}
section{{margin-top:44px;padding-top:26px;border-top:1px solid var(--grid)}}
code{{font:.88em {MONO};background:var(--shade);padding:.1em .35em;border-radius:4px}}
figure{{margin:22px 0;overflow-x:auto}}
figure.chart{{border:1px solid var(--grid);border-radius:8px}}
svg{{display:block;width:100%;height:auto}}
svg svg{{display:inline}}
pre{{font:13px/1.55 {MONO};background:var(--shade);border:1px solid var(--grid);border-radius:8px;margin:0;
padding:14px 16px;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}}
figcaption{{font-size:13.5px;color:var(--muted);margin-top:8px}}
.figures{{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:20px 28px;margin:22px 0 24px}}
.figures div{{display:flex;flex-direction:column-reverse;justify-content:flex-end;border-left:3px solid var(--blue);
padding-left:14px;min-width:0}}
dt{{font-size:13.5px;line-height:1.4;color:var(--muted)}}
dd{{margin:0;font-size:27px;line-height:1.2;font-weight:600;letter-spacing:-.01em;font-variant-numeric:tabular-nums}}
table{{border-collapse:collapse;width:100%;font-size:14.5px;font-variant-numeric:tabular-nums}}
th{{text-align:left;font-weight:600;color:var(--muted);font-size:13px;border-bottom:1.5px solid var(--axis)}}
td{{border-bottom:1px solid var(--grid);vertical-align:top}}
th,td{{padding:8px 16px 8px 0}}
th.n,td.n{{text-align:right;white-space:nowrap}}
th:last-child,td:last-child{{padding-right:0}}
footer{{margin-top:52px;padding-top:16px;border-top:1px solid var(--grid);font-size:13px;color:var(--muted)}}
@media(max-width:560px){{body{{padding:32px 18px 28px}}h1{{font-size:26px}}dd{{font-size:23px}}}}
@media print{{html,body{{background:none}}body{{padding:0;max-width:none;font-size:11pt}}
section{{break-inside:auto}}figure,.figures,tr{{break-inside:avoid}}h2{{break-after:avoid}}}}
"""
_FITTING = (
    "figure.chart{container-type:inline-size}.sy-narrow{display:none}"
    "@container(max-width:520px){.sy-wide{display:none}.sy-narrow{display:block}}"
)
"""Of the two widths of a chart the one that fits; a reader that knows no container queries sees the wide one."""
_NOTEBOOK = (
    f".sy{{font:14px/1.5 {FONT};max-width:720px}}.sy h4{{font-size:16px;margin:6px 0 4px}}.sy p{{margin:4px 0 8px;max-width:80ch}}"
    ".sy figure{margin:10px 0;overflow-x:auto}.sy svg{max-width:100%;height:auto}.sy table{border-collapse:collapse;margin:6px 0}"
    ".sy th,.sy td{padding:3px 14px 3px 0;text-align:left;vertical-align:top}.sy .n{text-align:right;white-space:nowrap}"
    ".sy th{font-weight:600;opacity:.75}.sy pre{white-space:pre-wrap}.sy figcaption{opacity:.75}"
    ".sy .figures div{display:flex;flex-direction:column-reverse}.sy dd{margin:0;font-size:22px;font-weight:600}.sy dt{opacity:.75}"
)


def notebook_rules() -> str:
    """The style sheet of a piece of a page inside somebody else's page: it touches nothing outside its own box."""
    own = _FITTING.replace("figure.chart", ".sy figure.chart")
    return f"{_NOTEBOOK}{own}{chart_rules('auto')}"


def stylesheet() -> str:
    """The colours as variables and the rules of charts, for a page that brings a style of its own."""
    return page_variables() + chart_rules("auto") + _FITTING


def page(title: str, *body: Mark) -> str:
    """A whole HTML document."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Mark("meta", (("http-equiv", "Content-Security-Policy"), ("content", _POLICY))),
        Mark("meta", (("name", "viewport"), ("content", "width=device-width, initial-scale=1"))),
        tag("title", one_line(title)),
        tag("style", page_variables() + _STYLE.replace("\n", "") + _FITTING + chart_rules("auto")),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', *body), lang='en').xml()}\n"
