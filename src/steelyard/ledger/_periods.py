"""The accounts of several periods as one: a release over all of them is charged to each, or to none, and has one answer.

Nothing is new on the chain: in one transaction every period gets a charge of its own, under the same key, for the same request, at the full price; and the
answer is stored under all of them; what only some of them have, a charge or an answer, is refused. Whoever looks at one period sees all that was spent of it (docs/proofs/periods.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from steelyard.account import Charge, Standing, Wrapper
from steelyard.errors import LedgerError
from steelyard.ledger import _moves as moves
from steelyard.ledger._store import Store
from steelyard.ledger._transaction import Foreseen, Transaction
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
        """Store an answer under the charges of all periods, unless they have one; one that some of them have is of something else, and refused."""
        stores = [moves.store(name, entry, step, payload) for name, entry in self.places]

        def move(transaction: Transaction) -> bytes:
            held = {transaction.held(entry, step)[0] for _, entry in self.places}
            if len(held) > 1:
                raise _apart("has an answer in some of the periods that is not that of the others")
            first, *_ = [each(transaction) for each in stores]  # all of them, not the first alone
            return first

        return self.store.write(Foreseen(move, answers=tuple((entry, step) for _, entry in self.places)))


def _apart(what: str) -> LedgerError:
    return LedgerError(
        f"this key {what}: a charge made by hand to one of them has paid for one answer. Choose a new key."
    )


def _alike(standings: list[Standing]) -> list[Standing]:
    """The charges of one key, if they have the same answers; before rows are read for another."""
    if any(each.answers != standings[0].answers for each in standings):
        raise _apart("has an answer in some of the periods that is not that of the others")
    return standings


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
            known = [each for each in charges if transaction.named(*each.charges[0]) is not None]
            if known and len(known) < len(charges):
                _alike([each(transaction) for each in known])  # a key of another request is told as such
                raise _apart("was charged to some of the periods and not to others")
            return _alike([each(transaction) for each in charges])

        foreseen = (
            tuple((each.name, key) for each in self.accounts),
            tuple(n for each in charges for n in each.accounts),
        )
        return self._charge(key, self._account.made(Foreseen(move, *foreseen)))

    def find(self, *, key: str, request: bytes, of: str = "") -> Charge | None:
        """The charges that this key and request made before, or None; costs nothing."""
        bound, currency = moves.bound_to(request, of), self.terms.currency
        looks = [moves.find(each.name, key, bound, currency) for each in self.accounts]
        found = self._account._store.read(lambda transaction: [look(transaction) for look in looks])  # on one snapshot
        standings = [each for each in found if each is not None]
        if not standings:
            return None
        if len(standings) != len(self.accounts):
            raise _apart("was charged to some of the periods and not to others")
        return self._charge(key, _alike(standings))

    def _charge(self, key: str, standings: Sequence[Standing]) -> Charge:
        store, name = self._account._store, self._account.name
        places = tuple((each.name, made.sequence) for each, made in zip(self.accounts, standings, strict=True))
        return Charge(Keeping(store, places), store.identity.name, name, key, standings[0], fresh=True)
