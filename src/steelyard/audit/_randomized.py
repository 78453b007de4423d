"""Labels made private, replayed through ``fit`` and ``transform`` on neighbours, in every container there is.

The same seeded noise is spent on usual labels and on ones of which a single row is odd. Only that row's integer before noise
may differ, and only that row's noisy label; whatever else can be seen must be the same: type and length of what comes back,
refusals, warnings, prices, entries on the ledger, and how many random words were read. Law: a check compares, it does not judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steelyard.audit._odd_labels import LabelTrace, answer_of, changes, labels_in, listening
from steelyard.audit._steering import distance
from steelyard.audit._verdict import Check, Finding, Findings
from steelyard.ledger import Ledger, open_account
from steelyard.noise import TestNoise
from steelyard.privacy import Neighbours, labels

ROWS = 24
UPPER = 4
CHECKS = {
    "rows": "one changed label moves that row's integer and that row's noisy label, and no other",
    "errors": "no refusal, error or warning depends on a label",
    "transcript": "same type, length, price, entries and number of random words",
}
_GROUPS = ["a", "b"] * (ROWS // 2)


@dataclass(frozen=True)
class RandomizedLabels:
    """A randomizer's options, and how it is used: a pass, a pass with a key, records, groups, or the prior it buys.

    *Privacy:* no real label is read and nothing is charged but accounts in memory.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    way: str = "pass"
    seed: int = 1
    places: tuple[int, ...] = (0, 11, ROWS - 1)

    def audited(self, share: int) -> tuple[Check, ...]:
        """Replay one in ``share`` of all pairs and say, check by check, what was seen."""
        found, pairs, lefts, usual = Findings(CHECKS), 0, {}, [row % 2 for row in range(ROWS)]
        for _, container, odd, place in changes([self.way], self.places, share, self.seed):
            if container.name not in lefts:
                lefts[container.name] = self.run(labels_in(container, usual))
            right = self.run(labels_in(container, usual, place, odd))
            where = f"{container.name}, a value of type {type(odd).__name__} in row {place}"
            found.note(compare(lefts[container.name], right, place, counts=self.way == "prior"), where)
            pairs += 1
        return found.checks(dict.fromkeys(CHECKS, f" ({pairs} pairs)"))

    def run(self, y: Any) -> LabelTrace:
        """Fit, transform, and write down everything that can be seen."""
        noise, account = TestNoise(self.seed), open_account(":memory:", "y", unit=labels("y"), epsilon="9")
        heard, noisy = list[str](), list[float]()
        with listening(heard) as window:
            heard.append(answer_of(lambda: self._use(y, noise, account, noisy)))
        heard += [f"spent {account.spent}", *(f"{e.amount} {e.detail}" for e in Ledger(account.location).charges("%"))]
        if self.way != "prior":  # there the mechanism, and with it what is drawn, follows from the noisy counts
            heard.append(f"next word {noise.bits(1)[0]}")
        return LabelTrace(tuple(heard), tuple(window), tuple(noisy))

    def _use(self, y: Any, noise: TestNoise, account: Any, noisy: list[float]) -> str:
        from steelyard.labels import LabelRandomizer

        given = {"epsilon": 1, "lower": 0, "upper": UPPER, "missing": 3, "account": account, "noise": noise}
        made = LabelRandomizer(**{**given, **self.options})
        if self.way == "prior":
            made.fit(y, key="prior")
            return f"{made.guarantee_}"
        made.fit(y, groups=_GROUPS if self.way == "groups" else None)
        ways: dict[str, dict[str, Any]] = {
            "key": {"key": "k"},
            "records": {"ids": range(ROWS)},
            "groups": {"groups": _GROUPS},
        }
        given_back = made.transform(y, **ways.get(self.way, {}))
        noisy += np.asarray(given_back).astype(np.float64).tolist()
        kind = getattr(given_back, "dtype", getattr(given_back, "type", ""))
        return f"{type(given_back).__name__} {kind} {len(given_back)}, {made.guarantee_}"


def compare(left: LabelTrace, right: LabelTrace, place: int, *, counts: bool = False) -> Iterator[Finding]:
    """Every difference between two runs on neighbouring labels that is not the changed row's own.

    What is noised is one integer for each row, or (for a prior) counts whose distance the event declares.
    """
    for one, other in zip(left.heard, right.heard, strict=False):
        if one != other:
            wrong = "errors" if {one[:5], other[:5]} & {"error", "warni"} else "transcript"
            yield wrong, f"{one!r:.150} and {other!r:.150}"
    if len(left.heard) != len(right.heard):
        yield "transcript", "more was said on one side"
    moved = [i for i, (a, b) in enumerate(zip(left.noisy, right.noisy, strict=False)) if a != b and i != place]
    if moved or len(left.noisy) != len(right.noisy):
        yield "rows", f"{len(moved)} other noisy labels moved"
    if [seen.event for seen in left.seen] != [seen.event for seen in right.seen]:
        yield "transcript", "the releases are not the same"
        return
    for a, b in zip(left.seen, right.seen, strict=True):
        if counts:
            far = distance(a.event, a.values, b.values, Neighbours.CHANGE_LABEL)
            if far.broken:
                yield "rows", str(far)
        elif len(a.values) != len(b.values) or sum(x != y for x, y in zip(a.values, b.values, strict=True)) > 1:
            yield "rows", "more than one integer before noise moved"


def randomized_labels() -> dict[str, RandomizedLabels]:
    """Every method, and every way of using one."""
    from steelyard.labels._baselines import KINDS
    from steelyard.labels._choice import METHODS

    prior = [6, 1, 1, 1, 1]
    found = {
        name.replace("_", "-"): RandomizedLabels({"method": name, "prior": prior})
        for name in ("auto", *METHODS, *KINDS)
    }
    found |= {f"as-{way}": RandomizedLabels({"method": "two_point"}, way) for way in ("key", "records", "groups")}
    found |= {"as-prior": RandomizedLabels({"method": "unbiased", "prior": "private"}, "prior")}
    found |= {"as-records-laplace": RandomizedLabels({"method": "laplace"}, "records")}
    return {f"transform-{name}": subject for name, subject in found.items()}
