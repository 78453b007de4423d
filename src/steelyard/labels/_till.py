"""Who pays for noisy labels: the caller's account, or one in memory; what was spent so far, as one promise."""

from __future__ import annotations

import secrets
from fractions import Fraction
from typing import Any

from steelyard.account import Account, check_account
from steelyard.accounting import price
from steelyard.desk import Desk, NoTable, check_noise, paid_by
from steelyard.errors import UnitMismatch
from steelyard.ledger import open_account
from steelyard.noise import ExactNoise, Noise
from steelyard.privacy import MICRO, Event, composed
from steelyard.privacy import labels as labels_of
from steelyard.release import Guarantee, promise


class Till:
    """An account that hides labels, checked before anything is spent, and the events it has paid for."""

    def __init__(self, account: Account | None, noise: Noise | None, micro: int, column: str | None) -> None:
        if account is not None:
            check_account(account)
        self.noise: Noise = ExactNoise() if noise is None else noise
        self.account = account or open_account(
            ":memory:", "labels", unit=labels_of(column or "label"), epsilon=Fraction(micro, MICRO)
        )
        self.note = paid_by(account)
        unit = self.account.terms.unit
        if unit.kind != "labels" or (column is not None and unit.column != column):
            raise UnitMismatch(
                f"noisy labels hide one row's label; the account hides {unit}. Open one with unit=labels(column)."
            )
        check_noise(self.noise, self.account)
        self.events: list[Event] = []

    def desk(self, kind: str, key: str | None, request: dict[str, Any], of: str = "") -> Desk:
        """Where a pass, a collection or a prior is paid for and kept; without a key, under a name nobody knows."""
        name = f"labels/{kind}/{secrets.token_hex(16) if key is None else key}"
        return Desk(NoTable(of), self.noise, self.account, name, {"labels": kind, **request})

    def spent(self, event: Event) -> Guarantee:
        """Every charge so far, as one promise."""
        self.events.append(event)
        whole, terms = composed(*self.events), self.account.terms
        return promise(terms, price(whole, terms), whole, secure=self.noise.secure)
