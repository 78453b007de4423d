"""The attacks: voting with random predictors, climbing by flipped rows, and reading labels out of a log loss.

*Voting.* A random predictor is right on half the rows give or take 1/(2 sqrt n), and its score says to which side and
how far. A vote of k of them, each weighted by its luck, is right on about Phi(sqrt(k/n)) of the rows asked about and on
half of all others (after Blum and Hardt 2015 for a leaderboard; Dwork et al. 2015 for feature selection). Against a
mechanism that hands back the training score unless the holdout disagrees, the attacker picks that score so that it
must.
*Climbing.* Two rows flipped together are both wrong with chance (1 - a)^2 at accuracy a, so q questions to an oracle
that admits every improvement of two rows lift the score on n rows from 1/2 to 1 - 1/(2 + 2q/n), and fresh rows not at
all. An oracle that moves in coarser steps is climbed by blocks of rows whose luck exceeds a step.
*Reading.* A row whose predicted odds are e^-d adds d more to a log loss when its label is 1 than when it is 0. With d =
u, 2u, 4u, ... for m rows and even odds elsewhere, the total says their labels in binary, as long as u exceeds the
rounding of the report and the largest d stays below the oracle's clipping (Whitehill 2017). Rounding and clipping
change m, not the end.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from steelyard.audit.attacks._oracle import Attacked, Ear, HoldoutChecker, Predictions, Score, coin_flips
from steelyard.errors import InvalidTask


def wacky_boosting(
    oracle: Score | HoldoutChecker, *, n: int, questions: int, seed: int = 0, labels: Predictions | None = None
) -> Attacked:
    """Vote with random predictors, each weighted by the luck its score shows; every guess is 1/2."""
    return _vote("wacky boosting", Ear(oracle, n, questions, labels), seed, 0.5)


def threshold_riding(
    oracle: Score | HoldoutChecker,
    *,
    n: int,
    questions: int,
    seed: int = 0,
    labels: Predictions | None = None,
    threshold: float = 0.04,
) -> Attacked:
    """The same vote with predictors whose training score lies one threshold above 1/2.

    Then the holdout contradicts about half of them, and those it does not contradict are the lucky ones.
    """
    return _vote("threshold riding", Ear(oracle, n, questions, labels), seed, 0.5 + threshold)


def memorising(
    oracle: Score | HoldoutChecker, *, n: int, questions: int, seed: int = 0, labels: Predictions | None = None
) -> Attacked:
    """The same vote with predictors that know the training set by heart: their training score is 1."""
    return _vote("memorising the training set", Ear(oracle, n, questions, labels), seed, 1.0)


def _vote(name: str, ear: Ear, seed: int, guess: float) -> Attacked:
    rng = np.random.default_rng(seed)
    votes, used = np.zeros(ear.n, np.float32), 0
    confirmed = 0.0 if guess == 0.5 else 0.4 / math.sqrt(ear.n)  # the mean luck of one that is not contradicted
    for predictor in coin_flips(rng, ear.n, ear.left):
        heard = ear.ask(predictor, guess)
        if heard is None:
            break
        weight = confirmed if heard.echo else heard.value - 0.5
        used += weight != 0
        votes += np.float32(weight) * (2 * predictor - 1)
    return ear.finish(name, _majority(votes, rng), NormalDist().cdf(math.sqrt(used / ear.n)))


def feature_selection(
    oracle: Score | HoldoutChecker,
    *,
    n: int,
    questions: int,
    seed: int = 0,
    labels: Predictions | None = None,
    training: int | None = None,
) -> Attacked:
    """Keep the features that look good on a training set and, as far as the oracle says, on the holdout too.

    A feature predicts by its sign. Those whose scores on both sets lie on the same side of 1/2, each by more than one
    standard deviation, vote in the last predictor; all features are noise.
    """
    ear, rng = Ear(oracle, n, questions, labels), np.random.default_rng(seed)
    rows = n if training is None else training
    votes, used, edge = np.zeros(n, np.int32), 0, 0.5 / math.sqrt(n)
    for predictor in coin_flips(rng, n, questions):
        trained = float(rng.binomial(rows, 0.5)) / rows
        heard = ear.ask(predictor, trained)
        if heard is None:
            break
        side = np.sign(trained - 0.5)
        if min(side * (trained - 0.5), side * (heard.value - 0.5)) > edge:
            used += 1
            votes += (int(side) * (2 * predictor - 1)).astype(np.int32)
    hoped = NormalDist().cdf(math.sqrt(2 * used / (math.pi * n)))
    return ear.finish("feature selection", _majority(votes, rng), hoped)


def _majority(votes: Predictions, rng: np.random.Generator) -> Predictions:
    """1 or 0 by the sign of the votes, ties by coin."""
    return np.where(votes == 0, rng.integers(0, 2, votes.size), votes > 0).astype(np.int8)


def pair_flip_climb(
    oracle: Score | HoldoutChecker, *, n: int, questions: int, seed: int = 0, labels: Predictions | None = None
) -> Attacked:
    """Flip two random rows; keep the flip when the report rises. Breaks leaderboards that show every improvement."""
    return _climb("pair-flip climb", Ear(oracle, n, questions, labels), seed, 2)


def block_flip_climb(
    oracle: Score | HoldoutChecker,
    *,
    n: int,
    questions: int,
    seed: int = 0,
    labels: Predictions | None = None,
    block: int | None = None,
) -> Attacked:
    """Flip ``block`` random rows (a tenth of them unless told) and keep what is reported to be better."""
    size = max(2, n // 10) if block is None else block
    if not 1 <= size <= n:
        raise InvalidTask(f"a block holds 1 to n = {n} rows; got {size}.")
    return _climb("block-flip climb", Ear(oracle, n, questions, labels), seed, size)


def _climb(name: str, ear: Ear, seed: int, block: int) -> Attacked:
    rng = np.random.default_rng(seed)
    predictor = rng.integers(0, 2, ear.n, dtype=np.int8)
    best, score = -math.inf, 0.5
    while (heard := ear.ask(predictor, score)) is not None:
        if heard.value > best:
            best, kept = heard.value, predictor
        score = best
        predictor = kept.copy()
        flipped = _choose(rng, ear.n, block)
        predictor[flipped] = 1 - predictor[flipped]
    return ear.finish(name, kept if best > -math.inf else predictor, score)


def _choose(rng: np.random.Generator, n: int, block: int) -> Predictions:
    """``block`` different rows; small blocks by drawing again, which is much faster than a permutation."""
    if block > n // 20:
        return rng.permutation(n)[:block]
    while True:
        chosen = rng.integers(0, n, block)
        if np.unique(chosen).size == block:
            return chosen


def labels_per_question(n: int, digits: int, clip: float = 1e-15) -> int:
    """How many labels one report of a mean log loss over n rows gives away when shown with ``digits`` decimals."""
    steps = -math.log(clip) / _unit(n, digits)
    return max(0, math.floor(math.log2(steps)) + 1) if steps >= 1 else 0


def _unit(n: int, digits: int) -> float:
    """The smallest difference of totals that is safely told apart, whatever doubles round away."""
    return 1.05 * n * (10.0**-digits + 5e-16)


def log_loss_reconstruction(
    oracle: Score,
    *,
    n: int,
    questions: int,
    seed: int = 0,
    labels: Predictions | None = None,
    digits: int = 5,
    clip: float = 1e-15,
) -> Attacked:
    """Read as many labels as ``questions`` reports of the mean log loss give away; the rest is guessed by coin.

    The oracle takes the predicted chances of label 1. The scores kept are accuracies of the last predictor.
    """
    each = labels_per_question(n, digits, clip)
    if each == 0:
        raise InvalidTask(f"{digits} decimals of a mean over {n} rows give no label away.")
    odds = (_unit(n, digits) * 2.0 ** np.arange(each)).astype(np.float64)
    found = np.random.default_rng(seed).integers(0, 2, n, dtype=np.int8)
    asked = 0
    for start in range(0, min(n, questions * each), each):
        part = slice(start, min(start + each, n))
        size = part.stop - part.start
        chances = np.full(n, 0.5)
        chances[part] = 1 / (1 + np.exp(odds[:size]))
        found[part] = _decode(float(oracle(chances)) * n, n, odds[:size])
        asked += 1
    truth, real = _accuracies(found, labels)
    return Attacked("log-loss reconstruction", found, asked, asked, real, None, None, real, truth, 0, 0)


def _decode(total: float, n: int, odds: NDArray[np.float64]) -> NDArray[np.int8]:
    """The labels whose odds add up to what the total exceeds that of all-zero labels by."""
    rest = total - (n - odds.size) * math.log(2) - float(np.log1p(np.exp(-odds)).sum())
    code = max(0, min(2**odds.size - 1, round(rest / float(odds[0]))))
    return np.array([code >> bit & 1 for bit in range(odds.size)], dtype=np.int8)


def _accuracies(found: Predictions, labels: Predictions | None) -> tuple[float, float | None]:
    """On fresh rows (whose labels are unknown), and on these."""
    if labels is None:
        return 0.5, None
    ones, rate = float(np.mean(found == 1)), float(np.mean(np.asarray(labels) == 1))
    return ones * rate + (1 - ones) * (1 - rate), float(np.mean(found == np.asarray(labels)))
