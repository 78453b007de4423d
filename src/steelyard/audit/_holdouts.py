"""Holdouts on neighbouring labels, replayed through the public calls in every mode that hides labels.

A holdout is opened, printed, asked good and bad questions, opened again and printed, on usual labels and on ones of which
a single row is odd, with noise steered so that both tell the same. What is noised must lie within the declared sensitivity; whatever
else can be seen must be the same: answers, refusals, warnings, what is printed, what is spent, what stands on the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from typing import Any

import numpy as np

from steelyard.audit._odd_labels import LabelTrace, answer_of, changes, labels_in, listening
from steelyard.audit._steering import STEERABLE, Distance, SteeredNoise, distance
from steelyard.audit._verdict import Check, Finding, Findings
from steelyard.holdout import AbsoluteError, Accuracy, Cost, Holdout, LogLoss, PerExample, SquaredError, pack
from steelyard.holdout._metrics import Brier, Metric
from steelyard.ledger import Ledger
from steelyard.privacy import Neighbours

ROWS = 40
QUESTIONS = 3
MODES: dict[str, dict[str, Any]] = {
    "private": {"mode": "private", "questions": QUESTIONS},
    "bounded": {"mode": "private", "questions": QUESTIONS, "noise": "bounded", "delta": "0.01"},
    "classic": {"mode": "classic", "questions": QUESTIONS, "budget": QUESTIONS},
}
CHECKS = {
    "distance": "totals of neighbouring labels lie within the declared sensitivity",
    "transcript": "same released numbers, same answers, prints, prices and entries",
    "errors": "no refusal, error or warning depends on a label",
    "noise": "every answer passed through a mechanism",
}


@dataclass(frozen=True)
class HiddenLabels:
    """A metric to audit, what labels usually are, and predictions of ``ROWS`` rows; bad ones are added to them.

    *Privacy:* no real label is read and nothing is charged.
    """

    metric: Metric
    usual: Sequence[Any]
    predictions: Sequence[Any]
    places: Sequence[int] = (0, ROWS - 1)
    seed: int = 1
    modes: Sequence[str] = tuple(MODES)

    def audited(self, share: int) -> tuple[Check, ...]:
        """Replay one in ``share`` of all pairs and say, check by check, what was seen."""
        found, pairs, worst = Findings(CHECKS), 0, 0.0
        lefts: dict[tuple[str, str], LabelTrace] = {}
        usual = [self.usual[row % len(self.usual)] for row in range(ROWS)]
        for mode, container, odd, place in changes(self.modes, self.places, share, self.seed):
            base = labels_in(container, usual)
            left = lefts.get((mode, container.name))
            if left is None:
                left = lefts[mode, container.name] = self.run(mode, base, base, None)
            right = self.run(mode, labels_in(container, usual, place, odd), base, left.written)
            found.note(compare(left, right), f"{mode}, {container.name}, {_short(odd)} in row {place}")
            worst = max([worst, *(far.share for far in distances(left, right))])
            pairs += 1
        return found.checks({"distance": f" (largest: {worst:.4g} of it, {pairs} pairs)"})

    def run(self, mode: str, labels: Any, base: Any, script: list[list[int]] | None) -> LabelTrace:
        """Open, print, ask, open again with the usual labels, print."""
        heard: list[str] = []
        with listening(heard) as window:
            noise = SteeredNoise(window, self.seed, script)
            heard += self._conversation(MODES[mode], labels, base, noise)
        return LabelTrace(tuple(heard), tuple(window), written=noise.written)

    def _conversation(self, mode: dict[str, Any], labels: Any, base: Any, noise: SteeredNoise) -> Iterator[str]:
        given = {**mode, "tolerance": self.metric.upper * Fraction(99, 100), "metric": self.metric, "source": noise}
        guess = {"guess": self.metric.upper / 4} if mode["mode"] == "classic" else {}
        given |= {"threshold": self.metric.upper / 100} if guess else {}
        opened: list[Holdout] = []
        yield answer_of(lambda: _shown(opened, Holdout(labels, **given)), "opened")
        if not opened:
            return
        holdout = opened[0]
        for predictions in (*self.predictions, *_bad()):
            yield answer_of(lambda asked=predictions: str(holdout.check(asked, **guess)))  # type: ignore[misc]
        yield answer_of(lambda: str(Holdout(base, account=holdout.account, **given)), "opened")
        yield f"{holdout}\nleft {holdout.forecast()}"
        yield "\n".join(f"{e.name} {e.amount} {e.detail}" for e in Ledger(holdout.account.location).charges("%"))


def hidden_labels() -> dict[str, HiddenLabels]:
    """Every metric of holdouts, and functions of one's own that types would break."""
    ones, turns = np.ones(ROWS, dtype=np.int64), np.arange(ROWS) % 2
    bits, chances, cut = (ones, turns), (np.full(ROWS, 0.25), turns / 3), Fraction(3)
    both, three = (0, 1), (0, 1, 2)
    told: dict[str, HiddenLabels] = {
        "accuracy": HiddenLabels(Accuracy(both), (0, 1, 1), bits),
        "accuracy-text": HiddenLabels(Accuracy(("0", "1")), (0, 1, 1), (ones.astype(str), turns.astype(str))),
        "accuracy-classes": HiddenLabels(Accuracy(three), (0, 1, 1), bits),
        "error": HiddenLabels(Accuracy(both, error=True), (0, 1, 1), bits),
        "brier": HiddenLabels(Brier(both), (0, 1, 1), chances),
        "log-loss": HiddenLabels(LogLoss(cut, both), (0, 1, 1), chances),
        "log-loss-classes": HiddenLabels(LogLoss(cut, three), (0, 1, 1), (np.eye(3)[turns], np.eye(3)[turns] / 2)),
        "cost": HiddenLabels(Cost(((0, 1), ("0.5", 0)), both), (0, 1, 1), bits),
        "absolute": HiddenLabels(AbsoluteError(cut), (0, 1, 2), bits),
        "squared": HiddenLabels(SquaredError(cut), (0, 1, 2), bits),
        "own": HiddenLabels(PerExample(_differs, Fraction(1)), (1,), bits),
        "own-bits": HiddenLabels(PerExample(_odd_bit, Fraction(1)), (1,), bits),
    }
    return {f"holdout-{name}": subject for name, subject in told.items()}


def _differs(label: Any, said: Any) -> float:
    return float(label != said)


def _odd_bit(label: Any, said: Any) -> float:
    return float((label & 1) != said)


def _bad() -> list[Any]:
    """Questions that some metrics refuse: for what they are, never for what labels are."""
    return [
        [1] * (ROWS - 1), ["cat"] * ROWS, [0, 7] * (ROWS // 2), pack(np.arange(ROWS) % 2 > 0), pack([True]),
        np.full((ROWS, 2), 0.5), np.full((ROWS, 3), 0.3), [float("nan")] * ROWS, [None] * ROWS,
    ]  # fmt: skip


def _shown(opened: list[Holdout], holdout: Holdout) -> str:
    opened.append(holdout)
    return f"{holdout}\n{holdout!r}"


def compare(left: LabelTrace, right: LabelTrace) -> Iterator[Finding]:
    """Every difference between two neighbouring conversations that noise does not cover."""
    if not right.seen and any(text.startswith("told") for text in right.heard):
        yield "noise", "an answer was told that no mechanism noised"
    steered = all(seen.event.name in STEERABLE for seen in (*left.seen, *right.seen))
    for one, other in zip_longest(left.heard, right.heard, fillvalue="nothing"):
        failed = "error" in (one[:5], other[:5]) or "warning" in (one[:7], other[:7])
        if one != other and (failed or steered or not one.startswith("told")):
            yield "errors" if failed else "transcript", f"{one!r:.200} and {other!r:.200}"
    if [seen.event for seen in left.seen] != [seen.event for seen in right.seen]:
        yield "transcript", "the releases are not the same"
    yield from (("distance", str(far)) for far in distances(left, right) if far.broken)


def distances(left: LabelTrace, right: LabelTrace) -> list[Distance]:
    """How far apart what was noised is, release by release, where the releases are the same."""
    if [seen.event for seen in left.seen] != [seen.event for seen in right.seen]:
        return []
    pairs = zip(left.seen, right.seen, strict=True)
    return [distance(a.event, a.values, b.values, Neighbours.REPLACE) for a, b in pairs]


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number too long to be written
        text = f"an integer of {value.bit_length()} bits"
    return text if len(text) <= 40 else text[:37] + "…"
