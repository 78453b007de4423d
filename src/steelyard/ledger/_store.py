"""An open ledger in this process: its address, key, anchor and writer. Handles share one per address.

Opening looks at the ledger before anyone relies on it: is it one of ours, of a version we know, does the key fit, is
it at least as long as its anchor remembers. Small ledgers are verified in full.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from steelyard.account import Receipt, Standing
from steelyard.errors import EngineMissing, LedgerError, LedgerTampered
from steelyard.ledger import _address as address
from steelyard.ledger import _creation as creation
from steelyard.ledger import _moves as moves
from steelyard.ledger import _verify as verify
from steelyard.ledger._address import Address
from steelyard.ledger._anchor import Anchor, Witness, older
from steelyard.ledger._connection import Connection
from steelyard.ledger._lock import DatabaseLock, FileLock, Lock
from steelyard.ledger._readers import Readers
from steelyard.ledger._receipts import sign
from steelyard.ledger._sqlite import SqliteConnection
from steelyard.ledger._transaction import Transaction
from steelyard.ledger._writer import Writer
from steelyard.privacy import Event, Loss

T = TypeVar("T")
_witnesses: dict[str, Witness] = {}  # what this process saw at each address, which outlives every handle


class Store:
    """One ledger, opened and looked at."""

    def __init__(self, where: Address, *, create: bool) -> None:
        self.address = where
        self.process = os.getpid()
        self._memory = SqliteConnection(":memory:", where.shown, create=True) if where.kind == "memory" else None
        self._one_at_a_time = threading.RLock()
        self._newborn = False
        self._locks: dict[str, Lock] = {}
        self._lines: dict[str, moves.Line] = {}
        exists = creation.exists(where, self.connect)
        if not (exists or create):
            raise LedgerError(
                f"there is no ledger at {where.shown}; open_account(...), or on the command line steelyard account open, makes one."
            )
        self.witness = Witness() if where.kind == "memory" else _witnesses.setdefault(where.text, Witness())
        self.anchor: Anchor
        if exists or where.kind == "memory":
            self.identity, self.anchor = creation.key_and_anchor(where, create=not exists)
        else:
            self.identity, self.anchor = creation.prepare(where, lambda: creation.exists(where, self.connect))
            self.witness.forget()
        self.writer = Writer(self.connect, self._unchanged, self.identity, self.anchor, self.witness)
        self.readers = Readers(self.connect, self.identity, self.anchor, self.witness)
        if not exists:
            self._newborn = True
            self._perform(creation.make_tables)
            self._newborn = False
            creation.settle(where)
        self._file = self._identify()
        self._looked = False

    def connect(self) -> Connection:
        """A connection of one's own (a memory store has but one)."""
        if self._memory is not None:
            return self._memory
        return new_connection(self.address, create=self._newborn)

    def write(self, work: Callable[[Transaction], T]) -> T:
        """Run a move durably; the writer looks whether the ledger is still the one that was opened, once for each group."""
        self._same_process()
        return self._perform(work)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run a move that only looks: on a snapshot of all that was charged when it began, without the write lock."""
        self.ready()
        return self._perform(work, reading=True)

    def line(self, account: str, *, root: bool = False) -> moves.Line:
        """An account and those above it; fixed when it was opened, so it is read once, and not at all of what is known as a root."""
        found = self._lines.get(account)
        if found is None:
            found = ((account,) if root else self.read(moves.line(account))) or (account,)
            self._lines[account] = found
        return found

    def ready(self) -> None:
        """Refuse where the ledger is not the one that was opened, or belongs to another process."""
        self._same_process()
        if not self.current():
            raise LedgerTampered(
                f"{self.address.shown} was removed or replaced while it was in use; nothing was charged. Bring the "
                "ledger back, or open it again to have it checked against its anchor."
            )

    def _unchanged(self) -> None:
        if not self._newborn:
            self.ready()

    def signed(self, receipt: Receipt) -> Receipt:
        """The receipt with the ledger's signature; a ledger in memory gives none, since nobody could hold it against anything."""
        return receipt if self._memory is not None else sign(self.identity.key, receipt)

    def raise_level(self, account: str, standing: Standing, level: Loss, event: Event | None) -> Standing:
        """Raise a charge durably; where it stands now."""
        return self.write(moves.raise_level(self.line(account), standing.sequence, level, event))

    def keep(self, account: str, standing: Standing, step: int, payload: bytes) -> bytes:
        """Store an answer, unless the step has one; what is stored."""
        return self.write(moves.store(account, standing.sequence, step, payload))

    def _perform(self, work: Callable[[Transaction], T], *, reading: bool = False) -> T:
        if self._memory is None:
            return self.readers.run(work) if reading else self.writer.submit(work)
        with self._one_at_a_time:
            return self.writer.alone(work, reading=reading)

    def current(self) -> bool:
        """Whether the file is still the one that was opened, not another that took its name."""
        return self._file == self._identify()

    def _identify(self) -> tuple[int, int] | None:
        if self.address.kind != "sqlite":
            return None
        try:
            status = os.stat(self.address.text)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def lock(self, name: str) -> Lock:
        """The lock of this name on the ledger: ``with`` it one holder at a time goes on, whichever process it is in."""
        found = self._locks.get(name)
        return self._locks.setdefault(name, self._new_lock(name)) if found is None else found

    def _new_lock(self, name: str) -> Lock:
        if self.address.kind == "memory":
            return Lock(self.address.shown)
        if self.address.kind == "postgres":
            return DatabaseLock(name, self.address.shown, self.connect)
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        return FileLock(Path(f"{Path(self.address.text).resolve()}.{digest}.lock"), self.address.shown)

    def pause(self) -> None:
        """Before a fork, and at exit: end what is under way, close every connection, and let nothing begin."""
        self.writer.pause()
        self.readers.pause()

    def resume(self) -> None:
        """After a fork, in the parent: carry on."""
        self.readers.resume()
        self.writer.resume()

    def restart(self) -> None:
        """After a fork, in the child: its connections and its locks are its own."""
        self.writer.restart()
        self.readers.restart()
        for lock in self._locks.values():
            lock.forget()
        self._locks = {}

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection on one snapshot."""
        self._same_process()
        if self._memory is not None:
            with self._one_at_a_time:
                yield self._memory
            return
        connection = self.connect()
        try:
            connection.look()
            yield connection
        finally:
            with contextlib.suppress(LedgerError):
                connection.rollback()
            connection.close()

    def check(self) -> None:
        """Look at the ledger before a handle relies on it: closely the first time, then at its head and anchor."""
        seen, known = self.witness.chain, self.witness.anchor
        position = self.anchor.read()  # before the snapshot is taken, so that the anchor cannot be ahead of it
        if position is None and known is None and seen is None and self.address.kind == "postgres":
            raise LedgerError(_NEW_HERE.format(shown=self.address.shown))
        with self.reading() as connection:
            self.identity.name = creation.recognize(connection, self.address, self.identity.key)
            if not self._looked and seen is not None and seen.ledger != self.identity.name:
                self.witness.forget()  # another ledger lives here now, and was opened as such
                seen = known = None
            findings = verify.glance(connection, self.identity, position, closely=not self._looked)
            if seen is not None:
                findings += verify.glance(connection, self.identity, seen, closely=False)
        findings += [] if position is None else older(known, position)
        if findings:
            raise LedgerTampered(
                f"{self.address.shown} does not match its chain or its anchor: {findings[0]}. Nothing was charged. If an "
                "older copy was put back, bring the newest one back; if you can explain the difference and accept the "
                "ledger as it is, Ledger(location).accept() anchors it again.",
                findings=findings,
            )
        self._looked = True

    def _same_process(self) -> None:
        if self._memory is not None and self.process != os.getpid():
            raise LedgerError(_ONE_PROCESS)


_ONE_PROCESS = (
    "an in-memory ledger lives and dies with the process that opened it; to share an account between processes keep "
    "the ledger in a file or in PostgreSQL."
)
_NEW_HERE = (
    "this machine has not used {shown} yet, so it has no anchor of it. To begin, check the whole ledger and make one: "
    "steelyard ledger accept {shown} (nothing is charged). If this machine did use it before, its anchor was taken away: find out why first."
)
_open: weakref.WeakValueDictionary[str, Store] = weakref.WeakValueDictionary()
_opening = threading.RLock()


def open_store(location: str | os.PathLike[str], *, create: bool = False, check: bool = True) -> Store:
    """The store at a location, looked at: the one this process has open, or a newly opened one."""
    where = address.parse(location)
    with _opening:
        store = _open.get(where.text)
        if store is None or not store.current():
            if where.kind == "memory" and not create:
                raise LedgerError(_ONE_PROCESS)
            store = Store(where, create=create)
            _open[where.text] = store
        if check:
            store.check()
    return store


def new_connection(where: Address, *, create: bool = False) -> Connection:
    """A connection to the database at an address."""
    return _postgres(where) if where.kind == "postgres" else SqliteConnection(where.text, where.shown, create=create)


def _postgres(where: Address) -> Connection:
    try:
        from steelyard.ledger._postgres import PostgresConnection
    except ImportError:
        raise EngineMissing(
            f"the ledger {where.shown} needs the PostgreSQL driver.", install="pip install 'steelyard[postgres]'"
        ) from None
    return PostgresConnection(where.text, where.shown)


_held: list[Store] = []


def _before_fork() -> None:
    _opening.acquire()
    _held.extend(_open.values())
    for store in _held:
        store.pause()


def _after_in_parent() -> None:
    for store in _held:
        store.resume()
    _held.clear()
    _opening.release()


def _after_in_child() -> None:
    global _opening
    _opening = threading.RLock()
    for store in _held:
        store.restart()
    _held.clear()


def _at_exit() -> None:
    for store in list(_open.values()):
        store.pause()
        store.resume()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
atexit.register(_at_exit)
