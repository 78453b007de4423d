"""The pictures of docs/gallery.md, drawn by the lines that stand above them.

python bench/gallery.py        run the page and write docs/gallery/*.svg
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "gallery.md"
_PART = re.compile(r"^```python\n(.*?)^```\n|^!\[[^\]]*\]\(([\w/]+\.svg)\)$", re.DOTALL | re.MULTILINE)


def drawn() -> dict[str, str]:
    """Every picture by the address that the page gives it."""
    names: dict[str, Any] = {}
    found = {}
    for code, picture in _PART.findall(PAGE.read_text(encoding="utf-8")):
        if picture:
            found[picture] = names.pop("chart").svg()
        else:
            exec(compile(code, PAGE.name, "exec"), names)  # noqa: S102 - our own page
    return found


if __name__ == "__main__":
    for picture, svg in drawn().items():
        (PAGE.parent / picture).write_text(svg, encoding="utf-8")
        print(picture, len(svg))
