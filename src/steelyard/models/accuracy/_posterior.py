"""The model to try for a target: the one to expect behind noisy statistics, were every direction as likely as another.

Any model may meet a target, so the likely best is taken and not the penalized minimizer. Noise on a matrix has a spectrum
of its own, up to an edge: it pushes larger eigenvalues out and hides smaller ones. They are pulled back, and what is
hidden is taken for half the edge. Against the noise on the vector, and the matrix's times the model, stands how long the
model is: the length that makes the released vector most probable, and half as much again, since it cannot see the hidden.
Law: released and public numbers only; what comes out is a guess, of which nothing is promised without a look.
"""

from __future__ import annotations

import math

import numpy as np

from steelyard.models.accuracy._designs import Array, Noisy, Ridge
from steelyard.models.accuracy._family import WHOLE

_LENGTHS = tuple(2.0 ** (k / 2) for k in range(-8, 13))
_WIDE = 2.0
_SURE, _SURE_ONCE = 1.0, 3.0  # standard deviations of room: for what every level averages out, for what is bought once
_LONGER = 1.5  # set on generated rows and on real tables with other labels than the benchmarks'


def expected_model(ridge: Ridge, noisy: Noisy, norm: float) -> Array:
    """The model to expect, no longer than ``norm``.

    >>> rows = np.array([[0.6, 0.8], [0.8, -0.6]] * 500)
    >>> ridge = Ridge(1000, 2, 0.01)
    >>> noisy = Noisy(rows.T @ rows + ridge.floor * np.eye(2), rows.T @ rows @ [0.5, 0.0], variance=1.0, weight=1.0)
    >>> abs(expected_model(ridge, noisy, norm=10.0)).round(2).tolist()
    [0.5, 0.0]
    """
    values, basis = np.linalg.eigh(noisy.matrix)
    values = _pulled_back(values - ridge.floor, math.sqrt(2 * ridge.width * noisy.variance))
    seen = basis.T @ noisy.vector

    def surprise(length: float) -> float:
        """Minus twice the log likelihood of the released vector, but for a constant."""
        spread = length**2 / ridge.width * (values**2 + _noise(ridge, noisy, length))
        return float(np.sum(np.log(spread) + seen**2 / spread))

    length = _LONGER * min(_LENGTHS, key=surprise)
    model = basis @ (seen * values / (values**2 + _noise(ridge, noisy, length)))
    return np.asarray(model * min(1.0, norm / (float(np.linalg.norm(model)) + 1e-300)))


def seen_loss(ridge: Ridge, noisy: Noisy, square: float, model: Array) -> tuple[float, float]:
    """A model's mean squared error as statistics tell it, given the mean of y squared, and its deviation.

    They flatter a model that they gave.
    """
    told = float(model @ noisy.matrix @ model - ridge.floor * model @ model - 2 * model @ noisy.vector)
    length = float(model @ model)
    return square + told / ridge.n, math.sqrt(noisy.variance * (length**2 + 4 * length / noisy.weight)) / ridge.n


def _noise(ridge: Ridge, noisy: Noisy, length: float) -> float:
    """The variance of one entry of the vector, less the matrix times the model, against that of an entry of the model."""
    return noisy.variance * (1 / noisy.weight + length**2 / 2) * ridge.width / length**2


def _pulled_back(values: Array, edge: float) -> Array:
    """Where eigenvalues lay before noise, whose own reach up to ``edge``, pushed them out; half the edge where hidden."""
    return np.maximum((values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))) / 2, edge / 2)


def ruled_out(seen: float, spread: float, label: float, target: float) -> bool:
    """Whether a loss that statistics tell, with this spread, lies above the target.

    The mean of the squared labels is bought once, with a deviation of ``label``: a high draw would rule out every model of
    the path, however sharp, so it is given more room than the noise that each level averages out.
    """
    return seen - math.hypot(_SURE * spread, _SURE_ONCE * label) > target


def reach_of(ridge: Ridge, noisy: Noisy, model: Array) -> int:
    """Twice the size of a typical prediction, as the released statistics tell it: clipping there makes a look cheaper."""
    square = float(model @ noisy.matrix @ model - ridge.floor * model @ model) / ridge.n
    return min(max(math.ceil(_WIDE * math.sqrt(max(square, 0.0)) * WHOLE), WHOLE // 10), WHOLE)
