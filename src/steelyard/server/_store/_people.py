"""People, and how they prove who they are: one-time codes, passwords, sessions, tokens. Every secret is kept as a digest."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.server._secrets import TOKEN, check_password, digest, hash_password, new_secret
from steelyard.server._store._link import Database

IDLE, LONGEST, FRESH, CODE_LASTS = 12 * 3600.0, 7 * 86400.0, 1800.0, 900.0
SCOPES = ("ask", "plan")
"""What a token may do: all that its person may with a token, or only what spends nothing."""
_PERSON = "people.id, people.name, people.officer, people.state"


@dataclass(frozen=True)
class Person:
    """Somebody who is known here, and how they came in: by ``session`` or by ``token``."""

    id: int
    name: str
    officer: bool
    by: str = ""
    fresh: bool = False
    scope: str = "ask"
    session: str = ""


class People:
    """The people of a server; ``clock`` tells seconds since 1970."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    def add(self, name: str, *, officer: bool = False) -> Person:
        """Make a person known; a name stands for one person."""
        if not 0 < len(name) <= 100 or not name.isprintable() or name != name.strip() or "/" in name:
            raise InvalidTask("a person's name is 1 to 100 printable characters without a slash.")
        with self._database.write() as link:
            if link.one("SELECT 1 FROM people WHERE name = ?", (name,)):
                raise InvalidTask(f"there is a person named {name!r} already.")
            row = link.one(
                "INSERT INTO people (name, officer, created) VALUES (?, ?, ?) RETURNING id",
                (name, int(officer), self._clock()),
            )
        assert row is not None
        return Person(row[0], name, officer)

    def named(self, name: str) -> Person | None:
        """The person of a name, or None."""
        return self._one(f"SELECT {_PERSON} FROM people WHERE name = ?", name)

    def known(self, person: int) -> Person | None:
        """The person of a number, or None."""
        return self._one(f"SELECT {_PERSON} FROM people WHERE id = ?", person)

    def everybody(self) -> list[dict[str, Any]]:
        """Everybody's name, whether an officer, and state."""
        rows = self._database.rows("SELECT id, name, officer, state FROM people ORDER BY id")
        return [{"id": row[0], "name": row[1], "officer": bool(row[2]), "state": row[3]} for row in rows]

    def has_entered(self, person: int) -> bool:
        """Whether somebody has ever signed in as this person."""
        return self._database.one("SELECT 1 FROM people WHERE id = ? AND entered = 1", (person,)) is not None

    def _one(self, statement: str, value: object) -> Person | None:
        row = self._database.one(statement, (value,))
        return None if row is None else Person(row[0], row[1], bool(row[2]))

    def disable(self, person: int) -> None:
        """Shut a person out: no sign-in, and every session, token and code ends."""
        with self._database.write() as link:
            link.execute("UPDATE people SET state = 'disabled' WHERE id = ?", (person,))
            for table in ("sessions", "tokens", "codes"):
                link.execute(f"DELETE FROM {table} WHERE person = ?", (person,))

    def new_code(self, person: int) -> str:
        """A code that signs a person in once, within fifteen minutes; it ends the one before."""
        code = new_secret()
        with self._database.write() as link:
            link.execute("DELETE FROM codes WHERE ends < ? OR person = ?", (self._clock(), person))
            row = (digest(code), person, self._clock() + CODE_LASTS)
            link.execute("INSERT INTO codes (digest, person, ends) VALUES (?, ?, ?)", row)
        return code

    def spend_code(self, code: str) -> str | None:
        """The cookie of a new session, if the code is good; it is good once."""
        with self._database.write() as link:
            row = link.one(
                "DELETE FROM codes WHERE digest = ? AND ends >= ? RETURNING person", (digest(code), self._clock())
            )
            return None if row is None else self._begin(link, row[0])

    def set_password(self, person: int, password: str) -> None:
        """Choose a password; sessions go on."""
        with self._database.write() as link:
            link.execute("UPDATE people SET password = ? WHERE id = ?", (hash_password(password), person))

    def sign_in(self, name: str, password: str) -> str | None:
        """The cookie of a new session, if name and password fit; the same work is done where there is no such person."""
        row = self._database.one("SELECT id, password FROM people WHERE name = ? AND state = 'active'", (name,))
        fits = check_password(password, "" if row is None else row[1])
        if row is None or not fits:
            return None
        with self._database.write() as link:
            return self._begin(link, row[0])

    def _begin(self, link: Any, person: int) -> str | None:
        if link.one("SELECT 1 FROM people WHERE id = ? AND state = 'active'", (person,)) is None:
            return None
        cookie, now = new_secret(), self._clock()
        link.execute("UPDATE people SET entered = 1 WHERE id = ?", (person,))
        link.execute("DELETE FROM sessions WHERE seen < ? OR made < ?", (now - IDLE, now - LONGEST))
        link.execute(
            "INSERT INTO sessions (digest, id, person, made, seen) VALUES (?, ?, ?, ?, ?)",
            (digest(cookie), new_secret()[:12], person, now, now),
        )
        return cookie

    def of_cookie(self, cookie: str) -> Person | None:
        """Who holds a session's cookie; None once it has ended."""
        kept, now = digest(cookie), self._clock()
        row = self._database.one(
            f"SELECT {_PERSON}, sessions.made, sessions.seen, sessions.id FROM sessions JOIN people ON people.id = sessions.person "
            "WHERE digest = ?",
            (kept,),
        )
        if row is None or row[3] != "active" or now - row[4] > LONGEST or now - row[5] > IDLE:
            return None
        if now - row[5] > 60:
            with self._database.write() as link:
                link.execute("UPDATE sessions SET seen = ? WHERE digest = ?", (now, kept))
        return Person(row[0], row[1], bool(row[2]), "session", now - row[4] <= FRESH, session=row[6])

    def sessions(self, person: int) -> list[dict[str, Any]]:
        """A person's sessions, newest first."""
        rows = self._database.rows("SELECT id, made, seen FROM sessions WHERE person = ? ORDER BY made DESC", (person,))
        return [{"id": row[0], "made": row[1], "seen": row[2]} for row in rows]

    def end_session(self, person: int, session: str) -> None:
        """End one session of a person."""
        with self._database.write() as link:
            link.execute("DELETE FROM sessions WHERE person = ? AND id = ?", (person, session))

    def new_token(self, person: int, name: str, scope: str, days: int) -> str:
        """A token for programs, which is shown once."""
        if scope not in SCOPES or not 1 <= days <= 366 or not 0 < len(name) <= 100 or not name.isprintable():
            raise InvalidTask(f"a token has a name, a scope among {', '.join(SCOPES)}, and lasts 1 to 366 days.")
        token = new_secret(TOKEN)
        row = (digest(token), new_secret()[:12], person, name, scope, self._clock() + 86400.0 * days)
        with self._database.write() as link:
            link.execute("INSERT INTO tokens (digest, id, person, name, scope, ends) VALUES (?, ?, ?, ?, ?, ?)", row)
        return token

    def tokens(self, person: int) -> list[dict[str, Any]]:
        """A person's tokens without their secrets; ``used`` is the last day."""
        rows = self._database.rows(
            "SELECT id, name, scope, used, ends FROM tokens WHERE person = ? ORDER BY ends", (person,)
        )
        return [{"id": row[0], "name": row[1], "scope": row[2], "used": row[3], "ends": row[4]} for row in rows]

    def end_token(self, person: int, token: str) -> bool:
        """End one token of a person; whether there was one."""
        with self._database.write() as link:
            return link.execute("DELETE FROM tokens WHERE person = ? AND id = ?", (person, token)) > 0

    def of_token(self, token: str) -> Person | None:
        """Who holds a token; None once it has ended."""
        kept = digest(token)
        row = self._database.one(
            f"SELECT {_PERSON}, tokens.scope, tokens.used, tokens.ends FROM tokens JOIN people ON people.id = tokens.person WHERE digest = ?",
            (kept,),
        )
        if row is None or row[3] != "active" or row[6] < self._clock():
            return None
        today = time.strftime("%Y-%m-%d", time.gmtime(self._clock()))
        if row[5] != today:
            with self._database.write() as link:
                link.execute("UPDATE tokens SET used = ? WHERE digest = ?", (today, kept))
        return Person(row[0], row[1], bool(row[2]), "token", scope=row[4])
