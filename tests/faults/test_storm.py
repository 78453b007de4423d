"""Eight processes race for the last budget and are killed at random: nothing is overspent, unpaid or answered twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import postgres

TESTS = Path(__file__).parent.parent


def run(location: str, folder: Path, kind: str, kills: int) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "faults.storm", location, str(folder), "--kind", kind, "--kills", str(kills)]
    environment = os.environ | {"STEELYARD_HOME": str(folder / "home")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS, timeout=60 + kills)
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def check(report: dict[str, Any], kills: int) -> None:
    assert report["violations"] == []
    assert report["kills"] == kills
    assert report["exhausted"] >= 1, "the storm never reached the last budget, so it tested nothing"
    assert report["delivered"] > kills / 2


def test_a_storm_on_sqlite_breaks_no_promise(tmp_path: Path) -> None:
    check(run(str(tmp_path / "budget.db"), tmp_path, "good", 150), 150)


def test_a_storm_on_postgresql_breaks_no_promise(tmp_path: Path) -> None:
    check(run(postgres.new_database(), tmp_path, "good", 50), 50)


def test_a_storm_on_accounts_below_others_leaves_parents_and_children_agreed(tmp_path: Path) -> None:
    check(run(str(tmp_path / "budget.db"), tmp_path, "tree", 100), 100)


def test_a_storm_on_such_accounts_on_postgresql_does_too(tmp_path: Path) -> None:
    check(run(postgres.new_database(), tmp_path, "tree", 40), 40)


@pytest.mark.slow
def test_two_thousand_kills_on_accounts_below_others(tmp_path: Path) -> None:
    check(run(str(tmp_path / "budget.db"), tmp_path, "tree", 2_000), 2_000)


def test_the_checker_flags_a_ledger_that_charges_the_parent_apart(tmp_path: Path) -> None:
    for attempt in range(5):
        report = run(str(tmp_path / f"apart-{attempt}.db"), tmp_path / str(attempt), "apart", 30)
        if any("parent and children disagree" in text for text in report["violations"]):
            return
    pytest.fail("the twin that charges apart was not flagged")


@pytest.mark.slow
def test_ten_thousand_kills_on_sqlite_break_no_promise(tmp_path: Path) -> None:
    check(run(str(tmp_path / "budget.db"), tmp_path, "good", 10_000), 10_000)


@pytest.mark.slow
def test_two_thousand_kills_on_postgresql_break_no_promise(tmp_path: Path) -> None:
    check(run(postgres.new_database(), tmp_path, "good", 2_000), 2_000)


def test_the_checker_flags_a_ledger_that_checks_and_then_acts(tmp_path: Path) -> None:
    for attempt in range(5):
        report = run(str(tmp_path / f"racy-{attempt}.db"), tmp_path / str(attempt), "racy", 30)
        if any("overspent" in text for text in report["violations"]):
            return
    pytest.fail("the racy twin was not flagged")


def test_the_checker_flags_a_worker_that_delivers_before_it_stores(tmp_path: Path) -> None:
    for attempt in range(5):
        report = run(str(tmp_path / f"early-{attempt}.db"), tmp_path / str(attempt), "early", 30)
        if any("two answers" in text for text in report["violations"]):
            return
    pytest.fail("the early twin was not flagged")
