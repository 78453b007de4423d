"""Budgets that somebody proposed and somebody else must approve."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from steelyard.server._store._link import Database

_PROPOSAL = "id, dataset, account, terms, proposer, approver, state"


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
        self._database = database

    def add(self, dataset: int, account: str, terms: dict[str, Any], proposer: int) -> Proposal:
        """Propose an account for a set."""
        with self._database.write() as link:
            row = link.one(
                f"INSERT INTO proposals (dataset, account, terms, proposer) VALUES (?, ?, ?, ?) RETURNING {_PROPOSAL}",
                (dataset, account, json.dumps(terms), proposer),
            )
        assert row is not None
        return _read(row)

    def known(self, number: int) -> Proposal | None:
        """The proposal of a number, or None."""
        row = self._database.one(f"SELECT {_PROPOSAL} FROM proposals WHERE id = ?", (number,))
        return None if row is None else _read(row)

    def of_set(self, dataset: int) -> list[Proposal]:
        """A set's proposals, oldest first."""
        return [
            _read(row)
            for row in self._database.rows(
                f"SELECT {_PROPOSAL} FROM proposals WHERE dataset = ? ORDER BY id", (dataset,)
            )
        ]

    def waiting(self) -> list[Proposal]:
        """The proposals that nobody has decided on."""
        rows = self._database.rows(f"SELECT {_PROPOSAL} FROM proposals WHERE state = 'proposed' ORDER BY id")
        return list(map(_read, rows))

    def decide(self, number: int, approver: int, state: str) -> bool:
        """Note a decision; False where one was made before."""
        with self._database.write() as link:
            changed = link.execute(
                "UPDATE proposals SET state = ?, approver = ? WHERE id = ? AND state = 'proposed' AND proposer <> ?",
                (state, approver, number, approver),
            )
        return changed > 0


def _read(row: tuple[Any, ...]) -> Proposal:
    number, dataset, account, terms, *rest = row
    return Proposal(number, dataset, account, json.loads(terms), *rest)
