"""The documentation site is built as a visitor gets it: strictly, from the pages alone, asking no other host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import griffe
import pytest

import docs_site

ROOT = Path(__file__).parents[2]
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|link(?![^>]*rel="(?:canonical|next|prev)"))[^>]*(?:src|href)="(?:https?:)?//[^"]*"|url\(["']?(?:https?:)?//""",
)


def build(where: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(where), *options]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site, built once."""
    where = tmp_path_factory.mktemp("site")
    done = build(where)
    assert done.returncode == 0, done.stderr
    return where


def test_every_page_and_every_public_name_is_on_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs")).with_suffix(".html").exists(), page
    for room, names in docs_site.rooms().items():
        text = (site / "reference" / f"{room}.html").read_text(encoding="utf-8")
        assert [name for name in names if f'id="{room}.{name}"' not in text] == []


def test_the_site_asks_no_other_host_for_anything(site: Path) -> None:
    fetched = [page.name for page in site.rglob("*.html") if _FETCHED.search(page.read_text(encoding="utf-8"))]
    fetched += [sheet.name for sheet in site.rglob("*.css") if _FETCHED.search(sheet.read_text(encoding="utf-8"))]
    assert fetched == []


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://unpkg.com/x.js">',
        '<link rel="stylesheet" href="//fonts.example/a.css">',
        "url(https://a/b)",
    ],
)
def test_what_would_be_fetched_is_found(text: str) -> None:
    assert _FETCHED.search(text)


@pytest.mark.parametrize(
    ("link", "passes"),
    [
        ("[here](index.md#start)", True),
        ("[gone](nowhere.md)", False),
        ("[gone](index.md#nowhere)", False),
        ("[gone](nowhere/)", False),
    ],
)
def test_a_link_that_leads_nowhere_fails_the_build(link: str, passes: bool, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Start\n\n{link}\n")
    settings = (ROOT / "mkdocs.yml").read_text()
    rules = settings[settings.index("validation:") : settings.index("\nnav:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: broken\nuse_directory_urls: false\n{rules}\n")
    assert build(tmp_path / "site", "--config-file", str(tmp_path / "mkdocs.yml")).returncode == (0 if passes else 1)


def test_every_public_name_says_what_it_is() -> None:
    assert docs_site.undocumented() == []


def test_a_public_name_that_says_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "steelyard").mkdir()
    (tmp_path / "steelyard" / "__init__.py").write_text('"""Rooms."""\n')
    (tmp_path / "steelyard" / "room.py").write_text(
        'class Noun:\n    """A noun."""\n    def verb(self): ...\n\ndef silent(): ...\n'
    )
    monkeypatch.setattr(docs_site, "package", lambda: griffe.load("steelyard", search_paths=[tmp_path]))
    assert docs_site.undocumented() == ["steelyard.room.Noun.verb", "steelyard.room.silent"]
