"""Searches with a check part on a ledger file, by processes that are killed, two at a time; run as a script.

    python -m faults.divider FOLDER --kind good|early --kills 20

Prints one line of JSON: how many answers were told, and every broken promise. A worker writes each answer it was given to
a file; afterwards the prices, the counts of both parts and the answers are compared with the ledger.
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
from collections import Counter
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.account import Charge
from steelyard.accounting import price
from steelyard.desk import Desk
from steelyard.errors import KeyConflict
from steelyard.ledger import Account, Ledger, open_account
from steelyard.models._columns import Features, Plain
from steelyard.models._rows import Target
from steelyard.models.accuracy._family import PARTS, Told
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.models.accuracy._search import Search
from steelyard.models.accuracy._split import Split
from steelyard.models.accuracy._transcript import Transcript
from steelyard.noise import ExactNoise
from steelyard.privacy import Event, rows
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import read

N = 2000
SEARCH = RidgeSearch(Features([Plain("x0"), Plain("x1")], "clip", 1), Target("y", -1, 1), Fraction(1, 100), Split())


def session(location: str) -> Session:
    """The same rows for everybody."""
    draws = np.random.default_rng(1)
    x = draws.uniform(-0.7, 0.7, (N, 2))
    table = read({"x0": x[:, 0], "x1": x[:, 1], "y": 0.8 * x[:, 0] + 0.1 * draws.standard_normal(N)})
    return Session(table, Account(location, "parts"))


def early(told: Any) -> Any:
    """A desk that tells an answer before it is stored: the twin."""

    def answer(self: Desk, charge: Charge, event: Event, compute: Any, **rest: Any) -> Release:
        if charge.answers.get(0) is None:
            sealed = self._sealed(event, compute)
            told(charge.sequence, json.loads(sealed)["value"])
            time.sleep(0.3)  # so that a busy machine kills it here too
            charge.store(sealed)
        return Release.delivered(charge.answers[0], charge.receipt)

    return answer


def walk(location: str, folder: Path, first: float, kind: str) -> None:
    """Search for ever, for tighter and tighter losses under each key, telling each answer as soon as it is known."""
    log = os.open(folder / f"{os.getpid()}.told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    keep = Transcript._keep

    def told(sequence: int, value: Any) -> None:
        text = value if isinstance(value, str) else ",".join(value)
        os.write(log, f"{sequence}|{text[:60]}\n".encode())

    def telling(self: Transcript, number: int, release: Release) -> Told:
        told(release.receipt.sequence, release.value)
        return keep(self, number, release)

    Transcript._keep = telling  # type: ignore[method-assign]
    if kind == "early":
        Desk.answer = early(told)  # type: ignore[method-assign]
    at = session(location)
    for number in range(1000):
        for target in (first, first * 0.8, first * 0.7):
            asked(at.open(SEARCH, key=f"k{number // 2}"), target)


def asked(search: Search, target: float) -> None:
    """Ask until no other process takes a step meanwhile."""
    while True:
        with suppress(KeyConflict):
            search.reach_loss(target, 0.9)
            return


def violations(location: str, folder: Path) -> list[str]:
    """What the ledger and the workers' files say against each other."""
    told: dict[str, str] = {}
    broken = []
    for path in folder.glob("*.told"):
        for line in path.read_text().splitlines():
            sequence, value = line.split("|")
            if told.setdefault(sequence, value) != value:
                broken.append(f"the answer of charge {sequence} was told twice, differently")
    terms, spent = Account(location, "parts").terms, 0
    total: dict[str, dict[str, int]] = {}
    chains: dict[str, tuple[Counter[Any], Counter[Any]]] = {}
    sequences = set()
    for entry in Ledger(location).entries():
        if entry.kind != "charge":
            continue
        event = Event.from_json(json.loads(entry.detail))
        sequences.add(str(entry.sequence))
        spent += entry.amount
        if price(event, terms).amount != entry.amount:
            broken.append(f"charge {entry.sequence} has another price than its event")
        key = entry.name.split("/")[0]
        counts = total.setdefault(key, {"charged": 0, **dict.fromkeys(PARTS, 0)})
        counts["charged"] += entry.amount
        for name in PARTS:
            counts[name] += int(event.parameters[f"{name}_after"]) - int(event.parameters[f"{name}_before"])  # type: ignore[arg-type]
        befores, afters = chains.setdefault(key, (Counter(), Counter()))
        befores[tuple(event.parameters[f"{name}_before"] for name in PARTS)] += 1
        afters[tuple(event.parameters[f"{name}_after"] for name in PARTS)] += 1
    for key, (befores, afters) in chains.items():
        befores.pop((0, 0), None)
        if befores - afters:
            broken.append(f"two steps of {key} count from one state")
    broken += [f"{key} was paid too little: {c}" for key, c in total.items() if c["charged"] < max(c[p] for p in PARTS)]
    broken += [f"the answer of {sequence} was never paid for" for sequence in told if sequence not in sequences]
    if spent != Account(location, "parts").spent.amount:
        broken.append("the balance is not the sum of the charges")
    return broken


def worker(location: str, folder: Path, first: float, kind: str) -> int:
    """A process that searches until it is killed."""
    child = os.fork()
    if child == 0:
        try:
            walk(location, folder, first, kind)
        except BaseException:
            traceback.print_exc()
        os._exit(3)
    return child


def begun(folder: Path, pair: list[int]) -> None:
    """Wait until both have told something, however busy the machine is."""
    files, until = [folder / f"{child}.told" for child in pair], time.monotonic() + 30
    while not all(file.exists() and file.stat().st_size for file in files) and time.monotonic() < until:
        time.sleep(0.01)


def killed(child: int) -> None:
    """Kill a worker, which must still be there."""
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
        raise SystemExit(f"a worker ended by itself with status {status}")


def begins(entry: Any) -> bool:
    """Whether a charge counts from nothing though it is not the first of its key."""
    if entry.kind != "charge" or entry.name.endswith("/step 0"):
        return False
    parameters = json.loads(entry.detail)["parameters"]
    return all(int(parameters[f"{name}_before"]) == 0 for name in PARTS)


def main() -> None:
    """Kill workers, then look at what is left."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--kind", choices=("good", "early"), default="good")
    options = parser.parse_args()
    folder = Path(options.folder)
    location = str(folder / "ledger.db")
    for name in ("ibis", "duckdb", "ibis.backends.sql.compilers.duckdb", "pyarrow.dataset", "scipy.optimize"):
        importlib.import_module(name)
    ExactNoise().normal(Fraction(1000), 10)
    open_account(location, "parts", unit=rows(), mu=1000)
    random.seed(3)
    for _ in range(options.kills // 2):
        pair = [worker(location, folder, first, options.kind) for first in (0.05, 0.045)]
        begun(folder, pair)
        time.sleep(random.expovariate(3.0))
        for child in pair:
            killed(child)
    lines: list[Any] = [line for path in folder.glob("*.told") for line in path.read_text().splitlines()]
    again = sum(begins(entry) for entry in Ledger(location).entries())
    print(json.dumps({"told": len(lines), "again": again, "violations": violations(location, folder)}))


if __name__ == "__main__":
    main()
