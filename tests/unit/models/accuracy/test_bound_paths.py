"""Gaussian paths on rows that changed: each step is a release of its own, nothing is compared, and the certificate says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from steelyard.desk import Desk
from steelyard.errors import KeyConflict
from steelyard.ledger import Account
from steelyard.models._fits import FitLinear
from steelyard.models.accuracy import _split as split
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._reach import reach
from steelyard.noise import TestNoise
from steelyard.session import Session
from steelyard.tables import Table, read
from unit.models.accuracy.bound_paths import FEATURES, LOGISTIC, RIDGE, account, changed, table

KINDS: dict[str, tuple[Any, Callable[[Any, bool], Any]]] = {
    "ridge target": (RIDGE, lambda walk, hard: walk.reach_loss(0.02 if hard else 0.08, 0.9)),
    "ridge excess": (RIDGE, lambda walk, hard: walk.reach_excess(0.003 if hard else 0.03, 0.9)),
    "logistic": (LOGISTIC, lambda walk, hard: walk.reach_loss(0.55 if hard else 0.64, 0.9)),
}
UNITS = ["rows", "users"]


def asked(kind: str, at: Account, given: Table, *, hard: bool, seed: int = 1, key: str = "k") -> Any:
    search, question = KINDS[kind]
    return question(Session(given, at, noise=TestNoise(seed)).open(search, key=key), hard)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tighter_question_about_other_rows_goes_on_and_pays_for_its_steps(kind: str, unit: str) -> None:
    at = account(unit)
    first = asked(kind, at, table(), hard=False)
    second = asked(kind, at, changed(), hard=True, seed=2)
    assert second.reason == "target_met"
    assert second.spent == at.spent.amount > first.spent


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_retry_reads_no_row(kind: str, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at = account(unit)
    first = asked(kind, at, table(), hard=True)
    assert first.reason == "target_met"
    for where, name in ((split.KeptRows, "read"), (split, "exact_of")):
        monkeypatch.setattr(where, name, lambda *_: pytest.fail("a retry reads nothing"))
    with pytest.raises(pytest.fail.Exception):
        asked(kind, account(unit), table(), hard=True)  # whoever reads goes through one of the two
    again = asked(kind, at, changed(), hard=True, seed=4)
    assert np.array_equal(again.model, first.model)
    assert again.spent == first.spent == at.spent.amount


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_step_that_was_charged_and_never_stored_is_drawn_for_nothing_more(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = account("rows")
    with monkeypatch.context() as patch:
        patch.setattr(Desk, "answer", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            asked(kind, at, table(), hard=False)
    wasted = at.spent.amount
    found = asked(kind, at, changed(), hard=False)
    assert found.reason == "target_met"
    assert at.spent.amount == found.spent > wasted > 0


@pytest.mark.parametrize(("unit", "told"), [("rows", "3,000 rows"), ("users", "1,000 users")])
def test_the_certificate_says_what_is_taken_for_granted(unit: str, told: str) -> None:
    session = Session(table(), account(unit), noise=TestNoise(1))
    wanted = Goal("loss", 0.05, 0.9)
    found = reach(session, FitLinear(FEATURES, "y", -1, 1), wanted, penalty="0.001", key="k")
    assert f"the table has the {told} that its account declares" in str(found.certificate)
    assert "its rows are those that the path began with" in str(found.certificate)
    missed = reach(session, FitLinear(FEATURES, "y", -1, 1), Goal("loss", 1e-6, 0.9), penalty="0.001", key="k")
    assert not missed.certificate.met
    assert "takes for granted" not in str(missed.certificate)


def test_a_path_is_bound_to_its_table_by_name() -> None:
    at, wanted = account("rows"), Goal("loss", 0.05, 0.9)
    for name in ("May", "May"):
        session = Session(read(table(), name=name), at, noise=TestNoise(1))
        reach(session, FitLinear(FEATURES, "y", -1, 1), wanted, penalty="0.001", key="k")
    spent = at.spent
    session = Session(read(table(), name="June"), at, noise=TestNoise(1))
    with pytest.raises(KeyConflict, match=r"'May'.*'June'"):
        reach(session, FitLinear(FEATURES, "y", -1, 1), wanted, penalty="0.001", key="k")
    assert at.spent == spent
