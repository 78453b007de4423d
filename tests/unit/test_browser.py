"""The browser that the tests of pages use: it clicks, types and sees as a person does, and it finds what it is there to find."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import chromium
from browser import Browser

_PAGE = """<!doctype html><html lang="en"><title>A page</title><main><h1>{heading}</h1>{body}</main>"""
_FORM = (
    '<form action="second.html"><label for="n">Your name</label><input id="n" name="n"><button>Go on</button></form>'
)


def test_a_click_a_key_and_a_word_do_what_a_person_would(browser: Browser, tmp_path: Path) -> None:
    _write(tmp_path / "first.html", "First ± ε", _FORM)
    _write(tmp_path / "second.html", "Second", "<p>done</p>")
    page = browser.person()
    page.open(f"file://{tmp_path}/first.html")
    page.fill("Your name", "Ada")
    page.press("Go on")
    page.see("done")
    assert (page.heading, page.url.rpartition("?")[2]) == ("Second", "n=Ada")
    page.open(f"file://{tmp_path}/first.html")
    page.scripts(False)
    page.tab_to("Your name")
    page.type("Bob")
    page.enter()
    assert page.url.endswith("?n=Bob")


def test_what_some_people_cannot_use_is_found(browser: Browser, tmp_path: Path) -> None:
    page = browser.person()
    _write(tmp_path / "good.html", "Good", _FORM)
    page.open(f"file://{tmp_path}/good.html")
    assert page.faults() == []
    _write(
        tmp_path / "bad.html",
        "Bad",
        "<input><pre>" + "wide " * 400 + '</pre><p style="color:#ccc;background:#fff">pale</p>',
    )
    page.open(f"file://{tmp_path}/bad.html")
    assert {fault.partition(":")[0] for fault in page.faults()} >= {
        "label",
        "color-contrast",
        "the page is wider than its window",
    }


def test_a_browser_that_cannot_be_run_is_said_and_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_BROWSER", "/nowhere/chromium")
    with pytest.raises(pytest.fail.Exception, match="STEELYARD_BROWSER is '/nowhere/chromium'"):
        chromium.find_browser.__wrapped__()


def test_an_archive_that_is_not_the_pinned_one_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A stand-in for npm delivers other bytes than the pinned ones."""
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/sh\nfor last; do :; done\necho changed > "$4/$(basename "$last").tgz"\n', "utf-8")
    npm.chmod(0o755)
    monkeypatch.setattr(chromium, "_beside", lambda program: os.fspath(npm))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(pytest.fail.Exception, match="another digest"):
        chromium.fetched_browser()
    assert not [path for path in (tmp_path / "cache" / "steelyard-tests").iterdir() if path.is_dir()]


def _write(path: Path, heading: str, body: str) -> None:
    path.write_text(_PAGE.format(heading=heading, body=body), "utf-8")
