"""What every ledger must do, wherever it lives: in memory, in an SQLite file, in PostgreSQL."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import BudgetExceeded, CurrencyMismatch, InvalidTask, KeyConflict, LedgerError, LedgerTampered
from steelyard.ledger import Account, Ledger, open_account
from steelyard.ledger import _address as address
from steelyard.ledger import _moves as moves
from steelyard.ledger._anchor import FileAnchor
from steelyard.ledger._moves import bound_to
from steelyard.ledger._store import Store
from steelyard.ledger._transaction import Transaction
from steelyard.mechanisms._gradual import LaplacePath
from steelyard.privacy import Currency, Event, Loss, holdout, rows, users


@pytest.fixture
def account(place: str) -> Account:
    return open_account(place, "spend", unit=users("id"), epsilon="1")


def charge(account: Account, epsilon: str, key: str, request: bytes = b"sum") -> Loss:
    return account.charge(Loss.pure(epsilon), key=key, request=request).level


def test_charges_add_up_exactly(account: Account) -> None:
    for number in range(10):
        charge(account, "0.1", f"k{number}")
    assert account.spent == Loss.pure("1")
    assert account.remaining == Loss.zero(Currency.PURE)


def test_a_charge_beyond_the_cap_is_refused_with_what_is_left(account: Account) -> None:
    charge(account, "0.75", "first")
    with pytest.raises(BudgetExceeded, match=r"epsilon 0\.25 left of epsilon 1") as refusal:
        charge(account, "0.250001", "second")
    assert (refusal.value.wanted, refusal.value.remaining) == (Loss.pure("0.250001"), Loss.pure("0.25"))
    assert account.spent == Loss.pure("0.75")
    charge(account, "0.25", "second")


def test_a_retry_with_the_same_key_is_free_and_gets_the_stored_answer(account: Account) -> None:
    first = account.charge(Loss.pure("0.6"), key="k", request=b"sum")
    assert first.answer is None
    assert first.store(b"41") == b"41"
    again = account.charge(Loss.pure("0.6"), key="k", request=b"sum")
    assert (again.answer, again.sequence, again.receipt) == (b"41", first.sequence, first.receipt)
    assert account.spent == Loss.pure("0.6")


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_a_read_sees_one_moment_whatever_another_process_writes_meanwhile(account: Account) -> None:
    path = account.charge(Loss.pure("0.1"), key="path", request=b"sum")
    elsewhere = Store(address.parse(account.location), create=False)  # a writer of its own, as another process has
    elsewhere.check()
    look = moves.find(account.name, "path", bound_to(b"sum", ""), Currency.PURE)

    def twice(transaction: Transaction) -> list[tuple[Loss, int]]:
        seen = [look(transaction)]
        elsewhere.raise_level(account.name, path.standing, Loss.pure("0.5"), None)
        elsewhere.keep(account.name, path.standing, 0, b"an answer at the higher level")
        seen.append(look(transaction))
        return [(each.level, len(each.answers)) for each in seen if each is not None]

    assert account._store.read(twice) == [(Loss.pure("0.1"), 0)] * 2
    found = account.find(key="path", request=b"sum")
    assert found is not None
    assert (found.level, found.answer) == (Loss.pure("0.5"), b"an answer at the higher level")


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_a_read_finds_no_charge_that_is_not_committed_yet(account: Account) -> None:
    elsewhere = Store(address.parse(account.location), create=False)
    elsewhere.check()
    seen: list[Any] = []

    def slowly(transaction: Transaction) -> Any:
        made = moves.charge(("spend",), moves.Ask("k", bound_to(b"sum", "")), Loss.pure("0.1"))(transaction)
        seen.append(account.find(key="k", request=b"sum"))
        return made

    elsewhere.write(slowly)
    assert seen == [None]
    assert account.find(key="k", request=b"sum") is not None


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_a_commit_is_synced_before_it_returns_whatever_the_place_would_do_by_itself(account: Account) -> None:
    """The power cuts show what syncing is for; this, that the connections which write do ask for it."""
    store = account._store
    said: list[Any] = []
    if store.address.kind == "sqlite":
        asked = ["PRAGMA synchronous", "PRAGMA journal_mode", "PRAGMA fullfsync", "PRAGMA checkpoint_fullfsync"]
        store.write(lambda transaction: said.extend(transaction.one(each) for each in asked))
        assert said == [(2,), ("wal",), (1,), (1,)]
    else:
        lazy = Store(address.parse(f"{store.address.text}&options=-csynchronous_commit%3Doff"), create=False)
        lazy.write(
            lambda transaction: said.extend([transaction.one("SHOW synchronous_commit"), transaction.one("SHOW fsync")])
        )
        assert said == [("on",), ("on",)]


def test_a_seal_is_of_one_purpose_on_one_account_and_a_ledgers_own_is_of_neither(account: Account) -> None:
    ledger = Ledger(account.location)
    other = open_account(account.location, "other", unit=users("id"), epsilon="1")
    asked = [(account, "labels", b"1"), (account, "labels", b"2"), (account, "totals", b"1"), (other, "labels", b"1")]
    seals = [each.seal(purpose, data) for each, purpose, data in asked] + [ledger.seal("labels", b"1")]
    assert len(set(seals)) == len(seals)
    assert [each.seal(purpose, data) for each, purpose, data in asked] == seals[:-1]
    assert Ledger(other.location).seal("labels", b"1") == seals[-1]
    elsewhere = open_account(":memory:", account.name, unit=users("id"), epsilon="1")
    assert elsewhere.seal("labels", b"1") not in seals


def test_the_same_key_with_another_request_is_a_conflict(account: Account) -> None:
    charge(account, "0.1", "k")
    with pytest.raises(KeyConflict, match="another request"):
        charge(account, "0.1", "k", request=b"count")
    assert account.spent == Loss.pure("0.1")


def test_keys_belong_to_their_account(account: Account) -> None:
    other = open_account(account.location, "other", unit=users("id"), epsilon="1")
    charge(account, "0.1", "k")
    charge(other, "0.2", "k", request=b"count")
    assert (account.spent, other.spent) == (Loss.pure("0.1"), Loss.pure("0.2"))


def test_a_charge_without_an_answer_is_resumed_for_free(account: Account) -> None:
    first = account.charge(Loss.pure("0.9"), key="k", request=b"sum")
    again = account.charge(Loss.pure("0.9"), key="k", request=b"sum")
    assert (again.sequence, again.answer, account.spent) == (first.sequence, None, Loss.pure("0.9"))


def test_an_unanswered_charge_is_not_resumed_at_another_price_or_by_another_mechanism(account: Account) -> None:
    account.charge(Loss.pure("0.1"), key="k", request=b"sum", event=Event("laplace", {"sensitivity": 1}))
    with pytest.raises(KeyConflict, match="has no answer yet"):
        account.charge(Loss.pure("0.2"), key="k", request=b"sum", event=Event("laplace", {"sensitivity": 1}))
    with pytest.raises(KeyConflict, match="has no answer yet"):
        account.charge(Loss.pure("0.1"), key="k", request=b"sum", event=Event("laplace", {"sensitivity": 2}))


def test_the_first_stored_answer_wins_and_is_what_everybody_reads_back(account: Account) -> None:
    mine = account.charge(Loss.pure("0.1"), key="k", request=b"sum")
    yours = account.charge(Loss.pure("0.1"), key="k", request=b"sum")
    assert mine.store(b"first") == b"first"
    assert yours.store(b"second") == b"first"
    assert (yours.answer, yours.answers) == (b"first", {0: b"first"})


def test_a_dialogue_stores_an_answer_for_each_step(account: Account) -> None:
    talk = account.charge(Loss.pure("0.1"), key="path", request=b"path")
    for step in range(3):
        talk.raise_to(Loss.pure(f"0.{step + 1}"))
        talk.store(b"level %d" % step, step=step)
    replay = account.charge(Loss.pure("0.1"), key="path", request=b"path")
    assert replay.answers == {0: b"level 0", 1: b"level 1", 2: b"level 2"}
    assert (replay.level, replay.receipt, account.spent) == (Loss.pure("0.3"), talk.receipt, Loss.pure("0.3"))


def test_a_level_only_rises_and_a_level_already_reached_is_free(account: Account) -> None:
    path = account.charge(Loss.pure("0.2"), key="path", request=b"path")
    path.raise_to(Loss.pure("0.5"))
    path.raise_to(Loss.pure("0.3"))
    path.raise_to(Loss.pure("0.5"))
    assert (path.level, account.spent) == (Loss.pure("0.5"), Loss.pure("0.5"))


def test_a_level_beyond_the_cap_is_refused_and_the_old_level_stays(account: Account) -> None:
    path = account.charge(Loss.pure("0.2"), key="path", request=b"path")
    charge(account, "0.5", "other")
    with pytest.raises(BudgetExceeded) as refusal:
        path.raise_to(Loss.pure("0.6"))
    assert (refusal.value.wanted, refusal.value.remaining) == (Loss.pure("0.6"), Loss.pure("0.3"))
    assert (path.level, account.spent) == (Loss.pure("0.2"), Loss.pure("0.7"))
    path.raise_to(Loss.pure("0.5"))


@pytest.mark.parametrize("gaussian", [True, False])
def test_only_pure_charges_can_be_raised(place: str, gaussian: bool) -> None:
    if gaussian:
        account, loss, more = open_account(place, "g", unit=rows(), mu="1"), Loss.mu("0.1"), Loss.mu("0.2")
    else:
        account = open_account(place, "h", unit=holdout("h"), nats="9")
        loss, more = Loss.nats("1"), Loss.nats("2")
    path = account.charge(loss, key="path", request=b"path")
    with pytest.raises(CurrencyMismatch, match="maximum before its first answer"):
        path.raise_to(more)
    assert account.spent == loss


def test_another_currency_is_refused_before_anything(account: Account) -> None:
    for loss in (Loss.mu("0.1"), Loss.nats("0.1")):
        with pytest.raises(CurrencyMismatch, match="counts in pure"):
            account.charge(loss, key="k", request=b"sum")
    assert account.spent == Loss.zero(Currency.PURE)


def test_mu_adds_in_squares(place: str) -> None:
    account = open_account(place, "g", unit=rows(), mu="0.5")
    account.charge(Loss.mu("0.3"), key="a", request=b"")
    account.charge(Loss.mu("0.4"), key="b", request=b"")
    with pytest.raises(BudgetExceeded):
        account.charge(Loss.mu("0.000001"), key="c", request=b"")


def test_delta_set_aside_is_a_second_counter(place: str) -> None:
    account = open_account(place, "g", unit=rows(), mu="1", delta="1e-6", additive_delta="4e-7")
    risky = Loss(Currency.GAUSSIAN, 10**6, 3 * 10**11)
    account.charge(risky, key="a", request=b"")
    with pytest.raises(BudgetExceeded) as refusal:
        account.charge(risky, key="b", request=b"")
    remaining = refusal.value.remaining
    assert isinstance(remaining, Loss)
    assert remaining.delta == 10**11
    assert account.spent == risky


def test_a_step_that_may_fail_needs_an_account_that_sets_delta_aside(place: str) -> None:
    account = open_account(place, "g", unit=rows(), mu="1")
    with pytest.raises(BudgetExceeded, match="additive_delta="):
        account.charge(Loss(Currency.GAUSSIAN, 1, 1), key="a", request=b"")


def test_reopening_with_the_same_terms_is_the_same_account(account: Account) -> None:
    charge(account, "0.5", "k")
    again = open_account(account.location, "spend", unit=users("id"), epsilon=1)
    assert (again, again.spent, again.terms) == (account, Loss.pure("0.5"), account.terms)
    assert Account(account.location, "spend").spent == Loss.pure("0.5")


def test_reopening_with_other_terms_is_refused_and_names_the_difference(account: Account) -> None:
    with pytest.raises(LedgerError, match="epsilon is 1 there and 2 here"):
        open_account(account.location, "spend", unit=users("id"), epsilon="2")
    with pytest.raises(LedgerError, match="unit is all rows of one value of 'id'"):
        open_account(account.location, "spend", unit=rows(), epsilon="1")
    with pytest.raises(LedgerError, match="currency is pure there and gaussian here"):
        open_account(account.location, "spend", unit=users("id"), mu="1")


def test_an_account_that_does_not_exist_is_named(account: Account) -> None:
    with pytest.raises(LedgerError, match=r"no account 'spent'.*it has 'spend'"):
        _ = Account(account.location, "spent").terms
    with pytest.raises(LedgerError, match="no account 'spent'"):
        Ledger(account.location).account("spent")


def test_a_handle_survives_pickling(account: Account) -> None:
    charge(account, "0.5", "k")
    copy = pickle.loads(pickle.dumps(account))  # noqa: S301 our own bytes
    assert copy == account
    assert copy.remaining == Loss.pure("0.5")
    assert charge(copy, "0.5", "l") == Loss.pure("0.5")


def test_amounts_beyond_64_bits_are_refused(place: str) -> None:
    with pytest.raises(InvalidTask, match="larger than the ledger can count"):
        open_account(place, "big", unit=rows(), epsilon=10**14)
    account = open_account(place, "large", unit=rows(), mu=3000)
    with pytest.raises(InvalidTask, match="larger than the ledger can count"):
        account.charge(Loss.mu(4000), key="k", request=b"")
    account.charge(Loss.mu(3000), key="k", request=b"")
    with pytest.raises(BudgetExceeded):
        account.charge(Loss(Currency.GAUSSIAN, 2**63 - 1), key="l", request=b"")


@pytest.mark.parametrize("key", ["", "a\0b", "line\nbreak", "x" * 501, "\ud800"])
def test_a_key_that_some_engine_could_not_keep_is_refused(account: Account, key: str) -> None:
    with pytest.raises(InvalidTask, match="printable"):
        charge(account, "0.1", key)


def test_threads_share_the_last_budget_without_overspending(account: Account) -> None:
    paid: list[str] = []
    refused: list[str] = []

    def spend(name: int) -> None:
        for number in range(10):
            key = f"{name}-{number}"
            try:
                charge(account, "0.05", key)
                paid.append(key)
            except BudgetExceeded:
                refused.append(key)

    threads = [threading.Thread(target=spend, args=(name,)) for name in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(paid), len(refused)) == (20, 140)
    assert account.remaining == Loss.zero(Currency.PURE)
    assert Ledger(account.location).verify().ok


def test_entries_tell_the_whole_story_in_order(account: Account) -> None:
    path = [LaplacePath(1, (Fraction(10, level),)).event for level in (1, 2)]
    made = account.charge(Loss.pure("0.1"), key="k", request=b"sum", event=path[0])
    made.raise_to(Loss.pure("0.2"), path[1])
    made.store(b"41")
    ledger = Ledger(account.location)
    entries = list(ledger.entries())
    assert [entry.kind for entry in entries] == ["ledger", "account", "charge", "raise", "answer"]
    assert [entry.sequence for entry in entries] == [1, 2, 3, 4, 5]
    assert entries[3].amount == 200_000
    assert [entry.at != "" for entry in entries] == [True, True, True, False, False]
    assert len(list(ledger.export())) == 5
    assert "41" not in entries[4].detail
    assert [each.name for each in ledger.accounts()] == ["spend"]
    assert ledger.id == made.receipt.ledger_id


def test_a_receipt_is_checked_and_a_foreign_one_is_found(account: Account, tmp_path: Path) -> None:
    mine = account.charge(Loss.pure("0.1"), key="k", request=b"sum").receipt
    elsewhere = open_account(tmp_path / "elsewhere.db", "spend", unit=users("id"), epsilon="1")
    foreign = elsewhere.charge(Loss.pure("0.1"), key="k", request=b"sum").receipt
    ledger = Ledger(account.location)
    assert ledger.verify(receipts=[mine]).ok
    report = ledger.verify(receipts=[mine, foreign])
    assert not report.ok
    assert any("not this ledger's" in finding for finding in report.findings)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.integers(1, 400_000), st.integers(0, 900_000), st.binary(max_size=3)),
        max_size=25,
    )
)
def test_any_history_agrees_with_a_model_of_three_lines(history: list[tuple[str, int, int, bytes]]) -> None:
    account = open_account(":memory:", "law", unit=rows(), epsilon="1")
    levels: dict[str, int] = {}
    answers: dict[str, bytes] = {}
    for key, cost, level, payload in history:
        fits = key in levels or sum(levels.values()) + cost <= 1_000_000
        try:
            made = account.charge(Loss(Currency.PURE, cost), key=key, request=key.encode())
        except BudgetExceeded:
            assert not fits
            continue
        assert fits
        levels.setdefault(key, cost)
        if sum(levels.values()) - levels[key] + level <= 1_000_000:
            made.raise_to(Loss(Currency.PURE, level))
            levels[key] = max(levels[key], level)
        assert made.store(payload) == answers.setdefault(key, payload)
        assert account.spent.amount == sum(levels.values()) <= 1_000_000
    assert Ledger(account.location).verify().ok


def test_opening_an_account_needs_no_heavy_import() -> None:
    code = (
        "import sys; from steelyard.ledger import open_account; from steelyard.privacy import rows;"
        "open_account(':memory:', 'a', unit=rows(), epsilon=1);"
        "heavy = {'numpy', 'scipy', 'duckdb', 'ibis', 'pyarrow', 'psycopg', 'cryptography'} & set(sys.modules);"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
@pytest.mark.parametrize("anchor", ["kept", "removed", "rolled back"])
def test_an_older_history_put_under_a_running_process_buys_nothing(account: Account, anchor: str) -> None:
    charge(account, "0.25", "first")
    store = account._store
    assert isinstance(store.anchor, FileAnchor)
    before, older = store.witness.chain, store.anchor.path.read_bytes()
    assert before is not None
    charge(account, "0.75", "second")
    with closing(store.connect()) as link:
        link.execute("DELETE FROM entries WHERE sequence > ?", (before.sequence,))
        link.execute("UPDATE head SET sequence = ?, mac = ?", (before.sequence, before.head))
        link.execute("UPDATE balances SET spent = 250000")
    if anchor == "removed":
        store.anchor.path.unlink()
    elif anchor == "rolled back":
        store.anchor.path.write_bytes(older)
    with pytest.raises(LedgerTampered, match="Nothing was charged"):
        charge(account, "0.75", "third")
    with pytest.raises(LedgerTampered):
        charge(Account(account.location, "spend"), "0.75", "third")
    assert not Ledger(account.location).verify().ok


def test_a_key_is_bound_to_what_it_is_asked_of(account: Account) -> None:
    account.charge(Loss.pure("0.5"), key="k", request=b"sum", of="'may.parquet'").store(b"1")
    assert account.charge(Loss.pure("0.5"), key="k", request=b"sum", of="'may.parquet'").answer == b"1"
    for of in ("'june.parquet'", ""):
        with pytest.raises(KeyConflict, match=r"'may\.parquet'.*(june|no named table)"):
            account.charge(Loss.pure("0.5"), key="k", request=b"sum", of=of)
        with pytest.raises(KeyConflict):
            account.find(key="k", request=b"sum", of=of)
    assert account.spent == Loss.pure("0.5")


def test_whoever_looks_after_a_charge_returned_finds_it(account: Account) -> None:
    """A find races charges of the same keys: it sees nothing or a whole charge, and never misses one that was acknowledged."""
    acknowledged: list[str] = []
    missed: list[str] = []

    def look() -> None:
        while len(acknowledged) < 40:
            known = list(acknowledged)
            for key in (*known, f"k{len(known)}"):
                found = account.find(key=key, request=b"sum")
                if found is None and key in known:
                    missed.append(key)
                assert found is None or found.level == Loss.pure("0.01")

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    for number in range(40):
        account.charge(Loss.pure("0.01"), key=f"k{number}", request=b"sum").store(b"1")
        acknowledged.append(f"k{number}")
    for looker in lookers:
        looker.join()
    assert not missed
    assert account.spent == Loss.pure("0.4")


def test_a_find_adds_nothing_to_the_ledger_and_refuses_the_key_of_another_request(account: Account) -> None:
    charge(account, "0.5", "k")
    entries = list(Ledger(account.location).entries())
    assert account.find(key="other", request=b"sum") is None
    with pytest.raises(KeyConflict, match="already names another request"):
        account.find(key="k", request=b"count")
    assert list(Ledger(account.location).entries()) == entries
