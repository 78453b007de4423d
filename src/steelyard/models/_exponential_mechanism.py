"""Choosing among finitely many public models by their loss, exactly: the exponential mechanism.

Each row's loss under each candidate is a whole number of steps between 0 and a public ceiling, so a row added can only
raise costs and the monotone weight applies: pure epsilon with nothing approximated and no sampling chain to trust.
Useful when good candidates are known beforehand (a published model and its variants). Paper: McSherry and Talwar 2007.
Law: losses are whole numbers that depend on their row alone (docs/proofs/hypotheses.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.mechanisms import Exponential
from steelyard.models._losses import CEILING, COST_BITS, LOGISTIC, LossFunction, exact_scores
from steelyard.models._rows import Fitted
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    from steelyard.models._columns import Floats
    from steelyard.models._passes import Training
    from steelyard.noise import Noise
    from steelyard.privacy import Event

_CHUNK = 1 << 16
MOST = 4096


@dataclass(frozen=True)
class Hypotheses:
    """The choice of one of ``candidates`` (coefficients on features of length one) for ``micro`` of pure epsilon."""

    candidates: Sequence[Sequence[float]]
    micro: int
    loss: LossFunction = LOGISTIC

    def __post_init__(self) -> None:
        held = tuple(tuple(float(x) for x in each) for each in self.candidates)
        object.__setattr__(self, "candidates", held)
        if not 1 <= len(held) <= MOST or len({len(each) for each in held}) != 1 or not np.isfinite(held).all():
            raise InvalidTask(f"candidates are 1 to {MOST} rows of finite coefficients, all of one length.")
        if max(float(np.linalg.norm(each)) for each in held) > 512:
            raise InvalidTask("a candidate's coefficients have length at most 512.")
        if self.micro < 1:
            raise InvalidTask("a choice costs at least one micro-epsilon.")

    @property
    def mechanism(self) -> Exponential:
        """The draw: one row moves every cost up by at most the ceiling."""
        return Exponential(Fraction(self.micro, MICRO), CEILING << COST_BITS, monotone=True)

    @property
    def event(self) -> Event:
        """What the choice is charged for."""
        return self.mechanism.event

    def costs(self, x: Floats, labels: Floats | None = None) -> list[NDArray[Any]]:
        """Each candidate's sum of losses over rows, in whole steps; rows of nothing but zeros count alike."""
        candidates, total = np.array(self.candidates).T, np.zeros(len(self.candidates), dtype=object)
        for begin in range(0, len(x), _CHUNK):
            own = None if labels is None else labels[begin : begin + _CHUNK, None]
            scores = exact_scores(x[begin : begin + _CHUNK], candidates)
            total = total + self.loss.costs(scores, own).sum(axis=0).astype(object)
        return [total]

    def choose(self, costs: Sequence[int], noise: Noise) -> Fitted:
        """The candidate drawn for these costs."""
        chosen = self.mechanism.choose([int(cost) for cost in costs], noise)
        return Fitted(np.array(self.candidates[chosen]), {"chosen": chosen, "candidates": len(self.candidates)})

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Add up every candidate's losses, the rows staying where they lie, and draw."""
        (costs,) = data.fold(self.loss, self.costs, [np.zeros(len(self.candidates), dtype=object)])
        return self.choose(costs.tolist(), noise)
