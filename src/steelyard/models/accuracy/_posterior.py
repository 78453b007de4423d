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
_WIDE, _DEVIATIONS = tuple(1 + k / 8 for k in range(25)), 4.0
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
    values, basis, likeliest = _spectrum(ridge, noisy)
    length = _LONGER * likeliest
    model = basis @ (basis.T @ noisy.vector * values / (values**2 + _noise(ridge, noisy, length)))
    return np.asarray(model * min(1.0, norm / (float(np.linalg.norm(model)) + 1e-300)))


def expected_excess(ridge: Ridge, noisy: Noisy, variance: float) -> float:
    """How far above the best mean squared error the model to expect is, about, were the noise of this variance."""
    values, _, length = _spectrum(ridge, noisy)
    noise = variance / noisy.variance * _noise(ridge, noisy, length)
    return float(np.sum(values * noise / (values**2 + noise))) * length**2 / ridge.width / ridge.n


def _spectrum(ridge: Ridge, noisy: Noisy) -> tuple[Array, Array, float]:
    """The eigenvalues as they were before the noise, about, their basis, and the likeliest length of the model."""
    values, basis = np.linalg.eigh(noisy.matrix)
    values = _pulled_back(values - ridge.floor, math.sqrt(2 * ridge.width * noisy.variance))
    seen = basis.T @ noisy.vector

    def surprise(length: float) -> float:
        """Minus twice the log likelihood of the released vector, but for a constant."""
        spread = length**2 / ridge.width * (values**2 + _noise(ridge, noisy, length))
        return float(np.sum(np.log(spread) + seen**2 / spread))

    return values, basis, min(_LENGTHS, key=surprise)


def ruled_out(ridge: Ridge, noisy: Noisy, model: Array, square: float, label: float, target: float) -> bool:
    """Whether a model's mean squared error, as statistics tell it that flatter a model they gave, lies above the target.

    The mean of the squared labels, ``square``, is bought once, with a deviation of ``label``: a high draw would rule out every
    model of the path, however sharp, so it is given more room than the noise that each level averages out.
    """
    told = float(model @ noisy.matrix @ model - ridge.floor * model @ model - 2 * model @ noisy.vector)
    length = float(model @ model)
    seen = square + told / ridge.n
    spread = math.sqrt(noisy.variance * (length**2 + 4 * length / noisy.weight)) / ridge.n
    return seen - math.hypot(_SURE * spread, _SURE_ONCE * label) > target


def _noise(ridge: Ridge, noisy: Noisy, length: float) -> float:
    """The variance of one entry of the vector, less the matrix times the model, against that of an entry of the model."""
    return noisy.variance * (1 / noisy.weight + length**2 / 2) * ridge.width / length**2


def _pulled_back(values: Array, edge: float) -> Array:
    """Where eigenvalues lay before noise, whose own reach up to ``edge``, pushed them out; half the edge where hidden."""
    return np.maximum((values + np.sqrt(np.maximum(values**2 - edge**2, 0.0))) / 2, edge / 2)


def reach_of(ridge: Ridge, noisy: Noisy, model: Array) -> int:
    """Where predictions are clipped, which makes a look cheaper: a few times the size of a typical one, as the released statistics tell it.

    What a look as sharp as the statistics would be off by, at such a range, and what the tail of a normal law loses there are least together.
    """
    typical = math.sqrt(max(float(model @ noisy.matrix @ model - ridge.floor * model @ model) / ridge.n, 0.0))
    off = _DEVIATIONS * math.sqrt(noisy.variance) / 2 / ridge.n
    wide = min(_WIDE, key=lambda k: off * (1 + k * typical) ** 2 + typical**2 * _tail(k))
    return min(max(math.ceil(wide * typical * WHOLE), WHOLE // 10), WHOLE)


def _tail(k: float) -> float:
    """The mean square by which a standard normal variable is beyond k on either side."""
    density, above = math.exp(-k * k / 2) / math.sqrt(2 * math.pi), math.erfc(k / math.sqrt(2)) / 2
    return 2 * ((1 + k * k) * above - k * density)
