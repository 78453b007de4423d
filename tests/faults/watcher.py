"""A watched path on a ledger file whose processes kill themselves at chosen writes, before or after; run as a script.

    python -m faults.watcher FOLDER --kind good|revived --kills 8

``revived`` is the twin: whoever finds a watch of another process draws a threshold of his own for it and asks on.
Prints one line of JSON: what happened, and every broken promise. A worker writes each answer it was given to a file.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import traceback
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.account import Charge
from steelyard.desk import Desk
from steelyard.documents import request_of
from steelyard.ledger import Account, open_account
from steelyard.models._columns import Features, Plain
from steelyard.models._rows import Target
from steelyard.models.accuracy import _watch as watches
from steelyard.models.accuracy._goal import Goal, share_of
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.models.accuracy._transcript import Transcript, costs_of
from steelyard.noise import ExactNoise
from steelyard.privacy import Loss, Terms, rows
from steelyard.session import Session
from steelyard.tables import Table, read

N = 1000
SEARCH = RidgeSearch(Features([Plain("x")], "clip", 1), Target("y", -1, 1), Fraction(1, 100))
TARGET = 0.0095  # just below the labels' own noise: a walk seldom ends before its process does


def table() -> Table:
    """The same rows for everybody."""
    draws = np.random.default_rng(1)
    x = draws.uniform(-0.7, 0.7, N)
    return read({"x": x, "y": 0.8 * x + 0.1 * draws.standard_normal(N)})


def killing(at: int, *, before: bool) -> None:
    """Let this process end at its so-many-th write to the ledger."""
    count = [0]

    def wrapped(write: Callable[..., Any]) -> Callable[..., Any]:
        def once(*given: Any, **more: Any) -> Any:
            count[0] += 1
            if count[0] == at and before:
                os.kill(os.getpid(), signal.SIGKILL)
            found = write(*given, **more)
            if count[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        return once

    for owner, name in ((Account, "charge"), (Charge, "raise_to"), (Charge, "store")):
        setattr(owner, name, wrapped(getattr(owner, name)))


def revive() -> None:
    """The twin: go on with a watch whose threshold is gone, under another one."""

    def again(self: Any) -> Charge:
        event = self.watch.mechanism.event
        charge: Charge = self._desk.charge(event, f"watch {self.index}")
        self._desk.answer(charge, event, lambda _, noise: self._start(noise))
        self._running = self.watch.mechanism.start(self.watch.threshold, ExactNoise())
        self._asked = len(charge.answers) - 1
        return charge

    watches.Watching._bought = again  # type: ignore[method-assign]
    Transcript.watches = property(lambda self: [], lambda self, value: None)  # type: ignore[assignment]


def work(location: str, folder: Path, kind: str, at: int, *, before: bool) -> None:
    """Walk the path, telling each answer as soon as it is known."""
    log = os.open(folder / f"{os.getpid()}.told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    rise, ask = Transcript.rise, watches.Watching.ask

    def rising(self: Transcript, *given: Any) -> Any:
        told, release = rise(self, *given), self._path[-1]
        os.write(log, f"level {len(self._path) - 1}|{release.point['micro']} {release.value}\n".encode())
        return told

    def asking(self: Any, *given: Any) -> bool:
        passed = ask(self, *given)
        os.write(log, f"watch {self.index} question {self._asked}|{passed}\n".encode())
        return passed

    Transcript.rise = rising  # type: ignore[method-assign, assignment]
    watches.Watching.ask = asking  # type: ignore[method-assign, assignment]
    if kind == "revived":
        revive()
    killing(at, before=before)
    Session(table(), Account(location, "pure")).open(SEARCH, key="k").reach_loss(TARGET, 0.9)
    os.kill(os.getpid(), signal.SIGKILL)


def violations(location: str, folder: Path) -> list[str]:
    """What the ledger and the workers' files say against each other."""
    broken: list[str] = []
    told: dict[str, str] = {}
    askers: dict[str, set[str]] = {}
    for path in folder.glob("*.told"):
        for line in path.read_text().splitlines():
            step, answer = line.split("|")
            if told.setdefault(step, answer) != answer:
                broken.append(f"{step} was answered twice, differently")
            if step.startswith("watch"):
                askers.setdefault(step.split(" question")[0], set()).add(path.name)
    broken += [f"{name} was asked by two processes" for name, who in askers.items() if len(who) > 1]
    at = Account(location, "pure")
    desk = Desk(table(), ExactNoise(), at, "k", request_of(SEARCH))
    kept = Transcript(desk, SEARCH.reader(at.terms))
    stored = {f"level {index}": f"{release.point['micro']} {release.value}" for index, release in enumerate(kept._path)}
    for each in kept.watches:
        asked = [str(bool(one.values[0])) for one in each.told if one.kind == "question"]
        stored |= {f"watch {each.index} question {i + 1}": one for i, one in enumerate(asked)}
    broken += [f"{step} was redrawn or lost" for step, answer in told.items() if stored.get(step) != answer]
    levels = [int(answer.split()[0]) for step, answer in told.items() if step.startswith("level")]
    raised = sum(cost for name, cost in costs_of(desk).items() if name.startswith("path"))
    if raised < max(levels, default=0):
        broken.append("a level was never paid for")
    paid = raised + sum(each.micro for each in kept.watches)
    if at.spent.amount < paid:
        broken.append("the account has less than its entries")
    return broken


def warm() -> None:
    """Import and compute what is the same for every worker, without a database or a thread, before any is forked."""
    for name in ("ibis", "duckdb", "ibis.backends.sql.compilers.duckdb", "pyarrow.dataset", "scipy.special"):
        importlib.import_module(name)
    family = SEARCH.laplace(Goal("loss", TARGET, 0.9), Terms(rows(neighbours="replace", n=N), Loss.pure(1)))
    for rank in range(12):
        for factor in (1, 4, 16):
            watches.Watch.of(family.needs() / factor, (1 - 0.9) * share_of(rank))
    ExactNoise().laplace(Fraction(1000), 10)


def main() -> None:
    """Let workers end, then look at what is left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--kind", choices=["good", "revived"], default="good")
    parser.add_argument("--kills", type=int, default=8)
    options = parser.parse_args()
    folder, choose = Path(options.folder), random.Random(6)
    location = str(folder / "budget.db")
    open_account(location, "pure", unit=rows(neighbours="replace", n=N), epsilon=10_000_000)
    warm()
    for _ in range(options.kills):
        child = os.fork()
        if child == 0:
            try:
                work(location, folder, options.kind, choose.randint(1, 14), before=choose.random() < 0.5)
            finally:
                traceback.print_exc()
                os._exit(3)
        choose.random()
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise SystemExit(f"a worker ended by itself with status {status}")
    lines = sum(len(path.read_text().splitlines()) for path in folder.glob("*.told"))
    print(json.dumps({"told": lines, "violations": violations(location, folder)}))


if __name__ == "__main__":
    main()
