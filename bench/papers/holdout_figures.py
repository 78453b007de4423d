"""Figures 1 to 4 of the reusable holdout: feature selection against a plain holdout and against Thresholdout.

n = d = 10,000; labels are coin flips, features normal; in figures 3 and 4 twenty features carry 6/sqrt(n) of the label.
The analyst keeps features whose correlations on both sets lie beyond 1/sqrt(n) on the same side, ranks them by the
training set and lets the first k vote. Thresholdout here is the published experiment, not the published algorithm:
Gaussian noise of 1/sqrt(n) on a threshold of 4/sqrt(n), no threshold noise, no budget, unbounded questions. Beside it
the same analyst asks a certified holdout (by the signs of the features, since its questions must be bounded).

    python bench/papers/holdout_figures.py --out figures [--repetitions 100] [--certified 10] [--quick]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.charts import Line, lines
from steelyard.holdout._holdout import Holdout

Floats = NDArray[np.float32]
SIZES = (0, 10, 20, 30, 45, 70, 100, 150, 200, 250, 300, 400, 500)
SHOWN = (10, 20, 45, 100, 200, 300, 500)
BLOCK = 500


@dataclass
class Vote:
    """The best features so far by training correlation, with their columns on both sets (one row each)."""

    most: int
    correlation: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    names: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    columns: list[Floats] = field(default_factory=list)

    def add(self, names: NDArray[np.int64], correlation: NDArray[np.float64], *columns: Floats) -> None:
        every = np.concatenate([self.correlation, correlation])
        kept = np.argsort(-np.abs(every), kind="stable")[: self.most]
        self.correlation, self.names = every[kept], np.concatenate([self.names, names])[kept]
        old = self.columns or [column[:0] for column in columns]
        self.columns = [np.concatenate([a, b])[kept] for a, b in zip(old, columns, strict=True)]

    def margins(self, columns: Floats) -> Floats:
        """The vote of the first k features, for every k."""
        return np.cumsum(columns * np.sign(self.correlation)[:, None].astype(np.float32), axis=0)


class Data:
    """One repetition: labels of three sets, and features made a block at a time."""

    def __init__(self, n: int, d: int, signal: int, seed: int) -> None:
        self.n, self.d, self.signal, self.rng = n, d, signal, np.random.default_rng(seed)
        self.labels = [self.rng.integers(0, 2, n).astype(np.float32) * 2 - 1 for _ in range(3)]

    def features(self, names: NDArray[np.int64], which: int) -> Floats:
        block = self.rng.standard_normal((names.size, self.n), dtype=np.float32)
        block[names < self.signal] += np.float32(6 / np.sqrt(self.n)) * self.labels[which]
        return block


def thresholdout(rng: np.random.Generator, train: NDArray[np.float64], hold: NDArray[np.float64], n: int,
                 ) -> tuple[NDArray[np.float64], int]:  # fmt: skip
    """Answers as in the published experiment, and how many looked at the holdout."""
    noise = rng.normal(0, 1 / np.sqrt(n), (2, train.size))
    paid = np.abs(hold - train) > 4 / np.sqrt(n) + noise[0]
    return np.where(paid, hold + noise[1], train), int(paid.sum())


def accuracy(margins: Floats, labels: Floats) -> NDArray[np.float64]:
    return np.asarray((np.sign(margins) == labels).mean(axis=1), dtype=np.float64)


def repetition(n: int, d: int, signal: int, seed: int) -> tuple[NDArray[np.float64], int]:
    """Accuracies [method, set, k] of the standard holdout and of Thresholdout, and the latter's paid answers."""
    data, noise = Data(n, d, signal, seed), np.random.default_rng([seed, 1])
    votes, paid, edge = [Vote(max(SIZES)), Vote(max(SIZES))], 0, 1 / np.sqrt(n)
    for start in range(0, d, BLOCK):
        names = np.arange(start, min(start + BLOCK, d))
        sets = [data.features(names, which) for which in (0, 1)]
        train, hold = ((block @ data.labels[i] / n).astype(np.float64) for i, block in enumerate(sets))
        told, count = thresholdout(noise, train, hold, n)
        paid += count
        for vote, answer in zip(votes, (hold, told), strict=True):
            kept = (np.minimum(train, answer) > edge) | (np.maximum(train, answer) < -edge)
            vote.add(names[kept], train[kept], *(block[kept] for block in sets))
    found = np.full((2, 3, len(SIZES)), 0.5)
    for method, vote in enumerate(votes):
        columns = [*vote.columns, data.features(vote.names, 2)]
        most = [min(size, len(vote.names)) for size in SIZES[1:]]
        for which, block in enumerate(columns):
            found[method, which, 1:] = accuracy(vote.margins(block)[np.array(most) - 1], data.labels[which])
    found[1, 1, 1:], count = thresholdout(noise, found[1, 0, 1:], found[1, 1, 1:], n)
    return found, paid + count


def certified(n: int, d: int, signal: int, seed: int) -> tuple[NDArray[np.float64], int]:
    """What a certified holdout of ±0.1 tells the same analyst: [train, value, low, high, fresh] for each k; refusals.

    A feature's question is the accuracy of its sign, guessed from the training set; a vote's is guessed by its training
    accuracy, and after a surprise by the last value told.
    """
    data, edge = Data(n, d, signal, seed), 1 / np.sqrt(n)
    hidden, vote, refused = Holdout(data.labels[1] > 0, tolerance=0.1), Vote(max(SIZES)), 0
    for start in range(0, d, BLOCK):
        names = np.arange(start, min(start + BLOCK, d))
        sets = [data.features(names, which) for which in (0, 1)]
        train = ((sets[0] > 0) == (data.labels[0] > 0)).mean(axis=1)
        answers = [hidden.check(sign, guess=float(guess)) for sign, guess in zip(sets[1] > 0, train, strict=True)]
        refused += sum(answer.kind == "refused" for answer in answers)
        told = np.array([guess if a.value is None else a.value for a, guess in zip(answers, train, strict=True)])
        first, second = 2 * train - 1, 2 * told - 1
        kept = (np.minimum(first, second) > edge) | (np.maximum(first, second) < -edge)
        vote.add(names[kept], first[kept], *(block[kept] for block in sets))
    found, surprise = np.full((5, len(SIZES)), np.nan), None
    margins = [vote.margins(block) for block in (*vote.columns, data.features(vote.names, 2))]
    for place, wanted in enumerate(SIZES[1:], 1):
        size = min(wanted, len(vote.names))
        train_k, _, fresh = (accuracy(m[size - 1 : size], y)[0] for m, y in zip(margins, data.labels, strict=True))
        answer = hidden.check(margins[1][size - 1] > 0, guess=float(train_k) if surprise is None else surprise)
        surprise = answer.value if answer.kind == "paid" else surprise
        refused += answer.kind == "refused"
        ends = [np.nan if end is None else end for end in (answer.value, answer.low, answer.high)]
        found[:, place] = train_k, *ends, fresh
    return found, refused


def show_certified(results: dict[int, list[tuple[NDArray[np.float64], int]]]) -> None:
    print("\ncertified holdout, ±0.1: training, told, from, to, fresh; no signal | 20 signals")
    for size in SHOWN:
        rows = [np.nanmean([run[:, SIZES.index(size)] for run, _ in runs], axis=0) for runs in results.values()]
        print(f"{size:<8}  " + "  |  ".join("  ".join(f"{value:.3f}" for value in row) for row in rows))
    for signal, runs in results.items():
        inside = [(run[2] <= run[4]) & (run[4] <= run[3]) for run, _ in runs]
        told = sum(int(np.isfinite(run[1]).sum()) for run, _ in runs)
        held = sum(int(each.sum()) for each in inside)
        print(
            f"{signal} signals: {held} of {told} intervals hold the fresh accuracy; {sum(r for _, r in runs)} refused"
        )


def draw_certified(folder: Path, results: dict[int, list[tuple[NDArray[np.float64], int]]]) -> None:
    for signal, runs in results.items():
        mean = np.nanmean([run[:, 1:] for run, _ in runs], axis=0)
        series = [
            Line("training", SIZES[1:], list(mean[0])),
            Line("holdout, as certified", SIZES[1:], list(mean[1]), list(mean[2]), list(mean[3])),
            Line("fresh", SIZES[1:], list(mean[4])),
        ]
        words: dict[str, Any] = {"x_title": "features that vote", "y_title": "accuracy"}
        words["subtitle"] = f"{signal or 'no'} features carry the label; the band is what was certified"
        chart = lines(series, title="The same analyst, certified", **words)
        chart.save(folder / f"holdout_certified_{signal}.svg")


def study(n: int, d: int, signal: int, repetitions: int) -> tuple[NDArray[np.float64], float]:
    runs = [repetition(n, d, signal, seed) for seed in range(repetitions)]
    return np.stack([found for found, _ in runs]), float(np.mean([paid for _, paid in runs]))


def show(results: dict[int, NDArray[np.float64]], paid: dict[int, float]) -> None:
    print("number    plain, no signal    Thresholdout        plain, 20 signals   Thresholdout")
    print("of votes  train  hold  fresh  train  told  fresh  train  hold  fresh  train  told  fresh")
    for size in SHOWN:
        place = SIZES.index(size)
        means = [results[signal][:, method, which, place].mean() for signal in results for method in (0, 1)
                 for which in (0, 1, 2)]  # fmt: skip
        print(f"{size:<8}  " + "  ".join(f"{mean:.3f}" for mean in means))
    print("answers that looked at the holdout, per run: " + ", ".join(f"{count:.0f}" for count in paid.values()))


def draw(folder: Path, results: dict[int, NDArray[np.float64]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for row, signal in enumerate(results):
        for method, name in enumerate(("plain holdout", "Thresholdout as published")):
            mean, spread = results[signal][:, method].mean(axis=0), results[signal][:, method].std(axis=0)
            series = [
                Line(label, SIZES, list(mean[i]), list(mean[i] - spread[i]), list(mean[i] + spread[i]))
                for i, label in enumerate(("training", "holdout, as reported", "fresh"))
            ]
            number = 2 * row + method + 1
            about = f"{signal or 'no'} features carry the label; bands are one standard deviation"
            words: dict[str, Any] = {"x_title": "features that vote", "y_title": "accuracy", "subtitle": about}
            lines(series, title=f"Figure {number}: {name}", **words).save(folder / f"holdout_{number}.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--certified", type=int, default=10, help="repetitions with a certified holdout")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="three repetitions")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    repetitions, began = 3 if given.quick else given.repetitions, process_time()
    found = {signal: study(given.n, given.n, signal, repetitions) for signal in (0, 20)}
    results, paid = {k: v[0] for k, v in found.items()}, {k: v[1] for k, v in found.items()}
    show(results, paid)
    times = 1 if given.quick else given.certified
    ours = {signal: [certified(given.n, given.n, signal, seed) for seed in range(times)] for signal in (0, 20)}
    show_certified(ours)
    print(f"{repetitions} and {times} repetitions, {process_time() - began:.0f} s of one core")
    if given.out is not None:
        draw(given.out, results)
        draw_certified(given.out, ours)


if __name__ == "__main__":
    main()
