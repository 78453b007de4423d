"""How far attackers climb on coin-flip labels (truth 0.500) against the ways a holdout is guarded in practice.

First table: accuracy on the n holdout rows of the attacker's last predictor; 0.500 means nothing was learnt. Then the same
attacks on certified holdouts of two settings, on fresh coin flips each run: in how many runs any interval missed the
truth, what share of runs can miss at 99 % confidence, and what share is promised. 250 questions a run at most (so that
459 runs, which bound the share by 1 % where none misses, take minutes), then one run of up to 100,000.

    python bench/holdout_attacks.py [--n 10000] [--runs 459] [--long 100000] [--part climbed|certified|long] [--metric auc|f1|rmse] [--quick]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.audit import attacks
from steelyard.audit.attacks import _strategies as strategies
from steelyard.holdout import Answer, Holdout, RootSquaredError
from steelyard.holdout._intervals import clopper_pearson

MOST = 10_001  # questions of the longest run of the first table
Labels = NDArray[np.int8]
Attack = Callable[..., attacks.Attacked]


@dataclass
class Told:
    """An answer without an interval."""

    value: float
    kind: str = "paid"


@dataclass
class Published:
    """Thresholdout as in the published experiment, not as proved: Gaussian noise, no threshold noise, no budget."""

    labels: Labels
    rng: np.random.Generator
    threshold: float = 0.04
    sigma: float = 0.01

    def check(self, predictions: Labels, *, guess: float) -> Told:
        real = score(self.labels, predictions)
        if abs(real - guess) > self.threshold + self.rng.normal(0, self.sigma):
            return Told(real + self.rng.normal(0, self.sigma))
        return Told(guess, "free")


def algorithm(budget: int) -> Any:
    """Thresholdout as proved, behind the public door; with a budget for every question it is used as if without one."""
    given: dict[str, Any] = {"threshold": "0.04", "sigma": "0.01", "classes": [0, 1], "questions": MOST}
    return lambda labels, rng: Holdout(labels, mode="classic", budget=budget, **given)


class Ladder:
    """A leaderboard that shows only improvements: by a fixed step, or (None) by a paired test."""

    def __init__(self, labels: Labels, step: float | None) -> None:
        self.labels, self.step = labels, step
        self.best, self.hits = 0.0, np.zeros(labels.size, bool)

    def __call__(self, predictions: Labels) -> float:
        hits = predictions == self.labels
        real = np.count_nonzero(hits) / hits.size
        if self.step is not None:
            if real > self.best + self.step:
                self.best = round(real / self.step) * self.step
        elif self._better(hits, real):
            self.best, self.hits = real, hits
        return self.best

    def _better(self, hits: NDArray[np.bool_], real: float) -> bool:
        changed = np.count_nonzero(hits != self.hits) / hits.size
        gain = real - self.best
        return gain > math.sqrt(max(changed - gain**2, 0.0) / hits.size)


def score(labels: Labels, predictions: Labels) -> float:
    return np.count_nonzero(labels == predictions) / labels.size


def rounded(digits: int) -> Any:
    return lambda labels, rng: lambda predictions: round(score(labels, predictions), digits)


def gaussian(sigma: float) -> Any:
    return lambda labels, rng: lambda predictions: score(labels, predictions) + rng.normal(0, sigma)


def block(step: float) -> Attack:
    """Climb by blocks whose luck passes a step of this ladder now and then."""

    def attack(oracle: Any, *, n: int, **given: Any) -> attacks.Attacked:
        return strategies.block_flip_climb(oracle, n=n, block=min(n // 2, max(2, round((step * n) ** 2 / 4))), **given)

    return attack


ROWS: tuple[tuple[str, str, Any, Attack], ...] = (
    ("plain", "wacky boosting", lambda y, r: lambda p: score(y, p), attacks.wacky_boosting),
    ("plain", "pair-flip climb", lambda y, r: lambda p: score(y, p), strategies.pair_flip_climb),
    ("rounded to 0.001", "wacky boosting", rounded(3), attacks.wacky_boosting),
    ("rounded to 0.01", "wacky boosting", rounded(2), attacks.wacky_boosting),
    ("Gaussian 0.01", "wacky boosting", gaussian(0.01), attacks.wacky_boosting),
    ("Gaussian 0.025", "wacky boosting", gaussian(0.025), attacks.wacky_boosting),
    ("Gaussian 0.05", "wacky boosting", gaussian(0.05), attacks.wacky_boosting),
    ("published experiment", "wacky boosting", Published, attacks.wacky_boosting),
    ("published experiment", "threshold riding", Published, strategies.threshold_riding),
    ("published experiment", "memorising", Published, strategies.memorising),
    ("Thresholdout, no limit", "memorising", algorithm(MOST), strategies.memorising),
    ("Thresholdout, 200 answers", "memorising", algorithm(200), strategies.memorising),
    ("ladder, step 0.01", "wacky boosting", lambda y, r: Ladder(y, 0.01), attacks.wacky_boosting),
    ("ladder, no parameter", "wacky boosting", lambda y, r: Ladder(y, None), attacks.wacky_boosting),
    ("ladder, no parameter", "pair-flip climb", lambda y, r: Ladder(y, None), strategies.pair_flip_climb),
    ("ladder, step 0.001", "block-flip climb", lambda y, r: Ladder(y, 0.001), block(0.001)),
    ("ladder, step 0.005", "block-flip climb", lambda y, r: Ladder(y, 0.005), block(0.005)),
    ("ladder, step 0.01", "block-flip climb", lambda y, r: Ladder(y, 0.01), block(0.01)),
)


SETTINGS = (("0.95", "0.05"), ("0.999", "0.06"))
"""Confidence for all intervals at once, and tolerance."""


def climbed(n: int, questions: Sequence[int], repetitions: int) -> None:
    print(f"{'guard':<26} {'attack':<18} " + " ".join(f"{count:>7,}" for count in questions) + "   questions")
    for name, about, make, attack in ROWS:
        found = [np.mean([_once(make, attack, n, count, seed) for seed in range(repetitions)]) for count in questions]
        print(f"{name:<26} {about:<18} " + " ".join(f"{value:>7.3f}" for value in found), flush=True)


def _once(make: Any, attack: Attack, n: int, questions: int, seed: int) -> float:
    rng = np.random.default_rng([seed, 17])
    labels = rng.integers(0, 2, n).astype(np.int8)
    attacked = attack(make(labels, rng), n=n, questions=questions, seed=seed, labels=labels)
    assert attacked.holdout is not None
    return attacked.holdout


def certified(n: int, questions: int, runs: int, names: Sequence[str], metric: str) -> None:
    """Attacks on certified holdouts of both settings, again and again on fresh coin flips."""
    print(f"\ncertified holdouts of {n:,} rows, {questions:,} questions at most")
    head = f"{'attack':<28} {'confidence':>10} {'within':>7} {'runs':>5} {'answers':>11} {'runs with a miss':>17}"
    print(f"{head} {'at most':>8} {'promised':>9} {'refused':>8} {'reached':>8}")
    for name in names:
        for confidence, narrow in SETTINGS:
            # half the rows are of either class, so the interval of a score over tuples is wider
            wider = f"{2**0.5 * float(narrow):.2f}"
            tolerance = {"accuracy": narrow, "f1": "0.12", "rmse": "0.06"}.get(metric, wider)
            found = [
                _certified_once(attacks.ATTACKS[name], n, questions, confidence, tolerance, k, metric)
                for k in range(runs)
            ]
            answers, missed = sum(each.certified for each in found), sum(each.missed > 0 for each in found)
            refused, reached = sum(each.answered < each.asked for each in found), np.mean([e.holdout for e in found])
            most, promised = clopper_pearson(missed, runs, math.log(0.02))[1], 1 - float(confidence)
            counts = f"{confidence:>10} {'±' + tolerance:>7} {runs:>5} {answers:>11,} {missed:>17} {most:>8.1%} {promised:>9.1%}"
            print(f"{name:<28} {counts} {refused:>8} {reached:>8.3f}", flush=True)


def _certified_once(
    attack: Attack, n: int, questions: int, confidence: str, tolerance: str, seed: int, metric: str
) -> attacks.Attacked:
    labels = np.random.default_rng([seed, 23]).integers(0, 2, n).astype(np.int8)
    if metric in ("f1", "rmse"):
        return attack(Turned(labels, confidence, metric, tolerance), n=n, questions=questions, seed=seed, labels=labels)
    holdout = Holdout(labels, tolerance=tolerance, confidence=confidence, metric=metric, classes=[0, 1])
    return attack(holdout, n=n, questions=questions, seed=seed, labels=labels)


class Turned:
    """F1 or RMSE as attackers of an accuracy see it: one half where it is the truth, and more where it looks better.

    Of coin flips the truth of F1 is s / (s + 1/2), s being the share that is called positive, and of RMSE the root of one half.
    """

    def __init__(self, labels: Any, confidence: str, metric: str, tolerance: str) -> None:
        self.f1, self.rows = metric == "f1", len(labels)
        options: Any = {"metric": "f1", "classes": [0, 1]}
        if not self.f1:
            options = {"metric": RootSquaredError(Fraction(1)), "between": ("0.5", 1)}
        self.holdout = Holdout(labels, tolerance, confidence, **options)

    def check(self, predictions: Any, guess: Any = None) -> Answer:
        """Ask, and turn the answer."""
        called = np.asarray(predictions) == 1
        truth = float(called.mean() / (called.mean() + 0.5)) if self.f1 else math.sqrt(0.5)
        side = 1 if self.f1 else -1
        asked = None if guess is None else min(1.0, max(0.0, truth + side * (float(guess) - 0.5)))
        told = self.holdout.check(called.astype(int), asked)
        if told.value is None or told.low is None or told.high is None:
            return told
        low, high = sorted((0.5 + side * (told.low - truth), 0.5 + side * (told.high - truth)))
        return Answer(0.5 + side * (told.value - truth), low, high, told.kind)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--runs", type=int, default=459)
    parser.add_argument("--part", choices=("all", "climbed", "certified", "long"), default="all")
    parser.add_argument("--long", type=int, default=100_000, help="questions of a long run")
    parser.add_argument("--long-runs", type=int, default=1)
    parser.add_argument("--metric", choices=("accuracy", "auc", "balanced_accuracy", "f1", "rmse"), default="accuracy")
    parser.add_argument("--attacks", nargs="+", choices=list(attacks.ATTACKS), help="these alone (default: all)")
    parser.add_argument("--quick", action="store_true", help="few questions, few runs")
    given = parser.parse_args()
    began, counts = process_time(), (100, 1000) if given.quick else (100, 1000, 3000, 10_000)
    names = given.attacks or list(attacks.ATTACKS)
    if given.part in ("all", "climbed"):
        climbed(given.n, counts, 2 if given.quick else given.repetitions)
    if given.part in ("all", "certified"):
        certified(given.n, 100 if given.quick else 250, 3 if given.quick else given.runs, names, given.metric)
    if given.part in ("all", "long"):
        certified(
            given.n, 1000 if given.quick else given.long, 1 if given.quick else given.long_runs, names, given.metric
        )
    print(f"{process_time() - began:.0f} s of one core")


if __name__ == "__main__":
    main()
