"""How the house stands: lines and files by room, import chains, names, and how often a walk changes rooms.

    python bench/house.py            every figure, one a line
    python bench/house.py --walks    the walks only

A room is a folder (or file) of ``src/steelyard``. A walk is one public call, made a second time and traced: a switch is a call
of another room than the call before it.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

SRC = Path(__file__).parents[1] / "src"
PACKAGE = "steelyard"
PLAIN = {"privacy", "errors", "interrupts", "lazy", "threads"}
"""What every room speaks; going there changes no room."""


@cache
def modules() -> dict[str, Path]:
    """Every module by its dotted name."""
    found = {}
    for path in sorted((SRC / PACKAGE).rglob("*.py")):
        parts = path.relative_to(SRC).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room(module: str) -> str:
    """The room of a module."""
    return module.split(".")[1] if "." in module else PACKAGE


def imports(name: str, path: Path, known: set[str]) -> set[str]:
    """The modules of ours that are imported when this one is (not those inside functions or for types alone).

    A name that a room loads when it is first used counts as its module, and the room besides: a lazy door hides no depth.
    """
    found: set[str] = set()
    for node in _at_import(_parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif node.module:
            found |= {each for alias in node.names for each in _origins(node.module, alias.name, known)}
    return (found & known) - {name}


def _origins(module: str, name: str, known: set[str]) -> list[str]:
    """What importing a name from a module runs."""
    if f"{module}.{name}" in known:
        return [f"{module}.{name}"]
    home = homes(modules()[module]).get(name) if module in known else None
    return [module] if home is None else [module, *_origins(f"{module}.{home}", name, known)]


@cache
def _parsed(path: Path) -> list[ast.stmt]:
    """The statements of a module."""
    return ast.parse(path.read_text(encoding="utf-8")).body


@cache
def homes(path: Path) -> dict[str, str]:
    """Where the names of a lazy room are defined: its ``_HOMES``, by name or by module."""
    held: dict[str, Any] = {}
    for node in _parsed(path):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and "_HOMES" not in held:
            with suppress(NameError, TypeError):  # what needs more than the lines before it is no table of names
                held[_name(node)] = eval(compile(ast.Expression(node.value), str(path), "eval"), held)  # noqa: S307
    found = held.get("_HOMES", {})
    if all(isinstance(each, str) for each in found.values()):
        return dict(found)
    return {name: home for home, names in found.items() for name in names}


def _at_import(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.Try):
            yield from _at_import(node.body)


def longest_chain(graph: dict[str, set[str]]) -> list[str]:
    """The longest chain of imports; the graph has no cycles."""

    @cache
    def chain(name: str) -> tuple[str, ...]:
        below: list[tuple[str, ...]] = [chain(other) for other in sorted(graph[name])]
        longest = max(below, key=len, default=())
        return (name, *longest)

    every: list[tuple[str, ...]] = [chain(name) for name in sorted(graph)]
    longest = max(every, key=len)
    return list(longest)


def names(found: dict[str, Path]) -> tuple[dict[str, list[str]], list[str]]:
    """Class names with their modules, and every public name.

    Of a module that nothing marks as private these are the names in its ``__all__``, or, where it has none, every top-level
    name without an underscore.
    """
    classes: dict[str, list[str]] = defaultdict(list)
    public: list[str] = []
    for name, path in found.items():
        body = _parsed(path)
        for node in body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name)
        if not any(part.startswith("_") for part in name.split(".")):
            public += [f"{name}.{each}" for each in _offered(body, path)]
    return classes, public


def lent(found: dict[str, Path]) -> list[str]:
    """What rooms lend each other beyond what they promise: names that a public module defines or loads and its ``__all__`` leaves out."""
    names = []
    for name, path in found.items():
        if not any(part.startswith("_") for part in name.split(".")):
            body = _parsed(path)
            held = {*homes(path), *(_name(node) for node in body if not _name(node).startswith("_"))}
            names += [f"{name}.{each}" for each in sorted(held - set(_offered(body, path)))]
    return names


def _offered(body: list[ast.stmt], path: Path) -> list[str]:
    for node in body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and _name(node) == "__all__" and node.value is not None:
            listed = isinstance(node.value, ast.List | ast.Tuple)
            return list(ast.literal_eval(node.value)) if listed else list(homes(path))
    return [*homes(path), *(_name(node) for node in body if not _name(node).startswith("_"))]


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    return "_"


def switches(walk: Callable[[], Any]) -> tuple[int, int]:
    """How often two calls after one another were of different rooms, and how many calls of ours there were."""
    walk()  # once before, so that nothing is loaded or worked out for the first time
    rooms: list[str] = []

    def watch(frame: FrameType, event: str, _: Any) -> None:
        here = _room_of_file(frame.f_code.co_filename) if event == "call" else None
        if here is not None and here not in PLAIN:
            rooms.append(here)

    sys.setprofile(watch)
    try:
        walk()
    finally:
        sys.setprofile(None)
    return sum(one != other for one, other in pairwise(rooms)), len(rooms)


@cache
def _room_of_file(path: str) -> str | None:
    if not path.startswith(str(SRC / PACKAGE)):
        return None
    return Path(path).relative_to(SRC / PACKAGE).parts[0].removesuffix(".py")


def walks() -> dict[str, Callable[[], Any]]:
    """Five public calls, each ready to be made; what they need is made beforehand."""
    import numpy as np

    import steelyard as sy
    from steelyard.noise import TestNoise  # a search is as long as its noise wants: the same one every time

    draw = np.random.default_rng(3)
    x, noise = draw.normal(size=(4000, 3)) / 2, draw.normal(size=4000) / 9
    y, users = np.clip(x @ [0.5, -0.3, 0.1] + noise, -1, 1), np.arange(4000) % 800
    table = sy.read({"user": users, "amount": np.abs(y)})
    session = sy.Session(table, sy.open_account(":memory:", "walk", unit=sy.users("user"), epsilon=9))
    model = sy.LinearRegression(epsilon=1, delta=1e-6, y_bounds=(-1, 1), x_bound=3)
    line = sy.LinearRegression(y_bounds=(-1, 1), x_bound=3)
    first = sy.AccuracyFirst(line, target_loss=0.06, epsilon=5, delta=1e-6, noise=TestNoise(1))
    randomizer = sy.LabelRandomizer(epsilon=1, lower=0, upper=9)
    hold = sy.Holdout(y > 0, tolerance=0.1, confidence=0.95)
    hold.check(x[:, 0] > 0, guess=0.7)
    return {
        "Sum": lambda: session.release(sy.Sum("amount", epsilon=1, upper=10)),
        "user-level fit": lambda: model.fit(x, y, users=users),
        "AccuracyFirst": lambda: first.fit(x, y),
        "LabelRandomizer": lambda: randomizer.fit(np.arange(10)).transform(np.arange(10)),
        "Holdout.check": lambda: hold.check(x[:, 1] > 0, guess=0.5),
    }


def _print_walks() -> None:
    for name, walk in walks().items():
        changed, calls = switches(walk)
        print(f"walk: {name:16} {changed:6,} switches of rooms in {calls:7,} calls")


def main() -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--walks", action="store_true", help="the walks only")
    if parser.parse_args().walks:
        _print_walks()
        return
    found = modules()
    lines: Counter[str] = Counter()
    files = Counter(room(name) for name in found)
    for name, path in found.items():
        lines[room(name)] += path.read_text().count("\n")
    for each, count in lines.most_common():
        print(f"room: {each:12} {count:7,} lines in {files[each]:4} files")
    print(f"lines {sum(lines.values()):,} in {len(found)} files")
    graph = {name: imports(name, path, set(found)) for name, path in found.items()}
    chain = longest_chain(graph)
    print(f"longest import chain {len(chain)}: {' > '.join(part.removeprefix(PACKAGE + '.') for part in chain)}")
    classes, public = names(found)
    doubled = {name: where for name, where in classes.items() if len(where) > 1}
    print(f"class names in more than one module {len(doubled)}: {', '.join(sorted(doubled))}")
    own = [name for name in public if name.count(".") > 1]
    print(
        f"public names {len(public):,}: {len(own)} on the rooms' doors, {len(public) - len(own)} offered again by the root; "
        f"{len(lent(found))} more are lent between rooms"
    )
    used = Counter(other for others in graph.values() for other in others)
    print(f"modules imported by one other {sum(1 for count in used.values() if count == 1)}")
    _print_walks()


if __name__ == "__main__":
    main()
