"""The law of bounded noise, in whole numbers, and what many draws of it lose together (docs/proofs/bounded_noise.md).

The mechanism draws from these very weights and is charged by this very curve; whoever reads a charge works its price
out again from the same two functions.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from steelyard.errors import OurBug
from steelyard.privacy import ATTO

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from steelyard.accounting._curves import Curve

    Weights = NDArray[np.int64]

_LEAST_WEIGHT = 1 << 12


def whole_weights(power: int, radius: int, sensitivity: int) -> Weights:
    """The weights of -radius..radius, symmetric; log-concave where a row moves a total by more than one."""
    import numpy as np

    half = np.arange(radius + 1, dtype=np.float64) * (math.pi / 2 / (radius + 1))
    peak = 2.0 ** (62 - (2 * radius + 1).bit_length())
    right = np.floor(np.cos(half) ** power * peak).astype(np.int64)
    right[right < _LEAST_WEIGHT] = 0
    weights = np.concatenate([right[:0:-1], right])
    if sensitivity > 1 and not log_concave(weights):
        raise OurBug("the rounded weights of bounded noise are not log-concave.")
    weights.setflags(write=False)
    return weights


def loss_curve(weights: Weights, sensitivity: int, questions: int) -> Curve:
    """The pessimistic loss curve of all questions together; both directions agree, because the law is symmetric."""
    import numpy as np

    from steelyard.accounting._curves import repeated

    total = int(weights.sum())
    support = np.flatnonzero(weights)  # without gaps: the weights fall away from the middle
    kept = weights[support[0] : support[-1] + 1]
    logs, here = np.log(kept), kept[sensitivity:]
    losses = logs[sensitivity:] - logs[:-sensitivity] + 2.0**-46
    masses, escaped = here / total * (1 + 2.0**-50), total - int(here.sum())
    return repeated(losses, masses, escaped / total * (1 + 2.0**-50), questions)


@lru_cache(maxsize=256)
def least_epsilon(power: int, radius: int, sensitivity: int, questions: int, failure_atto: int) -> float:
    """The epsilon of the whole conversation at this failure; what is charged is a billionth more, and at a billionth less."""
    return loss_curve(whole_weights(power, radius, sensitivity), sensitivity, questions).epsilon(failure_atto / ATTO)


def log_concave(weights: Weights) -> bool:
    """Whether the square of every weight is at least the product of its neighbours, exactly, and no gap is inside."""
    import numpy as np

    support = np.flatnonzero(weights)
    if len(support) != support[-1] - support[0] + 1:
        return False
    whole = weights[support].astype(object)
    return bool(np.all(whole[1:-1] * whole[1:-1] >= whole[:-2] * whole[2:]))
