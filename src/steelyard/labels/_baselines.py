"""Label mechanisms to compare with: noise that is the same for every label, and randomized response over all labels.

Laplace, discrete Laplace and staircase noise is drawn exactly, on a public integer grid: the whole range is the
sensitivity, so one label's change moves one integer by that at most. discrete_laplace uses the nodes themselves as its
grid (integer labels stay integers), the other two the 2**24 steps between neighbouring nodes. Randomized response is an
exact table with two weights per column, low and high = 2**62 - (m - 1) low, low rounded up so that high <= e^epsilon
low in integers. Staircase: Geng and Viswanath (2014). RRWithPrior: Ghazi et al., "Deep learning with label differential
privacy" (2021).
The law: the noise object that draws is the one whose event is charged and saved, and rounding goes towards more
privacy.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.labels._check import GRID_BITS, NOISE_FORMAT, WIDEST_NOISE, CheckReport, blurred, check
from steelyard.labels._mechanism import (
    BITS,
    Column,
    FiniteMechanism,
    check_range,
    growth_below,
    read_epsilon,
    read_inputs,
    read_prior,
    response_weights,
)
from steelyard.lazy import lazy
from steelyard.mechanisms import Laplace, Staircase
from steelyard.noise import Noise
from steelyard.privacy import Neighbours

KINDS = ("laplace", "discrete_laplace", "staircase")


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
        if len({after - before for before, after in pairwise(labels)}) != 1:
            raise InvalidTask(f"method {kind!r} adds noise on an even grid: give nodes= as a number, not a list.")
        if blurred(labels, labels[-1] - labels[0]):
            raise InvalidTask(
                "the range is too narrow for floats to say noisy labels: take a public number off all labels."
            )
        bits = 0 if kind == "discrete_laplace" else GRID_BITS
        width = (len(labels) - 1) << bits
        if width >= level * WIDEST_NOISE:
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

    def sample(self, size: int, noise: Noise) -> NDArray[np.int64]:
        """Noise for ``size`` labels, in steps of the grid."""
        if isinstance(self.noise, Laplace):
            return noise.laplace_array(self.noise.scale, size)
        return stairs(self.noise, size, noise)

    def verify(self) -> CheckReport:
        """Re-prove privacy from the saved form, trusting nothing in this object."""
        return check(json.loads(json.dumps(self.to_json())))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``AddedNoise.from_json`` reads it back."""
        drawn = self.noise
        law: dict[str, Any] = (
            {"scale": str(drawn.scale)}
            if isinstance(drawn, Laplace)
            else {"first": drawn.first, "fall": str(drawn.epsilon)}
        )
        return {
            "format": NOISE_FORMAT,
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


def randomized_response(inputs: Iterable[Any], epsilon: Any) -> FiniteMechanism:
    """Tell the true label with weight e^epsilon against one for each other label.

    *Privacy:* pure epsilon. *Accuracy:* biased towards the middle; ``debiased_response`` is not.
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    low, high = response_weights(level, len(labels))
    columns = tuple(Column.peak(z, j, j + 1, len(labels), low, high) for j, z in enumerate(labels))
    return FiniteMechanism(labels, level, columns, unbiased=False)


def debiased_response(inputs: Iterable[Any], epsilon: Any) -> FiniteMechanism:
    """Randomized response whose outputs are moved so that every label comes out right on average, exactly.

    *Accuracy:* unbiased, but the variance grows with the square of the number of labels.
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    low, high = response_weights(level, len(labels))
    outputs = [y * (1 << BITS) - low * sum(labels) for y in labels]
    columns = tuple(Column.peak(z / (high - low), j, j + 1, len(labels), low, high) for j, z in enumerate(outputs))
    return FiniteMechanism(labels, level, columns, unbiased=True)


def response_with_prior(
    inputs: Iterable[Any], prior: Iterable[Any], epsilon: Any, top: int | None = None
) -> FiniteMechanism:
    """Randomized response on the ``top`` most likely labels only (RRTop-k); any other label answers at random.

    Without ``top`` the number that tells the truth most often is chosen (RRWithPrior).
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    masses = read_prior(prior, len(labels))
    ranked = sorted(range(len(labels)), key=lambda i: (-masses[i], i))
    size = _best_top(sorted(masses, reverse=True), growth_below(level)) if top is None else top
    if not 1 <= size <= len(labels):
        raise InvalidTask(f"top must lie between 1 and the {len(labels)} labels; got {top}.")
    low, high = response_weights(level, size)
    base, left_over = divmod(1 << BITS, size)
    kept = sorted(ranked[:size])
    columns = []
    for number, j in enumerate(kept):
        weights = [base + (number < left_over)] * len(labels)
        for i in kept:
            weights[i] = high if i == j else low
        columns.append(Column.of(labels[j], weights))
    return FiniteMechanism(labels, level, tuple(columns), unbiased=False)


def _best_top(masses: list[int], growth: Fraction) -> int:
    """The k that maximizes e^epsilon/(e^epsilon + k - 1) times the mass of the k most likely labels."""
    best, found, covered = Fraction(-1), 1, 0
    for size, mass in enumerate(masses, 1):
        covered += mass
        chance = covered / (growth + size - 1)
        if chance > best:
            best, found = chance, size
    return found


def laplace_variance(width: float, epsilon: float) -> float:
    """The variance of Laplace noise of scale width/epsilon, width = largest minus smallest label.

    >>> laplace_variance(400, 0.5)
    1280000.0
    """
    check_range(width, epsilon)
    return 2 * (width / epsilon) ** 2


def discrete_laplace_variance(width: float, epsilon: float, step: float = 1.0) -> float:
    """The variance of discrete Laplace noise on the multiples of ``step``; a little below Laplace's."""
    check_range(width, epsilon)
    rate = epsilon * step / width
    return step**2 / (2 * math.sinh(rate / 2) ** 2)


def staircase_variance(width: float, epsilon: float, gamma: float | None = None) -> float:
    """The variance of staircase noise, at the ``gamma`` that makes it least unless one is given.

    >>> round(staircase_variance(400, 0.5))
    1266723
    """
    check_range(width, epsilon)
    if gamma is None:
        gamma = best_gamma(epsilon)
    fall = math.exp(-epsilon)
    first, second = fall / (1 - fall), fall * (1 + fall) / (1 - fall) ** 2
    near = gamma / (gamma + (1 - gamma) * fall)
    inner = second + gamma * first + gamma**2 / 3
    outer = second + (1 + gamma) * first + (1 + gamma + gamma**2) / 3
    return width**2 * (near * inner + (1 - near) * outer)


def best_gamma(epsilon: float) -> float:
    """Where the lowest step of the staircase of least variance ends, in widths: golden section, one valley."""
    low, high, ratio = 0.0, 0.5, (math.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        first, second = staircase_variance(1.0, epsilon, left), staircase_variance(1.0, epsilon, right)
        low, high = (low, right) if first < second else (left, high)
    return (low + high) / 2
