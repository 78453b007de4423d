"""Who may do what on a PostgreSQL ledger: roles that may read it, spend on it, or keep it.

The database enforces it, column by column. Who may spend appends entries and answers and moves what was spent; it opens no account, changes no cap, parent or
state, and edits or removes no entry. Who keeps the ledger may open, freeze and close accounts besides. What a spender could still do by hand,
such as setting a balance back, is found by ``verify`` and by every process that opens the ledger.
"""

from __future__ import annotations

import contextlib
import os

from steelyard.errors import InvalidTask, LedgerError
from steelyard.ledger import _address as address
from steelyard.ledger._account import login, write_note
from steelyard.ledger._connection import Connection
from steelyard.ledger._store import new_connection, open_store

_READ = ("USAGE ON SCHEMA steelyard", "SELECT ON ALL TABLES IN SCHEMA steelyard")
_SPEND = (
    *_READ,
    "INSERT ON steelyard.entries, steelyard.answers",
    "UPDATE (spent, spent_delta) ON steelyard.balances",
    "UPDATE (sequence, mac) ON steelyard.head",
)
RIGHTS = {
    "read": _READ,
    "spend": _SPEND,
    "keep": (*_SPEND, "INSERT ON steelyard.accounts, steelyard.balances", "UPDATE (state) ON steelyard.balances"),
}
"""What each kind of role is granted."""


def grant(location: str | os.PathLike[str], role: str, may: str = "spend") -> None:
    """Let a PostgreSQL role ``"read"`` a ledger, ``"spend"`` on it or ``"keep"`` it; whatever it had there before is taken back first.

    A role that does not exist is made, without the right to log in: grant it to those who may (``GRANT analysts TO ann``). The act is noted on the chain.
    """
    where = address.parse(location)
    if where.kind != "postgres":
        raise InvalidTask("roles are PostgreSQL's; a ledger in a file belongs to whoever may read and write the file.")
    if may not in RIGHTS:
        raise InvalidTask(f"a role may {', '.join(RIGHTS)}; got {may!r}.")
    if not isinstance(role, str) or not 0 < len(role) <= 63 or not role.isprintable():
        raise InvalidTask(f"a role's name is 1 to 63 printable characters; got {role!r:.80}.")
    store = open_store(where.text)
    with contextlib.closing(new_connection(where)) as connection:
        _grant(connection, role, may)
    write_note(store, "", f"the role {role!r} may {may}", "grant", login(), None)


def _grant(connection: Connection, role: str, may: str) -> None:
    name = '"' + role.replace('"', '""') + '"'
    owner = connection.one("SELECT tableowner = ? FROM pg_tables WHERE schemaname = 'steelyard' LIMIT 1", (role,))
    if owner == (True,):
        raise LedgerError(f"the role {role!r} owns the ledger's tables and may do everything; grant to another role.")
    connection.execute("BEGIN")
    try:
        if connection.one("SELECT 1 FROM pg_roles WHERE rolname = ?", (role,)) is None:
            connection.execute(f"CREATE ROLE {name} NOLOGIN")
        for everything in ("ALL ON ALL TABLES IN SCHEMA steelyard", "ALL ON SCHEMA steelyard"):
            connection.execute(f"REVOKE {everything} FROM {name}")
        for right in RIGHTS[may]:
            connection.execute(f"GRANT {right} TO {name}")
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
