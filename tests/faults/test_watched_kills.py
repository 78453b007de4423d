"""A watched path whose processes die at any write: levels and answers are never redrawn, and a dead watch stays dead."""

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
    command = [sys.executable, "-m", "faults.watcher", str(folder), "--kind", kind, "--kills", str(kills)]
    environment = os.environ | {"STEELYARD_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS, timeout=60 + 10 * kills)
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_deaths_at_any_write_break_no_promise(tmp_path: Path) -> None:
    report = run(tmp_path, "good", 4)
    assert report["violations"] == []
    assert report["told"] > 5


@pytest.mark.slow
def test_sixty_deaths_break_no_promise(tmp_path: Path) -> None:
    assert run(tmp_path, "good", 60)["violations"] == []


def test_a_watch_that_is_revived_under_another_threshold_is_caught(tmp_path: Path) -> None:
    assert any("two processes" in text for text in run(tmp_path, "revived", 3)["violations"])
