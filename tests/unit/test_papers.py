"""The page of the papers tells the truth: names import, commands parse, files exist; and figures are redrawn and judged."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from papers import bounding_figures, shown
from papers.all import page
from steelyard.cli import parser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/papers.md").read_text(encoding="utf-8")
QUOTED = sorted(set(re.findall(r"`([^`\n]+)`", PAGE)))
ROOMS = ("bounding", "labels", "models", "holdout")


def found(name: str) -> Any:
    """What a dotted name stands for."""
    first, *rest = re.sub(r"^sy\b", "steelyard", name).split(".")
    thing = importlib.import_module(first)
    for last in rest:
        thing = getattr(thing, last) if hasattr(thing, last) else importlib.import_module(f"{thing.__name__}.{last}")
    return thing


@pytest.mark.parametrize("name", [text for text in QUOTED if re.match(r"(sy|steelyard)\.\w", text)])
def test_a_name_on_the_page_can_be_imported(name: str) -> None:
    assert found(name) is not None


def test_a_name_that_is_none_would_be_caught() -> None:
    with pytest.raises(ImportError):
        found("steelyard.bounding.best_cap_of_all")


@pytest.mark.parametrize("command", [text for text in QUOTED if text.startswith("steelyard ")])
def test_a_command_on_the_page_is_one(command: str) -> None:
    words, here = command.split()[1:], parser()
    for word in words:
        if word.startswith("--"):
            assert word in here._option_string_actions, command
        else:
            verbs = next(a for a in here._actions if isinstance(a, argparse._SubParsersAction))
            here = verbs.choices[word]


def defined(script: str) -> set[str]:
    """The functions of a script."""
    tree = ast.parse((ROOT / script).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_every_script_note_and_page_it_names_exists() -> None:
    named = [text.split()[-1] for text in QUOTED if re.search(r"bench/\S+\.py$", text)]
    named += [text.split()[1] for text in QUOTED if text.startswith("python bench/")]
    linked = [f"docs/{link}" for link in re.findall(r"\]\(([\w/]+\.md)\)", PAGE)]
    assert named
    assert linked
    assert not [path for path in (*named, *linked) if not (ROOT / path).exists()]


def test_every_function_of_a_script_it_names_is_there() -> None:
    pairs = re.findall(r"`(bench/[\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", PAGE)
    assert pairs
    assert not [(script, name) for script, names in pairs for name in re.findall(r"\w+", names) if name not in defined(script)]  # fmt: skip


@cache
def documented() -> set[str]:
    """Every word that some page sets as code."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    return {word for text in pages for code in re.findall(r"```.*?```|`[^`\n]+`", text, re.S) for word in re.findall(r"\w+", code)}  # fmt: skip


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_function_and_class_is_on_a_page(room: str) -> None:
    """Run ``python bench/names.py`` where this fails."""
    module = importlib.import_module(f"steelyard.{room}")
    named = {name: getattr(module, name) for name in module.__all__}
    things = [name for name, thing in named.items() if inspect.isfunction(thing) or inspect.isclass(thing)]
    assert things
    assert not [name for name in things if name not in documented()]


def test_the_papers_are_named_where_a_reader_begins() -> None:
    for file in ("README.md", "docs/index.md"):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert "papers.md" in text
        assert not [name for name in ("Amin", "Badanidiyuru", "Lee", "Neel") if name not in text], file


def test_no_page_or_program_speaks_of_papers_that_it_does_not_name() -> None:
    files = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py"), *ROOT.glob("bench/**/*.py"), ROOT / "README.md"]
    spared = {ROOT / "docs/papers.md", ROOT / "bench/papers/all.py", *ROOT.glob("src/steelyard/charts/*.py")}
    speaks = re.compile(r"\b(the|its|their|this) papers?\b", re.I)
    assert not [str(path) for path in files if path not in spared and speaks.search(path.read_text(encoding="utf-8"))]


def test_a_figure_is_redrawn_and_judged_on_a_page() -> None:
    figure = bounding_figures.figure_2()
    html = page([figure], 1.0, True).html()
    assert figure.verdict == "agrees"
    assert "Figure 2: agrees" in html
    assert "<svg" in html
    assert figure.checks[0].words in html


def test_a_claim_that_does_not_hold_is_said_not_to() -> None:
    wrong = shown.Check("mass rises with alpha", False)
    figure = shown.Shown(shown.AMIN, "Figure 2", "mass rises", (), (wrong,))
    assert figure.verdict == "does not agree"
    assert "NO" in page([figure], 1.0, True).html()
    assert shown.Shown(shown.AMIN, "Figure 2", "", (), (wrong, shown.Check("x", True))).verdict == "agrees in part"
