"""Every public name of the four rooms that answer questions, with the first sentence of its docstring: docs/names.md.

python bench/names.py            write the page
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "names.md"
ROOMS = ("bounding", "labels", "models", "holdout")


def page() -> str:
    """The page as it should be."""
    lines = [
        "# Names",
        "",
        "What each of four rooms offers, in a sentence (drawn from the docstrings by `python bench/names.py`); `help(name)` says more.",
    ]
    for room in ROOMS:
        module = importlib.import_module(f"steelyard.{room}")
        lines += ["", f"## steelyard.{room}", "| name | what it is |", "|---|---|"]
        lines += [f"| `{name}` | {sentence(getattr(module, name))} |" for name in sorted(module.__all__, key=str.lower)]
    return "\n".join(lines) + "\n"


def sentence(thing: object) -> str:
    """The first line of a function's or a class's docstring; plain data says what it is."""
    if not (inspect.isfunction(thing) or inspect.isclass(thing)):
        return f"data: {type(thing).__name__}"
    return (inspect.getdoc(thing) or "").split("\n")[0].replace("``", "`").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
