"""What guards a ledger from outside its database: the chain's secret key and the anchor.

The anchor is one short line, (sequence, head), sealed with the key and rewritten after every committed batch. It may
lag behind the ledger and never leads it, because it is written only after the commit is on disk; so a ledger that is
behind its anchor has lost entries: somebody restored an older copy. Whoever moves it holds a lock on its file, so under
running processes it only ever goes forward; one that is missing, unsound or older than it was is evidence and is left alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from steelyard.errors import LedgerError, LedgerLocked, LedgerTampered
from steelyard.ledger.link import WAIT
from steelyard.privacy import canonical

GENESIS = "0" * 64
_WIDTH = 320  # one line within one disk sector, so an overwrite is old or new and never half of each
_READS = 5
_PATIENCE = 1.0  # seconds: whoever holds the anchor for longer makes it lag, and nobody wait


@dataclass(frozen=True)
class Mark:
    """A point of a chain: how many entries, the head there, and whose ledger it is."""

    sequence: int
    head: str
    ledger: str

    def seal(self, key: bytes) -> str:
        """The keyed seal of this mark."""
        return hmac.digest(key, canonical(["anchor", self.sequence, self.head, self.ledger]), "sha256").hex()


class MemoryAnchor:
    """The anchor of an in-memory ledger: nothing outside the process could roll it back."""

    def __init__(self) -> None:
        self._mark = Mark(0, GENESIS, "")

    def read(self) -> Mark | None:
        """The last mark."""
        return self._mark

    def write(self, mark: Mark) -> Mark:
        """Remember a mark."""
        self._mark = mark
        return mark

    peek = read
    reset = write


class FileAnchor:
    """The anchor as a file of one fixed-width line, overwritten in place and never synced: it may lag."""

    def __init__(self, path: Path, key: bytes) -> None:
        self.path = path
        self._key = key
        self._known: tuple[bytes, Mark] | None = None  # a line that bears its seal, and its mark

    def read(self) -> Mark | None:
        """The mark, or None when there is no anchor; a damaged one is LedgerTampered."""
        for attempt in range(_READS):
            try:
                line = self.path.read_bytes()
            except FileNotFoundError:
                return None
            mark = self._unseal(line)
            if mark is not None:
                return mark
            time.sleep(0.001 * attempt)  # another process may be in the middle of writing it
        raise LedgerTampered(
            f"the anchor {self.path} is damaged or was sealed with another key. Nothing was charged. Bring it back; if you "
            "can explain the difference and accept the ledger as it is, Ledger(location).accept() anchors it again.",
            findings=[f"anchor {self.path}: its seal does not match"],
        )

    def peek(self) -> Mark | None:
        """The mark if there is a sound one."""
        try:
            return self._unseal(self.path.read_bytes())
        except OSError:
            return None

    def glance(self) -> bytes:
        """The bytes of the line, sound or not."""
        handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, 4096)
        finally:
            os.close(handle)

    def write(self, mark: Mark) -> Mark | None:
        """Move the anchor forward to ``mark`` and say where it stands; None where it is not a sound one of this ledger."""
        with self._held() as handle:
            present = self._unseal(os.pread(handle, _WIDTH, 0))
            if present is None or (present.sequence and present.ledger != mark.ledger):
                return None
            if present.sequence < mark.sequence:
                self._put(handle, mark)
                return mark
            return present

    def reset(self, mark: Mark) -> None:
        """Put the anchor to ``mark``, be it behind the present one or in place of none."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_once(self.path, _line(mark, self._key))
        with self._held() as handle:
            os.truncate(handle, _WIDTH)
            self._put(handle, mark)
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

    def _put(self, handle: int, mark: Mark) -> None:
        line = _line(mark, self._key)
        os.pwrite(handle, line, 0)
        self._known = (line, mark)

    def begin(self) -> None:
        """Make the anchor of a ledger about to be created, durably; one that exists is left alone."""
        write_once(self.path, _line(Mark(0, GENESIS, ""), self._key))

    def _unseal(self, line: bytes) -> Mark | None:
        """The mark on a line, or None; the line that was last found sealed, byte for byte, is not worked out again."""
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


def _line(mark: Mark, key: bytes) -> bytes:
    data = {"sequence": mark.sequence, "head": mark.head, "ledger": mark.ledger, "mac": mark.seal(key)}
    return json.dumps(data).encode().ljust(_WIDTH - 1) + b"\n"


def _unseal(line: bytes, key: bytes) -> Mark | None:
    try:
        data = json.loads(line)
        mark = Mark(data["sequence"], data["head"], data["ledger"])
        return mark if hmac.compare_digest(mark.seal(key), str(data["mac"])) else None
    except (ValueError, KeyError, TypeError):
        return None


def find_key(path: Path | None, *, create: bool, shown: str) -> bytes:
    """The chain's key: STEELYARD_LEDGER_KEY, or the key file (made when ``create``); a memory store gets a new one."""
    given = os.environ.get("STEELYARD_LEDGER_KEY")
    if path is None:
        return secrets.token_bytes(32)
    if given:
        return _read_key(given, "STEELYARD_LEDGER_KEY")
    if create and not path.exists():
        write_once(path, secrets.token_hex(32).encode() + b"\n")
    try:
        return _read_key(path.read_text(), str(path))
    except FileNotFoundError:
        raise LedgerError(
            f"the key of {shown} is not at {path}. If the ledger was moved, move its .key and .anchor files with it; "
            "a key kept elsewhere can be given in STEELYARD_LEDGER_KEY."
        ) from None
    except OSError as error:
        raise LedgerError(f"the key {path} cannot be read: {error.strerror}.") from None


def _read_key(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) < 32:
        raise LedgerError(f"{where} must hold at least 64 hexadecimal digits.")
    return key


def key_name(key: bytes) -> str:
    """A public name of a key, to tell a wrong key from a tampered ledger; it gives nothing of the key away."""
    return hmac.digest(key, b"steelyard key name", hashlib.sha256).hex()[:16]


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
