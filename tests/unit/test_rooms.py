"""The picture of the rooms is drawn from the imports, and stays true."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("rooms")


def test_the_picture_shows_the_rooms_and_arrows_of_today(rooms: Any) -> None:
    """Run ``python bench/rooms.py`` where this fails. The numbers of lines may be a little behind."""
    kept, drawn = rooms.PICTURE.read_text(encoding="utf-8"), rooms.drawing()
    size = re.compile(r"([0-9,]+) lines")
    assert size.sub("", kept) == size.sub("", drawn)
    told, true = ([int(found.replace(",", "")) for found in size.findall(text)] for text in (kept, drawn))
    assert all(abs(one - other) <= max(100, 0.2 * other) for one, other in zip(told, true, strict=True))


def test_arrows_point_down_and_follow_from_imports(rooms: Any) -> None:
    level = {room: place for place, row in enumerate(rooms.layers()) for room in row}
    imports = rooms.imported()
    assert set(level) == set(rooms.PURPOSES)
    assert all(level[room] < level[other] for room, others in imports.items() for other in others)
    assert "release" in rooms.needed(imports)["desk"]


def test_an_arrow_that_follows_from_others_is_left_out(rooms: Any) -> None:
    assert rooms.needed({"a": {"b", "c"}, "b": {"c"}}) == {"a": ["b"], "b": ["c"]}


def reached_past(rooms: Any) -> list[str]:
    """Imports, anywhere in src, of another room's inner modules; the audit may look inside."""
    found = []
    for path in sorted((rooms.house.SRC / rooms.house.PACKAGE).rglob("*.py")):
        here = path.relative_to(rooms.house.SRC / rooms.house.PACKAGE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [f"{names[0]}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            inner = [
                name
                for name in names
                if re.fullmatch(rf"{rooms.house.PACKAGE}\.(?!{here}\.)\w+\.(\w+\.)*_[a-z]\w*", name)
            ]
            found += [f"{path.name}: {name}" for name in inner if here not in ("audit", "__init__")]
    return found


def test_rooms_meet_at_their_doors(rooms: Any) -> None:
    """What a room's door does not load is its own; ``_name.py`` says so."""
    assert reached_past(rooms) == []


def test_a_room_that_reaches_into_another_is_found(rooms: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / rooms.house.PACKAGE / "labels").mkdir(parents=True)
    (tmp_path / rooms.house.PACKAGE / "labels" / "_new.py").write_text(
        f"from {rooms.house.PACKAGE}.ledger._store import Store\n"
    )
    monkeypatch.setattr(rooms.house, "SRC", tmp_path)
    assert reached_past(rooms) == [f"_new.py: {rooms.house.PACKAGE}.ledger._store"]


@pytest.mark.parametrize("path", sorted((BENCH.parent / "src/steelyard").rglob("*.py")), ids=lambda path: path.stem)
def test_inner_modules_are_private_by_name(path: Path) -> None:
    inside = path.parent.name != "steelyard" and path.name not in ("__init__.py", "__main__.py")
    assert path.name.startswith("_") == inside or path.name.startswith("__")
