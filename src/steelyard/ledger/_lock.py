"""Locks: one holder at a time of a name on a ledger, and a mark that outlives a holder who dies in the middle.

A holder marks that something is pending and clears the mark when it is settled. Whoever comes next and finds a mark
knows that the last holder failed or died in between. In a file the lock is ``flock`` and the mark a line that is written
and never synced: it survives the death of a process, not a power cut, so it carries the machine's boot id and is
``trusted`` within one boot. On PostgreSQL the lock is an advisory one, and there is no mark (``lasting`` is False).
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import random
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from steelyard.errors import LedgerError, LedgerLocked
from steelyard.ledger import _connection as connection
from steelyard.ledger._connection import Connection

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_WIDTH, _FLAG = 64, 40
_PENDING, _SETTLED = ord("!"), ord("-")


class Lock:
    """The lock of one name, kept in memory: threads of one process wait for each other."""

    def __init__(self, shown: str, *, lasting: bool = True) -> None:
        self.lasting = lasting
        self.trusted = lasting
        self.pending: int | None = None
        self._shown = shown
        self._thread = threading.Lock()

    def __enter__(self) -> Lock:
        if not self._thread.acquire(timeout=connection.WAIT):
            raise self._locked()
        try:
            self._take()
        except BaseException:
            self._thread.release()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._give()
        finally:
            self._thread.release()

    def mark(self, number: int) -> None:
        """Say that something is pending, before it is known what."""
        self.pending = number

    def clear(self) -> None:
        """Say that nothing is pending any more."""
        self.pending = None

    def forget(self) -> None:
        """Let go of what a fork inherited; the parent keeps its own."""

    def _take(self) -> None:
        pass

    def _give(self) -> None:
        pass

    def _locked(self) -> LedgerError:
        return LedgerLocked(
            f"{self._shown} was in use by another holder for {connection.WAIT:g} seconds; nothing was asked."
        )


class FileLock(Lock):
    """A lock beside an SQLite ledger: across processes and threads of one machine.

    The line is mapped into memory, so that a mark costs no call of the system: a boot id, one byte that says whether
    something is pending, and a number. The byte is written after the number, the boot id after the byte.
    """

    def __init__(self, path: Path, shown: str) -> None:
        boot = _boot_id()
        super().__init__(shown, lasting=boot is not None)
        self._boot = (boot or "unknown").encode()[:_FLAG].ljust(_FLAG)
        self._path = path
        self._opened: tuple[int, mmap.mmap] | None = None
        self._closing: Callable[[], object] | None = None

    def mark(self, number: int) -> None:
        """From here on the death of this process is seen by the next holder."""
        line = self._open()[1]
        line[_FLAG + 1 : _WIDTH] = str(number).encode().rjust(_WIDTH - _FLAG - 1)
        line[_FLAG] = _PENDING
        self.pending = number

    def clear(self) -> None:
        """Nothing is pending, in this boot."""
        line = self._open()[1]
        line[_FLAG] = _SETTLED
        if not self.trusted:
            line[:_FLAG] = self._boot
        self.pending, self.trusted = None, self.lasting

    def forget(self) -> None:
        """Close the inherited handle, or this process would keep its parent's lock alive."""
        if self._closing is not None:
            self._closing()
        self._opened = self._closing = None

    def _take(self) -> None:
        handle, line = self._open()
        until = time.monotonic() + connection.WAIT
        while not _locks(handle):
            if time.monotonic() > until:
                raise self._locked()
            time.sleep(random.uniform(0.0002, 0.002))
        self.trusted = self.lasting and line[:_FLAG] == self._boot
        self.pending = int(line[_FLAG + 1 : _WIDTH]) if self.trusted and line[_FLAG] == _PENDING else None

    def _give(self) -> None:
        fcntl.flock(self._open()[0], fcntl.LOCK_UN)

    def _open(self) -> tuple[int, mmap.mmap]:
        if self._opened is None:
            try:
                handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._closing = closing = weakref.finalize(self, os.close, handle)
                closing.atexit = False
                if os.fstat(handle).st_size <= _WIDTH:
                    os.pwrite(handle, b"\n", _WIDTH)  # a full disk must say so here and not when a mark is written
                self._opened = handle, mmap.mmap(handle, _WIDTH)
            except OSError as error:
                raise LedgerError(f"{self._path} cannot be opened: {error.strerror}.") from None
        return self._opened


def _locks(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class DatabaseLock(Lock):
    """A lock by an advisory lock of a database, on a connection made for one holder and closed after it.

    A lost connection lets the lock go unseen, so no count may rest on it.
    """

    def __init__(self, name: str, shown: str, connect: Callable[[], Connection]) -> None:
        super().__init__(shown, lasting=False)
        self._number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        self._connect = connect
        self._connection: Connection | None = None

    def _take(self) -> None:
        self._connection = self._connect()
        try:
            self._connection.one("SELECT pg_advisory_lock(?)", (self._number,))
        except BaseException:
            self._give()
            raise

    def _give(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _boot_id() -> str | None:
    try:
        return _BOOT.read_text().strip() or None
    except OSError:
        return None
