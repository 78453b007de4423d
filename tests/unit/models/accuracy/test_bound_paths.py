"""Gaussian paths on rows that changed: each step is a release of its own, nothing is compared, and the certificate says so."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from steelyard.desk import Desk
from steelyard.errors import KeyConflict
from steelyard.ledger import Account, open_account
from steelyard.models.accuracy import logistic_search, ridge_search
from steelyard.models.accuracy.logistic_search import LogisticSearch
from steelyard.models.accuracy.reach import reach_linear
from steelyard.models.accuracy.ridge_search import RidgeSearch
from steelyard.models.accuracy.wanted import Wanted
from steelyard.models.columns import Features, Plain
from steelyard.models.rows import Target
from steelyard.noise import TestNoise
from steelyard.privacy import rows, users
from steelyard.session import Session
from steelyard.tables import Table, read

N = 3000
DRAWS = np.random.default_rng(21)
X = DRAWS.uniform(-0.7, 0.7, (N, 2))
Y = np.clip(X @ [0.8, -0.5] + 0.05 * DRAWS.standard_normal(N), -1, 1)
C = (DRAWS.uniform(size=N) < 1 / (1 + np.exp(-(X @ [6.0, -4.0])))).astype(int)
WHO = DRAWS.integers(0, N // 3, N)
WHO[: N // 3] = np.arange(N // 3)

FEATURES = Features((Plain("a"), Plain("b")), norm="clip", x_bound=1)
RIDGE = RidgeSearch(FEATURES, Target("y", -1, 1), Fraction(1, 1000))
LOGISTIC = LogisticSearch(FEATURES, "c", (0, 1), Fraction(1, 1000))
KINDS: dict[str, tuple[Any, Callable[[Any, bool], Any]]] = {
    "ridge target": (RIDGE, lambda walk, hard: walk.reach_loss(0.02 if hard else 0.08, 0.9)),
    "ridge excess": (RIDGE, lambda walk, hard: walk.reach_excess(0.003 if hard else 0.03, 0.9)),
    "logistic": (LOGISTIC, lambda walk, hard: walk.reach_loss(0.55 if hard else 0.64, 0.9)),
}
UNITS = ["rows", "users"]


def table(**other: Any) -> Table:
    return read({"a": X[:, 0], "b": X[:, 1], "y": Y, "c": C, "who": WHO, **other})


def account(unit: str) -> Account:
    hidden = rows(neighbours="replace", n=N) if unit == "rows" else users("who", neighbours="replace", n=N // 3)
    return open_account(":memory:", "bound", unit=hidden, epsilon=50, delta="1e-6")


def asked(kind: str, at: Account, given: Table, *, hard: bool, seed: int = 1, key: str = "k") -> Any:
    search, question = KINDS[kind]
    return question(Session(given, at, noise=TestNoise(seed)).open(search, key=key), hard)


def changed() -> Table:
    """The same rows but for one, which says the opposite."""
    y, c = Y.copy(), C.copy()
    y[5], c[5] = -y[5], 1 - c[5]
    return table(y=y, c=c)


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
    for module in (ridge_search, logistic_search):
        monkeypatch.setattr(module, "gather", lambda *_: pytest.fail("a retry reads nothing"))
    monkeypatch.setattr(ridge_search, "exact_of", lambda *_: pytest.fail("a retry reads nothing"))
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
    wanted = Wanted("loss", 0.05, 0.9)
    found = reach_linear(session, FEATURES, Target("y", -1, 1), wanted, penalty="0.001", key="k")
    assert f"the table has the {told} that its account declares" in str(found.certificate)
    assert "its rows are those that the path began with" in str(found.certificate)
    missed = reach_linear(session, FEATURES, Target("y", -1, 1), Wanted("loss", 1e-6, 0.9), penalty="0.001", key="k")
    assert not missed.certificate.met
    assert "takes for granted" not in str(missed.certificate)


def test_a_path_is_bound_to_its_table_by_name() -> None:
    at, wanted = account("rows"), Wanted("loss", 0.05, 0.9)
    for name in ("May", "May"):
        session = Session(read(table(), name=name), at, noise=TestNoise(1))
        reach_linear(session, FEATURES, Target("y", -1, 1), wanted, penalty="0.001", key="k")
    spent = at.spent
    session = Session(read(table(), name="June"), at, noise=TestNoise(1))
    with pytest.raises(KeyConflict, match=r"'May'.*'June'"):
        reach_linear(session, FEATURES, Target("y", -1, 1), wanted, penalty="0.001", key="k")
    assert at.spent == spent
