"""How far capping each user's rows can move the average loss of a model, and what the papers' theorems become.

User j brings n_j of n rows and keeps min(n_j, tau), n_tau in all. Training then averages losses with weights
q_j = min(n_j, tau)/n_tau instead of r_j = n_j/n, and the bias is |sum (q_j - r_j) L_j| for per-user losses L_j in
[0, 1]. Its worst case is exactly the total variation distance; the papers' bounds follow and are weaker.
Amin, Kulesza, Muñoz Medina, Vassilvitskii: ICML 2019, corrected (docs/proofs/bounding_theory.md).
What must not change: counts are private data, and so is everything computed from them here, n_tau included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from steelyard.bounding._laws import Floats
from steelyard.errors import InvalidTask


@dataclass(frozen=True)
class BiasBounds:
    """Upper bounds on the bias of one row cap; ``best`` is the smallest. The last three need the losses' variance."""

    kept: float
    share: float
    total_variation: float
    entropy: float
    variance: float | None = None
    centred: float | None = None
    spread: float | None = None

    @property
    def best(self) -> float:
        """The smallest of the bounds that are known."""
        known = (self.total_variation, self.entropy, self.variance, self.centred, self.spread)
        return min(bound for bound in known if bound is not None)


@dataclass(frozen=True)
class CorollaryTerms:
    """The three terms of Corollary 1 that add to the best loss; ``sample`` and ``noise`` up to the stated constants."""

    bias: float
    sample: float
    noise: float

    @property
    def total(self) -> float:
        """The sum of the three."""
        return self.bias + self.sample + self.noise


def kept_rows(counts: ArrayLike, row_cap: float) -> float:
    """n_tau: the rows that remain when each user keeps at most ``row_cap`` (the papers' tau).

    >>> kept_rows([1, 5, 9], 5)
    11.0
    """
    return float(np.minimum(_read(counts, row_cap), row_cap).sum())


def heavy_users(shares: ArrayLike, share_cap: float) -> int:
    """K(tau0): how many users take part with a probability above ``share_cap`` (the papers' tau0)."""
    return int((_shares(shares) > share_cap).sum())


def bias_bounds(counts: ArrayLike, row_cap: float, variance: float | None = None) -> BiasBounds:
    """Every bound on the bias of capping at ``row_cap``; ``variance`` is that of the users' losses, weighted n_j/n.

    *Accuracy:* total variation is attained by some losses in [0, 1]; entropy is sqrt(ln(n/n_tau)/2); variance is the
    papers' sqrt(2 Var n/n_tau); centred is sqrt(Var (n/n_tau - 1)); spread is sqrt(Var (sum q^2/r - 1)), the sharpest.

    >>> bounds = bias_bounds([1, 1, 8], 4)
    >>> round(bounds.total_variation, 3), round(bounds.entropy, 3)
    (0.133, 0.505)
    """
    values = _read(counts, row_cap)
    rows = values.sum()
    if rows == 0:
        return BiasBounds(0.0, 1.0, 0.0, 0.0, *([None] * 3 if variance is None else [0.0] * 3))
    kept = np.minimum(values, row_cap)
    before, after = values / rows, kept / kept.sum()
    ratio = float(rows / kept.sum())
    distance = 0.5 * float(np.abs(after - before).sum())
    entropy = math.sqrt(0.5 * math.log(ratio)) if ratio > 1 else 0.0
    if variance is None:
        return BiasBounds(float(kept.sum()), 1 / ratio, distance, entropy)
    if variance < 0:
        raise InvalidTask(f"a variance cannot be negative; got {variance!r}.")
    chi = float(((after - before) ** 2 / before).sum())  # sum q^2/r - 1, without its cancellation
    by_variance = (
        math.sqrt(2 * variance * ratio),
        math.sqrt(variance * max(0.0, ratio - 1)),
        math.sqrt(variance * chi),
    )
    return BiasBounds(float(kept.sum()), 1 / ratio, distance, entropy, *by_variance)


def corollary_terms(
    counts: ArrayLike, row_cap: float, epsilon: float, *, delta: float, dimension: float, constant: float = 1.0
) -> CorollaryTerms:
    """Bias, sample and noise terms of Corollary 1: 2 sqrt(1 - n_tau/n), sqrt(d ln(n/delta)/n_tau), C (tau ln(1/delta)/(n_tau epsilon))^2.

    *Accuracy:* below a quarter of the rows kept, the bias term is twice the entropy bound, from which the other form
    follows only above it. ``constant`` is the papers' unstated C, and the sample term's constant is taken as 1.
    *Privacy:* none; n_tau is private, so a private trainer must not use tau/n_tau as its sensitivity.
    """
    if not (0 < delta < 1 and epsilon > 0 and dimension > 0 and constant > 0):
        raise InvalidTask("Corollary 1 needs delta between 0 and 1 and epsilon, dimension and constant above zero.")
    rows, bounds = float(_read(counts, row_cap).sum()), bias_bounds(counts, row_cap)
    if rows == 0:
        raise InvalidTask("Corollary 1 needs at least one row.")
    bias = 2 * (math.sqrt(max(0.0, 1 - bounds.share)) if bounds.share >= 0.25 else bounds.entropy)
    sample = math.sqrt(dimension * math.log(rows / delta) / bounds.kept)
    noise = constant * (row_cap * math.log(1 / delta) / (bounds.kept * epsilon)) ** 2
    return CorollaryTerms(bias, sample, noise)


def kept_share_below(shares: ArrayLike, share_cap: float, rows: int, delta: float) -> float:
    """A lower bound on n_tau/n that fails with probability at most ``delta``: Proposition 5 with 1/2 in place of 1/4.

    *Accuracy:* sum_j min(p_j, tau0)/2 - sqrt(ln(1/delta)/(2n)), at least the papers' tau0 K(tau0)/4 - sqrt(...);
    it needs tau = tau0 n >= 1.
    """
    if not (rows * share_cap >= 1 and 0 < delta < 1):
        raise InvalidTask("the bound needs a cap of at least one row and a delta between 0 and 1.")
    mass = float(np.minimum(_shares(shares), share_cap).sum())
    return max(0.0, mass / 2 - math.sqrt(math.log(1 / delta) / (2 * rows)))


def _read(counts: ArrayLike, row_cap: float) -> Floats:
    values = np.asarray(counts, dtype=float).ravel()
    if np.any(values < 0) or not np.all(np.isfinite(values)):
        raise InvalidTask("row counts must be finite and not negative.")
    if not row_cap > 0:
        raise InvalidTask(f"a cap on rows must be above zero; got {row_cap!r}.")
    return values[values > 0]


def _shares(shares: ArrayLike) -> Floats:
    values = np.asarray(shares, dtype=float).ravel()
    if np.any(values < 0) or values.sum() > 1 + 1e-9:
        raise InvalidTask("participation shares must not be negative and must add up to at most 1.")
    return values
