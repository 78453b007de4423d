"""Searches with a check part whose processes are killed, two at a time: never paid too little, never answered twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent


def run(folder: Path, kills: int, kind: str = "good") -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "faults.divider", str(folder), "--kind", kind, "--kills", str(kills)]
    environment = os.environ | {"STEELYARD_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS, timeout=120 + 3 * kills)
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_two_processes_killed_again_and_again_break_no_promise(tmp_path: Path) -> None:
    report = run(tmp_path, 8)
    assert report["violations"] == []
    assert report["told"] > 10


def test_a_desk_that_tells_before_it_stores_is_caught(tmp_path: Path) -> None:
    for attempt in range(4):
        if any("told twice" in text for text in run(tmp_path / str(attempt), 6, "early")["violations"]):
            return
    pytest.fail("the early twin was not flagged")


@pytest.mark.slow
def test_hundreds_of_kills_break_no_promise(tmp_path: Path) -> None:
    assert run(tmp_path, 300)["violations"] == []
