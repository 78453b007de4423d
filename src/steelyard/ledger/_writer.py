"""The one writer of a ledger in a process: it groups what waits into one transaction and one sync (group commit).

A lone caller is served at once; callers that arrive while a sync is under way share the next one. Moves that only read do not come here
(``_readers``), except on a store in memory, which has but one connection.
Every move is judged on its own, in the order of arrival. Moves may be repeated (keys make them so): when something unforeseen breaks a
group, it is rolled back and each move runs again alone; when a connection is lost, the group runs again on a new one.
The thread ends and closes its connection after a few idle seconds, and before a fork: neither is ever inherited.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from steelyard.errors import LedgerError, OurBug, SteelyardError
from steelyard.ledger._anchor import Anchor, Witness
from steelyard.ledger._chain import Identity
from steelyard.ledger._connection import UNKNOWN, Connection, ConnectionLost
from steelyard.ledger._transaction import Transaction

T = TypeVar("T")
IDLE = 3.0
GROUP = 512
_TRIES = 3
_NO_MEMORY = f"the ledger ran out of memory. {UNKNOWN}"
_NO_THREAD = (
    "the ledger can start no thread (memory or a limit on processes). Nothing was charged. Ask again with more room."
)


class _Move:
    """Work waiting for its turn, and then its outcome."""

    __slots__ = ("_done", "error", "reading", "result", "work")

    def __init__(self, work: Callable[[Transaction], Any], reading: bool) -> None:
        self.work, self.reading = work, reading
        self.result: Any = None
        self.error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def wait(self) -> Any:
        with self._done:
            pass
        if self.error is not None:
            raise self.error
        return self.result

    def finish(self) -> None:
        self._done.release()


class Writer:
    """Serializes the moves of one process on one ledger."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        ready: Callable[[], None],
        identity: Identity,
        anchor: Anchor,
        witness: Witness,
    ) -> None:
        self._connect, self._ready = connect, ready
        self._identity = identity
        self._anchor = anchor
        self._witness = witness
        self._connection: Connection | None = None
        self._fresh()

    def _fresh(self) -> None:
        self._lock = threading.Lock()  # held to start the thread, to let it end, and over a fork
        self._queue: SimpleQueue[_Move | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ending: threading.Thread | None = None  # asked to end, and perhaps still at its last group

    def submit(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in a transaction and return what it returned, after that is durable."""
        move = _Move(work, reading=False)
        with self._lock:
            if self._thread is None:
                self._begin()
            self._queue.put(move)
        outcome: T = move.wait()
        return outcome

    def _begin(self) -> None:
        """Start the thread on a queue of its own: one that an interrupt left behind in here is never given a move."""
        queue: SimpleQueue[_Move | None] = SimpleQueue()
        thread = threading.Thread(target=self._serve, args=(queue, self._ending), name="steelyard-ledger", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError):  # nothing is queued, and the next caller tries again
            raise LedgerError(_NO_THREAD) from None
        self._queue, self._thread = queue, thread

    def alone(self, work: Callable[[Transaction], T], *, reading: bool = False) -> T:
        """The same in the caller's thread, for a store that has nothing to sync; callers take turns by themselves."""
        move = _Move(work, reading)
        self._run([move])
        move.finish()
        outcome: T = move.wait()
        return outcome

    def pause(self) -> None:
        """Before a fork, and at exit: let the thread finish its group, end it, close its connection, hold the lock."""
        self._lock.acquire()
        if self._thread is not None:
            self._ending, self._thread = self._thread, None
            self._queue.put(None)
            self._ending.join()

    def resume(self) -> None:
        """After a fork, in the parent: carry on."""
        self._lock.release()

    def restart(self) -> None:
        """After a fork, in the child: nothing of the parent's is kept."""
        self._fresh()

    def _serve(self, queue: SimpleQueue[_Move | None], before: threading.Thread | None) -> None:
        if before is not None:  # two threads must never be on one connection
            before.join()
        while True:
            group, last = self._gather(queue)
            try:
                if group:
                    self._run(group)
            except BaseException as error:  # not even a panic may leave anyone waiting (law 1)
                self._fail(group, OurBug(f"the ledger's writer broke: {error!r}"))
            for move in group:
                move.finish()
            if last:
                return self._close()
            if not group and self._idle(queue):
                return None

    def _gather(self, queue: SimpleQueue[_Move | None]) -> tuple[list[_Move], bool]:
        """What waits, up to a group's size, and whether the thread was asked to end after it."""
        group: list[_Move] = []
        with contextlib.suppress(Empty):
            move = queue.get(timeout=IDLE)
            while move is not None:
                group.append(move)
                if len(group) == GROUP:
                    return group, False
                move = queue.get_nowait()
            return group, True
        return group, False

    def _idle(self, queue: SimpleQueue[_Move | None]) -> bool:
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if queue is not self._queue:
                return True
            if queue.empty():
                self._close()
                self._thread = None
            return self._thread is None
        finally:
            self._lock.release()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self, group: list[_Move]) -> None:
        for attempt in range(_TRIES):
            try:
                return self._attempt(group)
            except ConnectionLost as error:
                self._close()
                if attempt == _TRIES - 1:
                    self._fail(group, error)
            except SteelyardError as error:
                return self._fail(group, error)
            except MemoryError:
                return self._fail(group, LedgerError(_NO_MEMORY))
            except Exception as error:  # whatever it is, nobody may wait for ever (law 1)
                return self._fail(group, OurBug(f"the ledger's writer broke: {error!r}"))
        return None

    def _attempt(self, group: list[_Move]) -> None:
        if self._connection is None:
            self._ready()  # whatever took the ledger's name is not even opened
            self._connection = self._connect()
        try:
            self._together(group)
        except _Unforeseen as unforeseen:
            if len(group) == 1:
                self._fail(group, unforeseen.error)
            else:
                for move in group:
                    self._run([move])

    def _together(self, group: list[_Move]) -> None:
        assert self._connection is not None
        try:
            self._ready()
        except SteelyardError:  # nobody knows what this connection was made to, should the ledger be brought back
            self._close()
            raise
        known = self._witness.known()
        anchor = self._anchor.read()  # before the lock is taken, so that the ledger must have come at least that far
        try:
            transaction = Transaction(self._connection, self._identity, reading=group[0].reading)
            self._witness.check(transaction, anchor, known)
            _for_all(lambda: transaction.expect([move.work for move in group]))
            for move in group:
                _perform(move, transaction)
            _for_all(transaction.settle)
            position = transaction.commit()
        except BaseException:
            try:
                self._connection.rollback()
            except LedgerError:  # a connection that cannot roll back must not be used again
                self._close()
            raise
        if position is not None:
            with contextlib.suppress(OSError):  # the group is durable already; a full disk only makes the anchor lag
                anchor = self._anchor.write(position)
            self._witness.saw(position, anchor)

    def _fail(self, group: list[_Move], error: BaseException) -> None:
        for move in group:
            move.error = error


class _Unforeseen(Exception):
    """A move broke in a way that is no refusal, so its transaction cannot be trusted."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


def _perform(move: _Move, transaction: Transaction) -> None:
    before = transaction.changes
    move.result, move.error = None, None
    try:
        move.result = move.work(transaction)
    except ConnectionLost:
        raise
    except SteelyardError as error:
        if transaction.changes != before or isinstance(error, LedgerError):
            raise _Unforeseen(error) from None
        move.error = error
    except MemoryError:
        raise
    except Exception as error:  # a bug in one move must fail that caller and no other: nobody hangs (law 1)
        raise _Unforeseen(OurBug(f"a ledger move broke: {error!r}")) from error


def _for_all(step: Callable[[], None]) -> None:
    """Read or write for a whole group; what breaks here was brought by one of its moves, and must not fail the others."""
    try:
        step()
    except (ConnectionLost, MemoryError):
        raise
    except SteelyardError as error:
        raise _Unforeseen(error) from None
    except Exception as error:
        raise _Unforeseen(OurBug(f"a ledger move broke: {error!r}")) from error
