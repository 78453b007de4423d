"""A path whose process is killed again and again: never under-charged, one step over at most, never redrawn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent


def run(folder: Path, kind: str, kills: int) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "faults.walker", str(folder), "--kind", kind, "--kills", str(kills)]
    environment = os.environ | {"STEELYARD_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS, timeout=60 + 3 * kills)
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_forty_kills_along_a_path_break_no_promise(tmp_path: Path) -> None:
    report = run(tmp_path, "good", 50)
    assert report["violations"] == []
    assert report["told"] > 10


@pytest.mark.slow
def test_a_thousand_kills_along_a_path_break_no_promise(tmp_path: Path) -> None:
    assert run(tmp_path, "good", 1000)["violations"] == []


def test_kills_along_a_laplace_path_break_no_promise_and_the_next_process_goes_on(tmp_path: Path) -> None:
    for attempt in range(
        4
    ):  # whether a kill falls between two levels of a path is chance; that none breaks a promise is not
        report = run(tmp_path / str(attempt), "laplace", 5)
        assert report["violations"] == []
        if report["resumed"] > 0:
            return
    pytest.fail("no path was gone on with")


def test_a_path_that_forgets_to_pay_for_its_next_level_is_caught(tmp_path: Path) -> None:
    assert any("never paid for" in text for text in run(tmp_path, "forgets", 2)["violations"])


@pytest.mark.slow
def test_sixty_kills_along_laplace_paths_break_no_promise(tmp_path: Path) -> None:
    assert run(tmp_path, "laplace", 60)["violations"] == []


def test_a_desk_that_tells_before_it_stores_is_caught(tmp_path: Path) -> None:
    for attempt in range(4):
        report = run(tmp_path / str(attempt), "early", 10)
        if any("redrawn" in text or "twice" in text for text in report["violations"]):
            return
    pytest.fail("the early twin was not flagged")
