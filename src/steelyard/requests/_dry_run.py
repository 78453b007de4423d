"""A dry run: an account that ends where a run would first pay; a plan goes through all of a run's checks, and charges nothing.

Law: nothing is charged, raised or stored through this handle, nor through one that is made of it, and no row is read for a step
that has no answer yet: it wraps an account, asks it to read alone, and every charge it finds is kept by somebody who ends the
plan before anything is worked out that would have to be stored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from steelyard.account import Charge, Receipt, Standing, Wrapper
from steelyard.privacy import Event, Loss


class WouldCharge(Exception):
    """A request passed its checks and would now be charged ``cost`` for ``event``; both None where that is not known."""

    def __init__(self, cost: Loss | None = None, event: Event | None = None) -> None:
        super().__init__()
        self.cost, self.event = cost, event


class DryRun(Wrapper):
    """A handle on an account that ends with ``WouldCharge`` where it would be charged."""

    def charge(
        self, loss: Loss, *, key: str, request: bytes, event: Event | None = None, of: str = "", view: str = ""
    ) -> Charge:
        """The charge that was made before, if it has an answer; otherwise the end."""
        made = self.find(key=key, request=request, of=of)
        if made is None:
            raise WouldCharge(loss, event)
        if not made.answers:
            raise WouldCharge
        return made

    def find(self, *, key: str, request: bytes, of: str = "") -> Charge | None:
        """The charge that was made before, or None; it can be read and not changed."""
        found = self._account.find(key=key, request=request, of=of)
        return None if found is None else replace(found, keeper=_ReadOnly(), fresh=False)


class _ReadOnly:
    """A keeper that ends the plan instead of changing anything."""

    def ready(self) -> NoReturn:
        raise WouldCharge

    def signed(self, receipt: Receipt) -> Receipt:
        return receipt

    def raise_level(self, account: str, standing: Standing, level: Loss, event: Event | None) -> Standing:
        if level.amount > standing.level.amount:
            raise WouldCharge
        return standing

    def keep(self, account: str, standing: Standing, step: int, payload: bytes) -> NoReturn:
        raise WouldCharge
