"""Noise added to labels on a public integer grid: Laplace, discrete Laplace and staircase, drawn exactly.

A label becomes a whole number of grid steps above ``lower``, noise of the exact sampler is added to that integer, and
only the result becomes a float. The whole range is the sensitivity, so one label's change moves one integer by that at
most. discrete_laplace uses the nodes themselves as its grid (integer labels stay integers), the other two the 2**24
steps between neighbouring nodes. The law: the noise object that draws is the one whose event is charged and saved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms.laplace import Laplace
from steelyard.mechanisms.observe import show
from steelyard.mechanisms.staircase import Staircase
from steelyard.noise import Noise
from steelyard.privacy import Event, Neighbours, canonical

from .additive import best_gamma, discrete_laplace_variance, staircase_variance
from .check import Report
from .check_noise import FORMAT, blurred, check_noise
from .containers import Floats
from .continuous import COIN, Nodes
from .exact import read_epsilon, read_inputs

KINDS = ("laplace", "discrete_laplace", "staircase")
_CHUNK = 1 << 16


@dataclass(frozen=True)
class AddedNoise:
    """Noise of one kind on the grid of evenly spaced nodes; ``bits`` halvings of the node distance make the grid.

    *Privacy:* pure epsilon for a change of one label, as ``verify`` proves. *Accuracy:* no bias, by symmetry.
    """

    inputs: tuple[Fraction, ...]
    epsilon: Fraction
    kind: str
    noise: Laplace | Staircase
    bits: int

    @classmethod
    def of(cls, inputs: Any, epsilon: Any, kind: str) -> AddedNoise:
        """The noise of least variance of its kind that costs exactly ``epsilon``.

        >>> AddedNoise.of(range(11), 2, "discrete_laplace").noise.scale
        Fraction(5, 1)
        """
        labels, level = read_inputs(inputs), read_epsilon(epsilon)
        if kind not in KINDS:
            raise InvalidTask(f"noise is one of {', '.join(KINDS)}; got {kind!r}.")
        if not Nodes(labels).even:
            raise InvalidTask(f"method {kind!r} adds noise on an even grid: give nodes= as a number, not a list.")
        if blurred(labels):
            raise InvalidTask(
                "the range is too narrow for floats to say noisy labels: take a public number off all labels."
            )
        bits = 0 if kind == "discrete_laplace" else COIN
        width = (len(labels) - 1) << bits
        if width >= level * 2**48:
            raise InvalidTask("noise this wide on a grid this fine does not fit 64 bits; use fewer nodes.")
        if kind != "staircase":
            return cls(labels, level, kind, Laplace(width, width / level, Neighbours.CHANGE_LABEL), bits)
        first = min(max(1, round(width * best_gamma(float(level)))), (width + 1) // 2)
        return cls(labels, level, kind, Staircase(width, first, level, Neighbours.CHANGE_LABEL), bits)

    @property
    def unbiased(self) -> bool:
        """Noise that is as likely upwards as downwards has no bias."""
        return True

    @lazy
    def step(self) -> Fraction:
        """The distance of two neighbouring points of the grid."""
        return (self.inputs[-1] - self.inputs[0]) / self.noise.sensitivity

    def bias(self) -> tuple[Fraction, ...]:
        """Expected output minus input for every node: zero."""
        return (Fraction(0),) * len(self.inputs)

    def errors(self) -> tuple[Fraction, ...]:
        """The variance, the same for every node, as the nearest float."""
        width = float(self.inputs[-1] - self.inputs[0])
        if isinstance(self.noise, Staircase):
            variance = staircase_variance(width, float(self.epsilon), self.noise.first / self.noise.sensitivity)
        else:
            variance = discrete_laplace_variance(width, float(self.epsilon), float(self.step))
        return (Fraction(variance),) * len(self.inputs)

    def verify(self) -> Report:
        """Re-prove privacy from the saved form, trusting nothing in this object."""
        return check_noise(json.loads(json.dumps(self.to_json())))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``AddedNoise.from_json`` reads it back."""
        drawn = self.noise
        law: dict[str, Any] = (
            {"scale": str(drawn.scale)}
            if isinstance(drawn, Laplace)
            else {"first": drawn.first, "fall": str(drawn.epsilon)}
        )
        return {
            "format": FORMAT,
            "epsilon": str(self.epsilon),
            "kind": self.kind,
            "inputs": [str(y) for y in self.inputs],
            "grid_bits": self.bits,
            "sensitivity": drawn.sensitivity,
            **law,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> AddedNoise:
        """Read back what ``to_json`` wrote; ``verify`` says whether to believe it."""
        near, width = Neighbours.CHANGE_LABEL, data["sensitivity"]
        noise: Laplace | Staircase = (
            Staircase(width, data["first"], Fraction(data["fall"]), near)
            if data["kind"] == "staircase"
            else Laplace(width, Fraction(data["scale"]), near)
        )
        inputs = tuple(Fraction(y) for y in data["inputs"])
        return cls(inputs, Fraction(data["epsilon"]), data["kind"], noise, data["grid_bits"])


@dataclass(frozen=True)
class Added:
    """Added noise put to use, as ``Applied`` is for tables: labels in, grid points out."""

    nodes: Nodes
    mechanism: AddedNoise
    missing: float | None = None

    @property
    def event(self) -> Event:
        """What one pass is charged for: one changed label moves one of the integers by the whole range at most."""
        return self.mechanism.noise.event

    @lazy
    def digest(self) -> str:
        """The name of everything that decides what a label becomes."""
        return hashlib.sha256(canonical({**self.mechanism.to_json(), "missing": self.missing})).hexdigest()

    @property
    def code(self) -> str:
        """How a drawn grid point is stored."""
        return "<i8"

    def at(self, drawn: NDArray[np.int64]) -> Floats:
        """The noisy labels at these grid points; whole numbers where the grid is."""
        return np.asarray(float(self.nodes.lower) + drawn * float(self.mechanism.step))

    def prepare(self) -> None:
        """Make what drawing needs, so that nothing is left to fail once the draw is paid for."""
        _ = self.mechanism.step, self.nodes.floats

    def draw(self, y: Floats, noise: Noise) -> NDArray[np.int64]:
        """One grid point for each label, counted in steps from ``lower``.

        *Privacy:* pure epsilon for a change of one label, as ``event`` says. Total: no label makes it fail.
        """
        out = np.empty(len(y), dtype=np.int64)
        for start in range(0, len(y), _CHUNK):
            part = self._places(y[start : start + _CHUNK], noise)
            if not noise.secure:
                show(self.event, part.tolist(), noise)
            out[start : start + _CHUNK] = part + _noise(self.mechanism.noise, len(part), noise)
        return out

    def noisy(self, y: Floats, noise: Noise) -> Floats:
        """One noisy label for each label."""
        return self.at(self.draw(y, noise))

    def _places(self, y: Floats, noise: Noise) -> NDArray[np.int64]:
        """Labels as whole grid steps from ``lower``; nodes are reached by the fair coin, finer steps need none."""
        if self.mechanism.bits == 0:
            coins = noise.bits((len(y) + 1) // 2).view(np.uint32)[: len(y)]
            return self.nodes.round(y, coins, self.missing)
        below, steps = self.nodes.places(y, self.missing)
        return (below << COIN) + steps


def _noise(drawn: Laplace | Staircase, size: int, noise: Noise) -> NDArray[np.int64]:
    if isinstance(drawn, Laplace):
        return noise.laplace_array(drawn.scale, size)
    return stairs(drawn, size, noise)


def stairs(drawn: Staircase, size: int, noise: Noise) -> NDArray[np.int64]:
    """``Staircase.draw`` for many at once: a level by a Laplace draw, a uniform place on it, level 0 drawn again often."""
    out, open_ = np.empty(size, dtype=np.int64), np.arange(size)
    low = 2 * drawn.first - 1
    while open_.size:
        level = noise.laplace_array(1 / drawn.epsilon, open_.size)
        place = uniform(drawn.sensitivity, open_.size, noise)
        far = drawn.first + (np.abs(level) - 1) * drawn.sensitivity + place
        # place < low has chance low/sensitivity, and is then uniform below low: test and place from one number
        out[open_] = np.where(level == 0, place - drawn.first + 1, np.where(level > 0, far, -far))
        open_ = open_[(level == 0) & (place >= low)]
    return out


def uniform(bound: int, size: int, noise: Noise) -> NDArray[np.int64]:
    """Uniform integers in [0, bound), bound below 2**48: words past the last whole multiple are drawn again."""
    last = np.uint64((1 << 64) // bound * bound - 1)
    words = noise.bits(size)
    past = np.flatnonzero(words > last)
    while past.size:
        words[past] = noise.bits(len(past))
        past = past[words[past] > last]
    return (words % np.uint64(bound)).astype(np.int64)
