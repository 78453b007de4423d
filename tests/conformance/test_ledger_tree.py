"""Accounts below accounts, acts and notes, and who asked what: the same on every kind of ledger."""

from __future__ import annotations

import pickle
from contextlib import closing
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.account import Allowance
from steelyard.errors import (
    AccountClosed,
    BudgetExceeded,
    InvalidTask,
    KeyConflict,
    LedgerError,
    LedgerTampered,
    UnitMismatch,
)
from steelyard.ledger import Account, Ledger, open_account
from steelyard.privacy import Currency, Loss, holdout, rows, users


@pytest.fixture
def root(place: str) -> Account:
    return open_account(place, "spend", unit=users("id"), epsilon="1")


def below(root: Account, name: str, epsilon: str, parent: str = "spend") -> Account:
    return open_account(root.location, name, parent=parent, epsilon=epsilon)


def charge(account: Account, epsilon: str, key: str) -> Loss:
    return account.charge(Loss.pure(epsilon), key=key, request=b"sum").level


def texts(*accounts: Account) -> list[str]:
    return [str(account.spent) for account in accounts]


def test_a_charge_below_is_charged_to_every_account_above(root: Account) -> None:
    team = below(root, "team", "0.75")
    ann, bob = below(root, "ann", "0.5", "team"), below(root, "bob", "0.5", "team")
    charge(ann, "0.25", "k")
    charge(bob, "0.125", "k")
    charge(root, "0.0625", "k")
    assert texts(ann, bob, team, root) == ["epsilon 0.25", "epsilon 0.125", "epsilon 0.375", "epsilon 0.4375"]
    assert ann.terms.unit == root.terms.unit
    assert (ann.parent, [child.name for child in team.children()], root.children()) == (team, ["ann", "bob"], [team])
    assert Ledger(root.location).verify().findings == ()


def test_caps_below_may_add_up_to_more_and_what_is_left_is_what_every_account_has_left(root: Account) -> None:
    ann, bob = below(root, "ann", "0.75"), below(root, "bob", "0.75")
    assert (str(root.allotted), str(root.terms.cap)) == ("epsilon 1.5", "epsilon 1")
    charge(ann, "0.5", "k")
    assert (str(ann.remaining), str(bob.remaining), str(root.remaining)) == (
        "epsilon 0.25",
        "epsilon 0.5",
        "epsilon 0.5",
    )


@pytest.mark.parametrize(("first", "short"), [("0.5", "ann"), ("0.125", "team"), ("0.0625", "spend")])
def test_a_refusal_says_which_account_has_not_enough_and_moves_none(root: Account, first: str, short: str) -> None:
    team = below(root, "team", "0.75")
    ann, bob = below(root, "ann", "0.5", "team"), below(root, "bob", "0.75", "team")
    charge(ann, first, "k")
    if short != "ann":
        charge(bob, "0.5" if short == "team" else "0.375", "k")
    if short == "spend":
        charge(root, "0.4", "k")
    before = texts(ann, bob, team, root)
    with pytest.raises(BudgetExceeded, match=f"account '{short}' has") as refusal:
        charge(ann, "0.2", "l")
    assert (refusal.value.account, refusal.value.wanted) == (short, Loss.pure("0.2"))
    assert texts(ann, bob, team, root) == before
    assert Ledger(root.location).verify().ok


def test_a_raise_below_is_raised_above_and_refused_where_the_root_is_short(root: Account) -> None:
    ann = below(root, "ann", "1")
    path = ann.charge(Loss.pure("0.1"), key="path", request=b"path")
    path.raise_to(Loss.pure("0.4"))
    charge(root, "0.5", "other")
    with pytest.raises(BudgetExceeded) as refusal:
        path.raise_to(Loss.pure("0.6"))
    assert refusal.value.account == "spend"
    assert texts(ann, root) == ["epsilon 0.4", "epsilon 0.9"]
    again = Account(root.location, "ann").charge(Loss.pure("0.1"), key="path", request=b"path")
    again.raise_to(Loss.pure("0.5"))
    assert texts(ann, root) == ["epsilon 0.5", "epsilon 1"]
    assert Ledger(root.location).verify().ok


def test_keys_belong_to_the_account_below_and_a_retry_is_free(root: Account) -> None:
    ann, bob = below(root, "ann", "0.5"), below(root, "bob", "0.5")
    ann.charge(Loss.pure("0.25"), key="k", request=b"sum").store(b"ann's")
    assert bob.find(key="k", request=b"sum") is None
    assert root.find(key="k", request=b"sum") is None
    assert ann.charge(Loss.pure("0.25"), key="k", request=b"sum").answer == b"ann's"
    bob.charge(Loss.pure("0.25"), key="k", request=b"other").store(b"bob's")
    assert texts(ann, bob, root) == ["epsilon 0.25", "epsilon 0.25", "epsilon 0.5"]


def test_an_account_below_has_its_parents_unit_and_currency_and_at_most_its_cap(root: Account) -> None:
    with pytest.raises(UnitMismatch, match="hides the same"):
        open_account(root.location, "ann", parent="spend", unit=rows(), epsilon="0.5")
    for wrong in ({"mu": "0.5"}, {"nats": 1}, {"epsilon": "0.5", "delta": "1e-6"}, {}):
        with pytest.raises(InvalidTask):
            open_account(root.location, "ann", parent="spend", **wrong)
    with pytest.raises(InvalidTask, match="more than 'spend' was opened with"):
        below(root, "ann", "1.000001")
    with pytest.raises(LedgerError, match="no account 'nobody'"):
        below(root, "ann", "0.5", "nobody")
    below(root, "ann", "0.5")
    assert below(root, "ann", "0.5").terms.parent == "spend"
    with pytest.raises(LedgerError, match="parent is spend there and none here"):
        open_account(root.location, "ann", unit=users("id"), epsilon="0.5")
    assert [each.name for each in Ledger(root.location).accounts()] == ["ann", "spend"]


def test_an_account_below_a_gaussian_one_reads_epsilon_as_its_parent_does(place: str) -> None:
    top = open_account(place, "top", unit=rows(), epsilon="2", delta="1e-6", additive_delta="4e-7")
    ann = open_account(top.location, "ann", parent="top", epsilon="1", additive_delta="1e-7")
    bob = open_account(top.location, "bob", parent="top", mu="0.1")
    assert ann.terms.filter_delta == bob.terms.filter_delta == top.terms.filter_delta
    assert (ann.terms.cap.delta, bob.terms.cap.delta) == (10**11, 0)
    risky = Loss(Currency.GAUSSIAN, 10**6, 10**11)
    ann.charge(risky, key="k", request=b"")
    assert (top.spent, ann.spent) == (risky, risky)
    with pytest.raises(BudgetExceeded, match="account 'ann' has"):
        ann.charge(Loss.mu("0.5"), key="l", request=b"")
    with pytest.raises(InvalidTask, match="more than 'top'"):
        open_account(top.location, "eve", parent="top", mu="0.01", additive_delta="5e-7")
    assert Ledger(top.location).verify().ok


def test_nats_are_not_divided(place: str) -> None:
    board = open_account(place, "board", unit=holdout("h"), nats=3)
    with pytest.raises(InvalidTask, match="not divided"):
        open_account(board.location, "ann", parent="board", nats=1)


def test_lines_are_at_most_eight_long(root: Account) -> None:
    names = ["spend", *(f"level {number}" for number in range(7))]
    for parent, name in pairwise(names):
        below(root, name, "1", parent)
    with pytest.raises(LedgerError, match="at most 8 deep"):
        below(root, "one more", "1", names[-1])
    charge(Account(root.location, names[-1]), "0.5", "k")
    assert str(root.spent) == "epsilon 0.5"


def test_a_frozen_account_refuses_charges_and_so_do_those_below_it(root: Account) -> None:
    ann = below(root, "ann", "0.5")
    made = ann.charge(Loss.pure("0.1"), key="k", request=b"sum")
    root.by("the officer").freeze("an incident")
    for account in (ann, root):
        with pytest.raises(AccountClosed, match="'spend' is frozen") as refusal:
            charge(account, "0.1", "l")
        assert (refusal.value.account, refusal.value.state) == ("spend", "frozen")
    with pytest.raises(AccountClosed):
        made.raise_to(Loss.pure("0.2"))
    with pytest.raises(AccountClosed):
        below(root, "bob", "0.5")
    assert made.store(b"what was paid for is answered") == b"what was paid for is answered"
    assert (root.state, ann.state) == ("frozen", "open")
    root.freeze()
    root.unfreeze("cleared")
    charge(ann, "0.1", "l")
    acts = [(entry.kind, entry.account, entry.detail) for entry in Ledger(root.location).notes()]
    assert acts == [("freeze", "spend", "an incident"), ("unfreeze", "spend", "cleared")]
    assert Ledger(root.location).notes()[0].person == "the officer"
    assert Ledger(root.location).verify().findings == ()


def test_a_closed_account_is_closed_for_good_and_nothing_is_refunded(root: Account) -> None:
    ann, bob = below(root, "ann", "0.5"), below(root, "bob", "0.5")
    charge(ann, "0.25", "k")
    ann.close("has left")
    ann.close()
    for again in (ann.unfreeze, ann.freeze):
        with pytest.raises(AccountClosed, match="for good"):
            again()
    with pytest.raises(AccountClosed, match="'ann' is closed"):
        charge(ann, "0.1", "l")
    charge(bob, "0.25", "k")
    assert ann.charge(Loss.pure("0.25"), key="k", request=b"sum").level == Loss.pure("0.25")
    assert texts(ann, root) == ["epsilon 0.25", "epsilon 0.5"]
    ann.note("her answers were handed over")
    assert Ledger(root.location).verify().ok


def test_notes_are_chained_and_their_keys_make_them_once(root: Account) -> None:
    ledger = Ledger(root.location)
    first = ledger.note("invited bob", act="invite", person="ann", key="invitation 1")
    assert ledger.note("invited bob", act="invite", person="ann", key="invitation 1") == first
    with pytest.raises(KeyConflict):
        ledger.note("invited eve", act="invite", person="ann", key="invitation 1")
    root.by("ann").note("published\ntwo answers", act="publish")
    with pytest.raises(LedgerError, match="no account 'nobody'"):
        ledger.note("x", account="nobody")
    with pytest.raises(InvalidTask):
        ledger.note("a bell \a")
    told = [(entry.account, entry.person, entry.name, entry.detail, entry.amount) for entry in ledger.notes()]
    assert told == [("", "ann", "invite", "invited bob", 0), ("spend", "ann", "publish", "published\ntwo answers", 0)]
    assert [entry.name for entry in ledger.notes("spend")] == ["publish"]
    assert (str(root.spent), ledger.verify().ok) == ("epsilon 0", True)


def test_a_charge_says_who_asked_what_of_which_table(root: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = below(root, "ann", "0.5").by("Ann Dover")
    request = b'{"column":"amount","type":"Sum"}'
    ann.charge(Loss.pure("0.1"), key="k", request=request, of="'may.parquet'", view="select amount from t")
    pickle.loads(pickle.dumps(ann)).charge(Loss.pure("0.1"), key="l", request=b"\xff raw")  # noqa: S301 our own bytes
    monkeypatch.setenv("STEELYARD_PERSON", "bob")
    Allowance(ann, Loss.pure("0.2")).by("carl").charge(Loss.pure("0.1"), key="m", request=b"x" * 2**21)
    root.charge(Loss.pure("0.1"), key="n", request=b"sum")
    made = Ledger(root.location).charges("%")
    assert [(each.account, each.person) for each in made] == [
        ("ann", "Ann Dover"), ("ann", "Ann Dover"), ("ann", "carl"), ("spend", "bob")
    ]  # fmt: skip
    assert (made[0].task, made[0].view, made[0].table) == (
        {"column": "amount", "type": "Sum"}, "select amount from t", "'may.parquet'"
    )  # fmt: skip
    assert (made[1].task, made[3].task) == ("\\xff raw", "sum")
    assert len(made[2].asked) < 100
    assert Ledger(root.location).verify().ok


def test_without_a_person_the_system_user_is_named(root: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEELYARD_PERSON", raising=False)
    charge(root, "0.1", "k")
    assert Ledger(root.location).charges("k")[0].person != ""


def test_pending_charges_are_those_without_an_answer(root: Account) -> None:
    ann = below(root, "ann", "0.5")
    ann.charge(Loss.pure("0.1"), key="answered", request=b'{"type":"Count"}').store(b"1")
    ann.charge(Loss.pure("0.1"), key="waits", request=b'{"type":"Sum"}', of="'may.parquet'")
    root.charge(Loss.pure("0.1"), key="waits too", request=b'{"type":"Mean"}')
    ledger = Ledger(root.location)
    assert [(each.account, each.name) for each in ledger.pending()] == [("ann", "waits"), ("spend", "waits too")]
    (waiting,) = ledger.pending("ann")
    assert (waiting.name, waiting.task, waiting.table) == ("waits", {"type": "Sum"}, "'may.parquet'")


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE balances SET parent = '' WHERE account = 'ann'",
        "UPDATE balances SET parent = 'bob' WHERE account = 'ann'",
        "UPDATE balances SET state = 'open' WHERE account = 'bob'",
        "UPDATE balances SET state = 'closed' WHERE account = 'ann'",
        "UPDATE balances SET spent = spent - 1 WHERE account = 'spend'",
        "UPDATE accounts SET terms = replace(terms, ',\"parent\":\"spend\"', '') WHERE name = 'ann'",
        "UPDATE entries SET person = 'eve' WHERE kind = 'charge'",
        "UPDATE entries SET person = '' WHERE kind = 'charge'",
        "UPDATE entries SET person = '', asked = '' WHERE kind = 'charge'",
        "UPDATE entries SET asked = replace(asked, 'sum', 'count') WHERE kind = 'charge'",
        "UPDATE entries SET detail = 'another reason' WHERE kind = 'freeze'",
        "UPDATE entries SET kind = 'unfreeze' WHERE kind = 'freeze'",
        "UPDATE entries SET detail = 'another text' WHERE kind = 'note'",
        "UPDATE entries SET person = 'eve' WHERE kind = 'account'",
        "DELETE FROM entries WHERE kind = 'freeze'",
    ],
)
def test_no_new_field_can_be_changed_unseen(root: Account, statement: str) -> None:
    ann, bob = below(root, "ann", "0.5"), below(root, "bob", "0.5")
    charge(ann.by("ann"), "0.25", "k")
    bob.freeze("away")
    root.note("a word")
    assert Ledger(root.location).verify().ok
    with closing(root._store.connect()) as link:
        link.execute(statement)
    assert not Ledger(root.location).verify().ok


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_a_handle_that_believes_in_another_parent_moves_no_balance(root: Account) -> None:
    ann = below(root, "ann", "0.5")
    charge(ann, "0.1", "k")
    for believed in [("ann",), ("ann", "spend", "bob"), ("ann", "bob")]:
        ann._store._lines["ann"] = believed
        with pytest.raises(LedgerError, match="open it again"):
            charge(ann, "0.1", "l")
    with closing(root._store.connect()) as link:
        link.execute("UPDATE balances SET parent = '' WHERE account = 'ann'")
    ann._store._lines["ann"] = ("ann", "spend")
    with pytest.raises(LedgerError):
        charge(ann, "0.1", "l")
    del ann._store._lines["ann"]
    ann._store._looked = False
    with pytest.raises(LedgerTampered):
        charge(Account(root.location, "ann"), "0.1", "l")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("rtab"), st.sampled_from("klmn"), st.integers(1, 400_000), st.integers(0, 500_000)),
        max_size=30,
    )
)
def test_any_history_of_a_tree_agrees_with_a_model_that_adds_up(history: list[tuple[str, str, int, int]]) -> None:
    caps = {"r": 1_000_000, "t": 700_000, "a": 500_000, "b": 500_000}
    lines = {"r": "r", "t": "tr", "a": "atr", "b": "br"}
    root = open_account(":memory:", "r", unit=rows(), epsilon="1")
    accounts = {"r": root} | {
        name: open_account(root.location, name, parent=lines[name][1], epsilon=f"{caps[name] / 10**6}")
        for name in "tab"
    }
    levels: dict[tuple[str, str], int] = {}

    def spent(name: str) -> int:
        return sum(level for (account, _), level in levels.items() if name in lines[account])

    def fits(account: str, more: int) -> bool:
        return all(spent(name) + more <= caps[name] for name in lines[account])

    for account, key, cost, level in history:
        at = (account, key)
        known, paid = at in levels, fits(account, cost)
        try:
            made = accounts[account].charge(Loss(Currency.PURE, cost), key=key, request=key.encode())
        except BudgetExceeded:
            assert not known
            assert not paid
            continue
        except KeyConflict:
            assert known
            continue
        assert known or paid
        levels.setdefault(at, cost)
        if level > levels[at] and fits(account, level - levels[at]):
            made.raise_to(Loss(Currency.PURE, level))
            levels[at] = level
        assert {name: each.spent.amount for name, each in accounts.items()} == {name: spent(name) for name in caps}
    assert Ledger(root.location).verify().ok


def test_periods_are_opened_frozen_and_receipted_on_every_engine(place: str) -> None:
    whole = open_account(place, "months", unit=users("id", per="month", time="day"), epsilon="1")
    share = open_account(whole.location, "mine", parent="months", epsilon="0.5")
    march, april = share.during("2026-03"), share.during("2026-04")
    receipt = march.charge(Loss.pure("0.25"), key="k", request=b"sum").receipt
    april.close("it is over")
    whole.freeze("an incident")
    assert [each.state for each in (*whole.periods(), *share.periods())] == ["frozen", "frozen", "open", "closed"]
    with pytest.raises(AccountClosed, match="months/2026-03"):
        march.charge(Loss.pure("0.25"), key="l", request=b"sum")
    whole.unfreeze()
    assert [each.state for each in whole.periods()] == ["open", "open"]
    ledger = Ledger(whole.location)
    assert ledger.verify(receipts=[receipt]).ok
    unsigned = replace(receipt, signature="", cost=Loss(receipt.cost.currency, receipt.cost.amount, 1))
    assert not ledger.verify(receipts=[unsigned]).ok
