"""Choosing among finitely many public logistic models by their loss, exactly: the exponential mechanism.

Each row's loss under each candidate is a whole number of steps between 0 and a public ceiling, so a row added can only
raise costs and the monotone weight applies: pure epsilon with nothing approximated and no sampling chain to trust.
Useful when good candidates are known beforehand (a published model and its variants). Law: losses come from one table
by integer margins, so that a row's integers depend on that row alone (docs/proofs/hypotheses.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.mechanisms import Exponential
from steelyard.models.columns import SIZE
from steelyard.models.method import Fitted
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    from steelyard.models.newton import Floats
    from steelyard.models.passes import Reading
    from steelyard.models.rows import Rows
    from steelyard.noise import Noise
    from steelyard.privacy import Event

CEILING = 4
"""The largest loss of one row, in nats; a worse one counts as this much."""

_BITS, _MARGIN, _THETA, _FAR = 16, 10, 16, 16 << 10
_CHUNK = 1 << 16
MOST = 4096


@cache
def losses() -> NDArray[np.int64]:
    """log(1 + e^-margin) in steps of 2^-16, held at the ceiling, for margins from -16 to 16 in steps of 2^-10."""
    margins = np.arange(-_FAR, _FAR + 1) / 2.0**_MARGIN
    exact = np.rint(np.logaddexp(0.0, -margins) * 2.0**_BITS)
    return np.asarray(np.minimum(exact, CEILING << _BITS), dtype=np.int64)


@dataclass(frozen=True)
class Hypotheses:
    """The choice of one of ``candidates`` (coefficients on features of length one) for ``micro`` of pure epsilon."""

    candidates: Sequence[Sequence[float]]
    micro: int

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
        return Exponential(Fraction(self.micro, MICRO), CEILING << _BITS, monotone=True)

    @property
    def event(self) -> Event:
        """What the choice is charged for."""
        return self.mechanism.event

    @property
    def start(self) -> list[NDArray[Any]]:
        """No rows: every cost is zero."""
        return [np.zeros(len(self.candidates), dtype=object)]

    def costs(self, signed: Floats) -> list[NDArray[Any]]:
        """Each candidate's sum of losses over signed rows, in whole steps; rows of nothing but zeros count alike."""
        whole = np.rint(np.array(self.candidates) * 2.0**_THETA).T
        (total,) = self.start
        for begin in range(0, len(signed), _CHUNK):
            margins = np.rint((signed[begin : begin + _CHUNK] @ whole) * (2.0 ** (_MARGIN - _THETA) / SIZE))
            places = np.asarray(np.clip(margins, -_FAR, _FAR), dtype=np.int64) + _FAR
            total = total + losses()[places].sum(axis=0).astype(object)
        return [total]

    def choose(self, costs: Sequence[int], noise: Noise) -> Fitted:
        """The candidate drawn for these costs."""
        chosen = self.mechanism.choose([int(cost) for cost in costs], noise)
        return Fitted(np.array(self.candidates[chosen]), {"chosen": chosen, "candidates": len(self.candidates)})

    def learn(self, data: Reading, target: int, noise: Noise) -> Fitted:
        """Choose for one class, its rows staying where they lie."""
        return self.choose(data.folded(target).fold(self.costs, self.start)[0].tolist(), noise)

    def fit(self, rows: Rows, noise: Noise) -> Fitted:
        """Choose for rows whose label is above zero (positive), below (negative) or zero (left out)."""
        (costs,) = self.costs(rows.x * np.sign(rows.y)[:, None])
        return self.choose(costs.tolist(), noise)
