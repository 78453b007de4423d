"""What griffe must be told of steelyard, since it reads the sources and runs nothing: names that load when first used."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*\n?", re.MULTILINE)


class Rooms(griffe.Extension):
    """Lets rooms keep their names, finds what they load when it is first used, and frames the examples of docstrings."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Frame what a docstring shows, which is no Markdown."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )

    def on_module_members(self, *, mod: griffe.Module, **_: Any) -> None:
        """Correct what was read of a package, before its modules are."""
        if isinstance(mod.filepath, Path) and mod.filepath.name == "__init__.py":
            _keep_rooms(mod, mod.filepath.parent)
            if mod.path != "steelyard" and "_HOMES" in mod.members:
                _load_homes(mod)


def _keep_rooms(module: griffe.Module, folder: Path) -> None:
    """``sy.labels`` is a function and ``steelyard.labels`` a room; the room is loaded next, where the function does not stand."""
    for name in [name for name, found in module.members.items() if found.is_alias]:
        if (folder / name / "__init__.py").exists():
            module.del_member(name)


def _load_homes(module: griffe.Module) -> None:
    """Names of a room by the module that has them; ``__all__`` is their list where it is not written out."""
    try:
        homes = ast.literal_eval(str(module["_HOMES"].value))
    except ValueError:
        return  # no plain list of names: such a room imports them for type checkers, which is read too
    for name, home in homes.items():
        if isinstance(home, str) and name not in module.members:
            module.set_member(name, griffe.Alias(name, f"{module.path}.{home}.{name}"))
    module.exports = module.exports or sorted(homes)
