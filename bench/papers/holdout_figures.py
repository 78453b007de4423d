"""Figures 1 to 4 of the reusable holdout: feature selection against a plain holdout and against Thresholdout.

n = d = 10,000; labels are coin flips, features normal; in figures 3 and 4 twenty features carry 6/sqrt(n) of the label.
The analyst keeps features whose scores on both sets lie beyond one standard deviation on the same side, ranks them by
the training set and lets the first k vote. Figures 2 and 4 are drawn twice. *The published experiment* asks for
correlations and answers with normal noise of 1/sqrt(n) on a threshold of 4/sqrt(n), without noise on the threshold,
without a budget, and its questions are unbounded: none of the theorems is about it. *Algorithm 1* is the mode
"classic": Laplace noise on threshold, comparison and answer, a budget of n/4 paid answers, and bounded questions (is
the feature's sign the label?), with threshold and noise as many standard deviations wide as in the experiment. Beside
them the same analyst asks a certified holdout.

    python bench/papers/holdout_figures.py --out figures [--repetitions 100] [--asked 10] [--quick]
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from steelyard.charts import Chart, Line, lines
from steelyard.holdout import Holdout

Floats = NDArray[np.float32]
SIZES = (0, 10, 20, 30, 45, 70, 100, 150, 200, 250, 300, 400, 500)
SHOWN = (10, 20, 45, 100, 200, 300, 500)
SIGNALS = (0, 20)
BLOCK = 500
PLAIN, EXPERIMENT, ALGORITHM, CERTIFIED = "plain", "experiment", "algorithm", "certified"
QUICK, LONG = (2_000, 3, 4), (10_000, 100, 10)
"""Rows, repetitions, and repetitions in which a holdout is really asked."""
ABOUT = {
    PLAIN: ("plain holdout", "every answer is the holdout's own mean"),
    EXPERIMENT: ("Thresholdout, the published experiment", "normal noise, none on the threshold, no budget"),
    ALGORITHM: ("Thresholdout, Algorithm 1", "Laplace noise, also on the threshold; a budget of {budget:,}"),
    CERTIFIED: ("a certified holdout", "±{tolerance:.2g}; the band is what was certified"),
}
CLAIMS = {
    PLAIN: "a holdout that is asked about every feature reports more than fresh rows give",
    EXPERIMENT: "Thresholdout's report stays near the accuracy on fresh rows",
    ALGORITHM: "Thresholdout's report stays near the accuracy on fresh rows",
    CERTIFIED: "not in Lee's notes: every interval holds the accuracy on fresh rows",
}


class Drawn(NamedTuple):
    """A picture: its title, what Lee's notes claim, the chart, what this run showed, and whether that bears it out."""

    title: str
    claim: str
    chart: Chart
    found: str
    holds: bool


@dataclass
class Vote:
    """The best features so far by training score, with their columns on both sets (one row each)."""

    most: int
    score: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    names: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    columns: list[Floats] = field(default_factory=list)

    def add(self, names: NDArray[np.int64], train: Any, told: Any, edge: float, *columns: Floats) -> None:
        """Keep those of these features whose scores on both sets lie beyond the edge, on the same side of zero."""
        good = (np.minimum(train, told) > edge) | (np.maximum(train, told) < -edge)
        every = np.concatenate([self.score, train[good]])
        kept = np.argsort(-np.abs(every), kind="stable")[: self.most]
        self.score, self.names = every[kept], np.concatenate([self.names, names[good]])[kept]
        old = self.columns or [column[:0] for column in columns]
        self.columns = [np.concatenate([a, b[good]])[kept] for a, b in zip(old, columns, strict=True)]

    def margins(self, columns: Floats) -> Floats:
        """The votes of the first k features, for every k of SIZES but the first."""
        most = [min(size, len(self.names)) for size in SIZES[1:]]
        signed = columns * np.sign(self.score)[:, None].astype(np.float32)
        return np.asarray(np.cumsum(signed, axis=0)[np.array(most) - 1])


class Data:
    """One repetition: labels of three sets, and features made a block at a time."""

    def __init__(self, n: int, d: int, signal: int, seed: int) -> None:
        self.n, self.d, self.signal, self.rng = n, d, signal, np.random.default_rng(seed)
        self.labels = [self.rng.integers(0, 2, n).astype(np.float32) * 2 - 1 for _ in range(3)]

    def blocks(self) -> Any:
        """The names of some features, and their columns on the training set and the holdout."""
        for start in range(0, self.d, BLOCK):
            names = np.arange(start, min(start + BLOCK, self.d))
            yield names, self.features(names, 0), self.features(names, 1)

    def features(self, names: NDArray[np.int64], which: int) -> Floats:
        block = self.rng.standard_normal((names.size, self.n), dtype=np.float32)
        block[names < self.signal] += np.float32(6 / np.sqrt(self.n)) * self.labels[which]
        return block


@dataclass
class Study:
    """Accuracies [repetition, training | reported | fresh | low | high, k], and the answers that were paid or refused."""

    n: int
    found: NDArray[np.float64]
    paid: float
    refused: float


def variant(rng: np.random.Generator, train: NDArray[np.float64], hold: NDArray[np.float64], n: int,
            ) -> tuple[NDArray[np.float64], int]:  # fmt: skip
    """Answers as in the published experiment, and how many looked at the holdout."""
    noise = rng.normal(0, 1 / np.sqrt(n), (2, train.size))
    paid = np.abs(hold - train) > 4 / np.sqrt(n) + noise[0]
    return np.where(paid, hold + noise[1], train), int(paid.sum())


def accuracy(margins: Floats, labels: Floats) -> NDArray[np.float64]:
    return np.asarray((np.sign(margins) == labels).mean(axis=1), dtype=np.float64)


def published(n: int, signal: int, seed: int) -> dict[str, tuple[NDArray[np.float64], int, int]]:
    """One repetition of the plain holdout and of the published experiment, on the same data."""
    data, noise = Data(n, n, signal, seed), np.random.default_rng([seed, 1])
    votes, paid, edge = {name: Vote(max(SIZES)) for name in (PLAIN, EXPERIMENT)}, 0, 1 / np.sqrt(n)
    for names, first, second in data.blocks():
        train, hold = ((part @ data.labels[i] / n).astype(np.float64) for i, part in enumerate((first, second)))
        told, count = variant(noise, train, hold, n)
        paid += count
        votes[PLAIN].add(names, train, hold, edge, first, second)
        votes[EXPERIMENT].add(names, train, told, edge, first, second)
    results = {}
    for name, vote in votes.items():
        found, columns = np.full((5, len(SIZES)), 0.5), [*vote.columns, data.features(vote.names, 2)]
        found[:3, 1:] = [accuracy(vote.margins(part), data.labels[i]) for i, part in enumerate(columns)]
        results[name] = found, 0, 0
    found = results[EXPERIMENT][0]
    found[1, 1:], count = variant(noise, found[0, 1:], found[1, 1:], n)
    results[EXPERIMENT] = found, paid + count, 0
    return results


def budget(n: int) -> int:
    return n // 4


def tolerance(n: int) -> float:
    """±0.1 of 10,000 rows, and as many standard deviations of fewer."""
    return round(10 / float(np.sqrt(n)), 4)


def algorithm(labels: NDArray[np.bool_]) -> Holdout:
    """Thresholdout behind the public door, with the experiment's threshold and noise: 4 and 1 standard deviations."""
    n, spread = labels.size, 0.5 / np.sqrt(labels.size)
    given: dict[str, Any] = {"threshold": f"{4 * spread:.6f}", "sigma": f"{spread:.6f}", "classes": [False, True]}
    return Holdout(labels, mode="classic", budget=budget(n), questions=n + len(SIZES), **given)


def certified(labels: NDArray[np.bool_]) -> Holdout:
    return Holdout(labels, tolerance=tolerance(labels.size))


def asked(make: Callable[[NDArray[np.bool_]], Holdout], n: int, signal: int, seed: int,
          ) -> tuple[NDArray[np.float64], int, int]:  # fmt: skip
    """One repetition with a holdout: each question comes with the training score as its guess.

    A refused question is answered by the training set alone. After a surprise about a vote a certified holdout is asked
    with the value it told; Algorithm 1 compares with the training score.
    """
    data, edge = Data(n, n, signal, seed), 1 / np.sqrt(n)
    hidden, vote, kinds = make(data.labels[1] > 0), Vote(max(SIZES)), []
    for names, first, second in data.blocks():
        train = ((first > 0) == (data.labels[0] > 0)).mean(axis=1)
        answers = [hidden.check(sign, guess=float(guess)) for sign, guess in zip(second > 0, train, strict=True)]
        kinds += [answer.kind for answer in answers]
        told = np.array([guess if a.value is None else a.value for a, guess in zip(answers, train, strict=True)])
        vote.add(names, 2 * train - 1, 2 * told - 1, edge, first, second)
    found, guess = np.full((5, len(SIZES)), np.nan), None
    margins = [vote.margins(part) for part in (*vote.columns, data.features(vote.names, 2))]
    found[0, 1:], found[2, 1:] = (accuracy(margins[i], data.labels[i]) for i in (0, 2))
    for place in range(1, len(SIZES)):
        answer = hidden.check(margins[1][place - 1] > 0, guess=float(found[0, place]) if guess is None else guess)
        guess = answer.value if answer.kind == "paid" and hidden.mode == "certified" else guess
        kinds.append(answer.kind)
        ends = answer.value, answer.low, answer.high
        found[1, place], found[3, place], found[4, place] = (np.nan if end is None else end for end in ends)
    return found, kinds.count("paid"), kinds.count("refused")


def studies(n: int, repetitions: int, times: int) -> dict[tuple[str, int], Study]:
    """Every method with and without signal; ``times`` repetitions where a holdout is really asked."""
    results: dict[tuple[str, int], Study] = {}
    for signal in SIGNALS:
        both = [published(n, signal, seed) for seed in range(repetitions)]
        for name in (PLAIN, EXPERIMENT):
            results[name, signal] = _together(n, [run[name] for run in both])
        for name, make in ((ALGORITHM, algorithm), (CERTIFIED, certified)):
            results[name, signal] = _together(n, [asked(make, n, signal, seed) for seed in range(times)])
    return results


def _together(n: int, runs: list[tuple[NDArray[np.float64], int, int]]) -> Study:
    found, paid, refused = zip(*runs, strict=True)
    return Study(n, np.stack(found), float(np.mean(paid)), float(np.mean(refused)))


def show(n: int, results: dict[tuple[str, int], Study]) -> None:
    for (name, signal), study in results.items():
        print(f"\n{ABOUT[name][0]}, {_carried(signal)}; {len(study.found)} repetitions")
        print("features that vote     " + "  ".join(f"{size:>5}" for size in SHOWN))
        for which, label in enumerate(("training", "reported", "fresh", "from", "to")[: 5 if name == CERTIFIED else 3]):
            cells = (f"{_middle(study.found[:, which, SIZES.index(size)]):5.3f}" for size in SHOWN)
            print(f"{label:<22} " + "  ".join(cells))
        if name != PLAIN:
            print(f"answers that looked at the holdout: {study.paid:.0f} a run; refused: {study.refused:.0f}")
    print(f"\nAlgorithm 1 as opened here:\n{algorithm(np.arange(n) % 2 > 0)}")


def _carried(signal: int) -> str:
    return f"{signal} features carry the label" if signal else "no feature carries the label"


def _middle(values: NDArray[np.float64]) -> float:
    told = values[np.isfinite(values)]
    return float(told.mean()) if told.size else float("nan")


def found(name: str, study: Study) -> tuple[str, bool]:
    """What the runs showed, and whether it bears the claim out: in the median run, at the largest vote, by 0.03."""
    told = np.isfinite(study.found[:, 1])
    if name == CERTIFIED:
        inside = (study.found[:, 3] <= study.found[:, 2]) & (study.found[:, 2] <= study.found[:, 4])
        held, every = int(inside[told].sum()), int(told.sum())
        return (
            f"{held} of {every} intervals hold the fresh accuracy; {study.refused:.0f} refused a run",
            held == every > 0,
        )
    reported, fresh = (float(np.nanmedian(study.found[:, which, -1])) for which in (1, 2))
    words = f"with {SIZES[-1]} features voting the report is {reported:.3f}, fresh rows give {fresh:.3f} (medians)"
    if name == PLAIN:
        return words, reported - fresh > 0.03
    worst = float(np.abs(study.found[:, 1] - study.found[:, 2])[told].max())
    looked = f"{study.paid:.0f} answers a run looked at the holdout; the worst report is off by {worst:.3f}"
    return f"{words}; {looked}", abs(reported - fresh) < 0.03


def figures(quick: bool = False) -> list[Drawn]:
    """Every figure; ``quick``: 2,000 rows and few repetitions, about ten seconds."""
    return pictures(studies(*(QUICK if quick else LONG)))


def draw(folder: Path, quick: bool = False) -> list[tuple[str, str, Path, str]]:
    """The same, saved: titles, claims, files, and what the runs showed."""
    return save(figures(quick), folder)


def save(drawn: list[Drawn], folder: Path) -> list[tuple[str, str, Path, str]]:
    folder.mkdir(parents=True, exist_ok=True)
    names = [re.sub(r"[^a-z0-9]+", "_", each.title.lower()) for each in drawn]
    paths = [each.chart.save(folder / f"{name}.svg") for name, each in zip(names, drawn, strict=True)]
    return [(each.title, each.claim, path, each.found) for path, each in zip(paths, drawn, strict=True)]


def pictures(results: dict[tuple[str, int], Study]) -> list[Drawn]:
    drawn = []
    for (name, signal), study in results.items():
        number = 2 * SIGNALS.index(signal) + (1 if name == PLAIN else 2)
        about = ABOUT[name][1].format(budget=budget(study.n), tolerance=tolerance(study.n))
        words: dict[str, Any] = {
            "title": f"{'Beside figure' if name == CERTIFIED else 'Figure'} {number}: {ABOUT[name][0]}",
            "subtitle": f"{_carried(signal)}; {about}",
            "caption": f"n = {study.n:,}, {len(study.found)} runs"
            + ("" if name == CERTIFIED else "; bands are one standard deviation"),
        }
        chart = lines([_line(study, which, name) for which in (0, 1, 2)], x_title="features that vote",
                      y_title="accuracy", **words)  # fmt: skip
        drawn.append(Drawn(words["title"], CLAIMS[name], chart, *found(name, study)))
    return drawn


def _line(study: Study, which: int, name: str) -> Line:
    """A mean with one standard deviation around it; where intervals are certified, the mean interval."""
    columns = study.found[:, :, 1:]
    mean = [_middle(column) for column in columns[:, which].T]
    label = ("training", "holdout, as reported", "fresh")[which]
    if name == CERTIFIED:
        ends = [[_middle(column) for column in columns[:, end].T] for end in (3, 4)] if which == 1 else [None, None]
        return Line(label, SIZES[1:], mean, *ends)
    spread = [float(np.std(column[np.isfinite(column)])) if np.isfinite(column).any() else 0.0
              for column in columns[:, which].T]  # fmt: skip
    low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
    return Line(label, SIZES[1:], mean, low, high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=LONG[1])
    parser.add_argument(
        "--asked", type=int, default=LONG[2], help="repetitions with Algorithm 1 and a certified holdout"
    )
    parser.add_argument("--n", type=int, default=LONG[0])
    parser.add_argument("--quick", action="store_true", help="2,000 rows and few repetitions: seconds")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    size = QUICK if given.quick else (given.n, given.repetitions, given.asked)
    began, results = process_time(), studies(*size)
    show(size[0], results)
    drawn = pictures(results)
    for each in drawn:
        print(f"{each.title}: {'yes' if each.holds else 'NO'}: {each.found}")
    print(f"{process_time() - began:.0f} s of one core")
    if given.out is not None:
        save(drawn, given.out)


if __name__ == "__main__":
    main()
