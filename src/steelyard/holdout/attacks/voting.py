"""Attacks that ask about many random predictors and vote with what they hear.

A random predictor is right on half the rows give or take 1/(2 sqrt n), and its score says to which side. A vote of k
of them, each turned to its lucky side, is right on about Phi(sqrt(2k / (pi n))) of the rows asked about and on half of
all others (Blum and Hardt 2015 for a leaderboard; Dwork et al. 2015 for feature selection). Against a mechanism that
hands back the training score unless the holdout disagrees, the attacker picks that score so that it must disagree.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from steelyard.holdout.attacks.oracle import Attacked, Ear, Holdout, Predictions, Score, coin_flips


def wacky_boosting(
    oracle: Score | Holdout, *, n: int, questions: int, seed: int = 0, labels: Predictions | None = None
) -> Attacked:
    """Vote with random predictors, each turned to the side on which its score was lucky; every guess is 1/2."""
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
    """The same vote with predictors whose training score lies one threshold above 1/2, so that half are answered."""
    return _vote("threshold riding", Ear(oracle, n, questions, labels), seed, 0.5 + threshold)


def memorising(
    oracle: Score | Holdout, *, n: int, questions: int, seed: int = 0, labels: Predictions | None = None
) -> Attacked:
    """The same vote with predictors that know the training set by heart: their training score is 1."""
    return _vote("memorising the training set", Ear(oracle, n, questions, labels), seed, 1.0)


def _vote(name: str, ear: Ear, seed: int, guess: float) -> Attacked:
    rng = np.random.default_rng(seed)
    votes, used = np.zeros(ear.n, np.int32), 0
    for predictor in coin_flips(rng, ear.n, ear.left):
        heard = ear.ask(predictor, guess)
        if heard is None:
            break
        if heard.echo or heard.value in (0.5, guess):
            continue
        used += 1
        votes += 2 * predictor - 1 if heard.value > 0.5 else 1 - 2 * predictor
    return ear.finish(name, _majority(votes, rng), _hoped(used, ear.n))


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
    return ear.finish("feature selection", _majority(votes, rng), _hoped(used, n))


def _majority(votes: Predictions, rng: np.random.Generator) -> Predictions:
    """1 or 0 by the sign of the votes, ties by coin."""
    doubled = 2 * votes + rng.integers(0, 2, votes.size) * 2 - 1
    return (doubled > 0).astype(np.int8)


def _hoped(used: int, n: int) -> float:
    """The score a vote of this many informed predictors should reach."""
    return NormalDist().cdf(math.sqrt(2 * used / (math.pi * n)))
