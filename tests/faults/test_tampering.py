"""Whatever is changed in a ledger's file, in any table or in its raw bytes, is found by verify with its anchor."""

from __future__ import annotations

import fcntl
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from faults import twins
from steelyard.errors import LedgerError, LedgerTampered
from steelyard.ledger import Account, Ledger, open_account
from steelyard.ledger import _anchor as anchors
from steelyard.ledger import _store as store
from steelyard.ledger import _verify as verify
from steelyard.ledger._anchor import Witness
from steelyard.ledger._chain import COLUMNS, GENESIS, Position, tie
from steelyard.ledger._store import open_store
from steelyard.ledger._transaction import Transaction
from steelyard.privacy import Event, Loss, rows, users

TABLES = ("meta", "head", "accounts", "balances", "entries", "answers")


@dataclass(frozen=True)
class Sample:
    """A small ledger as bytes, an older copy of it, and its key and anchor."""

    new: bytes
    old: bytes
    key: bytes
    anchor: bytes

    def place(self, folder: Path, image: bytes | None = None) -> Path:
        for leftover in folder.glob("t.db*"):
            leftover.unlink()
        (folder / "t.db").write_bytes(self.new if image is None else image)
        (folder / "t.db.key").write_bytes(self.key)
        (folder / "t.db.anchor").write_bytes(self.anchor)
        store._witnesses.clear()  # as for a process that is started now and has seen nothing
        return folder / "t.db"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    path = tmp_path_factory.mktemp("sample") / "t.db"
    first = open_account(path, "spend", unit=users("id"), epsilon="3")
    second = open_account(path, "rows", unit=rows(), mu="1", delta="1e-6", additive_delta="1e-7")
    for number in range(4):
        event = Event("laplace", {"sensitivity": number, "scale_numerator": 10 * number + 1, "scale_denominator": 1})
        made = first.charge(Loss.pure("0.1"), key=f"k{number}", request=b"r%d" % number, event=event)
        made.raise_to(Loss.pure(f"0.{number + 2}"))
        made.store(b"answer %d" % number, step=number % 2)
        second.charge(Loss.mu("0.01"), key=f"k{number}", request=b"").store(b"x" * 300)
    old = _flat(path)
    first.charge(Loss.pure("0.5"), key="last", request=b"last").store(b"last")
    return Sample(_flat(path), old, Path(f"{path}.key").read_bytes(), Path(f"{path}.anchor").read_bytes())


def _flat(path: Path) -> bytes:
    """The content as one file, with nothing left in the log."""
    target = path.with_suffix(".flat")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    return target.read_bytes()


def content(path: Path) -> object:
    """Everything a reader could see; two ledgers with the same content are the same ledger."""
    try:
        with closing(sqlite3.connect(path)) as link:
            schema = link.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
            tables = [link.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in TABLES]
            return schema, tables, link.execute("PRAGMA integrity_check").fetchall()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return str(error)


def found(path: Path) -> bool:
    try:
        return not Ledger(path).verify().ok
    except LedgerError:
        return True


def edit_a_cell(link: sqlite3.Connection, dice: random.Random) -> None:
    table = dice.choice(TABLES)
    names = [row[1] for row in link.execute(f"PRAGMA table_info({table})")]
    column, row = dice.choice(names), _a_row(link, table, dice)
    (old,) = link.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (row,)).fetchone()
    link.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (_other(old, dice), row))


def _a_row(link: sqlite3.Connection, table: str, dice: random.Random) -> int:
    return int(dice.choice(link.execute(f"SELECT rowid FROM {table}").fetchall())[0])


def _other(old: Any, dice: random.Random) -> Any:
    if isinstance(old, int):
        return dice.choice((old + 1, old - 1, old * 2, 0, old + dice.randrange(10**6), f"{old}x", float(old) + 0.5))
    if isinstance(old, bytes):
        return dice.choice((old + b"!", old[:-1], b"", old.decode(), b"other"))
    flipped = old[: len(old) // 2] + "~" + old[len(old) // 2 + 1 :]
    return dice.choice((old + " ", old[:-1], flipped, old.upper(), "", old.encode()))


def drop_a_row(link: sqlite3.Connection, dice: random.Random) -> None:
    table = dice.choice(TABLES)
    link.execute(f"DELETE FROM {table} WHERE rowid = ?", (_a_row(link, table, dice),))


def drop_the_last_entries(link: sqlite3.Connection, dice: random.Random) -> None:
    (last,) = link.execute("SELECT max(sequence) FROM entries").fetchone()
    keep = dice.randrange(1, last)
    link.execute("DELETE FROM entries WHERE sequence > ?", (keep,))
    link.execute("UPDATE head SET (sequence, mac) = (SELECT sequence, mac FROM entries WHERE sequence = ?)", (keep,))


def add_a_row(link: sqlite3.Connection, dice: random.Random) -> None:
    table = dice.choice(TABLES)
    values = list(link.execute(f"SELECT * FROM {table} WHERE rowid = ?", (_a_row(link, table, dice),)).fetchone())
    values[0] = values[0] + 10**6 if isinstance(values[0], int) else f"{values[0]}+"
    link.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)


def swap_two_entries(link: sqlite3.Connection, dice: random.Random) -> None:
    (last,) = link.execute("SELECT max(sequence) FROM entries").fetchone()
    one, two = dice.sample(range(1, last + 1), 2)
    for old, new in ((one, -1), (two, one), (-1, two)):
        link.execute("UPDATE entries SET sequence = ? WHERE sequence = ?", (new, old))


def add_an_object(link: sqlite3.Connection, dice: random.Random) -> None:
    link.execute(
        dice.choice(
            (
                "CREATE TRIGGER free AFTER UPDATE ON balances BEGIN UPDATE balances SET spent = 0; END",
                "CREATE TABLE extra (x)",
                "CREATE VIEW seen AS SELECT * FROM answers",
                "CREATE INDEX other ON entries (amount)",
                "DROP INDEX one_charge_per_key",
                "ALTER TABLE balances ADD COLUMN bonus INTEGER",
            )
        )
    )


EDITS: tuple[Callable[[sqlite3.Connection, random.Random], None], ...] = (
    edit_a_cell,
    edit_a_cell,
    edit_a_cell,
    drop_a_row,
    drop_the_last_entries,
    add_a_row,
    swap_two_entries,
    add_an_object,
)


def tamper(sample: Sample, folder: Path, dice: random.Random) -> Path:
    """Change the ledger once: through SQL (checks switched off, as an attacker would), or byte by byte."""
    if dice.random() < 0.35:
        image = bytearray(sample.new)
        for _ in range(dice.choice((1, 1, 2, 8))):
            image[dice.randrange(len(image))] ^= dice.randrange(1, 256)
        return sample.place(folder, bytes(image))
    path = sample.place(folder)
    with closing(sqlite3.connect(path, isolation_level=None)) as link:
        link.execute("PRAGMA ignore_check_constraints = ON")
        with suppress(sqlite3.Error):  # then this edit was not possible; the ledger is unchanged and does not count
            dice.choice(EDITS)(link, dice)
    return path


def hunt(sample: Sample, folder: Path, times: int, seed: int) -> tuple[int, list[int]]:
    """How many of ``times`` tamperings changed content, and which of those were missed."""
    before, changed, missed = content(sample.place(folder)), 0, []
    for number in range(times):
        dice = random.Random(seed * 10**6 + number)
        path = tamper(sample, folder, dice)
        if content(path) != before:
            changed += 1
            if not found(path):
                missed.append(number)
    return changed, missed


def test_an_untouched_ledger_verifies(sample: Sample, folder: Path) -> None:
    assert Ledger(sample.place(folder)).verify().findings == ()


def test_every_tampering_that_changes_content_is_found(sample: Sample, folder: Path) -> None:
    changed, missed = hunt(sample, folder, 1000, seed=1)
    assert (changed > 600, missed) == (True, [])


@pytest.mark.slow
def test_ten_thousand_tamperings_are_found(sample: Sample, folder: Path) -> None:
    changed, missed = hunt(sample, folder, 14_000, seed=2)
    assert (changed >= 10_000, missed) == (True, [])


def test_a_changed_small_ledger_is_refused_when_it_is_opened(sample: Sample, folder: Path) -> None:
    before = content(sample.place(folder))
    for number in range(100):
        path = tamper(sample, folder, random.Random(number))
        if content(path) != before:
            with pytest.raises(LedgerError):
                _ = Account(path, "spend").spent


def test_an_older_copy_is_found_by_the_anchor_and_by_nothing_else(sample: Sample, folder: Path) -> None:
    path = sample.place(folder, sample.old)
    with pytest.raises(LedgerTampered, match="an older copy was put back"):
        _ = Account(path, "spend").spent
    assert "an older copy" in Ledger(path).verify().findings[0]
    opened = open_store(path, check=False)
    with opened.reading() as link:
        assert verify.examine(link, opened.identity, []).ok, "the chain alone cannot know"


class Rollback:
    """A ledger of cap 1 under a running process: 0.25 spent and copied, 0.75 more spent, and the copy written back."""

    def __init__(self, folder: Path, *, in_place: bool = True) -> None:
        self.path = folder / "budget.db"
        self.anchor = Path(f"{self.path}.anchor")
        self.account = open_account(self.path, "a", unit=rows(), epsilon="1")
        self.spend("0.25", "first")
        self.old, self.old_anchor = self._image(), self.anchor.read_bytes()
        self.spend("0.75", "second")
        self._put_back(in_place)

    def spend(self, epsilon: str, key: str) -> None:
        self.account.charge(Loss.pure(epsilon), key=key, request=key.encode()).store(b"delivered")

    def _image(self) -> bytes:
        return _flat(self.path)

    def _put_back(self, in_place: bool) -> None:
        opened = open_store(self.path)
        opened.pause()
        for name in ("-wal", "-shm"):
            Path(f"{self.path}{name}").unlink(missing_ok=True)
        if in_place:
            with self.path.open("r+b") as file:  # nothing but the content is new
                file.write(self.old)
                file.truncate()
        else:
            copy = self.path.with_suffix(".copy")
            copy.write_bytes(self.old)
            copy.replace(self.path)
        opened.resume()


def keep(attack: Rollback) -> None:
    """Leave the newest anchor where it is."""


def remove(attack: Rollback) -> None:
    attack.anchor.unlink()


def scribble(attack: Rollback) -> None:
    attack.anchor.write_bytes(b"garbage\n")


def empty(attack: Rollback) -> None:
    attack.anchor.write_bytes(b"")


def roll_back(attack: Rollback) -> None:
    attack.anchor.write_bytes(attack.old_anchor)


def roll_back_to_birth(attack: Rollback) -> None:
    key = bytes.fromhex(Path(f"{attack.path}.key").read_text())
    attack.anchor.write_bytes(anchors._line(Position(0, GENESIS, ""), key))


def of_another_ledger(attack: Rollback) -> None:
    key = bytes.fromhex(Path(f"{attack.path}.key").read_text())
    attack.anchor.write_bytes(anchors._line(Position(2, "a" * 64, "another"), key))


ANCHORS = (keep, remove, scribble, empty, roll_back, roll_back_to_birth, of_another_ledger)


@pytest.mark.parametrize("and_the_anchor", ANCHORS)
def test_a_rollback_under_a_running_process_buys_nothing(
    tmp_path: Path, and_the_anchor: Callable[[Rollback], None]
) -> None:
    attack = Rollback(tmp_path)
    and_the_anchor(attack)
    left = attack.anchor.read_bytes() if attack.anchor.exists() else None
    with pytest.raises(LedgerTampered, match="Nothing was charged"):
        attack.spend("0.75", "third")  # would be 1.75 delivered of 1
    with pytest.raises(LedgerTampered):
        attack.account.find(key="third", request=b"")  # what is only read is held against what was seen, too
    with pytest.raises(LedgerTampered):
        Account(attack.path, "a").charge(Loss.pure("0.75"), key="third", request=b"")  # nor through a new handle
    assert (attack.anchor.read_bytes() if attack.anchor.exists() else None) == left, "evidence is left as it is"
    assert not Ledger(attack.path).verify().ok


@pytest.mark.parametrize("and_the_anchor", [remove, scribble, roll_back])
def test_the_twin_that_only_glances_at_the_anchor_delivers_more_than_the_cap(
    tmp_path: Path, and_the_anchor: Callable[[Rollback], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Witness, "check", twins.glance_at_the_anchor)
    monkeypatch.setattr(anchors.FileAnchor, "read", anchors.FileAnchor.peek)
    monkeypatch.setattr(anchors.FileAnchor, "write", twins.write_whatever_is_there)
    attack = Rollback(tmp_path)
    and_the_anchor(attack)
    attack.spend("0.75", "third")
    store._witnesses.clear()
    assert Ledger(attack.path).verify().ok, "1.75 of 1 were delivered and nothing shows"


def test_a_ledger_put_in_anothers_place_with_its_older_anchor_is_refused_by_a_process_that_saw_more(
    tmp_path: Path,
) -> None:
    attack = Rollback(tmp_path, in_place=False)
    roll_back(attack)
    with pytest.raises(LedgerTampered, match="removed or replaced"):
        attack.spend("0.75", "third")
    with pytest.raises(LedgerTampered, match="an older copy was put back"):
        _ = Account(attack.path, "a").spent
    assert not Ledger(attack.path).verify().ok
    assert Ledger(attack.path).accept().ok, "a person may decide that it is the ledger"
    assert str(Account(attack.path, "a").spent) == "epsilon 0.25"


def test_another_history_that_has_grown_longer_is_refused_by_a_process_that_saw_the_first(tmp_path: Path) -> None:
    attack = Rollback(tmp_path)
    roll_back(attack)
    longer = "from steelyard.ledger import Account; from steelyard.privacy import Loss; import sys\n" + (
        "for i in range(9): Account(sys.argv[1], 'a').charge(Loss.pure('0.01'), key=f'{i}', request=b'')"
    )
    subprocess.run([sys.executable, "-c", longer, str(attack.path)], check=True)
    with pytest.raises(LedgerTampered, match="another history"):
        attack.spend("0.5", "third")


def test_what_others_add_meanwhile_is_no_tampering(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    account = open_account(path, "a", unit=rows(), epsilon="1")
    work = "from steelyard.ledger import Account; from steelyard.privacy import Loss; import sys\n" + (
        "for i in range(20): Account(sys.argv[1], 'a').charge(Loss.pure('0.01'), key=f'{sys.argv[2]}-{i}', request=b'')"
    )
    others = [subprocess.Popen([sys.executable, "-c", work, str(path), str(n)]) for n in range(2)]
    for number in range(30):
        account.charge(Loss.pure("0.01"), key=f"own {number}", request=b"")
        assert Ledger(path).verify().ok
        if number == 15:
            assert Ledger(path).accept().ok, "accepting a sound ledger stops nobody"
    assert [other.wait() for other in others] == [0, 0]
    account.charge(Loss.pure("0.01"), key="last", request=b"")
    assert str(account.spent) == "epsilon 0.71"


def test_an_anchor_that_could_not_be_moved_lags_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anchors, "_PATIENCE", 0.05)
    account = open_account(tmp_path / "budget.db", "a", unit=rows(), epsilon="1")
    anchor = Path(f"{account.location}.anchor")
    with anchor.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        before = anchor.read_bytes()
        account.charge(Loss.pure("0.1"), key="k", request=b"")
        assert anchor.read_bytes() == before
    account.charge(Loss.pure("0.1"), key="l", request=b"")
    assert Ledger(account.location).verify().ok


def test_an_older_copy_with_its_older_anchor_is_found_by_a_receipt(sample: Sample, folder: Path) -> None:
    path = sample.place(folder)
    receipt = Account(path, "spend").charge(Loss.pure("0.5"), key="last", request=b"last").receipt
    path = sample.place(folder, sample.old)
    assert Ledger(path).accept().ok
    assert Ledger(path).verify().ok, "a consistent older pair passes, as the proof note says"
    assert not Ledger(path).verify(receipts=[receipt]).ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE balances SET cap = cap * 2",
        "UPDATE balances SET spent = 0",
        "UPDATE balances SET spent = spent - 1",
        "DELETE FROM balances",
        "UPDATE accounts SET terms = replace(terms, '3', '9')",
        "UPDATE head SET sequence = sequence - 1",
        "UPDATE entries SET amount = amount * 2 WHERE kind = 'account'",
        "DELETE FROM entries WHERE sequence = (SELECT max(sequence) FROM entries)",
    ],
)
def test_balances_and_head_of_a_large_ledger_are_checked_at_opening(
    sample: Sample, folder: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr(verify, "SMALL", 0)
    path = sample.place(folder)
    assert str(Account(path, "spend").spent) == "epsilon 1.9"
    path = sample.place(folder)
    with closing(sqlite3.connect(path, isolation_level=None)) as link:
        link.execute(statement)
    with pytest.raises(LedgerTampered):
        _ = Account(path, "spend").spent


def test_an_answer_that_was_taken_away_gets_no_second_one(
    sample: Sample, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "SMALL", 0)
    path = folder / "fresh.db"
    account = open_account(path, "a", unit=users("id"), epsilon="3")
    account.charge(Loss.pure(1), key="k", request=b"x").store(b"first")
    with closing(sqlite3.connect(path, isolation_level=None)) as link:
        link.execute("DELETE FROM answers")
    charge = account.charge(Loss.pure(1), key="k", request=b"x")
    with pytest.raises(LedgerTampered, match="second"):
        charge.store(b"another")


def test_a_ledger_that_was_taken_away_cannot_begin_anew(sample: Sample, folder: Path) -> None:
    path = sample.place(folder)
    path.unlink()
    with pytest.raises(LedgerTampered, match="remembers"):
        open_account(path, "spend", unit=users("id"), epsilon="3")


@pytest.mark.parametrize("left", [("key",), ("key", "anchor"), ("anchor",)])
def test_what_is_left_of_a_ledger_is_not_taken_for_nothing(tmp_path: Path, left: tuple[str, ...]) -> None:
    path = tmp_path / "budget.db"
    open_account(path, "a", unit=rows(), epsilon="1").charge(Loss.pure("0.5"), key="k", request=b"")
    for file in tmp_path.iterdir():
        if file.suffix.removeprefix(".") not in left:
            file.unlink()
    with pytest.raises(LedgerTampered):
        open_account(path, "a", unit=rows(), epsilon="1")
    assert not path.exists()


def test_a_ledger_begins_anew_where_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    open_account(path, "a", unit=rows(), epsilon="1").charge(Loss.pure("0.5"), key="k", request=b"")
    for file in tmp_path.iterdir():
        file.unlink()
    assert str(open_account(path, "a", unit=rows(), epsilon="1").remaining) == "epsilon 1"


def test_a_missing_or_damaged_anchor_is_found(sample: Sample, folder: Path) -> None:
    path = sample.place(folder)
    anchor = Path(f"{path}.anchor")
    anchor.write_bytes(anchor.read_bytes().replace(b'"sequence": 2', b'"sequence": 1'))
    assert not Ledger(path).verify().ok
    anchor.unlink()
    assert "anchor is missing" in Ledger(path).verify().findings[0]
    with pytest.raises(LedgerTampered):
        _ = Account(path, "spend").spent


@pytest.mark.parametrize("knows_the_key", [False, True])
def test_mending_the_chain_takes_the_key(sample: Sample, folder: Path, knows_the_key: bool) -> None:
    """Whoever holds the key can rewrite everything but the anchor and the receipts; whoever does not, cannot."""
    path = sample.place(folder)
    key = bytes.fromhex(sample.key.decode()) if knows_the_key else b"a guess that is wrong, 32 bytes."
    with closing(sqlite3.connect(path, isolation_level=None)) as link:
        link.execute("UPDATE entries SET request = 'forged' WHERE kind = 'charge'")
        before, rows_now = "0" * 64, link.execute(f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY 1").fetchall()
        for row in rows_now:
            before = tie(key, before, row[:-1])
            link.execute("UPDATE entries SET mac = ? WHERE sequence = ?", (before, row[0]))
        link.execute("UPDATE head SET mac = ?", (before,))
    opened = open_store(path, check=False)
    with opened.reading() as looked:
        assert verify.examine(looked, opened.identity, []).ok is knows_the_key
    assert not Ledger(path).verify().ok, "the anchor still remembers the true head"


MEDDLERS = {
    "dropped": "CREATE TRIGGER t BEFORE INSERT ON answers BEGIN SELECT RAISE(IGNORE); END",
    "changed": "CREATE TRIGGER t AFTER INSERT ON answers BEGIN UPDATE answers SET payload = x'00'; END",
    "off the chain": "CREATE TRIGGER t BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END",
}


@pytest.mark.parametrize("meddler", MEDDLERS.values(), ids=MEDDLERS)
def test_nothing_is_delivered_that_the_store_does_not_hold(tmp_path: Path, meddler: str) -> None:
    path = tmp_path / "b.db"
    account = open_account(path, "a", unit=rows(), epsilon="1")
    charge = account.charge(Loss.pure("0.1"), key="k", request=b"")
    with closing(sqlite3.connect(path, isolation_level=None)) as link:
        link.execute(meddler)
        for _ in range(2):
            with pytest.raises(LedgerTampered, match="does not hold what was just written"):
                charge.store(b"one")
        link.execute("DROP TRIGGER t")
    assert charge.store(b"two") == b"two"
    assert Ledger(path).verify().ok


def test_the_twin_that_delivers_what_it_has_in_hand_gives_one_charge_two_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Transaction, "_stored", lambda self: True)
    account = open_account(tmp_path / "b.db", "a", unit=rows(), epsilon="1")
    charge = account.charge(Loss.pure("0.1"), key="k", request=b"")
    with closing(sqlite3.connect(tmp_path / "b.db", isolation_level=None)) as link:
        link.execute(MEDDLERS["changed"])
    assert [charge.store(b"one"), charge.store(b"one")] == [b"one", b"\0"]
