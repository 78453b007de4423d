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
        left = super().remaining
        return Loss(left.currency, min(left.amount, self._most.amount - self._added), left.delta)

    def charge(self, loss: Loss, *, key: str, request: bytes, event: Event | None = None) -> Charge:
        """As on the account; refused where it would add more than is allowed."""
        new = self.find(key=key, request=request) is None
        if new:
            self.admit(loss.amount)
        charge = self._account.charge(loss, key=key, request=request, event=event)
        self._added += loss.amount if new else 0
        return _Counted(self, charge)

    def admit(self, amount: int) -> None:
        """Refuse to add so much more, before anything is charged."""
        if self._added + amount > self._most.amount:
            currency = self.terms.currency
            wanted, left = Loss(currency, amount), Loss(currency, self._most.amount - self._added)
            raise BudgetExceeded(
                f"this step wants {wanted}, and {left} is left of the {self._most} that was allowed here. Nothing was "
                f"charged and nothing was read; account {self.name!r} has {super().remaining} left.",
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
        self._allowance = allowance

    def raise_to(self, level: Loss) -> None:
        """As on the charge; refused where it would add more than is allowed."""
        before = self.level.amount
        self._allowance.admit(max(0, level.amount - before))
        super().raise_to(level)
        self._allowance.added(self.level.amount - before)
