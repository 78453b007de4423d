"""A ledger of the first format is brought forward in place: checked in full, remade, and sealed, in one transaction.

The first format knew no parents, states, persons or requests. Its entries stay as they are, hash for hash; the two tables that gained columns are
made anew, so that an older steelyard that is still running fails on them instead of charging past a parent. An entry that says so is chained.
"""

from __future__ import annotations

import contextlib
import os

from steelyard.errors import InvalidTask, LedgerError, LedgerTampered
from steelyard.ledger import _address as address
from steelyard.ledger import _creation as creation
from steelyard.ledger import _verify as verify
from steelyard.ledger._chain import Position
from steelyard.ledger._connection import Connection
from steelyard.ledger._store import new_connection
from steelyard.ledger._transaction import Transaction
from steelyard.ledger._verify import Verification
from steelyard.privacy import canonical

_COLUMNS = "sequence, kind, account, name, request, amount, delta, charge, step, digest, detail, at, mac"
_MOVED = {
    "entries": (f"{_COLUMNS}, person, asked", f"{_COLUMNS}, '', ''"),
    "balances": (
        "account, parent, state, spent, spent_delta, cap, cap_delta",
        "account, '', 'open', spent, spent_delta, cap, cap_delta",
    ),
}


def upgrade(location: str | os.PathLike[str]) -> Verification:
    """Bring a ledger of format 1 forward, if every check of it passes; otherwise nothing is changed. What the check found."""
    where = address.parse(location)
    if where.kind == "memory":
        raise InvalidTask("a ledger in memory is of the present format.")
    with contextlib.closing(new_connection(where)) as connection:
        _check_format(connection, where.shown)
        identity, anchor = creation.key_and_anchor(where, create=False)
        identity.name = creation.recognize(connection, where, identity.key)
        position = anchor.read()
        try:
            transaction = Transaction(connection, identity)
            report = _remake(transaction, position)
            reached = transaction.commit()
        except BaseException:
            connection.rollback()
            raise
        assert reached is not None
        anchor.write(reached)
    return Verification(report.ok, report.findings, reached.sequence, reached.head)


def _check_format(connection: Connection, shown: str) -> None:
    meta = dict(connection.rows("SELECT name, value FROM meta")) if "meta" in connection.tables() else {}
    if meta.get("format") != creation.FORMAT or meta.get("version") != "1":
        raise LedgerError(
            f"{shown} is no ledger of format 1 (it says {meta.get('version', 'nothing')}); nothing was done."
        )


def _remake(transaction: Transaction, position: Position | None) -> Verification:
    connection, before = transaction.connection, transaction.connection.fingerprint()
    for table, (columns, values) in _MOVED.items():
        connection.execute(f"CREATE TEMPORARY TABLE kept_{table} AS SELECT * FROM {table}")
        connection.execute(f"DROP TABLE {table}")
        for statement in creation.TABLES:
            if f"TABLE {table} " in statement or f"ON {table} " in statement:
                connection.execute(statement.format(**connection.types))
        connection.execute(f"INSERT INTO {table} ({columns}) SELECT {values} FROM kept_{table}")
        connection.execute(f"DROP TABLE kept_{table}")
    report = verify.examine(connection, transaction.identity, [position], prices=True, schema=before)
    if not report.ok:
        raise LedgerTampered(
            f"not upgraded, and left as it was: {report.findings[0]}. Run 'steelyard ledger verify' of the version that wrote it.",
            findings=report.findings,
        )
    said = {"from": "1", "version": str(creation.VERSION), "schema": connection.fingerprint()}
    transaction.append("upgrade", detail=canonical(said).decode(), at=transaction.now)
    connection.execute("UPDATE meta SET value = ? WHERE name = 'version'", (str(creation.VERSION),))
    return report
