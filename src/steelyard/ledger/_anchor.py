"""What guards a ledger from outside its database: the anchor, and what this process remembers.

The anchor is one short line, (sequence, head), sealed with the key and rewritten after every committed batch. It may
lag behind the ledger and never leads it, because it is written only after the commit is on disk; so a ledger that is
behind its anchor has lost entries: somebody restored an older copy. Whoever moves it holds a lock on its file, so under
running processes it only ever goes forward; one that is missing, unsound or older than it was is evidence and is left alone.

A ``Witness`` holds a ledger, before every group of moves, against what this process has seen of it. It knows without a file that
the chain only grows and the anchor only goes forward: an older ledger put back together with its older anchor is found as long as
one process remembers.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import json
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

from steelyard.errors import LedgerLocked, LedgerTampered
from steelyard.ledger._chain import GENESIS, Position
from steelyard.ledger._connection import WAIT
from steelyard.ledger._transaction import Transaction

_WIDTH = 320  # one line within one disk sector, so an overwrite is old or new and never half of each
_READS = 5
_PATIENCE = 1.0  # seconds: whoever holds the anchor for longer makes it lag, and nobody wait
_WHAT_TO_DO = (
    "Nothing was charged. Bring the newest ledger and its anchor back; if you can explain the difference and accept the "
    "ledger as it is, Ledger(location).accept() anchors it again, for processes that start after it."
)


class MemoryAnchor:
    """The anchor of an in-memory ledger: nothing outside the process could roll it back."""

    def __init__(self) -> None:
        self._position = Position(0, GENESIS, "")

    def read(self) -> Position | None:
        """The last position."""
        return self._position

    def write(self, position: Position) -> Position:
        """Remember a position."""
        self._position = position
        return position

    peek = read
    reset = write


class FileAnchor:
    """The anchor as a file of one fixed-width line, overwritten in place and never synced: it may lag."""

    def __init__(self, path: Path, key: bytes) -> None:
        self.path = path
        self._key = key
        self._known: tuple[bytes, Position] | None = None  # a line that bears its seal, and its position

    def read(self) -> Position | None:
        """The position, or None when there is no anchor; a damaged one is LedgerTampered."""
        for attempt in range(_READS):
            try:
                line = self.glance()
            except FileNotFoundError:
                return None
            position = self._unseal(line)
            if position is not None:
                return position
            time.sleep(0.001 * attempt)  # another process may be in the middle of writing it
        raise LedgerTampered(
            f"the anchor {self.path} is damaged or was sealed with another key. Nothing was charged. Bring it back; if you "
            "can explain the difference and accept the ledger as it is, Ledger(location).accept() anchors it again.",
            findings=[f"anchor {self.path}: its seal does not match"],
        )

    def peek(self) -> Position | None:
        """The position if there is a sound one."""
        try:
            return self._unseal(self.glance())
        except OSError:
            return None

    def glance(self) -> bytes:
        """The bytes of the line, sound or not."""
        handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, 4096)
        finally:
            os.close(handle)

    def write(self, position: Position) -> Position | None:
        """Move the anchor forward to ``position`` and say where it stands; None where it is not a sound one of this ledger."""
        with self._held() as handle:
            present = self._unseal(os.pread(handle, _WIDTH, 0))
            if present is None or (present.sequence and present.ledger != position.ledger):
                return None
            if present.sequence < position.sequence:
                self._put(handle, position)
                return position
            return present

    def reset(self, position: Position) -> None:
        """Put the anchor to ``position``, be it behind the present one or in place of none."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_once(self.path, _line(position, self._key))
        with self._held() as handle:
            os.truncate(handle, _WIDTH)
            self._put(handle, position)
            os.fsync(handle)

    @contextlib.contextmanager
    def _held(self) -> Iterator[int]:
        """The anchor's file, locked; one that is missing is not made here."""
        handle = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            _lock(handle, _PATIENCE)
            yield handle
        finally:
            os.close(handle)

    def _put(self, handle: int, position: Position) -> None:
        line = _line(position, self._key)
        os.pwrite(handle, line, 0)
        self._known = (line, position)

    def begin(self) -> None:
        """Make the anchor of a ledger about to be created, durably; one that exists is left alone."""
        write_once(self.path, _line(Position(0, GENESIS, ""), self._key))

    def _unseal(self, line: bytes) -> Position | None:
        """The position on a line, or None; the line that was last found sealed, byte for byte, is not worked out again."""
        known = self._known
        if known is not None and line == known[0]:
            return known[1]
        found = _unseal(line, self._key)
        if found is not None:
            self._known = (line, found)
        return found


Anchor = MemoryAnchor | FileAnchor


def _lock(handle: int, seconds: float) -> None:
    """Wait for a file's lock, or say that it is held; a file system that knows none is used without."""
    until = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
        except OSError:
            return None
        time.sleep(0.001)


def _line(position: Position, key: bytes) -> bytes:
    data = {"sequence": position.sequence, "head": position.head, "ledger": position.ledger, "mac": position.seal(key)}
    return json.dumps(data).encode().ljust(_WIDTH - 1) + b"\n"


def _unseal(line: bytes, key: bytes) -> Position | None:
    try:
        data = json.loads(line)
        position = Position(data["sequence"], data["head"], data["ledger"])
        return position if hmac.compare_digest(position.seal(key), str(data["mac"])) else None
    except (ValueError, KeyError, TypeError):
        return None


class Witness:
    """The furthest positions of one ledger that this process saw: of its chain, and of its anchor."""

    def __init__(self) -> None:
        self.chain: Position | None = None
        self.anchor: Position | None = None

    def known(self) -> tuple[Position | None, Position | None]:
        """What was seen so far, of the chain and of the anchor."""
        return self.chain, self.anchor

    def forget(self) -> None:
        """Begin anew, after somebody accepted the ledger as it is."""
        self.chain = self.anchor = None

    def check(
        self, transaction: Transaction, anchor: Position | None, known: tuple[Position | None, Position | None]
    ) -> None:
        """Refuse to go on with a ledger that is not the one that was ``known`` before its anchor was read, which was before the transaction began."""
        findings = [*older(known[1], anchor), *_not_passed(transaction, known[0], anchor)]
        if findings:
            raise LedgerTampered(f"{findings[0]}. {_WHAT_TO_DO}", findings=findings)
        self.saw(transaction.position, anchor)

    def saw(self, chain: Position, anchor: Position | None) -> None:
        """Remember what was just read or committed, and where the anchor stands; of threads at the same moment, whichever was last."""
        self.chain, self.anchor = _further(self.chain, chain), _further(self.anchor, anchor)


def older(known: Position | None, found: Position | None) -> Iterator[str]:
    """What is wrong with an anchor: that there is none, or that a later one was seen before."""
    if found is None:
        yield "the anchor is missing, so an older copy put back could not be told from the newest one"
    elif known is not None and found.sequence < known.sequence:
        yield f"the anchor stands at entry {found.sequence}, but was seen at {known.sequence}: an older one was put back"


def _further(known: Position | None, found: Position | None) -> Position | None:
    return known if known is not None and (found is None or found.sequence < known.sequence) else found


def _not_passed(transaction: Transaction, chain: Position | None, anchor: Position | None) -> Iterator[str]:
    for position in (chain,) if chain == anchor else (chain, anchor):
        if position is None or not position.sequence:
            continue
        name = transaction.identity.name or position.ledger  # not known yet while a ledger is being opened
        yield from position.missed(transaction.sequence, _head_at(transaction, position.sequence), name)


def _head_at(transaction: Transaction, sequence: int) -> str:
    if sequence == transaction.sequence:
        return transaction.head
    row = transaction.one("SELECT mac FROM entries WHERE sequence = ?", (sequence,))
    return "" if row is None else str(row[0])


def write_once(path: Path, content: bytes) -> None:
    """Create a private file with this content, durably and in one step; one that already exists is left alone."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, content)
        os.fsync(handle)
    finally:
        os.close(handle)
    with contextlib.suppress(FileExistsError):
        os.link(draft, path)
    os.unlink(draft)
    sync_folder(path.parent)


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes that begin a ledger in it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _lock(handle, WAIT)
    except BlockingIOError:
        os.close(handle)
        raise LedgerLocked(f"the folder {folder} was locked for {WAIT:g} seconds; nothing was made.") from None
    try:
        yield
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
