"""What a solver of unbiased mechanisms answers: the best exact table and the best exact proof that it was offered.

Whoever searches, by whatever way, offers prices and columns; both are judged here in fractions, by the checker's own
arithmetic. The law: the value and the gap that are told are the checker's, never a solver's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import OurBug
from steelyard.labels._bounds import lower_bound, squared_error
from steelyard.labels._mechanism import BITS, Column, DualCertificate, FiniteMechanism, NoiseLoss
from steelyard.labels._noise_loss import knots_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Solution:
    """An unbiased mechanism and how close to the best possible it is proved to be.

    ``value`` is its expected loss under the prior (for the squared loss, its variance), ``lower_bound`` what no epsilon-private
    unbiased mechanism can beat (for other losses: none with outputs in the same range), ``gap`` their exact relative
    distance; ``converged`` says whether the gap is within the tolerance asked for.
    """

    mechanism: FiniteMechanism
    value: float
    lower_bound: float
    gap: float
    converged: bool

    @property
    def outputs(self) -> NDArray[np.float64]:
        """The output labels as floats."""
        return np.array([float(z) for z in self.mechanism.outputs])

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The table as floats: one row per input, one column per output."""
        return self.mechanism.probabilities()

    def __str__(self) -> str:
        met = "as asked" if self.converged else "MORE than asked"
        proof = self.mechanism.certificate
        loss = NoiseLoss() if proof is None else proof.loss
        what = {"squared": "variance", "absolute": "absolute error"}.get(loss.name, "loss")
        among = f" among outputs from {float(loss.outputs[0]):g} to {float(loss.outputs[-1]):g}" if loss.outputs else ""
        return f"{what} {self.value:.7g}, certified within {self.gap:.2g} of the optimum{among} ({met})"


class Best:
    """The best mechanism and the best proof so far, both exact."""

    def __init__(
        self, inputs: tuple[Fraction, ...], prior: tuple[int, ...], epsilon: Fraction, loss: NoiseLoss
    ) -> None:
        self.inputs, self.prior, self.epsilon, self.loss = inputs, prior, epsilon, loss
        self.knots = None if loss.name == "squared" else knots_of(loss, inputs)
        self.masses, self.total = [Fraction(p) for p in prior], sum(prior)
        zero = tuple(Fraction(0) for _ in inputs)
        self.columns: tuple[Column, ...] | None = None
        self.value, self.lower, self.u, self.slope = Fraction(0), Fraction(0), zero, zero

    def offer_prices(self, u: Floats, slope: Floats, half: float) -> None:
        """Keep prices if they prove more than the best so far; ``half`` is half the range of the labels."""
        if not np.all(np.isfinite(u) & np.isfinite(slope)):
            return
        size = float(np.abs(u).max()) or 1.0
        exact_u = tuple(_on_grid(x, size) * self.total for x in u)
        exact_slope = tuple(_on_grid(x, size / half) * self.total for x in slope)
        least = lower_bound if self.knots is None else self.knots.bound
        lower = least(self.inputs, self.masses, self.epsilon, exact_u, exact_slope) / self.total
        if lower > self.lower:
            self.lower, self.u, self.slope = lower, exact_u, exact_slope

    def offer_columns(self, columns: tuple[Column, ...] | None) -> None:
        """Keep an exact table if it is better than the best so far."""
        if columns is None:
            return
        runs = [(c.output, c.runs(len(self.inputs))) for c in columns]
        if self.knots is None:
            value = squared_error(runs, self.inputs, self.masses) / (self.total << BITS)
        else:
            value = self.knots.error(runs, self.masses) / (self.total << BITS)
        if self.columns is None or value < self.value:
            self.columns, self.value = columns, value

    def gap(self) -> float:
        """The exact relative gap, rounded up to a float; infinite while there is no mechanism."""
        return math.inf if self.columns is None else math.nextafter(float(self._gap()), math.inf)

    def _gap(self) -> Fraction:
        return 1 - self.lower / self.value if self.value else Fraction(0)

    def solution(self, goal: float) -> Solution:
        """The answer with its certificate and its true gap."""
        if self.columns is None:
            raise OurBug("no exact mechanism was found; please report the labels, the prior and epsilon.")
        claim = Fraction(math.ceil(self._gap() * 10**15), 10**15)
        certificate = DualCertificate(self.prior, self.u, self.slope, claim, self.loss)
        mechanism = FiniteMechanism(self.inputs, self.epsilon, self.columns, True, certificate)
        return Solution(mechanism, float(self.value), float(self.lower), float(claim), float(claim) <= goal)


def _on_grid(value: float, size: float) -> Fraction:
    """A float on a dyadic grid 2^-100 below ``size``: small denominators keep the exact check fast."""
    grid = 100 - math.frexp(size)[1]
    return Fraction(round(Fraction(value) * Fraction(2) ** grid)) / Fraction(2) ** grid
