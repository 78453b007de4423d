"""The accounts of several periods as one: a release over all of them is charged to each, or to none, and has one answer.

Nothing is new on the chain: in one transaction every period gets a charge of its own, under the same key, for the same request, at the full price; and the
answer is stored under all of them, the first period's first. Whoever looks at one period sees all that was spent of it (docs/proofs/periods.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from steelyard.account import Charge, Standing, Wrapper
from steelyard.errors import LedgerError
from steelyard.ledger import _moves as moves
from steelyard.ledger._store import Store
from steelyard.ledger._transaction import Transaction
from steelyard.privacy import Event, Loss, Terms, Unit

if TYPE_CHECKING:
    from steelyard.ledger._account import LedgerAccount


@dataclass(frozen=True)
class Keeping:
    """Where charges of several periods are kept: what happens to the first happens to all, in the same transaction."""

    store: Store
    places: tuple[tuple[str, int], ...]
    """The account of each period, and the entry of its charge."""

    def ready(self) -> None:
        """Refuse where no answer could be kept."""
        self.store.ready()

    def signed(self, receipt: Any) -> Any:
        """The receipt with the ledger's signature: that of the first period."""
        return self.store.signed(receipt)

    def raise_level(self, account: str, standing: Standing, level: Loss, event: Event | None) -> Standing:
        """Raise every period's charge, or none."""
        raises = [moves.raise_level(self.store.line(name), entry, level, event) for name, entry in self.places]

        def move(transaction: Transaction) -> Standing:
            first, *_ = [each(transaction) for each in raises]  # all of them, not the first alone
            return first

        return self.store.write(move)

    def keep(self, account: str, standing: Standing, step: int, payload: bytes) -> bytes:
        """Store an answer under the first period's charge, unless the step has one; and what is stored there, under all the others."""

        def move(transaction: Transaction) -> bytes:
            held = payload
            for name, entry in self.places:
                held = moves.store(name, entry, step, held)(transaction)
            return held

        return self.store.write(move)


class LedgerPeriods(Wrapper):
    """A handle on the accounts of several periods, made by ``account.during(first, last)``.

    A release through it hides what one user has in one of the periods, and costs each of them its price. Its name, and the receipts it gives, are the first period's.
    """

    _account: LedgerAccount

    def __init__(self, accounts: Sequence[LedgerAccount], unit: Unit) -> None:
        super().__init__(accounts[0])
        self.accounts, self._unit = tuple(accounts), unit

    @property
    def terms(self) -> Terms:
        """What each of the periods promises."""
        return replace(self._account.terms, unit=self._unit)

    @property
    def spent(self) -> Loss:
        """What has been charged to the period of which most is spent."""
        return self._of(max, [each.spent for each in self.accounts])

    @property
    def remaining(self) -> Loss:
        """What every one of the periods has left."""
        return self._of(min, [each.remaining for each in self.accounts])

    def _of(self, choose: Any, found: Sequence[Loss]) -> Loss:
        return Loss(self.terms.currency, choose(each.amount for each in found), choose(each.delta for each in found))

    def by(self, person: str) -> Self:
        """The same handle in the hands of a person."""
        return type(self)([each.by(person) for each in self.accounts], self._unit)

    def charge(
        self, loss: Loss, *, key: str, request: bytes, event: Event | None = None, of: str = "", view: str = ""
    ) -> Charge:
        """Charge a loss to every period in one transaction: all of them can pay, or none does."""
        asked: dict[str, Any] = {"key": key, "request": request, "event": event, "of": of, "view": view}
        charges = [each.spending(loss, **asked) for each in self.accounts]

        def move(transaction: Transaction) -> list[Standing]:
            return [each(transaction) for each in charges]

        return self._charge(key, self._account.made(move))

    def find(self, *, key: str, request: bytes, of: str = "") -> Charge | None:
        """The charges that this key and request made before, or None; costs nothing."""
        found = [each.find(key=key, request=request, of=of) for each in self.accounts]
        standings = [each.standing for each in found if each is not None]
        if not standings:
            return None
        if len(standings) != len(self.accounts):
            raise LedgerError(
                f"the key {key!r} was charged to some of the periods and not to others; choose a new key."
            )
        return self._charge(key, standings)

    def _charge(self, key: str, standings: Sequence[Standing]) -> Charge:
        store, name = self._account._store, self._account.name
        places = tuple((each.name, made.sequence) for each, made in zip(self.accounts, standings, strict=True))
        return Charge(Keeping(store, places), store.identity.name, name, key, standings[0], fresh=True)
