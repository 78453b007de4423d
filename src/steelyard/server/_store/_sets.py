"""Data sets as people know them: a name, the columns, which account pays, and who belongs to it in which role."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.server._store._link import Database
from steelyard.server._store._records import Records

ROLES = ("custodian", "analyst")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")


@dataclass(frozen=True)
class DataSet:
    """A table that people may ask about. ``source`` is where the worker finds it; ``state`` is empty, described or broken."""

    id: int
    name: str
    title: str
    kind: str
    source: str
    options: dict[str, Any]
    columns: dict[str, str]
    account: str
    slot: float
    state: str
    version: int


def check_name(name: object, what: str) -> str:
    """Refuse a name that could not stand in an address."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidTask(f"{what} is 1 to 60 small letters, digits, hyphens and underscores; got {name!r:.70}.")
    return name


class Sets:
    """The data sets of a server and their members."""

    def __init__(self, database: Database) -> None:
        self._database, self._rows = database, Records(database, "sets", DataSet)

    def add(self, name: str, title: str = "", *, slot: float = 0.0) -> DataSet:
        """Make a set without a source or an account."""
        check_name(name, "a set's name")
        return self._rows.add_named(name=name, title=title[:200], slot=slot)

    def named(self, name: str) -> DataSet | None:
        """The set of a name, or None."""
        return self._rows.one("WHERE name = ?", name)

    def known(self, number: int) -> DataSet | None:
        """The set of a number, or None."""
        return self._rows.one("WHERE id = ?", number)

    def all(self) -> list[DataSet]:
        """Every set, by name."""
        return self._rows.all("ORDER BY name")

    def of(self, person: int) -> list[DataSet]:
        """The sets that a person belongs to."""
        return self._rows.all("WHERE id IN (SELECT dataset FROM members WHERE person = ?) ORDER BY name", person)

    def set_source(self, number: int, kind: str, source: str, options: dict[str, Any]) -> None:
        """Say where the table is; the worker then looks at its columns."""
        with self._database.write() as link:
            link.execute(
                "UPDATE sets SET kind = ?, source = ?, options = ?, state = 'new', version = version + 1 WHERE id = ?",
                (kind, source, json.dumps(options), number),
            )

    def describe(self, number: int, version: int, columns: dict[str, str] | None) -> None:
        """Keep the columns that the worker found at the source of this version; None where it could not be opened.

        Those of the source before then stay, since what was asked of it is still read back by them.
        """
        with self._database.write() as link:
            if columns is None:
                link.execute("UPDATE sets SET state = 'broken' WHERE id = ? AND version = ?", (number, version))
                return
            link.execute(
                "UPDATE sets SET columns = ?, state = 'described' WHERE id = ? AND version = ?",
                (json.dumps(columns), number, version),
            )

    def to_describe(self) -> list[DataSet]:
        """The sets whose source nobody has looked at yet."""
        return self._rows.all("WHERE state = 'new'")

    def set_account(self, number: int, account: str) -> None:
        """Say which account of the ledger pays for the set."""
        with self._database.write() as link:
            link.execute("UPDATE sets SET account = ? WHERE id = ?", (account, number))

    def roles(self, dataset: int, person: int) -> dict[str, str]:
        """A person's roles in a set, each with the account that pays for it."""
        rows = self._database.rows(
            "SELECT role, account FROM members WHERE dataset = ? AND person = ?", (dataset, person)
        )
        return {row[0]: row[1] for row in rows}

    def members(self, dataset: int) -> list[dict[str, Any]]:
        """Everybody in a set."""
        rows = self._database.rows(
            "SELECT people.id, people.name, role, account FROM members JOIN people ON people.id = person WHERE dataset = ? ORDER BY people.name, role",
            (dataset,),
        )
        return [{"id": row[0], "name": row[1], "role": row[2], "account": row[3]} for row in rows]

    def join(self, dataset: int, person: int, role: str, account: str = "") -> None:
        """Give a person a role in a set; an officer, who approves budgets, has none."""
        if role not in ROLES:
            raise InvalidTask(f"a role is one of {', '.join(ROLES)}; got {role!r:.40}.")
        with self._database.write() as link:
            if link.one("SELECT 1 FROM people WHERE id = ? AND officer = 1", (person,)):
                raise InvalidTask("an officer approves budgets and verifies spending, and belongs to no set.")
            link.execute(
                "INSERT INTO members (dataset, person, role, account) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (dataset, person, role) DO UPDATE SET account = excluded.account",
                (dataset, person, role, account),
            )

    def leave(self, dataset: int, person: int, role: str) -> bool:
        """Take a role from a person; whether they had it."""
        with self._database.write() as link:
            values = (dataset, person, role)
            return link.execute("DELETE FROM members WHERE dataset = ? AND person = ? AND role = ?", values) > 0
