"""Leaderboards as people know them: a holdout, its teams, and what they sent in."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.server._store._link import Database
from steelyard.server._store._records import Records
from steelyard.server._store._sets import check_name


@dataclass(frozen=True)
class Board:
    """A holdout that teams compete on. ``state``: new until the worker has opened it, open, closed, or broken."""

    id: int
    name: str
    title: str
    dataset: int
    source: str
    label: str
    settings: dict[str, Any]
    open_to_all: int
    state: str
    facts: dict[str, Any]
    slot: float


@dataclass(frozen=True)
class Submission:
    """Predictions that a team sent in: ``asked``, then ``answered``, ``refused`` for their format, or ``failed``."""

    id: int
    board: int
    team: int
    person: int
    key: str
    digest: str
    guess: str
    file: str
    asked: float
    state: str
    visible: float | None
    answer: dict[str, Any]
    tries: int


class Boards:
    """The boards of a server, their teams and submissions."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock
        self._boards, self._sent = Records(database, "boards", Board), Records(database, "submissions", Submission)

    def add(
        self,
        name: str,
        title: str,
        dataset: int,
        source: str,
        label: str,
        settings: dict[str, Any],
        *,
        open_to_all: bool,
        slot: float,
    ) -> Board:
        """Make a board; the worker opens its holdout."""
        check_name(name, "a board's name")
        return self._boards.add_named(
            name=name,
            title=title[:200],
            dataset=dataset,
            source=source,
            label=label,
            settings=settings,
            open_to_all=int(open_to_all),
            slot=slot,
        )

    def named(self, name: str) -> Board | None:
        """The board of a name, or None."""
        return self._boards.one("WHERE name = ?", name)

    def known(self, number: int) -> Board | None:
        """The board of a number, or None."""
        return self._boards.one("WHERE id = ?", number)

    def all(self) -> list[Board]:
        """Every board, by name."""
        return self._boards.all("ORDER BY name")

    def set_state(self, number: int, state: str, facts: dict[str, Any] | None = None) -> None:
        """Say how a board stands, and what is public about its holdout."""
        with self._database.write() as link:
            link.execute("UPDATE boards SET state = ? WHERE id = ?", (state, number))
            if facts is not None:
                link.execute("UPDATE boards SET facts = ? WHERE id = ?", (json.dumps(facts), number))

    def add_team(self, board: int, name: str) -> int:
        """Make a team, or find it."""
        if not 0 < len(name) <= 60 or not name.isprintable():
            raise InvalidTask("a team's name is 1 to 60 printable characters.")
        with self._database.write() as link:
            link.execute(
                "INSERT INTO teams (board, name) VALUES (?, ?) ON CONFLICT (board, name) DO NOTHING", (board, name)
            )
            row = link.one("SELECT id FROM teams WHERE board = ? AND name = ?", (board, name))
        assert row is not None
        return int(row[0])

    def join(self, team: int, person: int) -> None:
        """Put a person on a team; officers, who see every submission, are on none, and nobody is on two teams of a board."""
        with self._database.write() as link:
            if link.one("SELECT 1 FROM people WHERE id = ? AND officer = 1", (person,)):
                raise InvalidTask("an officer sees every submission, and is on no team.")
            other = link.one(
                "SELECT 1 FROM competitors JOIN teams ON teams.id = team WHERE person = ? AND team <> ? "
                "AND board = (SELECT board FROM teams WHERE id = ?)",
                (person, team, team),
            )
            if other:
                raise InvalidTask("this person is on another team of the board.")
            link.execute("INSERT INTO competitors (team, person) VALUES (?, ?) ON CONFLICT DO NOTHING", (team, person))

    def team_of(self, board: int, person: int) -> tuple[int, str] | None:
        """A person's team on a board, or None."""
        row = self._database.one(
            "SELECT teams.id, teams.name FROM teams JOIN competitors ON team = teams.id WHERE board = ? AND person = ?",
            (board, person),
        )
        return None if row is None else (row[0], row[1])

    def teams(self, board: int) -> list[dict[str, Any]]:
        """The teams of a board and who is on them."""
        rows = self._database.rows(
            "SELECT teams.id, teams.name, people.name FROM teams LEFT JOIN competitors ON team = teams.id "
            "LEFT JOIN people ON people.id = person WHERE board = ? ORDER BY teams.name, people.name",
            (board,),
        )
        found: dict[int, dict[str, Any]] = {}
        for number, name, person in rows:
            entry = found.setdefault(number, {"id": number, "name": name, "people": []})
            entry["people"] += [person] if person else []
        return list(found.values())

    def of(self, person: int) -> list[Board]:
        """The boards that a person competes on, looks after or may see as a member of their set."""
        return self._boards.all(
            "WHERE open_to_all = 1 OR dataset IN (SELECT dataset FROM members WHERE person = ?) "
            "OR id IN (SELECT board FROM teams JOIN competitors ON team = teams.id WHERE person = ?) ORDER BY name",
            person,
            person,
        )

    def submit(
        self, board: int, team: int, person: int, key: str, digest: str, guess: str, file: str
    ) -> tuple[Submission, bool]:
        """The submission of a key, and whether it is new; the same key again is the same submission."""
        with self._database.write() as link:
            new = link.execute(
                "INSERT INTO submissions (board, team, person, name, digest, guess, file, asked) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (board, team, name) DO NOTHING",
                (board, team, person, key, digest, guess, file, float(int(self._clock()))),
            )
            found = self._sent.one("WHERE board = ? AND team = ? AND name = ?", board, team, key)
        assert found is not None
        return found, new > 0

    def submission(self, number: int) -> Submission | None:
        """The submission of a number, or None."""
        return self._sent.one("WHERE id = ?", number)

    def submissions(self, board: int, *, team: int | None = None) -> list[Submission]:
        """A board's submissions, or those of one team, oldest first."""
        if team is None:
            return self._sent.all("WHERE board = ? ORDER BY id", board)
        return self._sent.all("WHERE board = ? AND team = ? ORDER BY id", board, team)

    def waiting(self) -> list[Submission]:
        """The submissions without an answer, oldest first."""
        return self._sent.all("WHERE state = 'asked' ORDER BY id LIMIT 1000")

    def count_waiting(self, person: int) -> tuple[int, int]:
        """How many submissions have no answer that may be seen, and how many of them are a person's."""
        return self._sent.count_waiting(person, self._clock())

    def begin(self, number: int) -> int:
        """Count one more try, durably, before it is made; how many that are."""
        return self._sent.begin(number)

    def finish(self, number: int, state: str, answer: dict[str, Any], visible: float) -> None:
        """Keep the answer that the ledger holds, and from when on it may be seen."""
        with self._database.write() as link:
            link.execute(
                "UPDATE submissions SET state = ?, answer = ?, visible = ? WHERE id = ? AND state = 'asked'",
                (state, json.dumps(answer), visible, number),
            )
