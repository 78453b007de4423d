"""Reading labels out of a log loss: one number with many digits holds many labels.

A row whose predicted odds are e^-d adds d more to the loss when its label is 1 than when it is 0. With d = u, 2u, 4u,
... for m rows and even odds elsewhere, the total says their labels in binary, as long as u exceeds the rounding of the
report and the largest d stays below the oracle's clipping (Whitehill 2017). Rounding and clipping change m, not the end.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.holdout.attacks.oracle import Attacked, Predictions, Score


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
