"""Every name in the glossary can be imported, and every file in it exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [line.split("|") for line in (ROOT / "docs/glossary.md").read_text().splitlines() if line.startswith("| ")]
WORDS = [(row[1].strip(), name) for row in ROWS for name in re.findall(r"`([^`]+)`", row[3])]


@pytest.mark.parametrize(("word", "name"), WORDS)
def test_a_name_in_the_glossary_can_be_found(word: str, name: str) -> None:
    if "/" in name:
        assert (ROOT / name).exists(), word
        return
    home, _, last = name.replace("sy.", "steelyard.", 1).rpartition(".")
    assert hasattr(importlib.import_module(home), last), word


def test_no_word_is_explained_twice() -> None:
    words = [row[1].strip() for row in ROWS]
    assert len(set(words) - {"word"}) == len([word for word in words if word != "word"])
