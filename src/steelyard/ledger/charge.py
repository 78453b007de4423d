"""Charge: a durable spending, the answers stored under it, and its receipt."""

from __future__ import annotations

from steelyard.errors import CurrencyMismatch, InvalidTask, LedgerError
from steelyard.ledger import moves
from steelyard.ledger.link import told_more
from steelyard.ledger.moves import Standing
from steelyard.ledger.receipt import Receipt
from steelyard.ledger.store import Store
from steelyard.ledger.terms import check_size
from steelyard.privacy import Event, Loss


class Charge:
    """A spending that is on disk. Made by ``Account.charge``; a repeated key gives the same one."""

    def __init__(self, store: Store, account: str, key: str, standing: Standing) -> None:
        self._store = store
        self.account = account
        self.key = key
        self._standing = standing

    @property
    def sequence(self) -> int:
        """The entry that made the charge."""
        return self._standing.sequence

    @property
    def day(self) -> str:
        """The day it was made, in UTC."""
        return self._standing.at[:10]

    @property
    def level(self) -> Loss:
        """What has been charged in all: the cost, or the level it was last raised to."""
        return self._standing.level

    @property
    def answers(self) -> dict[int, bytes]:
        """The stored answers by step, as far as this handle has seen."""
        return dict(self._standing.answers)

    @property
    def answer(self) -> bytes | None:
        """The stored answer of step 0, or None: then nothing was delivered yet and the work may be done again."""
        return self._standing.answers.get(0)

    @property
    def receipt(self) -> Receipt:
        """The proof of what was charged; the same on every replay until the charge is raised."""
        standing = self._standing
        return Receipt(standing.priced_at, standing.head, standing.level, self.account, self._store.identity.name)

    def raise_to(self, level: Loss, event: Event | None = None) -> None:
        """Raise this one charge to a higher total, durably, before the step that needs it is drawn.

        ``event`` is what the whole path up to that step costs, so that ``verify`` can price it again.
        *Privacy:* sound for pure epsilon only, where the loss of a path is the loss of its last level; elsewhere
        refused. A level already reached costs nothing, so a path may be walked again after a crash.
        """
        if level.currency is not self.level.currency:
            raise CurrencyMismatch(f"this charge counts in {self.level.currency}; got a level in {level.currency}.")
        if level.delta:
            raise InvalidTask("a level has no delta of its own; a delta is charged whole, at the start.")
        check_size(level, "the level")
        self._standing = self._store.write(moves.raise_level(self.account, self.sequence, level, event))

    def store(self, payload: bytes, step: int = 0) -> bytes:
        """Store the answer of a step and return what the store holds: the first answer ever stored for it.

        *Privacy:* deliver only what this returns.
        """
        if not isinstance(payload, bytes):
            raise InvalidTask(f"an answer is stored as bytes; got {type(payload).__name__}.")
        if not isinstance(step, int) or not 0 <= step < 2**31:
            raise InvalidTask(f"a step is a number from 0 on; got {step!r}.")
        try:
            held = self._store.write(moves.store(self.account, self.sequence, step, payload))
        except LedgerError as error:
            raise self._not_stored(error) from None
        self._standing.answers[step] = held
        return held

    def _not_stored(self, error: LedgerError) -> LedgerError:
        """The same refusal, told to somebody who has already paid."""
        return told_more(
            error,
            f"That was while an answer was being stored, and no answer is delivered; {self.level} was charged before, on account "
            f"{self.account!r}, and stays charged. Ask again with the same key ({self.key!r}): that costs nothing more.",
        )

    def __repr__(self) -> str:
        return f"Charge({self.account!r}, {self.key!r}, sequence={self.sequence}, level={str(self.level)!r})"
