"""A ledger of the first format is refused with the command that brings it forward, and brought forward only if it is whole."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import postgres
from steelyard.cli import main
from steelyard.errors import LedgerError, LedgerTampered
from steelyard.ledger import Account, Ledger, open_account, upgrade
from steelyard.ledger import _address as address
from steelyard.ledger import _upgrade as module
from steelyard.ledger._anchor import FileAnchor
from steelyard.ledger._chain import GENESIS, Position, tie
from steelyard.ledger._postgres import PostgresConnection
from steelyard.privacy import Loss, canonical

OLD = (Path(__file__).parent / "format_1.sql").read_text()
KEY, ANCHOR = (line.split(" ", 2)[2] for line in OLD.splitlines()[1:3])


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The ledger that the first format wrote, with its key and its anchor."""
    path = tmp_path / "budget.db"
    with closing(sqlite3.connect(path)) as link:
        link.executescript(OLD)
    Path(f"{path}.key").write_text(KEY + "\n")
    Path(f"{path}.anchor").write_bytes(ANCHOR.encode().ljust(319) + b"\n")
    return path


@pytest.fixture
def old_on_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same entries on PostgreSQL, chained anew, since the chain begins with the fingerprint of its schema."""
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("STEELYARD_LEDGER_KEY", KEY)
    url, key = postgres.new_database(), bytes.fromhex(KEY)
    where = address.parse(url)
    with closing(sqlite3.connect(":memory:")) as source, closing(PostgresConnection(url, "here")) as target:
        source.executescript(OLD)
        target.execute("CREATE SCHEMA steelyard")
        for (statement,) in source.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall():
            target.execute(statement.replace("INTEGER", "BIGINT").replace("BLOB", "BYTEA"))
        for table in ("meta", "accounts", "balances", "answers", "head"):
            for row in source.execute(f"SELECT * FROM {table}").fetchall():
                target.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        head = GENESIS
        for *content, _ in source.execute("SELECT * FROM entries ORDER BY sequence").fetchall():
            if content[0] == 1:
                content[10] = canonical(json.loads(content[10]) | {"schema": target.fingerprint()}).decode()
            head = tie(key, head, [*content, "", ""])
            target.execute(f"INSERT INTO entries VALUES ({', '.join('?' * 13)})", (*content, head))
        target.execute("UPDATE head SET mac = ?", (head,))
    assert where.anchor is not None
    FileAnchor(where.anchor, key).reset(Position(9, head, json.loads(ANCHOR)["ledger"]))
    return url


def test_a_ledger_of_the_first_format_is_refused_with_the_command_that_upgrades_it(old: Path) -> None:
    before = old.read_bytes()
    for opening in (lambda: Ledger(old), lambda: Account(old, "spend").spent):
        with pytest.raises(LedgerError, match=f"steelyard ledger upgrade {old}"):
            opening()
    assert old.read_bytes() == before


@pytest.mark.parametrize("place", ["sqlite", "postgres"])
def test_an_upgraded_ledger_goes_on_where_it_was(place: str, request: pytest.FixtureRequest) -> None:
    where = str(request.getfixturevalue("old" if place == "sqlite" else "old_on_postgres"))
    assert upgrade(where).ok
    ledger, account = Ledger(where), Account(where, "spend")
    assert ledger.verify().findings == ()
    assert [entry.kind for entry in ledger.entries()][-1] == "upgrade"
    assert (str(account.spent), account.state, account.parent) == ("epsilon 0.75", "open", None)
    request_, of = b'{"type":"Sum"}', "'may.parquet'"
    found = account.find(key="first", request=request_, of=of)
    assert found is not None
    assert (found.answer, found.receipt.sequence) == (b"41", 4)
    assert ledger.verify(receipts=[found.receipt]).ok, "a receipt of the first format is still one"
    ann = open_account(where, "ann", parent="spend", epsilon="1")
    ann.charge(Loss.pure("0.25"), key="k", request=b"sum").store(b"1")
    assert (str(account.spent), [entry.name for entry in ledger.pending()]) == ("epsilon 1", ["waits"])
    assert ledger.verify().ok
    with pytest.raises(LedgerError, match="no ledger of format 1"):
        upgrade(where)


def test_an_upgraded_ledger_has_the_tables_of_a_new_one(old: Path, tmp_path: Path) -> None:
    upgrade(old)
    new = open_account(tmp_path / "new.db", "a", epsilon=1, unit=Account(old, "rows").terms.unit)
    with Account(old, "rows")._store.reading() as one, new._store.reading() as other:
        assert one.objects() == other.objects()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE balances SET cap = cap * 2",
        "UPDATE entries SET name = 'other' WHERE sequence = 9",
        "UPDATE entries SET amount = 1 WHERE sequence = 9",
        "DELETE FROM answers",
        "CREATE TRIGGER free AFTER UPDATE ON balances BEGIN UPDATE balances SET spent = 0; END",
        "DROP INDEX one_charge_per_key",
    ],
)
def test_a_ledger_that_is_not_whole_is_not_upgraded_and_is_left_as_it_was(old: Path, statement: str) -> None:
    with closing(sqlite3.connect(old)) as link:
        link.execute(statement)
        link.commit()
        before = list(link.iterdump())
    with pytest.raises(LedgerTampered, match="left as it was"):
        upgrade(old)
    with closing(sqlite3.connect(old)) as link:
        assert list(link.iterdump()) == before


def test_an_older_copy_is_not_upgraded(old: Path) -> None:
    anchor = FileAnchor(Path(f"{old}.anchor"), bytes.fromhex(KEY))
    anchor.reset(Position(12, "a" * 64, json.loads(ANCHOR)["ledger"]))
    with pytest.raises(LedgerTampered, match="an older copy"):
        upgrade(old)


def test_the_first_format_can_no_longer_write_on_an_upgraded_ledger(old: Path) -> None:
    """A process that still runs the older steelyard knows no parents: it must fail and not charge past them."""
    upgrade(old)
    with closing(sqlite3.connect(old)) as link, pytest.raises(sqlite3.IntegrityError, match="person"):
        link.execute(
            f"INSERT INTO entries ({module._COLUMNS}) VALUES (11, 'charge', 'ann', 'k', '', 1, 0, 0, 0, '', '', '', '')"
        )


def test_the_command_upgrades_and_says_what_it_checked(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["account", "show", str(old), "spend"]) == 4
    assert f"steelyard ledger upgrade {old}" in capsys.readouterr().err
    assert main(["ledger", "upgrade", str(old)]) == 0
    assert "10 entries" in capsys.readouterr().out
    assert main(["ledger", "verify", str(old)]) == 0
