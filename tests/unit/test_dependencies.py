"""Every dependency is listed with its licence, and the engine whose planner is trusted has a tested upper edge."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ALWAYS = [Requirement(text) for text in PROJECT["dependencies"]]
OPTIONAL = {name: [Requirement(text) for text in texts] for name, texts in PROJECT["optional-dependencies"].items()}


def test_the_page_lists_every_dependency_with_where_it_is_needed_and_a_licence() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    listed = re.findall(r"^\| ([\w-]+) \| (always|`\w+`) \| (\S.*) \|$", page, re.MULTILINE)
    named = {(needed.name, "always") for needed in ALWAYS}
    seen = {needed.name for needed in ALWAYS}
    for extra, requirements in OPTIONAL.items():
        more = {needed.name for needed in requirements} - seen - {PROJECT["name"]}
        named |= {(name, f"`{extra}`") for name in more}
        seen |= more
    assert {(name, where) for name, where, _ in listed} == named


def test_duckdb_is_held_to_the_version_that_was_tested() -> None:
    (duckdb,) = [needed.specifier for needed in ALWAYS if needed.name == "duckdb"]
    assert version("duckdb") in duckdb
    major, minor = map(int, version("duckdb").split(".")[:2])
    assert f"{major}.{minor + 1}.0" not in duckdb
