"""Who spent what: sums over the chain, by person, set or day."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask
from steelyard.privacy import Currency

if TYPE_CHECKING:
    from steelyard.server._server import Server

WAYS = ("person", "set", "day")


def spending(server: Server, by: str) -> list[dict[str, Any]]:
    """What was charged in all, by person, set or day, in each currency's smallest unit."""
    if by not in WAYS:
        raise InvalidTask(f"?by= takes {', '.join(WAYS)}.")
    currencies: dict[str, Currency] = {}
    sums: dict[tuple[str, Currency], int] = defaultdict(int)
    counts: dict[tuple[str, Currency], int] = defaultdict(int)
    charged: dict[int, tuple[tuple[str, Currency], int]] = {}
    for entry in server.ledger.entries():
        if entry.kind == "charge":
            currency = currencies.setdefault(entry.account, server.account(entry.account).terms.currency)
            name = (
                {"person": entry.person or "", "set": entry.account.partition("/")[0], "day": entry.at[:10]}[by],
                currency,
            )
            charged[entry.sequence] = name, entry.amount
            sums[name] += entry.amount
            counts[name] += 1
        elif entry.kind == "raise" and entry.charge in charged:
            name, before = charged[entry.charge]
            sums[name] += entry.amount - before
            charged[entry.charge] = name, entry.amount
    return [
        {by: name, "currency": str(currency), "amount": amount, "charges": counts[name, currency]}
        for (name, currency), amount in sorted(sums.items())
    ]
