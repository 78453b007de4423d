"""What was asked and is to be answered by the worker: who asked what under which key, and when its answer may be seen.

A job is made before its charge, so that whatever was charged can be found and answered after a crash. How long an answer took is kept
nowhere: ``visible`` is a moment of the public schedule.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steelyard.server._store._link import Database
from steelyard.server._store._records import Records

WAITING = ("asked", "charged")


@dataclass(frozen=True)
class Job:
    """One request: ``asked`` before its charge, ``charged`` with its entry on the ledger, ``answered`` or ``failed`` for good."""

    id: int
    dataset: int
    person: int
    account: str
    key: str
    request: str
    state: str
    asked: float
    sequence: int | None
    charged: float | None
    visible: float | None
    tries: int
    published: int


class Jobs:
    """The jobs of a server; ``clock`` tells seconds since 1970."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock, self._rows = database, clock, Records(database, "jobs", Job)

    def ask(self, dataset: int, person: int, account: str, key: str, request: str) -> Job:
        """The job of a key, made if there is none; one that was never charged takes the new request."""
        with self._database.write() as link:
            link.execute(
                "INSERT INTO jobs (dataset, person, account, name, request, asked) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (account, name) DO UPDATE SET request = CASE WHEN jobs.sequence IS NULL THEN excluded.request ELSE jobs.request END, "
                "asked = CASE WHEN jobs.sequence IS NULL THEN excluded.asked ELSE jobs.asked END",
                (dataset, person, account, key, request, self._clock()),
            )
            found = self._rows.one("WHERE account = ? AND name = ?", account, key)
        assert found is not None
        return found

    def charge(
        self, dataset: int, person: int, account: str, key: str, request: str, sequence: int, charged: float
    ) -> Job:
        """The job of a charge, with the entry that paid for it and when that was; made if nobody remembers it."""
        with self._database.write() as link:
            link.execute(
                "INSERT INTO jobs (dataset, person, account, name, request, asked, sequence, charged, state) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'charged') ON CONFLICT (account, name) DO UPDATE SET "
                "sequence = excluded.sequence, charged = excluded.charged, request = excluded.request, state = 'charged' "
                "WHERE jobs.sequence IS NULL",
                (dataset, person, account, key, request, self._clock(), sequence, charged),
            )
            found = self._rows.one("WHERE account = ? AND name = ?", account, key)
        assert found is not None
        return found

    def waiting(self) -> list[Job]:
        """The jobs that have no answer yet, oldest first."""
        return self._rows.all("WHERE state IN (?, ?) ORDER BY id LIMIT 1000", *WAITING)

    def count_waiting(self, person: int) -> tuple[int, int]:
        """How many jobs have no answer that may be seen, and how many of them are a person's.

        When the worker ended is in neither: a refusal for a full queue would tell it.
        """
        return self._rows.count_waiting(person, self._clock())

    def begin(self, job: int) -> int:
        """Count one more try, durably, before it is made; how many that are."""
        return self._rows.begin(job)

    def untry(self, job: int) -> None:
        """Take back a try that ended before rows were read."""
        with self._database.write() as link:
            link.execute("UPDATE jobs SET tries = tries - 1 WHERE id = ? AND tries > 0", (job,))

    def finish(self, job: int, state: str, visible: float) -> None:
        """Say that an answer, or a failure, is stored on the ledger, and from when on it may be seen."""
        with self._database.write() as link:
            link.execute(
                "UPDATE jobs SET state = ?, visible = ? WHERE id = ? AND visible IS NULL", (state, visible, job)
            )

    def forget(self, job: int) -> None:
        """Forget a job that was never charged."""
        with self._database.write() as link:
            link.execute("DELETE FROM jobs WHERE id = ? AND sequence IS NULL", (job,))

    def of_sequence(self, sequence: int) -> Job | None:
        """The job that an entry of the ledger paid for, or None."""
        return self._rows.one("WHERE sequence = ?", sequence)

    def of_set(self, dataset: int, *, person: int | None, after: int, limit: int) -> list[Job]:
        """A set's jobs by sequence; of one person, and what was published, unless ``person`` is None."""
        own = "" if person is None else "AND (person = ? OR published = 1)"
        values: list[Any] = [dataset, after, *([] if person is None else [person]), limit]
        return self._rows.all(f"WHERE dataset = ? AND sequence > ? {own} ORDER BY sequence LIMIT ?", *values)

    def published(self, dataset: int, request: str) -> int | None:
        """The entry of a published answer to this very request, or None."""
        row = self._database.one(
            "SELECT MIN(sequence) FROM jobs WHERE dataset = ? AND request = ? AND published = 1", (dataset, request)
        )
        return None if row is None else row[0]

    def newest(self, dataset: int, *, person: int | None, published: bool, limit: int) -> list[Job]:
        """A set's newest jobs that were charged, newest first: published ones or the others; of one person unless that is None."""
        own, values = ("", []) if person is None or published else ("AND person = ?", [person])
        wanted = f"WHERE dataset = ? AND published = ? AND sequence IS NOT NULL {own} ORDER BY sequence DESC LIMIT ?"
        return self._rows.all(wanted, dataset, int(published), *values, limit)

    def publish(self, job: int) -> None:
        """Let every member of the set see an answer."""
        with self._database.write() as link:
            link.execute("UPDATE jobs SET published = 1 WHERE id = ?", (job,))
