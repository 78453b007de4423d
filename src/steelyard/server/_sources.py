"""Where the worker finds a table: a file below an allowed folder, an uploaded file, or an address that the configuration names.

A path is one that people typed: it is joined to its root, resolved, and must still lie inside it and be a regular file. No address
is ever typed by people, so no page can make the server connect anywhere.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from steelyard.errors import InvalidTask, TableError
from steelyard.server._config import SPARK, Config

KINDS = ("root", "upload", "named")
SUFFIXES = (".parquet", ".csv")
_OUTSIDE = "a source is a Parquet or CSV file inside one of the folders that the configuration allows."


def check_source(config: Config, kind: str, source: str) -> None:
    """Refuse, from the text alone, a source that cannot be one; whether it is there only the worker can see."""
    if kind == "named":
        if source not in config.sources:
            raise InvalidTask(
                f"there is no source of that name; the configuration has {', '.join(config.sources) or 'none'}."
            )
        return
    root, _, path = source.partition("/")
    parts = Path(path).parts
    plain = path and source.isprintable() and not Path(path).is_absolute() and ".." not in parts and "\\" not in path
    if kind != "root" or root not in config.roots or not plain or Path(path).suffix.lower() not in SUFFIXES:
        raise InvalidTask(f"{_OUTSIDE} Folders: {', '.join(config.roots) or 'none'}.")


def locate(config: Config, kind: str, source: str) -> str:
    """The address of a source for ``read``: a path that was checked on the disk, or what the configuration says."""
    if kind == "named":
        return config.sources[source]
    if kind == "upload":
        return _inside(config.folder / "uploads", source)
    root, _, path = source.partition("/")
    check_source(config, kind, source)
    return _inside(Path(config.roots[root]), path)


def open_source(config: Config, kind: str, source: str) -> Any:
    """What ``read`` takes of a source: its address, or the data frame of one that Spark reads."""
    place = locate(config, kind, source)
    if kind != "named" or not place.startswith(SPARK):
        return place
    from steelyard.tables import spark_frame  # of the worker alone: the web process loads no engine

    return spark_frame(config.spark, place.removeprefix(SPARK))


def named_alike(config: Config, source: str, other: str) -> bool:
    """Whether two files below roots have the same path, as far as their names tell."""
    one, two = (
        os.path.normpath(os.path.join(config.roots.get(root, root), path))
        for root, _, path in (source.partition("/"), other.partition("/"))
    )
    return one == two


def _inside(folder: Path, path: str) -> str:
    """A regular file inside a folder, links followed; anything else is refused in the same words."""
    root, found = Path(os.path.realpath(folder)), Path(os.path.realpath(folder / path))
    try:
        regular = found.is_relative_to(root) and stat.S_ISREG(found.stat().st_mode)
    except OSError:
        regular = False
    if not regular or any(mark in str(found) for mark in "*?["):
        raise TableError(_OUTSIDE)
    return str(found)
