"""Rows of the server's tables as frozen dataclasses, read and looked for in one way."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Generic, TypeVar

from steelyard.errors import InvalidTask
from steelyard.server._store._link import Database

Record = TypeVar("Record")


class Records(Generic[Record]):
    """The rows of a table: each field is a column of its name (``key`` is the column ``name``), a dictionary is kept as JSON.

    Called inside a ``write`` of the database, each of these is a part of that transaction and sees what it wrote.
    """

    def __init__(self, database: Database, table: str, kind: type[Record]) -> None:
        known = fields(kind)  # type: ignore[arg-type]
        self._database, self._table, self._kind = database, table, kind
        self._json = {place for place, each in enumerate(known) if str(each.type).startswith("dict")}
        self._columns = ", ".join("name" if each.name == "key" else each.name for each in known)

    def _read(self, row: tuple[Any, ...]) -> Record:
        return self._kind(*(json.loads(each or "{}") if k in self._json else each for k, each in enumerate(row)))

    def add(self, **values: Any) -> Record:
        """Insert a row with these columns; the others take their defaults. It is read back: what SQLite returns of an insert knows no reals."""
        kept = [json.dumps(each) if isinstance(each, dict) else each for each in values.values()]
        into = f"{self._table} ({', '.join(values)}) VALUES ({', '.join('?' * len(kept))})"
        with self._database.write() as link:
            made = link.one(f"INSERT INTO {into} RETURNING id", kept)
            assert made is not None
            found = self.one("WHERE id = ?", *made)
        assert found is not None
        return found

    def add_named(self, **values: Any) -> Record:
        """The same for a table whose rows have a ``name`` each of their own."""
        with self._database.write():
            if self.one("WHERE name = ?", values["name"]) is not None:
                raise InvalidTask(f"the name {values['name']!r} is taken; choose another.")
            return self.add(**values)

    def one(self, which: str, *values: Any) -> Record | None:
        """The row that a WHERE picks, or None."""
        row = self._database.one(f"SELECT {self._columns} FROM {self._table} {which}", values)
        return None if row is None else self._read(row)

    def all(self, which: str, *values: Any) -> list[Record]:
        """Every row that a WHERE picks, in the order that it says."""
        rows = self._database.rows(f"SELECT {self._columns} FROM {self._table} {which}", values)
        return list(map(self._read, rows))

    def count_waiting(self, person: int, now: float) -> tuple[int, int]:
        """How many rows have no answer that may be seen now, and how many of them are a person's."""
        row = self._database.one(
            f"SELECT COUNT(*), COALESCE(SUM(CASE WHEN person = ? THEN 1 ELSE 0 END), 0) FROM {self._table} "
            "WHERE visible IS NULL OR visible > ?",
            (person, now),
        )
        return (0, 0) if row is None else (int(row[0]), int(row[1]))

    def begin(self, number: int) -> int:
        """Count one more try at a row; how many that are."""
        with self._database.write() as link:
            row = link.one(f"UPDATE {self._table} SET tries = tries + 1 WHERE id = ? RETURNING tries", (number,))
        return 0 if row is None else int(row[0])
