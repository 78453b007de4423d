"""The tables of the server's database, as numbered migrations: applied in one transaction at the start, refused when newer."""

from __future__ import annotations

from steelyard.errors import SteelyardError
from steelyard.server._store._link import SCHEMA, Database, StoreLink

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE people (id {id}, name TEXT NOT NULL UNIQUE, mail TEXT NOT NULL DEFAULT '', password TEXT NOT NULL DEFAULT '',
        officer INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT 'active', created {real} NOT NULL);
    CREATE TABLE codes (digest TEXT PRIMARY KEY, person {int} NOT NULL REFERENCES people(id), ends {real} NOT NULL);
    CREATE TABLE sessions (digest TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, person {int} NOT NULL REFERENCES people(id),
        made {real} NOT NULL, seen {real} NOT NULL);
    CREATE TABLE tokens (digest TEXT PRIMARY KEY, id TEXT NOT NULL UNIQUE, person {int} NOT NULL REFERENCES people(id), name TEXT NOT NULL,
        scope TEXT NOT NULL, used TEXT NOT NULL DEFAULT '', ends {real} NOT NULL);
    CREATE TABLE sets (id {id}, name TEXT NOT NULL UNIQUE, title TEXT NOT NULL DEFAULT '', kind TEXT NOT NULL DEFAULT '',
        source TEXT NOT NULL DEFAULT '', options TEXT NOT NULL DEFAULT '{{}}', columns TEXT NOT NULL DEFAULT '{{}}',
        account TEXT NOT NULL DEFAULT '', slot {real} NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT 'empty', version {int} NOT NULL DEFAULT 0);
    CREATE TABLE members (dataset {int} NOT NULL REFERENCES sets(id), person {int} NOT NULL REFERENCES people(id), role TEXT NOT NULL,
        account TEXT NOT NULL DEFAULT '', PRIMARY KEY (dataset, person, role));
    CREATE TABLE proposals (id {id}, dataset {int} NOT NULL REFERENCES sets(id), account TEXT NOT NULL, terms TEXT NOT NULL,
        proposer {int} NOT NULL REFERENCES people(id), approver {int} REFERENCES people(id), state TEXT NOT NULL DEFAULT 'proposed');
    CREATE TABLE jobs (id {id}, dataset {int} NOT NULL REFERENCES sets(id), person {int} NOT NULL REFERENCES people(id),
        account TEXT NOT NULL, name TEXT NOT NULL, request TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'asked', asked {real} NOT NULL,
        sequence {int} UNIQUE, charged {real}, visible {real}, tries INTEGER NOT NULL DEFAULT 0, published INTEGER NOT NULL DEFAULT 0,
        UNIQUE (account, name));
    CREATE INDEX jobs_by_state ON jobs (state, id);
    CREATE INDEX jobs_by_dataset ON jobs (dataset, sequence);
    CREATE TABLE boards (id {id}, name TEXT NOT NULL UNIQUE, title TEXT NOT NULL DEFAULT '', dataset {int} NOT NULL REFERENCES sets(id),
        source TEXT NOT NULL, label TEXT NOT NULL DEFAULT '', settings TEXT NOT NULL, open_to_all INTEGER NOT NULL DEFAULT 0,
        state TEXT NOT NULL DEFAULT 'new', facts TEXT NOT NULL DEFAULT '{{}}', slot {real} NOT NULL DEFAULT 0);
    CREATE TABLE teams (id {id}, board {int} NOT NULL REFERENCES boards(id), name TEXT NOT NULL, UNIQUE (board, name));
    CREATE TABLE competitors (team {int} NOT NULL REFERENCES teams(id), person {int} NOT NULL REFERENCES people(id), PRIMARY KEY (team, person));
    CREATE TABLE submissions (id {id}, board {int} NOT NULL REFERENCES boards(id), team {int} NOT NULL REFERENCES teams(id),
        person {int} NOT NULL REFERENCES people(id), name TEXT NOT NULL, digest TEXT NOT NULL, guess TEXT NOT NULL DEFAULT '',
        file TEXT NOT NULL, asked {real} NOT NULL, state TEXT NOT NULL DEFAULT 'asked', visible {real}, answer TEXT NOT NULL DEFAULT '',
        tries INTEGER NOT NULL DEFAULT 0, UNIQUE (board, team, name));
    CREATE INDEX submissions_by_state ON submissions (state, id);
    """,
    """
    ALTER TABLE people ADD COLUMN entered INTEGER NOT NULL DEFAULT 0;
    UPDATE people SET entered = 1;
    CREATE INDEX jobs_by_visible ON jobs (visible);
    CREATE INDEX submissions_by_visible ON submissions (visible);
    """,
)


class DatabaseTooNew(SteelyardError):
    """The server's database was written by a newer steelyard."""

    exit_code = 2


def migrate(database: Database) -> int:
    """Bring a database to the newest version; which that is."""
    names = _names(database.postgres)
    with database.write() as link:
        if database.postgres:
            link.execute(f"SELECT pg_advisory_xact_lock({0x53455256})")
            link.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        link.execute("CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY)")
        found = (link.one("SELECT MAX(version) FROM migrations") or (0,))[0] or 0
        if found > len(MIGRATIONS):
            raise DatabaseTooNew(
                f"the server's database has version {found} and this steelyard knows {len(MIGRATIONS)}; install the newer one."
            )
        for version in range(found + 1, len(MIGRATIONS) + 1):
            _apply(link, MIGRATIONS[version - 1].format(**names))
            link.execute("INSERT INTO migrations (version) VALUES (?)", (version,))
    return len(MIGRATIONS)


def _apply(link: StoreLink, text: str) -> None:
    for statement in filter(str.strip, text.split(";")):
        link.execute(statement)


def _names(postgres: bool) -> dict[str, str]:
    """The engine's names of the column types."""
    if postgres:
        return {
            "id": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
            "int": "BIGINT",
            "real": "DOUBLE PRECISION",
        }
    return {"id": "INTEGER PRIMARY KEY AUTOINCREMENT", "int": "INTEGER", "real": "REAL"}
