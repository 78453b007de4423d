"""The figures of the house do not grow again: how deep imports go, how many names are promised, and that every lent name is used."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("house")


def test_no_chain_of_imports_is_longer_than_fourteen(house: Any) -> None:
    """Move what is shared down, or import for types alone what only annotations use; ``python bench/house.py`` names the chain."""
    found = house.modules()
    graph = {name: house.imports(name, path, set(found)) for name, path in found.items()}
    assert len(house.longest_chain(graph)) <= 14


def test_one_class_name_has_one_meaning(house: Any) -> None:
    classes, _ = house.names(house.modules())
    assert len([name for name, where in classes.items() if len(where) > 1]) <= 5


def test_at_most_three_hundred_names_are_promised(house: Any) -> None:
    """A name that only other rooms need is loaded by its door and stays out of ``__all__``."""
    assert len(house.names(house.modules())[1]) <= 300


@pytest.mark.parametrize(
    ("walk", "most"), [("Sum", 25), ("user-level fit", 110), ("Holdout.check", 8), ("AccuracyFirst", 120)]
)
@pytest.mark.filterwarnings("ignore:about 94% of the rows")
def test_a_walk_through_the_house_goes_straight(house: Any, walk: str, most: int) -> None:
    """Pass what is known rather than ask back; ``python bench/house.py --walks`` counts every walk."""
    assert house.switches(house.walks()[walk])[0] <= most


def used(house: Any) -> set[str]:
    """Every name that some module imports from a door, or takes from an imported room, outside the room itself."""
    found: set[str] = set()
    for name, path in house.modules().items():
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module and house.room(node.module) != house.room(name):
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
        found |= {f"{house.PACKAGE}.{path}" for path in re.findall(r"(?:steelyard\.|\b)((?:audit|labels)\.\w+)", text)}
    return found


def test_every_name_that_a_door_lends_is_used_by_another_room(house: Any) -> None:
    loaded = {f"{name}.{each}" for name, path in house.modules().items() for each in house.homes(path)}
    assert not sorted(loaded & set(house.lent(house.modules())) - used(house))


def test_a_lent_name_that_nobody_uses_would_be_found(
    house: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "__init__.py").write_text('__all__ = ["Ledger"]\n_HOMES = {"_ledger": ("Ledger", "forgotten")}\n')
    monkeypatch.setattr(house, "modules", lambda: {"steelyard.ledger": tmp_path / "__init__.py"})
    assert house.lent(house.modules()) == ["steelyard.ledger.forgotten"]
    assert "steelyard.ledger.forgotten" not in used(house)
