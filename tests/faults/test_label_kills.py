"""Processes that share a collection of records die, or lose their ledger, at any write: no record is ever drawn twice."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.account import Charge
from steelyard.errors import LedgerError, LedgerLocked
from steelyard.labels import _randomizer as randomizer
from steelyard.labels import _records as records
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.ledger import Account, Ledger, open_account
from steelyard.privacy import labels
from unit.labels.test_records import Skipping


def unreliable(dice: random.Random) -> Any:
    """A store that fails or dies before an answer is kept, or after it."""
    store = Charge.store

    def stored(self: Charge, payload: bytes, step: int = 0) -> bytes:
        chance = dice.random()
        if chance < 0.2:
            raise LedgerLocked("in use")
        if chance < 0.22:
            os.kill(os.getpid(), signal.SIGKILL)
        kept = store(self, payload, step)
        if chance < 0.4:
            raise KeyboardInterrupt
        if chance < 0.42:
            os.kill(os.getpid(), signal.SIGKILL)
        return kept

    return stored


def work(folder: Path, seed: int, twin: bool) -> None:
    """Ask for records again and again, and write down what was told."""
    dice = random.Random(seed)
    made = LabelRandomizer.load(folder / "made.json", account=Account(folder / "b.db", "labels"))
    Charge.store = unreliable(dice)  # type: ignore[method-assign]
    records.STEP = 9
    if twin:
        vars(randomizer)["Collection"] = Skipping
    with (folder / f"{seed}.told").open("a", buffering=1) as told:
        for _ in range(25):
            ids = dice.sample(range(300), dice.randrange(3, 30))
            try:
                noisy = made.transform(np.array([float(dice.randrange(4)) for _ in ids]), ids=ids)
            except (LedgerError, KeyboardInterrupt):
                continue
            told.write("".join(f"{name} {value}\n" for name, value in zip(ids, noisy, strict=True)))


def storm(folder: Path, seed: int, *, twin: bool = False, rounds: int = 4) -> tuple[int, int]:
    """How many records were told, and how many of them with two values."""
    folder.mkdir()
    account = open_account(folder / "b.db", "labels", unit=labels("y"), epsilon=1)
    LabelRandomizer(1, 0, 3, account=account).fit().save(folder / "made.json")
    context = multiprocessing.get_context("spawn")
    for start in range(rounds):
        workers = [context.Process(target=work, args=(folder, seed + 2 * start + i, twin)) for i in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(120)
            assert worker.exitcode in (0, -signal.SIGKILL)
    assert str(account.spent) == "epsilon 1"
    assert Ledger(account.location).verify().ok
    seen: dict[str, set[str]] = {}
    for file in folder.glob("*.told"):
        for line in file.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                seen.setdefault(line.split()[0], set()).add(line.split()[1])
    return len(seen), sum(len(values) > 1 for values in seen.values())


def test_deaths_and_lost_ledgers_draw_no_record_twice(tmp_path: Path) -> None:
    told, twice = storm(tmp_path / "good", 0)
    assert told > 50
    assert twice == 0


def test_a_collection_that_leaves_a_step_out_is_caught(tmp_path: Path) -> None:
    assert any(storm(tmp_path / str(seed), seed, twin=True)[1] for seed in range(0, 60, 10))
