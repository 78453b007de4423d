"""A storm, run as a script: workers race for the last budget with retries on shared keys, and are killed at random.

    python -m faults.storm LOCATION FOLDER --kind good|racy|early|tree|apart --workers 8 --kills 100

Prints one line of JSON: what happened, and every broken promise. Workers are forked from this small process (so a new
one costs milliseconds); they write what they deliver to files of their own, one line in one write.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import mmap
import os
import random
import secrets
import signal
import time
import traceback
from pathlib import Path

from faults import twins
from faults.histories import History, of_ledger, violations
from steelyard.errors import BudgetExceeded
from steelyard.ledger import Account, open_account
from steelyard.privacy import Currency, Loss, users

KEYS = 40
CAP = 30
KILLS_A_ROUND = 8


class Storm:
    """The state shared by the killer and its workers."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.location: str = options.location
        self.folder = Path(options.folder)
        self.kind: str = options.kind
        self.workers: int = options.workers
        self.kills: int = options.kills
        self._account: Account | None = None
        self._below = [f"/{name}" for name in "abc"] if self.kind in ("tree", "apart") else [""]
        self._round = mmap.mmap(-1, 8)  # shared with the forked workers

    def run(self) -> History:
        """Kill until enough were killed; then look at what is left."""
        self._open_round(0)
        children = [self._fork(name) for name in range(self.workers)]
        try:
            for kill in range(self.kills):
                self._strike(children, kill)
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)  # a commit that was under way may still end; nothing is read before it has
        return (
            twins.of_racy(self.location, self.folder) if self.kind == "racy" else of_ledger(self.location, self.folder)
        )

    def _strike(self, children: list[int], kill: int) -> None:
        time.sleep(random.uniform(0, 0.03))
        self._strikes += 1
        if self._strikes >= KILLS_A_ROUND and self._exhausted():
            self._open_round(self._number + 1)
        victim = random.randrange(self.workers)
        os.kill(children[victim], signal.SIGKILL)
        _, status = os.waitpid(children[victim], 0)
        children[victim] = self._fork(self.workers + kill)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise SystemExit(f"a worker ended by itself with status {status}")

    def _exhausted(self) -> bool:
        """Only after the last of a round's budget was fought over does the next round begin."""
        return self._account is None or self._account.remaining.amount == 0

    def _open_round(self, number: int) -> None:
        self._number, self._strikes = number, 0
        name = f"round-{number}"
        if self.kind == "racy":
            twins.RacyAccount.open(self.location, name, CAP)
        else:
            self._account = open_account(self.location, name, unit=users("id"), epsilon=f"{CAP / 10**6:.6f}")
            for below in filter(None, self._below):
                share = f"{CAP / 2 / 10**6:.6f}"  # three of them add up to more than there is
                self._open_below(f"{name}{below}", name, share)
        self._round[:] = number.to_bytes(8, "little")

    def _open_below(self, name: str, parent: str, share: str) -> None:
        if self.kind == "apart":
            open_account(self.location, name, unit=users("id"), epsilon=share)
        else:
            open_account(self.location, name, parent=parent, epsilon=share)

    def _fork(self, name: int) -> int:
        child = os.fork()
        if child == 0:
            try:
                self._work(name)
            finally:
                traceback.print_exc()
                os._exit(3)
        return child

    def _work(self, name: int) -> None:
        log = os.open(self.folder / f"{name}.delivered", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        dice, accounts = random.Random(), {}
        while True:
            label = f"round-{int.from_bytes(self._round[:], 'little')}{dice.choice(self._below)}"
            if label not in accounts:
                accounts[label] = self._reach(label)
            with contextlib.suppress(BudgetExceeded):
                self._ask(accounts[label], f"k{dice.randrange(KEYS)}", dice, log)

    def _reach(self, label: str) -> Account | twins.RacyAccount:
        if self.kind == "apart":
            return twins.ChargedApart(self.location, label)
        return twins.RacyAccount(self.location, label) if self.kind == "racy" else Account(self.location, label)

    def _ask(self, account: Account | twins.RacyAccount, key: str, dice: random.Random, log: int) -> None:
        charge = account.charge(Loss(Currency.PURE, 1), key=key, request=key.encode())
        answer = charge.answer
        if answer is None:
            if dice.random() < 0.3:
                with contextlib.suppress(BudgetExceeded):
                    charge.raise_to(Loss(Currency.PURE, 2))
            answer = secrets.token_hex(8).encode()
            if self.kind == "early":
                os.write(log, f"{account.name} {key} {answer.decode()}\n".encode())
                charge.store(answer)
                return
            answer = charge.store(answer)
        os.write(log, f"{account.name} {key} {answer.decode()}\n".encode())


def main() -> None:
    """Run one storm and print its report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("location")
    parser.add_argument("folder")
    parser.add_argument("--kind", choices=["good", "racy", "early", "tree", "apart"], default="good")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--kills", type=int, default=100)
    storm = Storm(parser.parse_args())
    history = storm.run()
    report = {
        "kills": storm.kills,
        "accounts": len(history.caps),
        "charged": len(history.charged),
        "delivered": len(history.delivered),
        "exhausted": sum(history.spent[name] == cap for name, cap in history.caps.items()),
        "violations": list(violations(history)),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
