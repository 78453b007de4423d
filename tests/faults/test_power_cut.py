"""After a power cut every acknowledged charge and answer is still there; with a weaker setting some are not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent.parent


def cut(folder: Path, synchronous: str, charges: int, cuts: int) -> dict[str, Any]:
    options = ["--synchronous", synchronous, "--charges", str(charges), "--cuts", str(cuts)]
    command = [sys.executable, "-m", "faults.powercut", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=TESTS, timeout=60 + cuts)
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def check(report: dict[str, Any]) -> None:
    assert report["acknowledged"] > report["cuts"]
    assert (report["lost"], report["broken"]) == (0, [])
    assert report["record"]["sync"] > 100, "nothing was recorded, so nothing was tested"


def test_no_acknowledged_charge_is_lost(tmp_path: Path) -> None:
    check(cut(tmp_path, "FULL", 60, 500))


@pytest.mark.slow
def test_ten_thousand_power_cuts_lose_nothing(tmp_path: Path) -> None:
    check(cut(tmp_path, "FULL", 80, 10_000))


def test_the_same_check_finds_the_losses_of_a_weaker_setting(tmp_path: Path) -> None:
    assert cut(tmp_path, "NORMAL", 60, 100)["lost"] > 0
