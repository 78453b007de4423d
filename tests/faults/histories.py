"""The checker: what was charged, stored and delivered, and whether the three promises held.

It knows nothing of how a ledger works, so the broken twins are judged by the very same lines.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.ledger import Ledger

Key = tuple[str, str]


@dataclass
class History:
    """Everything observable after a storm."""

    caps: dict[str, int] = field(default_factory=dict)
    spent: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    charged: set[Key] = field(default_factory=set)
    stored: dict[Key, str] = field(default_factory=dict)
    delivered: list[tuple[str, str, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def read_deliveries(folder: Path) -> list[tuple[str, str, str]]:
    """What the workers handed out: (account, key, answer) lines, one file for each worker."""
    lines = [line for path in folder.glob("*.delivered") for line in path.read_text().splitlines()]
    found = [tuple(line.split(" ")) for line in lines]
    return [(parts[0], parts[1], parts[2]) for parts in found]


def of_ledger(location: str, folder: Path) -> History:
    """The history of a real ledger, from its entries alone."""
    history, ledger = History(delivered=read_deliveries(folder)), Ledger(location)
    names: dict[int, Key] = {}
    levels: dict[int, int] = {}
    above: dict[str, str] = {}
    for entry in ledger.entries():
        if entry.kind == "account":
            history.caps[entry.account] = entry.amount
            above[entry.account] = json.loads(entry.detail).get("parent", "")
        elif entry.kind == "charge":
            key = names[entry.sequence] = (entry.account, entry.name)
            if key in history.charged:
                history.broken.append(f"{key} was charged twice")
            history.charged.add(key)
            levels[entry.sequence] = entry.amount
        elif entry.kind == "raise":
            levels[entry.charge] = max(levels[entry.charge], entry.amount)
        elif entry.kind == "answer":
            history.stored[names[entry.charge]] = entry.digest
    for sequence, level in levels.items():
        account_name = names[sequence][0]
        while account_name:
            history.spent[account_name] += level
            account_name = above[account_name]
    for account in ledger.accounts():
        if account.spent.amount != history.spent[account.name]:
            history.broken.append(f"the balance of {account.name} is not the sum of its charges")
    history.broken.extend(ledger.verify().findings)
    return history


def violations(history: History) -> Iterator[str]:
    """Each way in which a promise was broken."""
    yield from history.broken
    for account, cap in history.caps.items():
        if history.spent[account] > cap:
            yield f"overspent: {account} spent {history.spent[account]} of {cap}"
    for root in {name.partition("/")[0] for name in history.caps if "/" in name}:
        below = sum(history.spent[name] for name in history.caps if name.startswith(f"{root}/"))
        if history.spent[root] != below:
            yield f"parent and children disagree: {root} spent {history.spent[root]}, those below it {below}"
    answers: dict[Key, set[str]] = defaultdict(set)
    for account, key, answer in history.delivered:
        answers[account, key].add(answer)
    for name, given in answers.items():
        if name not in history.charged:
            yield f"answer without a charge: {name}"
        if len(given) > 1:
            yield f"two answers: {name}"
        elif hashlib.sha256(next(iter(given)).encode()).hexdigest() != history.stored.get(name):
            yield f"the answer delivered is not the one stored: {name}"
