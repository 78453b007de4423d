"""One budget for the same labels on a ledger; and nothing of hidden ones in what an opening says."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import postgres
from steelyard.errors import UnitMismatch
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._metrics import AbsoluteError
from steelyard.ledger import Ledger, open_account
from steelyard.privacy import holdout as of_holdout
from steelyard.privacy import rows

N = 5000
LABELS = np.random.default_rng(0).integers(0, 2, N)
PRIVATE: dict[str, Any] = {"mode": "private", "tolerance": 0.2, "questions": 3, "classes": [0, 1]}
CLASSIC: dict[str, Any] = {"mode": "classic", "tolerance": 0.2, "classes": [0, 1]}


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    return str(tmp_path / "budget.db") if request.param == "sqlite" else postgres.new_database()


def test_the_same_labels_under_another_name_are_refused_whatever_they_come_in(place: str) -> None:
    Holdout(LABELS, ledger=place, name="spring")
    for labels in (LABELS, LABELS.tolist(), LABELS.astype(bool), pd.Series(LABELS, dtype="Int64"), LABELS.astype(str)):
        with pytest.raises(UnitMismatch, match=r"labels of the holdout 'spring' .* one budget for good"):
            Holdout(labels, ledger=place, name="autumn")
    for given in ({"mode": "ladder"}, {"mode": "rounds"}, {"metric": AbsoluteError(Fraction(1))}, {"tolerance": 0.1}):
        with pytest.raises(UnitMismatch, match="labels of the holdout 'spring'"):
            Holdout(LABELS, ledger=place, name=f"by {given}", **given)
    Holdout(1 - LABELS, ledger=place, name="autumn")
    Holdout(LABELS, ledger=place, name="spring")


def test_a_second_account_or_a_declaration_is_no_way_round_it(tmp_path: Path) -> None:
    ledger = tmp_path / "b.db"
    Holdout(LABELS, ledger=ledger, name="spring")
    account = open_account(ledger, "mine", unit=of_holdout("spring"), nats=20)
    for given in ({"account": account}, {"ledger": ledger, "name": "autumn", "separate": True}):
        with pytest.raises(UnitMismatch, match="labels of the holdout 'spring'"):
            Holdout(LABELS, **given)


def votes(holdouts: list[Holdout]) -> float:
    """How far from one half the vote over all that was answered is on coin-flip labels."""
    rng, few = np.random.default_rng(1), holdouts[0].rows
    told = np.zeros(few)
    for each in holdouts:
        for _ in range(5):
            guess = rng.integers(0, 2, few)
            told += ((each.check(guess).value or 0.5) - 0.5) * (2 * guess - 1)
    return float(np.mean((told > 0) == LABELS[:few]) - 0.5)


def test_the_twin_with_a_budget_for_each_name_is_overfitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened() -> list[Holdout]:
        return [Holdout(LABELS[:1000], 0.1, ledger=tmp_path / "b.db", name=f"{number}") for number in range(40)]

    with pytest.raises(UnitMismatch, match="one budget"):
        opened()
    monkeypatch.setattr("steelyard.holdout._record.refuse_second_budget", lambda *facts: None)
    assert votes(opened()) > 0.1, "a vote with a true accuracy of one half must look better than the tolerance allows"


@pytest.mark.parametrize("first", [{}, PRIVATE, CLASSIC], ids=["certified", "private", "classic"])
@pytest.mark.parametrize("second", [PRIVATE, CLASSIC], ids=["private", "classic"])
def test_hidden_labels_are_never_compared_and_as_many_rows_need_a_word(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    for a, b in ((first, second), (second, first)):
        ledger, told = tmp_path / f"{len(list(tmp_path.iterdir()))}.db", set()
        Holdout(LABELS, ledger=ledger, name="spring", **a)
        for labels in (LABELS, 1 - LABELS):
            with pytest.raises(UnitMismatch, match="separate=True") as refusal:
                Holdout(labels, ledger=ledger, name="autumn", **b)
            told.add(str(refusal.value))
        assert len(told) == 1
        Holdout(LABELS, ledger=ledger, name="autumn", separate=True, **b)
        Holdout(LABELS[:-1], ledger=ledger, name="winter", **b)
        Holdout(LABELS, ledger=ledger, name="autumn", **b)


@pytest.mark.parametrize("given", [PRIVATE, CLASSIC], ids=["private", "classic"])
def test_opening_with_one_label_changed_tells_nothing_where_labels_are_hidden(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    """What the ledger holds, what opening says and what is told again are the same for neighbouring labels."""
    changed = LABELS.copy()
    changed[0] ^= 1
    ledger = tmp_path / "b.db"
    first = Holdout(LABELS, ledger=ledger, name="spring", **given)
    asked: dict[str, Any] = {"guess": 0.5} if given is CLASSIC else {}
    answer = first.check(LABELS, **asked)
    again = Holdout(changed, ledger=ledger, name="spring", **given)
    assert again.check(LABELS, **asked) == answer
    assert again.account.spent == first.account.spent
    with pytest.raises(UnitMismatch, match="with another metric, number of rows"):
        Holdout(changed, ledger=ledger, name="spring", **{**given, "metric": "error"})


def test_entry_0_has_a_seal_of_labels_that_are_not_hidden_and_nothing_of_others(tmp_path: Path) -> None:
    ledger = tmp_path / "b.db"
    Holdout(LABELS, ledger=ledger, name="spring")
    Holdout(LABELS[1:], ledger=ledger, name="people", **PRIVATE)
    facts = [json.loads(entry.detail)["parameters"] for entry in Ledger(ledger).charges("holdout/%/0")]
    assert [len(each.get("labels", "")) for each in facts] == [64, 0]
    assert Ledger(ledger).verify().ok


def test_no_text_advises_another_name(tmp_path: Path) -> None:
    ledger = tmp_path / "b.db"
    Holdout(LABELS, ledger=ledger, name="spring")
    told = []
    changes: list[dict[str, Any]] = [{"tolerance": 0.06}, {"metric": "error"}, {"name": "autumn"}, {"confidence": 0.9}]
    for given in changes:
        with pytest.raises(Exception, match="spring") as refusal:
            Holdout(LABELS, **{"ledger": ledger, "name": "spring", **given})
        told.append(str(refusal.value))
    assert not any("another name" in text or "other name" in text for text in told)


def test_two_processes_cannot_open_the_same_labels_at_once(tmp_path: Path) -> None:
    import multiprocessing

    context = multiprocessing.get_context("fork")
    open_account(tmp_path / "b.db", "x", unit=rows(), epsilon=1)
    with context.Pool(4) as pool:
        opened = pool.starmap(_try, [(str(tmp_path / "b.db"), f"name {number}") for number in range(8)])
    assert sum(opened) == 1


def _try(ledger: str, name: str) -> bool:
    try:
        Holdout(LABELS, ledger=ledger, name=name)
    except UnitMismatch:
        return False
    return True
