"""An account that shuts where a run would first pay: a plan goes through all of a run's checks, and charges nothing.

Law: nothing is charged, raised or stored through this handle; what is stored already may be read, as ever.
"""

from __future__ import annotations

from typing import NoReturn

from steelyard.ledger import Account, Charge
from steelyard.privacy import Event, Loss


class Checked(Exception):
    """A request passed its checks and would now be charged ``cost`` for ``event`` (None: what an earlier charge began)."""

    def __init__(self, cost: Loss | None = None, event: Event | None = None) -> None:
        super().__init__()
        self.cost, self.event = cost, event


class Shut(Account):
    """A handle on an account that ends with ``Checked`` where it would be charged."""

    def __init__(self, account: Account) -> None:
        super().__init__(account.location, account.name)
        self.__dict__["_store"] = account._store

    def charge(self, loss: Loss, *, key: str, request: bytes, event: Event | None = None) -> Charge:
        """The charge that was made before, if it has an answer; otherwise the end."""
        made = self.find(key=key, request=request)
        if made is None:
            raise Checked(loss, event)
        if not made.answers:
            raise Checked
        return made

    def find(self, *, key: str, request: bytes) -> Charge | None:
        """As on the account; what it finds can be read and not be added to."""
        made = super().find(key=key, request=request)
        return None if made is None else _Kept(made._store, made.account, made.key, made._standing)


class _Kept(Charge):
    def raise_to(self, level: Loss) -> None:
        if level.amount > self.level.amount:
            raise Checked

    def store(self, payload: bytes, step: int = 0) -> NoReturn:
        raise Checked
