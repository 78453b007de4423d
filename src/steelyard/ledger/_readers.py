"""Reads of a ledger in a process: each in the thread that asks, on one of a few connections that are kept for it.

A read sees one snapshot and takes no write lock, so it waits for nobody's sync. It is held against what this process has seen of the ledger, as a
write is. Connections are kept for a few idle seconds; none is inherited over a fork.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from steelyard.errors import LedgerError, SteelyardError
from steelyard.ledger._anchor import Anchor, Witness
from steelyard.ledger._chain import Identity
from steelyard.ledger._connection import Connection, ConnectionLost
from steelyard.ledger._transaction import Transaction

T = TypeVar("T")
IDLE = 3.0
KEPT = 8
_TRIES = 3


class Readers:
    """The reading connections of one ledger in one process."""

    def __init__(self, connect: Callable[[], Connection], identity: Identity, anchor: Anchor, witness: Witness) -> None:
        self._connect = connect
        self._identity, self._anchor, self._witness = identity, anchor, witness
        self.restart()

    def restart(self) -> None:
        """After a fork, in the child: nothing of the parent's is kept."""
        self._free = threading.Condition()  # also held while a fork is under way
        self._idle: list[tuple[float, Connection]] = []
        self._busy = 0
        self._sweeper: threading.Thread | None = None

    def run(self, work: Callable[[Transaction], T]) -> T:
        """What ``work`` finds on a snapshot of all that was committed when it began; tried anew where a connection is lost."""
        for attempt in range(_TRIES):
            connection = self._take()
            try:
                found = self._look(connection, work)
                connection.rollback()
            except BaseException as error:
                self._drop(connection)
                if isinstance(error, ConnectionLost) and attempt < _TRIES - 1:
                    self._forget()
                    continue
                raise
            self._give(connection)
            return found
        raise LedgerError("the ledger could not be read.")

    def _look(self, connection: Connection, work: Callable[[Transaction], T]) -> T:
        known = self._witness.known()  # before the anchor is read, which may go forward at any moment
        anchor = self._anchor.read()  # before the snapshot, which must have come at least that far
        transaction = Transaction(connection, self._identity, reading=True)
        self._witness.check(transaction, anchor, known)
        return work(transaction)

    def _take(self) -> Connection:
        with self._free:
            self._busy += 1
            if self._idle:
                return self._idle.pop()[1]
        try:
            return self._connect()
        except BaseException:
            self._done()
            raise

    def _give(self, connection: Connection) -> None:
        with self._free:
            if len(self._idle) < KEPT:
                self._idle.append((time.monotonic(), connection))
                self._sweep_later()
                self._busy -= 1
                self._free.notify_all()
                return
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        with contextlib.suppress(SteelyardError):
            connection.rollback()
        connection.close()
        self._done()

    def _forget(self) -> None:
        """Close all that is kept: where a server went away, every kept connection was to it."""
        with self._free:
            kept, self._idle = self._idle, []
        for _, connection in kept:
            connection.close()

    def _done(self) -> None:
        with self._free:
            self._busy -= 1
            self._free.notify_all()

    def _sweep_later(self) -> None:
        if self._sweeper is None:
            sweeper = threading.Thread(target=self._sweep, args=(self._free,), name="steelyard-reads", daemon=True)
            with contextlib.suppress(RuntimeError, MemoryError):  # then connections stay until the process ends
                sweeper.start()
                self._sweeper = sweeper

    def _sweep(self, free: threading.Condition) -> None:
        while True:
            time.sleep(IDLE)
            with free:
                late = time.monotonic() - IDLE
                for since, connection in self._idle:
                    if since <= late:
                        connection.close()
                self._idle = [(since, connection) for since, connection in self._idle if since > late]
                if not self._idle:
                    self._sweeper = None
                    return

    def pause(self) -> None:
        """Before a fork, and at exit: let every read end, close what is kept, and let none begin."""
        self._free.acquire()
        while self._busy:
            self._free.wait()
        for _, connection in self._idle:
            connection.close()
        self._idle = []

    def resume(self) -> None:
        """After a fork, in the parent: carry on."""
        self._free.release()
