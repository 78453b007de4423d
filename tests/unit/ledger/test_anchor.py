"""The anchor of a ledger in a file: what it remembers is what is in the file, and only what bears its seal."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from steelyard.errors import LedgerLocked, LedgerTampered
from steelyard.ledger import _anchor as anchors
from steelyard.ledger._anchor import FileAnchor
from steelyard.ledger._chain import Position

KEY = bytes(range(32))
FIRST, SECOND = Position(1, "a" * 64, "ledger"), Position(2, "b" * 64, "ledger")


@pytest.fixture
def anchor(tmp_path: Path) -> FileAnchor:
    made = FileAnchor(tmp_path / "x.anchor", KEY)
    made.begin()
    return made


def test_an_anchor_says_what_was_last_written_by_whomever(anchor: FileAnchor) -> None:
    other = FileAnchor(anchor.path, KEY)
    anchor.write(FIRST)
    assert other.peek() == anchor.peek() == FIRST
    other.write(SECOND)
    assert anchor.read() == anchor.peek() == SECOND
    anchor.write(FIRST)  # an older mark is ignored, although this handle wrote it last
    assert anchor.read() == other.read() == SECOND
    other.reset(FIRST)
    assert anchor.read() == anchor.peek() == FIRST
    anchor.write(SECOND)
    assert other.read() == SECOND


@pytest.mark.parametrize("known", [False, True])
def test_a_line_without_its_seal_is_never_a_mark(anchor: FileAnchor, known: bool) -> None:
    anchor.write(SECOND)
    sealed = anchor.path.read_bytes()
    reader = anchor if known else FileAnchor(anchor.path, KEY)
    for line in (b"", sealed[:-20], b" " + sealed[:-1].rstrip(), sealed.replace(b"b", b"c", 1), sealed[:200]):
        anchor.path.write_bytes(line)
        if anchors._unseal(line, KEY) is not None:
            assert reader.read() == SECOND
            continue
        assert reader.peek() is None
        with pytest.raises(LedgerTampered):
            reader.read()
    anchor.path.write_bytes(sealed)
    assert reader.read() == SECOND


def test_a_line_sealed_with_another_key_is_no_mark_however_often_it_is_read(anchor: FileAnchor) -> None:
    anchor.path.write_bytes(anchors._line(SECOND, bytes(32)))
    assert [anchor.peek(), anchor.peek()] == [None, None]


def test_a_seal_is_worked_out_once_for_each_line(anchor: FileAnchor, monkeypatch: pytest.MonkeyPatch) -> None:
    seals, seal = [], Position.seal

    def counted(mark: Position, key: bytes) -> str:
        seals.append(mark.sequence)
        return seal(mark, key)

    anchor.peek()
    monkeypatch.setattr(Position, "seal", counted)
    for number in range(1, 4):
        anchor.peek()
        anchor.write(Position(number, "a" * 64, "ledger"))
    assert seals == [1, 2, 3]


def test_an_anchor_that_is_removed_is_not_remembered(anchor: FileAnchor) -> None:
    anchor.write(FIRST)
    anchor.path.unlink()
    assert anchor.peek() is None
    assert anchor.read() is None


def test_an_anchor_is_made_where_there_is_no_folder_yet(tmp_path: Path) -> None:
    made = FileAnchor(tmp_path / "home" / "x.anchor", KEY)
    made.reset(SECOND)
    assert made.read() == SECOND


def test_a_file_system_without_locks_is_used_without(anchor: FileAnchor, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    assert anchor.write(SECOND) == SECOND
    with anchors.folder_lock(anchor.path.parent):
        pass


def test_a_lock_that_is_held_makes_nobody_wait_for_ever(anchor: FileAnchor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchors, "WAIT", 0.01)
    monkeypatch.setattr(anchors, "_PATIENCE", 0.01)
    with anchors.folder_lock(anchor.path.parent), pytest.raises(LedgerLocked), anchors.folder_lock(anchor.path.parent):
        pass
    with anchor._held(), pytest.raises(BlockingIOError):
        anchor.write(SECOND)


def test_a_missing_or_unsound_anchor_is_not_made_anew(anchor: FileAnchor) -> None:
    anchor.path.write_bytes(b"garbage")
    assert (anchor.write(SECOND), anchor.path.read_bytes()) == (None, b"garbage")
    anchor.path.unlink()
    with pytest.raises(FileNotFoundError):
        anchor.write(SECOND)
    assert not anchor.path.exists()
