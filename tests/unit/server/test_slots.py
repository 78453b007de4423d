"""Answers on a public schedule: how long the work took shows in one of a few moments, and in nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from browsing import SUM, Team, new_team
from steelyard.server import _worker
from steelyard.server._slots import moment, retry_after

POLLS = (0.1, 0.5, 0.9, 1.0, 1.2, 1.7, 2.0, 2.5, 3.9, 4.0, 5.0)


@pytest.mark.parametrize("ended", [0.01, 0.5, 1.0, 1.0001, 1.9, 3.0, 100.0])
def test_a_moment_is_one_of_the_schedule_and_not_before_the_work_ended(ended: float) -> None:
    seen = moment(1000.0, 1.0, 1000.0 + ended) - 1000.0
    assert seen in [2.0**step for step in range(20)]
    assert seen >= ended
    assert seen < 2 * max(ended, 0.5) + 1e-9
    assert moment(1000.0, 0.0, 1000.0 + ended) == 1000.0 + ended
    assert retry_after(1000.0, 1.0, 1000.0 + ended) >= 1


class Watch:
    """A clock that a test sets, in seconds after the charge."""

    def __init__(self, team: Team) -> None:
        self.charged, self.now = 0.0, 0.0
        team.server.clock = lambda: self.charged + self.now


Polled = tuple[float, int, str, str | None, int]


def polled(team: Team, watch: Watch, key: str, ended: float) -> list[Polled]:
    """All that a client sees of a question whose work ends a while after its charge; but for the number of its entry and its noise."""
    ana, watch.now = team.browser("ana"), 0.0
    asked = ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": key})
    job = team.server.jobs.of_sequence(asked.json["id"])
    assert job is not None
    assert job.charged is not None
    watch.charged, done, seen = job.charged, False, list[Polled]()
    for at in POLLS:
        if not done and ended <= at:
            watch.now, done = ended, True
            team.worker.once()
        watch.now = at
        found = ana.get(asked.headers["location"])
        length = len(found.body) - len(str(asked.json["id"])) if found.json["state"] == "charged" else 0
        seen.append((at, found.status, found.json["state"], found.headers.get("retry-after"), length))
    return seen


@pytest.fixture
def slotted(tmp_path: Path) -> tuple[Team, Watch]:
    team = new_team(tmp_path, slot=1.0)
    return team, Watch(team)


def test_runs_that_end_in_the_same_interval_cannot_be_told_apart(slotted: tuple[Team, Watch]) -> None:
    team, watch = slotted
    assert polled(team, watch, "a", 0.1) == polled(team, watch, "b", 0.9)
    assert polled(team, watch, "c", 1.2) == polled(team, watch, "d", 2.0)
    shown = polled(team, watch, "e", 2.5)
    assert [state for at, _, state, _, _ in shown if at < 4.0] == ["charged"] * 9
    assert [state for at, _, state, _, _ in shown if at >= 4.0] == ["answered"] * 2


def test_a_twin_that_shows_answers_at_once_is_told_apart(
    slotted: tuple[Team, Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    team, watch = slotted
    at_once: Callable[[float, float, float], float] = lambda charged, slot, now: now  # noqa: E731
    monkeypatch.setattr(_worker, "moment", at_once)
    assert polled(team, watch, "a", 0.1) != polled(team, watch, "b", 0.9)


def test_a_full_queue_does_not_tell_when_the_work_ended(tmp_path: Path) -> None:
    team = new_team(tmp_path, slot=1.0, queue_of_one=1)
    watch, ana = Watch(team), team.browser("ana")
    team.server.jobs._clock = lambda: watch.charged + watch.now

    def probe() -> int:
        """A question that the budget cannot pay for: it costs nothing, and is refused for the queue first."""
        task, key = {**SUM, "epsilon": "100"}, {"Idempotency-Key": "probe"}
        return ana.post("/api/v1/sets/spend/releases", {"task": task}, headers=key).status

    asked = ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "a"})
    job = team.server.jobs.of_sequence(asked.json["id"])
    assert job is not None
    assert job.charged is not None
    watch.charged, watch.now = job.charged, 0.5
    before = probe()
    team.worker.once()
    assert (before, probe()) == (429, 429)
    watch.now = 1.0
    assert probe() == 402
