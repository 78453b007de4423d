"""What a way of fitting is: a public event, and a fit of rows that is private at that event's price.

A method is a frozen dataclass of public facts, so that what it costs is known before any row is read and cannot
depend on one. Whatever it hands back has been noised; everything after is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from steelyard.models.rows import Rows
from steelyard.noise import Noise
from steelyard.privacy import Event

if TYPE_CHECKING:
    from steelyard.models.passes import Reading


@dataclass(frozen=True)
class Fitted:
    """A private model: ``coefficients`` on features of length at most one (in steps of the grid, divided by S), for a
    label in [-1, 1]; ``details`` are public or released facts, plain JSON.
    """

    coefficients: NDArray[np.float64]
    details: Mapping[str, Any] = field(default_factory=dict)


class Method(Protocol):
    """A private way to fit rows."""

    @property
    def event(self) -> Event:
        """What the fit is charged for; known before any row is read."""

    def fit(self, rows: Rows, noise: Noise) -> Fitted:
        """Fit; must never fail, or be seen to differ, because of what the rows hold."""


class Learner(Method, Protocol):
    """A private way to fit one class's model to rows wherever they are; each reads them as it needs them."""

    def learn(self, data: Reading, target: int, noise: Noise) -> Fitted:
        """Fit the model of one class, by its place."""
