"""Models whose labels are private and whose features are public: one noised sum, then an exact public solve.

Least squares, logistic and Poisson regression see labels only through the sum of label times features. So that sum is released, once,
and everything else is computed from public rows. Noise need not be round: rows are first turned and stretched by a public
matrix that makes it fall where it does least harm to the loss, and what was released is weighed against its noise before the
solve. One model leaves, from a trusted curator; where labels must be private before anybody gathers them, randomize them.
Law: the matrix is a function of the features alone, and no row's whole numbers are longer than S (docs/proofs/label_sums.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from steelyard.bounding import Spend
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.models._columns import SIZE, Floats
from steelyard.models._rows import EXACT_ROWS, Fitted
from steelyard.privacy import Event, Neighbours

if TYPE_CHECKING:
    from steelyard.models._passes import Training
    from steelyard.models._smooth_losses import SmoothLoss
    from steelyard.noise import Noise

_EXTREME = 2048
"""How many of the rows furthest out decide the shape of the noise."""

_ROUNDS, _FITS = 100, 4
_USUAL = (0.05, 0.2, 1.0)
"""Root mean squares of coefficients for which the shape is chosen: labels are at most one and so are rows."""

_FLAT = 1e-10
"""Directions in which rows reach less than this part of the widest hold nothing to fit."""

_STRENGTHS = np.geomspace(0.01, 100.0, 60)
"""Root mean squares of the coefficients beyond the mean that are tried, equally likely beforehand."""


@dataclass(frozen=True)
class LabelSums:
    """One model from one noisy sum of labels times public features (``Method``)."""

    spend: Spend
    loss: SmoothLoss
    intercept: bool

    @property
    def mechanism(self) -> Gaussian | Laplace:
        """The noise: one changed label moves the sum by at most two labels, of S each, times a row of length S."""
        most = 2 * SIZE**2
        return (Gaussian if self.spend.gaussian else Laplace)(most, self.spend.scale(most), Neighbours.CHANGE_LABEL)

    @property
    def event(self) -> Event:
        """What is charged."""
        return self.mechanism.event

    def fit(self, data: Training, noise: Noise) -> Fitted:
        """Shape, add up, noise, weigh, solve.

        *Privacy:* labels go into one sum; everything else is made of that sum, noised, and of public rows.
        """
        rows = data.public_rows()
        order = np.lexsort(rows.x.T)  # sums of floats, and so the shape, do not depend on how rows lie
        x, labels = rows.x[order], rows.y[order] * (SIZE if self.loss.classifies else 1)
        space = Space.of(x / SIZE)
        shape = shaped(space, self._order, self._variance, self.intercept)
        noised = self.mechanism.release(added(whole_rows(x, space.turn @ shape, self._order), labels), noise)
        seen = np.array([float(Fraction(value, SIZE**2)) for value in noised])
        heard = HeardLabels(space, self.loss, self.intercept, seen, shape, math.sqrt(self._variance))
        return Fitted(space.turn @ heard.solve(), {"rows": len(labels), "noise": heard.harm})

    @property
    def _order(self) -> int:
        return 2 if self.spend.gaussian else 1

    @property
    def _variance(self) -> float:
        """The variance of the noise on one entry, in units of a full label times a full row."""
        mechanism = self.mechanism
        if isinstance(mechanism, Gaussian):
            return float(mechanism.sigma / SIZE**2) ** 2
        return 2 * float(mechanism.scale / SIZE**2) ** 2


@dataclass(frozen=True)
class Space:
    """Public rows in coordinates in which the sum of their squares is one along every axis: ``rows = x @ turn``.

    ``strength`` is that sum in the rows as they were; directions that they do not reach are left out.
    """

    turn: Floats
    strength: Floats
    rows: Floats

    @classmethod
    def of(cls, x: Floats) -> Space:
        """The coordinates of these rows."""
        values, axes = np.linalg.eigh(x.T @ x)
        held = values > max(_FLAT * values.max(initial=0.0), 1e-300)
        turn = axes[:, held] / np.sqrt(values[held])
        return cls(turn, values[held], x @ turn)

    def coordinates(self, theta: Floats) -> Floats:
        """Coefficients on the rows as they were, in these coordinates."""
        return np.asarray((self.turn * self.strength).T @ theta)


def shaped(space: Space, order: int, variance: float, intercept: bool) -> Floats:
    """A public matrix under which no row is longer than one, and round noise of this variance does least harm to the loss.

    Noise on the sum of rows under a matrix B is noise of covariance (B B')^-1 on the sum itself. Where it drowns what was to be heard,
    what is lost is that, and no more: so the shape serves the directions in which coefficients of a usual strength can be
    heard at this price. Compared are the rows as they were, these coordinates, and ellipsoids fitted to what the last one let hear.
    """
    usual, width = _usual(space, intercept), len(space.strength)
    if width == 0:
        return np.eye(0)
    plain = (space.turn * space.strength).T
    tried = [np.eye(width), np.diag(np.sqrt(space.strength)), *([plain] if plain.shape == (width, width) else [])]
    tried = [_held(space, matrix, order) for matrix in tried]
    heard = np.eye(width)
    for _ in range(_FITS):
        tried.append(_held(space, heard @ _ellipsoid(space.rows @ heard), order))
        noise = variance * np.linalg.inv(tried[-1] @ tried[-1].T)
        heard = np.mean([_root(np.asarray(np.linalg.solve(each + noise, each))) for each in usual], axis=0)
    return min(tried, key=lambda matrix: _lost(usual, variance * np.linalg.inv(matrix @ matrix.T)))


def _usual(space: Space, intercept: bool) -> list[Floats]:
    """Covariances of coefficients of a few usual strengths, in these coordinates; a mean label may be anything."""
    last = np.zeros(space.turn.shape[0])
    last[-1:] = float(intercept)
    mean = space.coordinates(last)
    return [strength**2 * np.diag(space.strength) + np.outer(mean, mean) / 4 for strength in _USUAL]


def _lost(usual: list[Floats], noise: Floats) -> float:
    """What is lost of the loss, at best, under noise of this covariance: the mean over strengths, each against all there is."""
    return float(np.mean([np.trace(np.linalg.solve(each + noise, noise) @ each) / np.trace(each) for each in usual]))


def _root(share: Floats) -> Floats:
    """The square root of a share that is heard, made symmetric; never quite zero."""
    values, axes = np.linalg.eigh((share + share.T) / 2)
    return np.asarray((axes * np.sqrt(np.clip(values, 1e-6, 1.0))) @ axes.T)


def _held(space: Space, matrix: Floats, order: int) -> Floats:
    """The same matrix, with the longest row one long."""
    return matrix / _longest(space.rows @ matrix, order)


def _longest(rows: Floats, order: int) -> float:
    lengths = np.abs(rows).sum(axis=1) if order == 1 else np.sqrt((rows**2).sum(axis=1))
    return float(lengths.max(initial=0.0)) * (1 + 2.0**-40) or 1.0


def _ellipsoid(rows: Floats) -> Floats:
    """The B of least trace (B B')^-1 under which no row is longer than one, nearly.

    With weights w on rows and M the weighted sum of their squares, the best has (B B')^-1 = M^(1/2) up to a factor, and a weight
    grows in proportion to its row's squared length under B: the multiplicative rule of optimal design.
    """
    lengths = (rows**2).sum(axis=1)
    furthest = rows[np.sort(np.argsort(-lengths, kind="stable")[:_EXTREME])]
    weights, best, least = np.full(len(furthest), 1 / max(1, len(furthest))), np.eye(rows.shape[1]), math.inf
    for _ in range(_ROUNDS if len(furthest) else 0):
        values, axes = np.linalg.eigh((furthest * weights[:, None]).T @ furthest)
        roots = np.sqrt(np.maximum(values, 1e-12 * values.max()))
        under = (furthest @ axes) ** 2 @ (1 / roots)  # squared lengths under B, before the factor
        harm = float(roots.sum() * under.max())
        if harm < least:
            best, least = axes / np.sqrt(roots), harm
        weights = weights * under / float(weights @ under)
    return np.asarray(best)


def whole_rows(x: Floats, turn: Floats, order: int) -> Floats:
    """Rows under a public matrix as whole numbers of length at most S, in the L1 norm for ``order`` 1, else in the L2 norm.

    *Privacy:* the matrix is rounded so that products are exact, and a row's numbers depend on that row alone; lengths are
    checked on the integers.
    """
    width = turn.shape[1]
    reach = SIZE - 1 - (width if order == 1 else math.ceil(math.sqrt(width) / 2))
    matrix = turn * (reach / SIZE)
    column = float(np.sqrt((matrix**2).sum(axis=0)).max(initial=2.0**-100))
    unit = 2.0 ** (33 - math.ceil(math.log2(column)))
    rows = np.rint((x @ np.rint(matrix * unit)) / unit)
    lengths = np.abs(rows).sum(axis=1) if order == 1 else (rows**2).sum(axis=1)
    rows[~(lengths <= SIZE**order)] = 0.0
    return rows


def added(rows: Floats, labels: Floats) -> list[int]:
    """The sum of label times row, in whole numbers."""
    total = np.zeros(rows.shape[1], dtype=object)
    for start in range(0, len(labels), EXACT_ROWS):
        part = slice(start, start + EXACT_ROWS)
        total = total + (labels[part] @ rows[part]).astype(np.int64)
    return [int(value) for value in total]


@dataclass(frozen=True)
class HeardLabels:
    """What was heard: the sum of rows under the matrix ``shape``, with noise of this deviation; and the model it makes.

    Sees no label. Derivatives are halved where labels are signs, and so is what was heard.
    """

    space: Space
    loss: SmoothLoss
    intercept: bool
    noisy: Floats
    shape: Floats
    deviation: float

    @property
    def harm(self) -> float:
        """What the noise adds to the mean loss where curvature is largest and nothing is shrunk, near enough; public."""
        root = self._root
        return float(np.sum(root**2)) / self.loss.smoothness / 2 / max(1, len(self.space.rows))

    @lazy
    def _root(self) -> Floats:
        """A root of the noise's covariance in the coordinates of ``space``."""
        return np.asarray(self._scale * self.deviation * np.linalg.inv(self.shape.T))

    @lazy
    def _sum(self) -> Floats:
        """What was heard, in the coordinates of ``space``."""
        heard = np.asarray(self._scale * np.linalg.solve(self.shape.T, self.noisy))
        return self._above(heard) if self.loss.flattens and not self.loss.classifies else heard

    def _above(self, heard: Floats) -> Floats:
        """What was heard, given that the mean label is not below -1: a log link has no model of such a mean."""
        along = self._along
        spread = self._root.T @ along
        deviation = float(np.linalg.norm(spread))
        over = float(heard @ along + (self.space.rows @ along).sum()) / (deviation or 1.0)
        if deviation == 0 or over > 30:
            return heard
        chance = math.erfc(-over / math.sqrt(2)) / 2
        more = math.exp(-(over**2) / 2) / math.sqrt(2 * math.pi) / chance if over > -30 else -over - 1 / over
        return np.asarray(heard + self._root @ spread * (more / deviation))

    @property
    def _along(self) -> Floats:
        """The intercept in the coordinates of ``space``; zero where there is none."""
        last = np.zeros(self.space.turn.shape[0])
        last[-1:] = float(self.intercept)
        return self.space.coordinates(last)

    @property
    def _scale(self) -> float:
        return 0.5 if self.loss.classifies else 1.0

    def solve(self) -> Floats:
        """The coefficients in these coordinates: the mean label first, then what is heard beyond it, weighed by its noise."""
        mean = self._mean_model()
        slopes, curvature = self._derivatives(mean)
        beyond, strength = self._weighed(self._sum - slopes, curvature)
        return self._minimizer(mean, slopes + beyond, strength)

    def _mean_model(self) -> Floats:
        """The model that predicts one mean."""
        along = self._along
        if not along.any():
            return np.zeros(len(self.noisy))
        share, amount = float(self._sum @ along), 0.0
        for _ in range(50):
            slopes, curvature = self._derivatives(amount * along)
            step = (share - float(slopes @ along)) / max(float(along @ curvature @ along), 1e-9 * float(along @ along))
            amount += max(-1.0, min(1.0, step))
        return amount * along

    def _derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """The first and second derivative of the part of the loss that has no label in it."""
        scores = self.space.rows @ theta
        slopes = self.loss.mean(scores) - (0.5 if self.loss.classifies else 0.0)
        curves = self.loss.derivatives(scores, None)[1]
        return slopes @ self.space.rows, (self.space.rows * curves[:, None]).T @ self.space.rows

    def _weighed(self, heard: Floats, curvature: Floats) -> tuple[Floats, float]:
        """What is heard beyond the mean, each part of it shrunk by how much of it is noise, and the coefficients' mean square.

        Coefficients of strength t on the rows as they were give it the covariance t^2 C E C, with C the curvature and E the
        strength of the rows; every t on a grid is weighed by how likely it makes what was heard.
        """
        if not len(heard):
            return heard, 1.0
        back = self.shape.T / (self._scale * self.deviation)  # the inverse of the noise's root
        signal = back @ curvature * np.sqrt(self.space.strength)
        values, axes = np.linalg.eigh(signal @ signal.T)
        parts = axes.T @ (back @ heard)
        powers = _STRENGTHS**2 * np.maximum(values, 0.0)[:, None]
        likely = -0.5 * np.sum(np.log1p(powers) + parts[:, None] ** 2 / (1 + powers), axis=0)
        weights = np.exp(likely - likely.max())
        weights /= weights.sum()
        return self._root @ (axes @ (parts * ((powers / (1 + powers)) @ weights))), float(_STRENGTHS**2 @ weights)

    def _minimizer(self, start: Floats, target: Floats, strength: float) -> Floats:
        """Newton steps from the mean model, halved until they help; a loss that may have no minimum is held by a ridge."""
        theta = start.copy()
        flat = float(self.loss.flattens)
        ridge = flat / (self.space.strength * strength * self.loss.nats)
        slopes, curvature = self._derivatives(theta)
        gradient = slopes - target
        for _ in range(100):
            step = np.linalg.solve(curvature + np.diag(ridge + 1e-12), gradient) if len(theta) else theta
            for _ in range(40):
                moved = theta - step
                slopes, curvature = self._derivatives(moved)
                found = slopes - target + ridge * (moved - start)
                if np.linalg.norm(found) < np.linalg.norm(gradient):
                    break
                step = step / 2
            else:
                return theta
            theta, gradient = moved, found
        return theta
