"""Processes that ask one holdout and are killed at random, run as a script.

    python -m faults.storm_of_checks LEDGER FOLDER --kind good|early|markless|thrifty --workers 2 --kills 50

Workers write every answer they got, and every surprise as soon as it is scored, to files of their own, one line in one
write. Twins: ``early`` hands a surprise out before it is charged, ``markless`` leaves no mark while it scores,
``thrifty`` gives a surprise that was charged and not stored to the next one. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import steelyard.holdout._questions as questions
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._questions import Counter
from steelyard.ledger._lock import FileLock
from unit.holdout.twins import Thrifty

N = 20_000
NAME = "storm"
QUESTIONS = 4000


def labels() -> Any:
    return np.random.default_rng(0).integers(0, 2, N).astype(bool)


def question(number: int) -> tuple[Any, float]:
    """Question ``number``: every process asks from the same list, none of which knows the labels; some guesses are wrong."""
    guess = 0.9 if number % 7 == 0 else 0.5
    return np.random.default_rng([1, number]).integers(0, 2, N).astype(bool), guess


class Early(Counter):
    """The twin: hands a surprise out first and charges for it afterwards."""

    log = -1

    def pay(self, name: str, content: Mapping[str, Any]) -> Mapping[str, Any] | None:
        shown = content["answer"]
        os.write(self.log, f"{Early.asking} {shown['kind']} {shown['value']} {shown['low']} {shown['high']}\n".encode())
        time.sleep(0.05)
        return super().pay(name, content)

    asking = 0


def opened(ledger: str) -> Holdout:
    """The holdout of the storm, wide enough that a surprise for every kill leaves some to answer."""
    return Holdout(labels(), tolerance=0.2, ledger=ledger, name=NAME)


def watch(holdout: Holdout, log: int) -> None:
    """Write down every surprise as soon as it is scored: from then on a death tells it."""
    judge: Any = holdout._judge
    score = judge.total

    def total(read: Any) -> int:
        found: int = score(read)
        if Early.asking % 7 == 0:
            os.write(log, f"{Early.asking} scored\n".encode())
        return found

    vars(judge)["total"] = total


def work(ledger: str, folder: Path, worker: int, kind: str) -> None:
    log = os.open(folder / f"{worker}.answers", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if kind == "early":
        Early.log = log
        vars(questions)["Counter"] = Early
    if kind == "thrifty":
        vars(questions)["Counter"] = Thrifty
    if kind == "markless":
        FileLock.mark = lambda self, number: None  # type: ignore[method-assign]
    holdout, dice = opened(ledger), random.Random()
    watch(holdout, log)
    while True:
        number = dice.randrange(QUESTIONS)
        predictions, guess = question(number)
        Early.asking = number
        answer = holdout.check(predictions, guess=guess)
        if answer.kind == "refused":
            time.sleep(0.005)
        os.write(log, f"{number} {answer.kind} {answer.value} {answer.low} {answer.high}\n".encode())


def fork(ledger: str, folder: Path, worker: int, kind: str) -> int:
    child = os.fork()
    if child == 0:
        try:
            work(ledger, folder, worker, kind)
        finally:
            traceback.print_exc()
            os._exit(3)
    return child


def storm(ledger: str, folder: Path, kind: str, workers: int, kills: int) -> dict[str, Any]:
    """Kill until enough were killed, then compare what was delivered with what is on the ledger."""
    Holdout(
        labels(), tolerance=0.2, name=NAME
    )  # what a holdout works out once is inherited, so that a new worker asks at once
    children = [fork(ledger, folder, worker, kind) for worker in range(workers)]
    for kill in range(kills):
        wait_for(folder, random.randrange(8))
        time.sleep(random.uniform(0, 0.03))
        victim = random.randrange(workers)
        os.kill(children[victim], signal.SIGKILL)
        _, status = os.waitpid(children[victim], 0)
        if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
            raise SystemExit(f"a worker ended by itself with status {status}")
        children[victim] = fork(ledger, folder, workers + kill, kind)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return judge(ledger, folder)


def wait_for(folder: Path, answers: int) -> None:
    """Wait until so many more answers were given, at most two seconds: a busy machine must not make a storm idle."""
    start, until = given(folder), time.monotonic() + 2
    while given(folder) < start + answers and time.monotonic() < until:
        time.sleep(0.002)


def given(folder: Path) -> int:
    """How many answers all workers were given so far."""
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.answers"))


def judge(ledger: str, folder: Path) -> dict[str, Any]:
    holdout = opened(ledger)
    holdout.check(labels(), guess=1)  # whoever asks next pays for the last one who died
    mode: Any = holdout._mode
    counter = mode._learnt(holdout._record)
    lines = [line.split() for path in sorted(folder.glob("*.answers")) for line in path.read_text().splitlines()]
    scored = sum(line[1] == "scored" for line in lines)
    lines = [line for line in lines if line[1] != "scored"]
    kept = {(h["answer"]["value"], h["answer"]["low"], h["answer"]["high"]) for h in counter.answers.values()}
    found: list[str] = []
    paid: dict[str, set[tuple[str, ...]]] = {}
    for number, kind, *shown in lines:
        if kind == "paid":
            paid.setdefault(number, set()).add(tuple(shown))
            if tuple(float(text) for text in shown) not in kept:
                found.append(f"question {number} was answered and is not on the ledger")
    found += [f"question {number} has two answers" for number, answers in paid.items() if len(answers) > 1]
    asked = {(number, kind) for number, kind, *_ in lines if kind != "refused"}
    if len(asked) > counter.asked:
        found.append(f"{len(asked)} questions were answered on {counter.asked} numbers")
    if len(paid) > counter.paid:
        found.append(f"{len(paid)} surprises were answered and {counter.paid} charged")
    if scored > counter.paid:
        found.append(f"{scored} surprises were scored and {counter.paid} charged")
    refused = sum(kind == "refused" for _, kind, *_ in lines)
    facts = {"lines": len(lines), "paid": len(paid), "refused": refused, "numbers": counter.asked}
    facts |= {"scored": scored, "charged": counter.paid}
    return {**facts, "violations": found, "closed": counter.closed}


def main() -> None:
    """Run one storm and print its report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ledger")
    parser.add_argument("folder")
    parser.add_argument("--kind", choices=["good", "early", "markless", "thrifty"], default="good")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=50)
    args = parser.parse_args()
    print(json.dumps(storm(args.ledger, Path(args.folder), args.kind, args.workers, args.kills)))


if __name__ == "__main__":
    main()
