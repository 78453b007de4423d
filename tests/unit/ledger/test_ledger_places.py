"""Where ledgers live, what is refused as a ledger, and where keys and anchors are kept."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from steelyard.errors import EngineMissing, InvalidTask, LedgerError, LedgerForeign, LedgerTooNew
from steelyard.ledger import Account, Ledger, open_account
from steelyard.ledger._address import parse
from steelyard.privacy import Loss, rows


def open_here(path: Path) -> Account:
    return open_account(path, "a", unit=rows(), epsilon="1")


def test_the_key_and_the_anchor_lie_beside_the_file_and_are_private(tmp_path: Path) -> None:
    open_here(tmp_path / "b.db")
    for suffix in (".key", ".anchor"):
        assert Path(f"{tmp_path / 'b.db'}{suffix}").stat().st_mode & 0o777 == 0o600


def test_keys_and_anchors_can_live_in_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    open_here(tmp_path / "b.db")
    assert {path.suffix for path in (tmp_path / "home").iterdir()} == {".key", ".anchor"}
    assert not (tmp_path / "b.db.key").exists()


def test_the_key_can_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_LEDGER_KEY", "ab" * 32)
    open_here(tmp_path / "b.db")
    assert not (tmp_path / "b.db.key").exists()
    monkeypatch.setenv("STEELYARD_LEDGER_KEY", "ab")
    with pytest.raises(LedgerError, match="at least 64 hexadecimal digits"):
        open_here(tmp_path / "c.db")


def test_a_lost_key_is_said_to_be_lost_and_a_wrong_one_to_be_wrong(tmp_path: Path) -> None:
    moved = tmp_path / "moved.db"
    open_here(tmp_path / "b.db")
    open_here(tmp_path / "c.db")
    with closing(sqlite3.connect(tmp_path / "b.db")) as source, closing(sqlite3.connect(moved)) as copy:
        source.backup(copy)
    with pytest.raises(LedgerError, match=r"move its \.key and \.anchor files with it"):
        open_here(moved)
    Path(f"{moved}.key").write_bytes((tmp_path / "c.db.key").read_bytes())
    Path(f"{moved}.anchor").write_bytes((tmp_path / "c.db.anchor").read_bytes())
    with pytest.raises(LedgerError, match="is not the key of"):
        open_here(moved)


def test_a_ledger_that_is_not_there_is_not_made_by_looking(tmp_path: Path) -> None:
    for look in (lambda: Ledger(tmp_path / "b.db"), lambda: Account(tmp_path / "b.db", "a").spent):
        with pytest.raises(LedgerError, match="there is no ledger at"):
            look()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_foreign_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at as one" * 50)
    with pytest.raises(LedgerForeign, match="not an SQLite file"):
        open_here(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["notes.txt"]


def test_a_database_of_something_else_is_foreign_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE people (name)")
        other.commit()
    before = path.read_bytes()
    with pytest.raises(LedgerForeign, match="something else"):
        open_here(path)
    assert path.read_bytes() == before


def test_a_ledger_of_a_newer_steelyard_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    open_here(path)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("UPDATE meta SET value = '7' WHERE name = 'version'")
        newer.commit()
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    with pytest.raises(LedgerTooNew, match="format 7; this one knows 2") as refusal:
        Ledger(copy)
    assert (refusal.value.found, refusal.value.known) == (7, 2)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no folder"):
        open_here(tmp_path / "nowhere" / "b.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("location", ["", "mysql://x/y", "a\0b"])
def test_a_place_where_no_ledger_can_live_is_refused(location: str) -> None:
    with pytest.raises(InvalidTask):
        parse(location)


def test_a_password_is_never_shown() -> None:
    assert "secret" not in repr(Account("postgresql://ann:secret@db.example/budgets", "a"))


def test_without_the_driver_the_way_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "steelyard.ledger._postgres", raising=False)
    with pytest.raises(EngineMissing, match=r"pip install 'steelyard\[postgres\]'"):
        open_account("postgresql://nobody@localhost/none", "a", unit=rows(), epsilon="1")


def test_a_server_that_is_not_there_is_a_ledger_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path))
    with pytest.raises(LedgerError, match="cannot be reached"):
        open_account(f"postgresql://nobody@/none?host={tmp_path}", "a", unit=rows(), epsilon="1")


def test_accepting_a_restored_copy_needs_a_whole_chain(tmp_path: Path) -> None:
    account = open_here(tmp_path / "b.db")
    account.charge(Loss.pure("0.1"), key="k", request=b"")
    Path(f"{account.location}.anchor").unlink()
    assert not Ledger(account.location).verify().ok
    assert Ledger(account.location).accept().ok
    assert Ledger(account.location).verify().ok
    with closing(sqlite3.connect(account.location)) as link:
        link.execute("UPDATE balances SET spent = 0")
        link.commit()
    assert not Ledger(account.location).accept().ok
