"""The threats that SECURITY.md names for a server: each names what shows that it is met, and what it names is there."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
THREATS = (
    "a forged identity", "stolen or stale sessions", "another site's page, a rebound name", "a link in a log or preview", "guessing and flooding",
    "races for the last budget", "collusion, second names", "a colleague's key", "the time of an answer", "error texts", "a row that ends the worker",
    "exhaustion, so that paid work is lost", "an administrator who raises a budget", "names of other sets", "hostile uploads and predictions", "paths and addresses",
    "scripts in keys and names", "logs and metrics as a channel", "shared caches", "an old backup",
)  # fmt: skip
"""What a server adds to attack, from identity to rollback."""


def table() -> dict[str, str]:
    """Each threat of the table, and what it says shows it."""
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[-1] for row in rows if len(row) == 3 and row[0] != "threat"}


def test_every_threat_has_a_row() -> None:
    assert set(THREATS) <= set(table())


def test_every_row_names_tests_that_exist() -> None:
    files = defaultdict[str, str](str)
    for path in (ROOT / "tests").rglob("test_*.py"):
        files[path.name] += path.read_text("utf-8")
    for threat, shown in table().items():
        named = re.findall(r"`(\w+\.py)::(\w+)`", shown)
        assert named, threat
        for file, test in named:
            assert f"def {test}(" in files[file], (threat, file, test)
        for note in re.findall(r"docs/proofs/\w+\.md", shown):
            assert (ROOT / note).exists(), (threat, note)
