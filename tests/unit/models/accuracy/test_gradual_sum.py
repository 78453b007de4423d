from __future__ import annotations

import math
import statistics
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.accounting._gaussian import mu_request
from steelyard.errors import BudgetExceeded, InvalidTask, KeyConflict, TableError, UnitMismatch
from steelyard.ledger import Account, Ledger, open_account
from steelyard.models.accuracy._total import GradualSum, step_of
from steelyard.privacy import Currency, Loss, users
from steelyard.privacy import labels as labels_of
from steelyard.session import Session
from steelyard.tables import read

TABLE = read({"user": [u % 50 for u in range(200)], "x": [float(u % 7) for u in range(200)]})
TRUTH = sum(
    min(total, 12.0) for total in (sum(float(u % 7) for u in range(200) if u % 50 == user) for user in range(50))
)
PATH = GradualSum("x", cap=12)


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return open_account(tmp_path / "budget.db", "a", unit=users("user"), epsilon=1, delta="1e-6")


@given(st.integers(1, 10**16), st.integers(1, 10**18))
def test_a_step_costs_exactly_what_was_asked(sensitivity: int, cost: int) -> None:
    assert math.ceil(step_of(sensitivity, cost).mu_squared * 10**12) == cost


def test_going_on_costs_only_the_difference(account: Account) -> None:
    path = Session(TABLE, account).open(PATH, key="p")
    for epsilon in ("0.1", "0.2", "0.7"):
        path.refine(epsilon)
        micro = mu_request(Fraction(epsilon), Fraction(1, 10**6))
        assert account.spent == Loss(Currency.GAUSSIAN, micro**2)
    assert path.spent == account.spent.amount


def test_a_restart_picks_up_the_stored_steps_and_replays_are_free(account: Account) -> None:
    first = Session(TABLE, account).open(PATH, key="p")
    values = [first.refine(epsilon).value for epsilon in ("0.1", "0.2")]
    spent = account.spent
    resumed = Session(TABLE, account).open(PATH, key="p")
    assert account.spent == spent
    assert resumed.spent == first.spent
    assert resumed.refine("0.3").point["steps"] == 3
    assert len(values) == 2


def test_another_path_under_the_same_key_is_refused(account: Account) -> None:
    Session(TABLE, account).open(PATH, key="p").refine("0.1")
    with pytest.raises(KeyConflict):
        Session(TABLE, account).open(GradualSum("x", cap=13), key="p")


def test_the_average_is_as_sharp_as_one_release_at_the_same_price() -> None:
    squares, noise = [], 0.0
    for _ in range(60):
        memory = open_account(":memory:", "m", unit=users("user"), epsilon=60, delta="1e-6")
        path = Session(TABLE, memory).open(PATH)
        for epsilon in (5, 20, 50):
            release = path.refine(epsilon)
        assert release.error is not None
        noise = release.error.noise
        squares.append(abs(release.value - TRUTH))
    assert 0.6 < statistics.fmean(squares) / noise < 1.5


def test_what_cannot_be_paid_or_is_no_step_is_refused(account: Account) -> None:
    path = Session(TABLE, account).open(PATH, key="p")
    path.refine("0.5")
    with pytest.raises(InvalidTask, match="already"):
        path.refine("0.5")
    with pytest.raises(BudgetExceeded):
        path.refine("1.1")
    labels = open_account(":memory:", "m", unit=labels_of("x"), epsilon=1)
    with pytest.raises(UnitMismatch):
        Session(TABLE, labels).open(PATH)


def test_on_a_pure_account_one_entry_rises_and_a_restart_refines_what_is_stored(tmp_path: Path) -> None:
    pure = open_account(tmp_path / "pure.db", "a", unit=users("user"), epsilon=1)
    for epsilon in ("0.1", "0.2", "0.7"):
        release = Session(TABLE, pure).open(PATH, key="p").refine(epsilon)
        assert pure.spent == Loss.pure(Fraction(epsilon))
        assert release.event.name == "laplace_path"
    with pytest.raises(InvalidTask, match="already"):
        Session(TABLE, pure).open(PATH, key="p").refine("0.7")
    with pytest.raises(BudgetExceeded):
        Session(TABLE, pure).open(PATH, key="p").refine("1.1")
    assert Ledger(pure.location).verify().ok


def test_a_pure_path_is_as_sharp_as_one_release_at_its_last_level() -> None:
    misses, noise = [], 0.0
    for _ in range(60):
        memory = open_account(":memory:", "m", unit=users("user"), epsilon=60)
        path = Session(TABLE, memory).open(PATH)
        for epsilon in (5, 20, 50):
            release = path.refine(epsilon)
        assert release.error is not None
        noise = release.error.noise
        misses.append(abs(release.value - TRUTH))
    assert math.isclose(noise, 12 / 50, rel_tol=0.01)
    assert 0.6 < statistics.fmean(misses) / noise < 1.5


def test_a_pure_path_whose_total_changed_fails_and_tells_nothing(tmp_path: Path) -> None:
    pure = open_account(tmp_path / "pure.db", "a", unit=users("user"), epsilon=1)
    Session(TABLE, pure).open(PATH, key="p").refine("0.1")
    other = read({"user": [0], "x": [5.0]})
    with pytest.raises(TableError, match="not told"):
        Session(other, pure).open(PATH, key="p").refine("0.2")
