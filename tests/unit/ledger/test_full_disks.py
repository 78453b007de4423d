"""A full disk, no memory, no thread, a lost connection: whoever is refused is told whether a charge was made."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from steelyard.cli import main
from steelyard.errors import LedgerError, LedgerLocked
from steelyard.ledger import Account, Ledger, open_account
from steelyard.ledger import _connection as connection
from steelyard.ledger._connection import ConnectionLost
from steelyard.ledger._sqlite import SqliteConnection
from steelyard.ledger._transaction import Transaction
from steelyard.privacy import Event, Loss, rows

LARGE = Event("laplace", {"sensitivity": "9" * 1_000_000})
HALF = Loss.pure("0.5")


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return open_account(tmp_path / "b.db", "a", unit=rows(), epsilon="1")


def fill(account: Account) -> None:
    """Leave the ledger no page more than it has."""
    made = account._store.writer._connection
    assert made is not None
    (pages,) = made.one("PRAGMA page_count") or (0,)
    made.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_before_the_charge_says_that_nothing_was_charged(account: Account) -> None:
    account.charge(Loss.pure("0.1"), key="first", request=b"")
    fill(account)
    with pytest.raises(LedgerError, match=r"full.*Nothing was charged"):
        account.charge(HALF, key="k", request=b"", event=LARGE)
    assert account.spent == Loss.pure("0.1")


def test_a_full_disk_after_the_charge_says_what_was_charged_and_how_to_go_on(account: Account) -> None:
    charge = account.charge(HALF, key="the key", request=b"")
    fill(account)
    with pytest.raises(LedgerError, match=r"full.*epsilon 0.5 was charged before.*'the key'") as refusal:
        charge.store(b"x" * 1_000_000)
    assert refusal.value.__context__ is None or refusal.value.__suppress_context__
    account._store.writer._connection.execute("PRAGMA max_page_count = 1000000")  # type: ignore[union-attr]
    again = account.charge(HALF, key="the key", request=b"")
    assert (again.store(b"x"), account.spent) == (b"x", HALF)
    assert Ledger(account.location).verify().ok


def test_a_commit_that_fails_says_that_it_is_not_known(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    account.charge(Loss.pure("0.1"), key="first", request=b"")
    execute = SqliteConnection.execute

    def failing(self: SqliteConnection, statement: str, values: Any = ()) -> int:
        if statement == "COMMIT":
            raise LedgerError("disk I/O error. Nothing was charged.")
        return execute(self, statement, values)

    monkeypatch.setattr(SqliteConnection, "execute", failing)
    with pytest.raises(LedgerError, match="not known whether a charge was made") as refusal:
        account.charge(HALF, key="k", request=b"")
    assert "Nothing was charged" not in str(refusal.value)
    monkeypatch.undo()
    account.charge(HALF, key="k", request=b"")
    assert account.spent == Loss.pure("0.6")


@pytest.mark.parametrize("kind", [LedgerLocked, ConnectionLost])
def test_whatever_refuses_to_store_tells_of_the_charge(
    account: Account, monkeypatch: pytest.MonkeyPatch, kind: type[LedgerError]
) -> None:
    charge = account.charge(HALF, key="k", request=b"")

    def refuse(*_: object) -> Any:
        raise kind("no.")

    monkeypatch.setattr(account._store, "write", refuse)
    with pytest.raises(kind, match=r"epsilon 0.5 was charged before"):
        charge.store(b"x")


def test_a_lost_connection_says_that_it_is_not_known(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object) -> Any:
        raise ConnectionLost("lost.")

    monkeypatch.setattr(account._store, "write", lose)
    with pytest.raises(ConnectionLost, match="not known whether a charge was made"):
        account.charge(HALF, key="k", request=b"")


def test_no_thread_and_no_memory_are_told_as_such(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(self: Transaction, *_: object, **__: object) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "append", no_memory)
        with pytest.raises(LedgerError, match=f"memory.*{connection.UNKNOWN[:20]}"):
            account.charge(HALF, key="k", request=b"")
    account._store.writer.pause()
    account._store.writer.resume()

    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(LedgerError, match=r"no thread.*Nothing was charged"):
            account.charge(HALF, key="k", request=b"")
    account.charge(HALF, key="k", request=b"")
    assert account.spent == HALF


def test_a_command_without_memory_says_what_a_retry_costs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, account: Account
) -> None:
    def no_memory(*_: object, **__: object) -> Any:
        raise MemoryError

    monkeypatch.setattr(Ledger, "verify", no_memory)
    assert main(["ledger", "verify", account.location]) == 2
    assert "costs nothing more" in capsys.readouterr().err
