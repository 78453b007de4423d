"""Attacks that ask about many random predictors and vote with what they hear.

A random predictor is right on half the rows give or take 1/(2 sqrt n), and its score says to which side and how far. A
vote of k of them, each weighted by its luck, is right on about Phi(sqrt(k/n)) of the rows asked about and on half of
all others (after Blum and Hardt 2015 for a leaderboard; Dwork et al. 2015 for feature selection). Against a mechanism
that hands back the training score unless the holdout disagrees, the attacker picks that score so that it must.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from steelyard.holdout.attacks.oracle import Attacked, Ear, Holdout, Predictions, Score, coin_flips


def wacky_boosting(
    oracle: Score | Holdout, *, n: int, questions: int, seed: int = 0, labels: Predictions | None = None
) -> Attacked:
    """Vote with random predictors, each weighted by the luck its score shows; every guess is 1/2."""
    return _vote("wacky boosting", Ear(oracle, n, questions, labels), seed, 0.5)


def threshold_riding(
    oracle: Score | Holdout,
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
    oracle: Score | Holdout, *, n: int, questions: int, seed: int = 0, labels: Predictions | None = None
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
    oracle: Score | Holdout,
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
