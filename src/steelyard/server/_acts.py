"""What administrators do, written on the ledger's chain, where nobody can take it back: budgets, members, sources, people, published answers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from steelyard.server._call import Call

if TYPE_CHECKING:
    from steelyard.server._server import Server

_LONGEST = 2000


def acting(call: Call) -> AbstractContextManager[object]:
    """A block that does an act and ends with its ``record``: the act is seen once the block ends, so never without a note on the chain."""
    return call.server.database.write()


def record(call: Call, act: str, thing: str, account: str = "") -> None:
    """Write down that somebody did something to a thing."""
    call.told["sequence"] = call.server.ledger.note(thing[:_LONGEST], act=act, account=account, person=call.who.name)


def acts(server: Server, after: int = 0) -> list[dict[str, Any]]:
    """What was done, in order: who, when, what."""
    return [
        {
            "id": entry.sequence,
            "at": entry.at,
            "person": entry.person,
            "act": entry.name or entry.kind,
            "thing": entry.detail,
            "account": entry.account,
        }
        for entry in server.ledger.notes()
        if entry.sequence > after
    ]
