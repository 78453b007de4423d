"""Turns: one holder at a time of a name on a ledger, and a mark that outlives a holder who dies in the middle.

A holder marks that something is pending and clears the mark when it is settled. Whoever comes next and finds a mark
knows that the last holder failed or died in between. In a file the lock is ``flock`` and the mark a line that is written
and never synced: it survives the death of a process, not a power cut, so it carries the machine's boot id and is
``trusted`` within one boot. On PostgreSQL the lock is an advisory one, and there is no mark (``lasting`` is False).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

from steelyard.errors import LedgerError, LedgerLocked
from steelyard.ledger import link
from steelyard.ledger.link import Link

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_WIDTH = 64


class Turns:
    """The turns of one name, kept in memory: threads of one process wait for each other."""

    def __init__(self, shown: str, *, lasting: bool = True) -> None:
        self.lasting = lasting
        self.trusted = lasting
        self.pending: int | None = None
        self._shown = shown
        self._thread = threading.Lock()

    def __enter__(self) -> Turns:
        if not self._thread.acquire(timeout=link.WAIT):
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
        return LedgerLocked(f"{self._shown} was in use by another holder for {link.WAIT:g} seconds; nothing was asked.")


class FileTurns(Turns):
    """Turns beside an SQLite ledger: across processes and threads of one machine."""

    def __init__(self, path: Path, shown: str) -> None:
        self._boot = _boot_id()
        super().__init__(shown, lasting=self._boot is not None)
        self._path = path
        self._handle: int | None = None

    def mark(self, number: int) -> None:
        """Write the mark; from here on the death of this process is seen by the next holder."""
        self._write(str(number))
        self.pending = number

    def clear(self) -> None:
        """Write that nothing is pending, in this boot."""
        self._write("-")
        self.pending, self.trusted = None, self.lasting

    def forget(self) -> None:
        """Close the inherited handle, or this process would keep its parent's lock alive."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _write(self, mark: str) -> None:
        line = f"{self._boot or 'unknown'} {mark}".ljust(_WIDTH - 1) + "\n"
        try:
            written = os.pwrite(self._open(), line.encode(), 0)
        except OSError as error:
            raise LedgerError(f"{self._path} cannot be written: {error.strerror}.") from None
        if written != _WIDTH:
            raise LedgerError(f"{self._path} cannot be written: the disk is full.")

    def _take(self) -> None:
        until = time.monotonic() + link.WAIT
        while not self._try():
            if time.monotonic() > until:
                raise self._locked()
            time.sleep(random.uniform(0.0002, 0.002))
        self.trusted, self.pending = self._read()

    def _try(self) -> bool:
        handle = self._open()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        with contextlib.suppress(FileNotFoundError):
            if os.stat(self._path).st_ino == os.fstat(handle).st_ino:
                return True
        self.forget()  # the file was replaced; a lock on the old one excludes nobody
        return False

    def _give(self) -> None:
        if self._handle is not None:
            fcntl.flock(self._handle, fcntl.LOCK_UN)

    def _open(self) -> int:
        if self._handle is None:
            try:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise LedgerError(f"{self._path} cannot be opened: {error.strerror}.") from None
        return self._handle

    def _read(self) -> tuple[bool, int | None]:
        """Whether the mark is of this boot, and the mark."""
        boot, _, mark = os.pread(self._open(), _WIDTH, 0).decode("ascii", "replace").rstrip().partition(" ")
        if self._boot is None or boot != self._boot or not (mark == "-" or mark.isdecimal()):
            return False, None
        return True, None if mark == "-" else int(mark)


class LinkTurns(Turns):
    """Turns by an advisory lock of a database, on a connection made for the turn and closed after it.

    A lost connection lets the lock go unseen, so no count may rest on it.
    """

    def __init__(self, name: str, shown: str, connect: Callable[[], Link]) -> None:
        super().__init__(shown, lasting=False)
        self._number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
        self._connect = connect
        self._link: Link | None = None

    def _take(self) -> None:
        self._link = self._connect()
        try:
            self._link.one("SELECT pg_advisory_lock(?)", (self._number,))
        except BaseException:
            self._give()
            raise

    def _give(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None


def _boot_id() -> str | None:
    try:
        return _BOOT.read_text().strip() or None
    except OSError:
        return None
