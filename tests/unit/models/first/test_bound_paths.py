"""Gaussian paths are bound to their rows: other rows are refused before anything is charged, and a free retry reads none."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.desk import Desk
from steelyard.errors import TableError
from steelyard.ledger import Account, open_account
from steelyard.models.columns import Features, Plain
from steelyard.models.first import logistic_search, ridge_search
from steelyard.models.first.logistic_search import LogisticSearch
from steelyard.models.first.ridge_search import RidgeSearch
from steelyard.models.first.rising import OTHERS
from steelyard.models.first.snapshot import Snapshot, of_rows
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


def refuses(kind: str, unit: str) -> bool:
    """Whether a tighter question about other rows is refused, and nothing is charged for it."""
    at = account(unit)
    asked(kind, at, table(), hard=False)
    before = at.spent
    try:
        asked(kind, at, changed(), hard=True, seed=2)
    except TableError as fault:
        return str(fault) == OTHERS and at.spent == before
    return False


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tighter_question_about_other_rows_is_refused_before_it_is_charged(kind: str, unit: str) -> None:
    assert refuses(kind, unit)


@pytest.mark.parametrize("kind", KINDS)
def test_a_walk_that_does_not_compare_mixes_tables_and_is_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Snapshot, "compare", lambda self, read: None)
    monkeypatch.setattr(Snapshot, "taken", lambda self, release, read: None)
    assert not refuses(kind, "rows")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_rows_in_another_order_go_on_and_a_retry_reads_no_row(
    kind: str, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at, order = account(unit), np.random.default_rng(3).permutation(N)
    first = asked(kind, at, table(), hard=False)
    shuffled = table(a=X[order, 0], b=X[order, 1], y=Y[order], c=C[order], who=WHO[order])
    second = asked(kind, at, shuffled, hard=True, seed=2)
    assert first.reason == second.reason == "target_met"
    assert second.spent == at.spent.amount > first.spent
    monkeypatch.setattr(Desk, "compare", lambda *_: pytest.fail("a retry compares nothing"))
    for module in (ridge_search, logistic_search):
        monkeypatch.setattr(module, "gather", lambda *_: pytest.fail("a retry reads nothing"))
    monkeypatch.setattr(ridge_search, "exact_of", lambda *_: pytest.fail("a retry reads nothing"))
    again = asked(kind, at, changed(), hard=True, seed=4)
    assert np.array_equal(again.model, second.model)
    assert again.spent == second.spent == at.spent.amount


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_step_that_was_charged_and_never_stored_binds_nothing(
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
    with pytest.raises(TableError, match="no longer"):
        asked(kind, at, table(), hard=True)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_an_older_version_go_on_without_a_digest(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    at = account("rows")
    module: Any = logistic_search if kind == "logistic" else ridge_search
    outcome = module.Outcome
    told: Callable[..., Any] = lambda value, interval, point: outcome(  # noqa: E731
        value, interval, {name: fact for name, fact in point.items() if name not in ("snapshot", "rows")}
    )
    with monkeypatch.context() as patch:
        patch.setattr(module, "Outcome", told)
        asked(kind, at, table(), hard=False)
    assert asked(kind, at, changed(), hard=True, seed=2).reason == "target_met"


@pytest.mark.parametrize("kind", KINDS)
def test_a_first_step_that_another_took_on_other_rows_is_not_gone_on_from(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process draws the first step between this one's charge and its answer."""
    at, real, others = account("rows"), Desk.answer, [True]

    def between(self: Desk, *given: Any, **more: Any) -> Any:
        if others:
            others.clear()
            asked(kind, at, changed(), hard=False)
            _, event, *rest = given
            name = "label" if kind != "logistic" else "step 0"
            return real(self, self.charge(event, name), event, *rest, **more)
        return real(self, *given, **more)

    monkeypatch.setattr(Desk, "answer", between)
    with pytest.raises(TableError, match="no longer"):
        asked(kind, at, table(), hard=False)


def test_a_table_that_cannot_be_read_compares_as_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    at = account("rows")
    asked("ridge target", at, table(), hard=False)
    monkeypatch.setattr(ridge_search, "exact_of", lambda *_: 1 // 0)
    before = at.spent
    with pytest.raises(TableError, match="no longer"):
        asked("ridge target", at, table(), hard=True)
    assert at.spent == before


def desk(key: str = "k") -> Desk:
    return Desk(table(), TestNoise(1), account("rows"), key, {})


small = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 3)), min_size=1, max_size=8)
DESK = desk()


def digest(made: list[tuple[int, int, int]], *, by_user: bool) -> str:
    ordered = sorted(made, key=lambda row: row[2]) if by_user else made
    values = np.array([row[:2] for row in ordered], dtype=np.float64)
    owners = np.array([row[2] for row in ordered], dtype=np.int64)
    return of_rows(DESK, [values[:, :1], values[:, 1]], owners if by_user else None)


def content(made: list[tuple[int, int, int]], *, by_user: bool) -> Any:
    """What a digest should tell: the rows in any order, or the users' rows in any order, whatever the users' names."""
    if not by_user:
        return sorted(row[:2] for row in made)
    return sorted(sorted(row[:2] for row in made if row[2] == who) for who in {row[2] for row in made})


@given(small, small, st.booleans())
@settings(max_examples=200)
def test_two_digests_are_the_same_where_the_rows_are(
    one: list[tuple[int, int, int]], other: list[tuple[int, int, int]], by_user: bool
) -> None:
    same = content(one, by_user=by_user) == content(other, by_user=by_user)
    assert (digest(one, by_user=by_user) == digest(other, by_user=by_user)) is same
    assert digest(one, by_user=by_user) == digest(one[::-1], by_user=by_user)


def test_equal_rows_have_unrelated_digests_under_two_ledgers() -> None:
    values = [np.arange(5.0)]
    assert of_rows(desk(), values) != of_rows(desk(), values)
    assert of_rows(DESK, values) == of_rows(DESK, values)
