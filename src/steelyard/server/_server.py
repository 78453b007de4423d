"""What both processes share: the configuration, the server's records, and the accounts on the ledger.

The web process adds nothing that could read a row; the worker adds the tables (``_worker``).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from steelyard.ledger import Account, Ledger
from steelyard.server._config import Config
from steelyard.server._journal import Journal
from steelyard.server._limits import Buckets
from steelyard.server._store import Boards, Database, DataSet, Jobs, People, Person, Proposals, Sets, migrate
from steelyard.session import Session
from steelyard.tables import PaperTable

_KEPT = 10_000


class Server:
    """One server, as a process of it knows it; ``clock`` tells seconds since 1970."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.time) -> None:
        self.config, self.clock = config, clock
        os.makedirs(config.folder, mode=0o700, exist_ok=True)
        self.database = Database(config.database_address)
        migrate(self.database)
        self.people = People(self.database, clock)
        self.sets, self.jobs = Sets(self.database), Jobs(self.database, clock)
        self.proposals, self.boards = Proposals(self.database), Boards(self.database, clock)
        self.journal = Journal(config.log)
        self.buckets = {
            "plan": Buckets(config.plans_per_second, 4 * config.plans_per_second),
            "ask": Buckets(config.asks_per_second, 4 * config.asks_per_second),
            "sign in": Buckets(config.sign_ins_per_minute / 60, config.sign_ins_per_minute),
            "one name": Buckets(config.sign_ins_per_minute / 60, config.sign_ins_per_minute),
        }
        self.answers: dict[int, dict[str, Any]] = {}  # what was released, by entry
        self.opened: dict[
            tuple[int, str, int], list[str]
        ] = {}  # accounts over a set's people, by set, its account and approvals
        self._accounts: dict[str, Account] = {}
        self._sessions: dict[tuple[int, int, str], Session] = {}
        self._lock = threading.Lock()

    @property
    def ledger(self) -> Ledger:
        """The ledger, to list, verify and export."""
        return Ledger(self.config.ledger_address)

    def account(self, name: str) -> Account:
        """An account of the ledger, which must exist."""
        found = self._accounts.get(name)
        if found is None:
            found = Ledger(self.config.ledger_address).account(name)
            self._accounts[name] = found
        return found

    def keep_answer(self, sequence: int, answer: dict[str, Any]) -> None:
        """Keep a released answer at hand; of too many, none."""
        with self._lock:
            if len(self.answers) >= _KEPT:
                self.answers.clear()
            self.answers[sequence] = answer

    def paper(self, dataset: DataSet, account: str) -> Session:
        """A session on the set's columns alone: it plans, prices and charges, and cannot read."""
        name = dataset.id, dataset.version, account
        found = self._sessions.get(name)
        if found is None:
            table = PaperTable(dataset.columns, name=dataset.name)
            found = Session(table, self.account(account))
            with self._lock:
                if len(self._sessions) > 10_000:
                    self._sessions.clear()
                self._sessions[name] = found
        return found

    def roles(self, person: Person | None, dataset: DataSet | None) -> frozenset[str]:
        """The roles of a person, in a set if there is one."""
        if person is None:
            return frozenset({"nobody"})
        held = {"signed in", *(["officer"] if person.officer else [])}
        if dataset is not None:
            held |= set(self.sets.roles(dataset.id, person.id))
        return frozenset(held)
