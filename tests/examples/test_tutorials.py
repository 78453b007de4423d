"""Every tutorial runs in a real kernel, its asserts hold, and the notebook that is kept beside it shows what it shows today."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

import tutorials

_NUMBER = re.compile(r"-?\d[\d,.]*(?:e-?\d+)?|NaN|None|null")


def said(cell: Any) -> list[str]:
    """The kinds of a cell's outputs, and their words without numbers and spaces."""
    found = []
    for output in cell.get("outputs", []):
        text = output.get("text") or output["data"].get("text/plain", "")
        found.append(output.output_type + " " + "".join(_NUMBER.sub("#", text).split()))
    return found


def test_the_four_are_there() -> None:
    assert set(tutorials.names()) >= {"monthly_report", "team_server", "private_labels", "holdout_year"}


@pytest.mark.parametrize("name", tutorials.names())
def test_a_tutorial_shows_what_its_notebook_shows(name: str) -> None:
    """Run ``python bench/tutorials.py`` where this fails after a change that is meant."""
    kept = nbformat.read(tutorials.FOLDER / f"{name}.ipynb", as_version=4)
    today = tutorials.executed(name)
    assert [cell.source for cell in today.cells] == [cell.source for cell in kept.cells]
    for cell, before in zip(today.cells, kept.cells, strict=True):
        assert said(cell) == said(before), cell.source


@pytest.mark.parametrize("name", tutorials.names())
def test_a_tutorial_ends_with_what_can_go_wrong(name: str) -> None:
    page = (tutorials.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.+)$", page, re.MULTILINE)[-1] == "What can go wrong"
    assert "<!-- check" in page
    notebook = (tutorials.FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert "assert" not in notebook
    assert str(Path.home()) not in notebook
    assert "/tmp/" not in notebook


def test_an_assert_that_fails_stops_a_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.md").write_text("# Wrong\n\n```python\nx = 1\n```\n\n<!-- check\nassert x == 2\n-->\n")
    monkeypatch.setattr(tutorials, "FOLDER", tmp_path)
    with pytest.raises(Exception, match="assert x == 2"):
        tutorials.executed("wrong")
