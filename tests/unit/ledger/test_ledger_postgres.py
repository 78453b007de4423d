from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

import postgres
from steelyard.errors import LedgerTampered
from steelyard.ledger import Ledger, open_account
from steelyard.ledger import _moves as moves
from steelyard.ledger import _postgres as driver
from steelyard.ledger._connection import ConnectionLost
from steelyard.ledger._postgres import PostgresConnection
from steelyard.ledger._writer import _Move as Move
from steelyard.privacy import Loss, rows


def test_a_commit_that_the_server_turned_into_a_rollback_is_no_commit() -> None:
    location = postgres.new_database()
    link = PostgresConnection(location, "the test server")
    try:
        link.execute("BEGIN")
        with pytest.raises(psycopg.Error):
            link._driver.execute("SELECT 1 / 0")  # behind the link's back: the transaction is now aborted
        with pytest.raises(ConnectionLost, match="ROLLBACK"):
            link.commit()
        link.execute("BEGIN")
        link.execute("SELECT 1")
        link.commit()
    finally:
        link.close()


def test_a_driver_of_the_least_version_that_is_asked_for_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg 3.2 moves on to the next result, and knows neither of these."""
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path))
    for name in ("set_result", "results"):
        monkeypatch.delattr(psycopg.Cursor, name, raising=False)
    account = open_account(postgres.new_database(), "a", unit=rows(), epsilon="1")
    for key in ("k", "l"):
        assert account.charge(Loss.pure("0.1"), key=key, request=b"").store(b"x") == b"x"
    assert account.spent == Loss.pure("0.2")


def test_answers_that_are_long_together_are_sent_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server hangs up on a message of a gigabyte, which would fail a whole group for what one of its callers stores."""
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path))
    monkeypatch.setattr(driver, "_LONG", 1000)
    account = open_account(postgres.new_database(), "a", unit=rows(), epsilon="1")
    charge = account.charge(Loss.pure("0.1"), key="k", request=b"")
    payloads, sent = [bytes([step]) * 100 * step for step in range(12)], list[int]()
    execute = psycopg.Connection.execute

    def noting(self: Any, statement: Any, values: Any = None, **more: Any) -> Any:
        sent.append(max((len(each) for each in values or () if isinstance(each, str)), default=0))
        return execute(self, statement, values, **more)

    writer = account._store.writer
    group = [Move(moves.store("a", charge.sequence, step, each), reading=False) for step, each in enumerate(payloads)]
    writer.pause()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", noting)
            writer._run(group)
        writer._close()
    finally:
        writer.resume()
    assert [move.wait() for move in (finished(each) for each in group)] == payloads
    assert max(sent) < 2 * 1100 + 500
    assert Ledger(account.location).verify().ok


def finished(move: Move) -> Move:
    move.finish()
    return move


@pytest.mark.parametrize("drop", ["answers", "entries"])
def test_what_a_rule_keeps_from_being_written_is_not_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drop: str
) -> None:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path))
    account = open_account(postgres.new_database(), "a", unit=rows(), epsilon="1")
    charge = account.charge(Loss.pure("0.1"), key="k", request=b"")
    with psycopg.connect(account.location, autocommit=True) as link:
        link.execute(f"CREATE RULE quiet AS ON INSERT TO steelyard.{drop} DO INSTEAD NOTHING".encode())
        for _ in range(2):
            with pytest.raises(LedgerTampered, match="does not hold what was just written"):
                charge.store(b"one")
        link.execute(f"DROP RULE quiet ON steelyard.{drop}".encode())
    assert charge.store(b"two") == b"two"
    assert Ledger(account.location).verify().ok
