"""The other process: it takes jobs, reads rows, noises, stores. It listens to nobody.

Law: whatever happens in here, a charge gets one outcome, which is stored on the ledger before it can be seen, from a moment of the public
schedule on. No text of an error leaves this process. A charge whose worker died is tried once more, and then stored as failed, so that a
row which ends the process cannot do so for ever.
"""

from __future__ import annotations

import json
import time
from typing import Any

from steelyard.account import Charge
from steelyard.errors import KeyConflict, LedgerError, TableError
from steelyard.interrupts import INTERRUPTS
from steelyard.plan import Outcome
from steelyard.privacy import Event, Neighbours, canonical
from steelyard.server._asking import settle, task_of
from steelyard.server._judge import Judging
from steelyard.server._looking import desk_of
from steelyard.server._server import Server
from steelyard.server._slots import moment
from steelyard.server._sources import open_source
from steelyard.server._store import DatabaseError, DataSet, Job
from steelyard.session import Session
from steelyard.tables import PaperTable, Table, read

TRIES = 2
_FORGET, _AGAIN, _REST, _LONGEST_REST = 120.0, 1.0, 0.01, 0.1


class Worker:
    """Answers what was charged, one job after another."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._tables: dict[int, tuple[int, Table]] = {}
        self._judging = Judging(server)
        self.busy = False  # with rows: whoever is stopped then has told nothing

    def recover(self) -> None:
        """Make jobs of charges that have no answer and that nobody remembers: the server's records were lost, the ledger was not."""
        sets = {
            PaperTable(each.columns, name=each.name).identity: each for each in self.server.sets.all() if each.columns
        }
        for entry in self.server.ledger.pending():
            dataset, person = sets.get(entry.table), self.server.people.named(entry.person)
            if dataset is not None and person is not None and entry.task is not None:
                self.server.jobs.ask(dataset.id, person.id, entry.account, entry.name, canonical(entry.task).decode())

    def run(self, stop: Any) -> None:
        """Work until ``stop`` is set; rest where there is nothing to do."""
        rest, seen, looked, recovered = _REST, -2, 0.0, False
        while not stop.is_set():
            try:
                if not recovered:
                    self.recover()
                    recovered = True
                changed = self.server.database.changed()
                due = changed != seen or time.monotonic() - looked > _AGAIN
                seen, looked = changed, time.monotonic() if due else looked
                busy = due and self.once()
            except (LedgerError, DatabaseError):
                busy = False
            rest = _REST if busy else min(2 * rest, _LONGEST_REST)
            if not busy:
                stop.wait(rest)
        self._judging.close()

    def once(self) -> bool:
        """Do what there is to do; whether there was anything."""
        described = [self._describe(dataset) for dataset in self.server.sets.to_describe()]
        done = [self._serve(job) for job in fairly(self.server.jobs.waiting())]
        return self._judging.once() or any(described) or any(done)

    def _describe(self, dataset: DataSet) -> bool:
        """Look at the columns of a source: its schema, and no row; labels that a board tells scores of are no rows of a set."""
        try:
            labels = self._judging.told_of(dataset.kind, dataset.source)
            columns: dict[str, str] | None = None if labels else dict(self._table(dataset).columns)
        except INTERRUPTS:
            raise
        except BaseException:  # an engine's panic is no Exception; nothing of it may be told
            columns = None
        self.server.sets.describe(dataset.id, dataset.version, columns)
        return True

    def _table(self, dataset: DataSet) -> Table:
        known = self._tables.get(dataset.id)
        if known is None or known[0] != dataset.version:
            place = open_source(self.server.config, dataset.kind, dataset.source)
            known = dataset.version, read(place, name=dataset.name, **dataset.options)
            self._tables[dataset.id] = known
        return known[1]

    def _serve(self, job: Job) -> bool:
        """Answer one job; whether that was done."""
        server, dataset = self.server, self.server.sets.known(job.dataset)
        assert dataset is not None
        try:
            charge = desk_of(server, dataset, job.account, job.key, json.loads(job.request)).paid()
        except KeyConflict:  # another request came under this key before the one that paid was written down
            server.jobs.forget(job.id)
            self.recover()
            return False
        if charge is None:
            if server.clock() - job.asked > _FORGET:
                server.jobs.forget(job.id)
            return False
        job = settle(server, dataset, job.person, charge, job.request)
        state = self._answer(dataset, job, charge)
        if state is not None:
            assert job.charged is not None
            server.jobs.finish(job.id, state, moment(job.charged, dataset.slot, server.clock()))
        return state is not None

    def _answer(self, dataset: DataSet, job: Job, charge: Charge) -> str | None:
        """Store the one outcome of a charge; which it is, or None where the ledger cannot be written now."""
        if self.server.jobs.begin(job.id) <= TRIES or charge.answer is not None:
            try:
                self.busy = True
                session = Session(self._table(dataset), self.server.account(job.account))
                session.release(task_of(job.request), key=job.key)
                self.busy = False
                return "answered"
            except LedgerError:
                self.busy = False
                self.server.jobs.untry(job.id)
                return None
            except INTERRUPTS:
                self.busy = False
                self.server.jobs.untry(job.id)
                raise
            except BaseException:  # what was raised may depend on rows: it ends here
                self.busy = False
        return self._fail(dataset, job, charge)

    def _fail(self, dataset: DataSet, job: Job, charge: Charge) -> str | None:
        """Store a failure, unless an answer is stored."""
        desk = desk_of(self.server, dataset, job.account, job.key, json.loads(job.request))
        try:
            desk.answer(charge, _ABANDONED, _give_up)
        except TableError:
            return "failed"
        except LedgerError:
            return None
        return "answered"


_ABANDONED = Event("abandoned", {}, Neighbours.ADD_REMOVE)


def _give_up(table: Any, noise: Any) -> Outcome:
    raise TableError("abandoned")


def fairly(jobs: list[Job]) -> list[Job]:
    """Jobs in turns: everybody's first, then everybody's second, each in the order of asking."""
    turn: dict[int, int] = {}
    ranked = []
    for job in jobs:
        turn[job.person] = turn.get(job.person, 0) + 1
        ranked.append((turn[job.person], job.id, job))
    return [job for _, _, job in sorted(ranked, key=lambda each: each[:2])]
