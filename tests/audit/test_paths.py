"""The audit of accuracy-first steps passes what ships, and sees a measurement that pays for too short a distance."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.audit._suite import run
from steelyard.models.accuracy import _users as by_user
from steelyard.models.accuracy._certificate import RootExcess
from steelyard.models.accuracy._designs import Design

NAMES = ["first-level", "first-look"]


def failing() -> set[str]:
    return {verdict.subject for verdict in run(NAMES, quick=True, jobs=1) if not verdict.ok}


def test_steps_of_paths_pass_their_audit() -> None:
    assert failing() == set()


def test_a_level_that_prices_half_the_distance_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    square = vars(Design)["square"].fget
    monkeypatch.setattr(Design, "square", property(lambda self: square(self) // 4))
    assert failing() == {"first-level", "first-level-coarse", "first-level-users"}


def test_users_whose_rows_all_count_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_user, "weights", lambda sizes: np.full(len(sizes), by_user.WEIGHT))
    assert "first-level-users" in failing()


def test_a_look_on_too_coarse_a_claim_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RootExcess, "moves", 1)
    assert "first-look" in failing()
