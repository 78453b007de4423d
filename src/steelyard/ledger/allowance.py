"""An allowance: a handle on an account through which no more than a given amount is ever added to what was spent.

It limits one piece of work, such as a search whose price is found out on the way, below what its account has left. What
was charged before costs nothing again and does not count, and neither does what others charge meanwhile. The account's own
cap holds besides; it alone is the promise, kept by the ledger, while an allowance is kept by the handle and dies with it.
"""

from __future__ import annotations

from steelyard.errors import BudgetExceeded, CurrencyMismatch
from steelyard.ledger.account import Account
from steelyard.ledger.charge import Charge
from steelyard.privacy import Event, Loss


class Allowance(Account):
    """An account of which this handle adds at most ``most``.

    >>> from steelyard.ledger import open_account
    >>> from steelyard.privacy import rows
    >>> account = open_account(":memory:", "demo", unit=rows(), epsilon="1")
    >>> allowance = Allowance(account, Loss.pure("0.5"))
    >>> _ = allowance.charge(Loss.pure("0.25"), key="first", request=b"count")
    >>> str(allowance.remaining), str(account.remaining)
    ('epsilon 0.25', 'epsilon 0.75')
    """

    def __init__(self, account: Account, most: Loss) -> None:
        super().__init__(account.location, account.name)
        self.__dict__["_store"] = account._store
        self._account = account
        if most.currency is not self.terms.currency:
            raise CurrencyMismatch(f"account {self.name!r} counts in {self.terms.currency}; got a limit of {most}.")
        self._most, self._added = most, 0

    @property
    def remaining(self) -> Loss:
        """What may still be added, by this handle and on the account."""
        left = self._account.remaining
        return Loss(left.currency, min(left.amount, self._left), left.delta)

    @property
    def _left(self) -> int:
        return max(0, self._most.amount - self._added)

    def charge(self, loss: Loss, *, key: str, request: bytes, event: Event | None = None, of: str = "") -> Charge:
        """As on the account; refused where it would add more than is allowed."""
        new = self.find(key=key, request=request, of=of) is None
        if new:
            self.admit(loss.amount)
        charge = self._account.charge(loss, key=key, request=request, event=event, of=of)
        self._added += loss.amount if new else 0
        return _Counted(self, charge)

    def find(self, *, key: str, request: bytes, of: str = "") -> Charge | None:
        """As on the account; whatever raises what was found counts."""
        found = self._account.find(key=key, request=request, of=of)
        return None if found is None else _Counted(self, found)

    def admit(self, amount: int) -> None:
        """Refuse to add so much more, before anything is charged."""
        if amount > self._left:
            currency = self.terms.currency
            wanted, left = Loss(currency, amount), Loss(currency, self._left)
            raise BudgetExceeded(
                f"this step wants {wanted}, and {left} is left of the {self._most} that was allowed here. Nothing was "
                f"charged and nothing was read; account {self.name!r} has {self._account.remaining} left.",
                wanted=wanted,
                remaining=left,
            )

    def added(self, amount: int) -> None:
        """Count what a raise added."""
        self._added += amount


class _Counted(Charge):
    """A charge whose raises count too."""

    def __init__(self, allowance: Allowance, charge: Charge) -> None:
        super().__init__(charge._store, charge.account, charge.key, charge._standing)
        self._allowance, self._charge = allowance, charge

    def raise_to(self, level: Loss, event: Event | None = None) -> None:
        """As on the charge; refused where it would add more than is allowed."""
        more = max(0, level.amount - self.level.amount)
        self._allowance.admit(more)
        self._charge.raise_to(level, event)
        self._standing = self._charge._standing
        self._allowance.added(more)
