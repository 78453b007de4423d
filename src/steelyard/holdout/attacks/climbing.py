"""Attacks that climb: change a few predictions at a time and keep what is reported to be better.

Two rows flipped together are both wrong with chance (1 - a)^2 at accuracy a, so q questions to an oracle that admits
every improvement of two rows lift the score on n rows from 1/2 to 1 - 1/(2 + 2q/n), and fresh rows not at all. An
oracle that moves in coarser steps is climbed by blocks of rows whose luck exceeds a step.
"""

from __future__ import annotations

import math

import numpy as np

from steelyard.errors import InvalidTask
from steelyard.holdout.attacks.oracle import Attacked, Ear, Holdout, Predictions, Score


def pair_flip_climb(
    oracle: Score | Holdout, *, n: int, questions: int, seed: int = 0, labels: Predictions | None = None
) -> Attacked:
    """Flip two random rows; keep the flip when the report rises. Breaks leaderboards that show every improvement."""
    return _climb("pair-flip climb", Ear(oracle, n, questions, labels), seed, 2)


def block_flip_climb(
    oracle: Score | Holdout,
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
