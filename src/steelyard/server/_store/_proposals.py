"""Budgets that somebody proposed and somebody else must approve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steelyard.server._store._link import Database
from steelyard.server._store._records import Records


@dataclass(frozen=True)
class Proposal:
    """An account that a custodian wants opened: under which name, with which terms; ``state`` is proposed, approved or declined."""

    id: int
    dataset: int
    account: str
    terms: dict[str, Any]
    proposer: int
    approver: int | None
    state: str


class Proposals:
    """The proposals of a server."""

    def __init__(self, database: Database) -> None:
        self._database, self._rows = database, Records(database, "proposals", Proposal)

    def add(self, dataset: int, account: str, terms: dict[str, Any], proposer: int) -> Proposal:
        """Propose an account for a set."""
        return self._rows.add(dataset=dataset, account=account, terms=terms, proposer=proposer)

    def known(self, number: int) -> Proposal | None:
        """The proposal of a number, or None."""
        return self._rows.one("WHERE id = ?", number)

    def of_set(self, dataset: int) -> list[Proposal]:
        """A set's proposals, oldest first."""
        return self._rows.all("WHERE dataset = ? ORDER BY id", dataset)

    def waiting(self) -> list[Proposal]:
        """The proposals that nobody has decided on."""
        return self._rows.all("WHERE state = 'proposed' ORDER BY id")

    def decide(self, number: int, approver: int, state: str) -> bool:
        """Note a decision; False where one was made before."""
        with self._database.write() as link:
            changed = link.execute(
                "UPDATE proposals SET state = ?, approver = ? WHERE id = ? AND state = 'proposed' AND proposer <> ?",
                (state, approver, number, approver),
            )
        return changed > 0
