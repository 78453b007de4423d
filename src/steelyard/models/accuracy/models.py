"""Released models as whole numbers: what a look asks about is exactly what is handed out."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.models.accuracy.certificate import Array
from steelyard.models.accuracy.measured import Exact

MODEL_BITS = 48


def as_model(steps: tuple[int, ...]) -> Array:
    """Whole steps of 2^-48 as the model they stand for."""
    return np.array(steps, dtype=np.float64) / 2.0**MODEL_BITS


def in_ball(model: Array, ball: float) -> tuple[int, ...]:
    """A model as whole steps of 2^-48, shortened where it is longer than the ball."""
    length = float(np.linalg.norm(model))
    shrunk = model * min(1.0, ball / length * (1 - 1e-9)) if length > 0 else model
    return tuple(int(k) for k in np.trunc(shrunk * 2.0**MODEL_BITS))


class Statistics(Protocol):
    """What a measurement or a look at an excess reads."""

    @property
    def exact(self) -> Exact:
        """The exact statistics."""


class Private(Statistics, Protocol):
    """What a step may read: the exact statistics and, for a look at single losses, the rows themselves."""

    @property
    def rows(self) -> tuple[NDArray[Any], ...]:
        """The whole-number rows: features and labels, and a code for whose each is where users are hidden."""
