"""Tutorials: pages of docs/tutorials as notebooks, run in a real kernel, and their outputs for the site.

python bench/tutorials.py [name ...]      run them and write docs/tutorials/name.ipynb

A page is Markdown that reads well by itself. Its ``python`` blocks become cells; a comment that begins with ``check`` holds asserts that are
run where they stand, and are in no notebook and on no page.
"""

from __future__ import annotations

import re
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
_PART = re.compile(r"^```python\n(?P<code>.*?)^```\n|^<!-- check\n(?P<check>.*?)^-->\n", re.DOTALL | re.MULTILINE)
_PATIENCE = 120  # seconds for one cell


@dataclass(frozen=True)
class Cell:
    """A part of a page: text ("markdown"), lines to run ("code"), or asserts ("check")."""

    kind: str
    text: str


def names() -> list[str]:
    """Every tutorial there is."""
    return sorted(page.stem for page in FOLDER.glob("*.md"))


def cells(page: str) -> list[Cell]:
    """The parts of a page, in order."""
    found, place = [], 0
    for part in _PART.finditer(page):
        found.append(Cell("markdown", page[place : part.start()].strip()))
        found.append(Cell("code", part["code"].rstrip()) if part["code"] else Cell("check", part["check"].rstrip()))
        place = part.end()
    return [cell for cell in [*found, Cell("markdown", page[place:].strip())] if cell.text]


def notebook(parts: list[Cell]) -> Any:
    """A notebook that has not been run."""
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    made = nbformat.v4.new_notebook(
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    )
    made.cells = [make.get(part.kind, make["code"])(part.text, id=f"cell-{i}") for i, part in enumerate(parts)]
    return made


def run(made: Any) -> Any:
    """Run every cell in a kernel of its own, in an empty folder that no output names; an error in any is an error."""
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        where = {"metadata": {"path": folder}}
        client = NotebookClient(made, timeout=_PATIENCE, kernel_name="python3", resources=where, record_timing=False)
        client.execute()
        return nbformat.reads(nbformat.writes(made).replace(f"{folder}/", ""), as_version=4)


def executed(name: str) -> Any:
    """A tutorial with its outputs; its asserts were run, and are not in it."""
    parts = cells((FOLDER / f"{name}.md").read_text(encoding="utf-8"))
    made = run(notebook(parts))
    made.cells = [cell for cell, part in zip(made.cells, parts, strict=True) if part.kind != "check"]
    made.metadata.pop("language_info", None)
    for count, cell in enumerate((cell for cell in made.cells if cell.cell_type == "code"), start=1):
        cell.execution_count, cell.outputs = count, _joined(cell.outputs)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
    return made


def _joined(outputs: list[Any]) -> list[Any]:
    """Outputs with what was printed in one piece: in how many it arrives is chance."""
    found: list[Any] = []
    for output in outputs:
        if found and output.output_type == found[-1].output_type == "stream" and output.name == found[-1].name:
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def with_outputs(page: str, made: Any) -> str:
    """A page with what its cells showed, below each of them, and without its asserts."""
    shown = iter([cell for cell in made.cells if cell.cell_type == "code"])
    written = []
    for part in cells(page):
        if part.kind == "markdown":
            written.append(part.text)
        elif part.kind == "code":
            written.append(f"```python\n{part.text}\n```")
            written += [text for output in next(shown).outputs if (text := _output(output))]
    return "\n\n".join(written) + "\n"


def _output(output: Any) -> str:
    """What a cell printed or showed, as Markdown."""
    if output.output_type == "stream":
        return _framed(output.text)
    data = output.get("data", {})
    if "text/html" in data:
        lines = (line.strip() for line in data["text/html"].splitlines())
        return f'<div class="output">{"".join(line for line in lines if line)}</div>'
    return _framed(data.get("text/plain", ""))


def _framed(text: str) -> str:
    return f"```{{.text .output}}\n{text.rstrip()}\n```" if text.strip() else ""


def write(name: str) -> Path:
    """Run a tutorial and keep its notebook."""
    target = FOLDER / f"{name}.ipynb"
    nbformat.write(executed(name), target)
    return target


if __name__ == "__main__":
    for chosen in sys.argv[1:] or names():
        print(write(chosen))
