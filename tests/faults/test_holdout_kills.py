"""Processes that share a holdout are killed at random: no answer escapes undebited, none is given twice differently."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steelyard.ledger import Ledger

TESTS = Path(__file__).parent.parent


def run(folder: Path, kind: str, kills: int) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "faults.storm_of_checks", str(folder / "b.db"), str(folder), "--kind", kind]
    environment = os.environ | {"STEELYARD_HOME": str(folder / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--kills", str(kills)],
        capture_output=True, text=True, env=environment, cwd=TESTS, timeout=120 + 2 * kills,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def check(folder: Path, kills: int) -> None:
    report = run(folder, "good", kills)
    assert report["violations"] == []
    assert report["paid"] >= 1, "the storm paid for nothing, so it tested nothing"
    assert report["lines"] > 2 * kills


def test_fifty_kills_let_no_answer_escape_undebited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(tmp_path, 50)
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    assert Ledger(tmp_path / "b.db").verify().ok


@pytest.mark.slow
def test_a_thousand_kills_let_no_answer_escape_undebited(tmp_path: Path) -> None:
    for turn in range(10):
        check(tmp_path / str(turn), 100)


@pytest.mark.parametrize(("twin", "kills"), [("early", 30), ("markless", 60), ("thrifty", 60)])
def test_a_holdout_that_counts_too_little_is_caught(tmp_path: Path, twin: str, kills: int) -> None:
    """Twins: delivers before it charges; leaves no mark while it scores; reuses a surprise that was not stored."""
    for attempt in range(5):
        report = run(tmp_path / str(attempt), twin, kills)
        if report["violations"]:
            return
    pytest.fail(f"the {twin} twin was not caught")
