"""Paths on a ledger file, walked again and again by processes that are killed; run as a script.

    python -m faults.walker FOLDER --kind good|early|laplace|forgets --kills 50

``good`` walks ridge paths on a Gaussian account and ``laplace`` sums on a pure one; ``early`` and ``forgets`` are the twins.

Prints one line of JSON: what happened, and every broken promise. A worker writes each answer it was given to a file.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import time
import traceback
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.account import Charge
from steelyard.bounding import Sum
from steelyard.desk import Desk
from steelyard.documents import request_of
from steelyard.ledger import Account, Ledger, open_account
from steelyard.models._columns import SIZE, Features, Plain
from steelyard.models._rows import Target
from steelyard.models.accuracy._certificate import certify
from steelyard.models.accuracy._designs import Design, Exact, PooledDesign, Ridge
from steelyard.models.accuracy._family import Step, Told, unpacked
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.models.accuracy._schedule import Failure, levels
from steelyard.models.accuracy._total import TotalSearch
from steelyard.models.accuracy._transcript import Transcript
from steelyard.noise import ExactNoise
from steelyard.privacy import Event, rows
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import read

N = 3000
SUMS = ("laplace", "forgets")
SUM = TotalSearch(Sum("z", cap=1))
SEARCH = RidgeSearch(Features([Plain("x0"), Plain("x1")], "clip", 1), Target("y", -1, 1), Fraction(1, 100))


def session(location: str) -> Session:
    """The same rows for everybody."""
    draws = np.random.default_rng(1)
    x = draws.uniform(-0.7, 0.7, (N, 2))
    y = 0.8 * x[:, 0] + 0.1 * draws.standard_normal(N)
    table = read({"x0": x[:, 0], "x1": x[:, 1], "y": y, "z": draws.uniform(0, 1, N)})
    return Session(table, Account(location, "path"))


def walk(location: str, folder: Path, kind: str) -> None:
    """Walk paths for ever, telling each answer as soon as it is known."""
    log = os.open(folder / f"{os.getpid()}.told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def told(key: str, step: str, first: object) -> None:
        os.write(log, f"{key}|{step}|{first}\n".encode())

    if kind in SUMS:
        sharpen(location, folder, told, forgets=kind == "forgets")
    at = session(location)
    buy, key = Transcript.buy, [""]

    def telling(self: Transcript, step: Step, goal: Goal) -> Told:
        found = buy(self, step, goal)
        told(key[0], f"step {max(self._numbered)}", found.values[0])
        return found

    Transcript.buy = telling  # type: ignore[method-assign]
    if kind == "early":
        Desk.answer = early(told, key)  # type: ignore[method-assign]
    for number in range(1000):
        key[0] = f"k{number}"
        if not (folder / f"{key[0]}.done").exists():
            at.open(SEARCH, key=key[0]).reach_excess(0.002, 0.9, looks=0)
            (folder / f"{key[0]}.done").touch()


def sharpen(location: str, folder: Path, told: Any, *, forgets: bool) -> None:
    """Sharpen sums for ever; the twin forgets to raise its charge before it draws."""
    at, rise = Session(session(location)._table, Account(location, "pure")), Transcript.rise
    key = ""

    def telling(self: Transcript, step: Any, goal: Goal) -> Told:
        found = rise(self, step, goal)
        told(key, f"level {len(self._path) - 1}", f"{self._path[-1].value} {step.micro}")
        return found

    Transcript.rise = telling  # type: ignore[method-assign]
    if forgets:
        Charge.raise_to = lambda self, level, event=None: None  # type: ignore[method-assign]
    for number in range(1000):
        key = f"k{number}"
        if not (folder / f"{key}.done").exists():
            at.open(SUM, key=key).reach(Goal("relative", 0.003, 0.9))
            (folder / f"{key}.done").touch()


def sharpened(location: str, folder: Path) -> list[str]:
    """What the ledger and the workers' files say against each other, of sums."""
    broken: list[str] = []
    told: dict[tuple[str, str], str] = {}
    at = Session(session(location)._table, Account(location, "pure"))
    for path in folder.glob("*.told"):
        for line in path.read_text().splitlines():
            name, step, answer = line.split("|")
            if told.setdefault((name, step), answer) != answer:
                broken.append(f"{name} {step} was answered twice, differently")
    for (name, step), answer in told.items():
        value, micro = answer.split()
        charge = Desk(at._table, at._noise, at.account, name, request_of(SUM)).paid("path 0")
        if charge is None or charge.level.amount < int(micro):
            broken.append(f"{name} {step} was never paid for")
        elif json.loads(charge.answers[int(step.split()[1])])["value"] != float(value):
            broken.append(f"{name} {step} was redrawn")
    return broken


def early(told: Any, key: list[str]) -> Any:
    """A desk that tells an answer before it is stored: the twin."""

    def answer(self: Desk, charge: Charge, event: Event, compute: Any, **rest: Any) -> Release:
        if charge.answers.get(0) is None:
            sealed = self._sealed(event, compute)
            told(key[0], charge.receipt.sequence, unpacked(json.loads(sealed)["value"])[0])
            time.sleep(0.01)
            charge.store(sealed)
        return Release.delivered(charge.answers[0], charge.receipt)

    return answer


def violations(location: str, folder: Path) -> list[str]:
    """What the ledger and the workers' files say against each other."""
    broken: list[str] = []
    told: dict[tuple[str, str], str] = {}
    for path in folder.glob("*.told"):
        for line in path.read_text().splitlines():
            name, step, first = line.split("|")
            if told.setdefault((name, step), first) != first:
                broken.append(f"{name} {step} was answered twice, differently")
    charged, answered, at = {}, set(), session(location)
    for entry in Ledger(location).entries():
        if entry.kind == "charge":
            charged[entry.sequence] = entry.name
        elif entry.kind == "answer":
            answered.add(charged[entry.charge])
    waiting = [name.split("/")[0] for name in charged.values() if name not in answered]
    if len(waiting) > len(set(waiting)):
        broken.append(f"over-charged by more than a step: {waiting}")
    broken += [f"{name} {step} was never paid for" for name, step in told if f"{name}/{step}" not in charged.values()]
    for name in sorted({name for name, _ in told}):
        desk = Desk(at._table, at._noise, at.account, name, request_of(SEARCH))
        for number, found in Transcript(desk, SEARCH.reader(at.account.terms))._numbered.items():
            first = str(found.values[0])
            if told.get((name, f"step {number}"), first) != first:
                broken.append(f"{name} step {number} was redrawn")
    return broken


def await_steps(log: Path, steps: int) -> None:
    """Wait until a worker has told so many answers, but not for ever: it may be stuck in a long computation."""
    end = time.monotonic() + 5
    while time.monotonic() < end and (not log.exists() or log.read_text().count("\n") < steps):
        time.sleep(0.002)


def resumed(folder: Path) -> int:
    """How many paths were gone on with by another process than the one that began them."""
    who: dict[str, set[str]] = {}
    for path in folder.glob("*.told"):
        for line in path.read_text().splitlines():
            who.setdefault(line.split("|")[0], set()).add(path.name)
    return sum(len(names) > 1 for names in who.values())


def warm() -> None:
    """Import and compute what is the same for every worker, without a database or a thread, before any is forked."""
    for name in ("ibis", "duckdb", "ibis.backends.sql.compilers.duckdb", "pyarrow.dataset", "scipy.optimize"):
        importlib.import_module(name)
    x = np.random.default_rng(1).integers(0, 2**17, (N, 3)).astype(np.float64)
    design, ridge, norm = Design(SIZE, 3, 20), Ridge(N, 3, 0.01), 5.0
    pool = PooledDesign(design)
    for stop in levels(ridge, norm, 0.002, Failure(0.09)):
        pool.add(stop.micro**2, design.measure(Exact.of_rows(x, x[:, 0]), stop.micro**2, ExactNoise()))
        certify(ridge, pool.noisy(ridge), norm, stop.failure)
    ExactNoise().laplace(Fraction(1000), 10)


def main() -> None:
    """Kill workers, then look at what is left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--kind", choices=["good", "early", "laplace", "forgets"], default="good")
    parser.add_argument("--kills", type=int, default=50)
    options = parser.parse_args()
    folder = Path(options.folder)
    location = str(folder / "budget.db")
    open_account(location, "path", unit=rows(neighbours="replace", n=N), epsilon=900, delta="1e-6")
    open_account(location, "pure", unit=rows(), epsilon=100)
    warm()
    for _ in range(options.kills):
        child = os.fork()
        if child == 0:
            try:
                walk(location, folder, options.kind)
            finally:
                traceback.print_exc()
                os._exit(3)
        await_steps(folder / f"{child}.told", random.choice([1, 1, 3] if options.kind in SUMS else [0, 1, 1, 2, 4]))
        time.sleep(random.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise SystemExit(f"a worker ended by itself with status {status}")
    lines = sum(len(path.read_text().splitlines()) for path in folder.glob("*.told"))
    check = sharpened if options.kind in SUMS else violations
    print(json.dumps({"told": lines, "resumed": resumed(folder), "violations": check(location, folder)}))


if __name__ == "__main__":
    main()
