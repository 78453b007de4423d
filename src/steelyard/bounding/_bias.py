"""How far capping each user's rows can move the average loss of a model: the theorems of Amin et al. (2019), corrected.

User j brings n_j of n rows and keeps min(n_j, tau), n_tau in all. Training then averages losses with weights
q_j = min(n_j, tau)/n_tau instead of r_j = n_j/n, and the bias is |sum (q_j - r_j) L_j| for per-user losses L_j in
[0, 1]. Its worst case is exactly the total variation distance; the published bounds follow and are weaker.
Amin, Kulesza, Muñoz Medina, Vassilvitskii: ICML 2019 (docs/papers.md; docs/proofs/bounding_theory.md).
What must not change: counts are private data, and so is everything computed from them here, n_tau included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.bounding._laws import Floats
from steelyard.errors import InvalidTask
from steelyard.tables import texts_of


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
    """n_tau: the rows that remain when each user keeps at most ``row_cap`` (tau of Amin et al.).

    >>> kept_rows([1, 5, 9], 5)
    11.0
    """
    return float(np.minimum(_read(counts, row_cap), row_cap).sum())


def heavy_users(shares: ArrayLike, share_cap: float, *, rows: float | None = None, delta: float = 0.05) -> int:
    """K(tau0): how many users take part with a probability above ``share_cap`` (tau0 of Amin et al., or gamma).

    With ``rows`` only those count who bring more than their capped share of so many rows, all of them at once, unless an event
    of probability ``delta`` happens: K(gamma) of the workshop paper, p > gamma + sqrt(4 ln(n/delta)/n). Then n_tau >= K tau.
    """
    if rows is not None and not (rows >= 1 and 0 < delta < 1):
        raise InvalidTask("heavy users of a sample need at least one row and a delta between 0 and 1.")
    margin = 0.0 if rows is None else math.sqrt(4 * math.log(rows / delta) / rows)
    return int((_shares(shares) > share_cap + margin).sum())


def bias_bounds(counts: ArrayLike, row_cap: float, variance: float | None = None) -> BiasBounds:
    """Every bound on the bias of capping at ``row_cap``; ``variance`` is that of the users' losses, weighted n_j/n.

    *Accuracy:* total variation is attained by some losses in [0, 1]; entropy is sqrt(ln(n/n_tau)/2); variance is
    their sqrt(2 Var n/n_tau); centred is sqrt(Var (n/n_tau - 1)); spread is sqrt(Var (sum q^2/r - 1)), the sharpest.

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
    follows only above it. ``constant`` is the C they leave open, and the sample term's constant is taken as 1.
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


def share_terms(
    shares: ArrayLike, share_cap: float, rows: float, epsilon: float, *, delta: float, dimension: float
) -> CorollaryTerms:
    """The terms of the workshop paper's Theorem 1 and Corollary 1, in gamma = ``share_cap`` and users' ``shares`` p_j.

    Twice the bias of q_j = min(gamma, p_j)/sum, by total variation; sqrt(d ln(n/d)/n)/gamma^2; d/(K(gamma) epsilon), infinite
    where nobody is heavy. *Accuracy:* constants are taken as 1. The form in n_tau (``corollary_terms``) is never worse in
    order: n_tau >= K tau, and the factor 1/gamma^2 comes from bounding n_tau/n by gamma alone.

    >>> terms = share_terms([1 / 8] * 8, 0.1, 8**6, epsilon=1, delta=0.05, dimension=2)
    >>> terms.bias, terms.noise
    (0.0, 0.25)
    """
    if not (0 < share_cap <= 1 and 0 < delta < 1 and epsilon > 0 and 0 < dimension < rows):
        raise InvalidTask(
            "the terms need a share up to 1, epsilon above zero, delta below 1 and fewer dimensions than rows."
        )
    heavy = heavy_users(shares, share_cap, rows=rows, delta=delta)
    sample = math.sqrt(dimension * math.log(rows / dimension) / rows) / share_cap**2
    bias = 2 * bias_bounds(shares, share_cap).total_variation
    return CorollaryTerms(bias, sample, dimension / (heavy * epsilon) if heavy else math.inf)


def choice_bound(row_cap: float, kept: float, epsilon: float, *, dimension: int, delta: float) -> float:
    """Lemma 1 of the workshop paper: 8 tau/(n_tau epsilon) ((d + 1) ln 3 + ln(1/delta)), the excess of a choice over the ball.

    *Accuracy:* above it the mean loss, less the ball's best, of a model drawn with density exp(-epsilon S/(2 tau)) lies with
    probability ``delta`` at most, S being the SUM of convex losses between 0 and 1 (the workshop paper writes their mean, whose
    weight is n_tau times too small, and calls the bound one of an expectation; docs/proofs/bounding_theory.md).
    *Privacy:* none; n_tau is private.

    >>> round(choice_bound(2, 1000, 1, dimension=2, delta=0.05), 4)
    0.1007
    """
    if not (row_cap > 0 and kept > 0 and epsilon > 0 and dimension > 0 and 0 < delta < 1):
        raise InvalidTask("Lemma 1 needs a cap, rows, epsilon and a dimension above zero, and delta between 0 and 1.")
    return 8 * row_cap / (kept * epsilon) * ((dimension + 1) * math.log(3) + math.log(1 / delta))


def loss_variance(losses: ArrayLike, users: ArrayLike) -> Floats:
    """Var(h) of Amin et al. for each hypothesis: how the users' mean losses differ, users weighted by their rows.

    ``losses`` has one entry, or one row with an entry for each hypothesis, for each row of data; ``users`` says whose each
    is. The largest is Var(H), what ``bias_bounds`` takes. *Privacy:* none; ``loss_moments`` is the way to buy it.

    >>> loss_variance([0.0, 0.0, 1.0, 1.0], ["a", "a", "b", "b"]).tolist()
    [0.25]
    """
    moments = loss_moments(losses, users, math.inf)
    weights = moments["weight"]
    pairs = [(moments[f"first_{k}"], moments[f"second_{k}"]) for k in range(len(moments) // 2 - 1)]
    if not weights.sum():
        return np.zeros(len(pairs))
    return np.array([second.sum() / weights.sum() - (first.sum() / weights.sum()) ** 2 for first, second in pairs])


def loss_moments(losses: ArrayLike, users: ArrayLike, row_cap: float) -> dict[str, NDArray[Any]]:
    """The columns from which the variance of losses is bought, one entry for each user: ``user``, ``weight`` and two of each hypothesis.

    The weight w is the user's number of rows, at most ``row_cap``; ``first_k`` and ``second_k`` are w times the user's mean loss
    and w times its square. Losses that are no numbers count as 0, others are held in [0, 1]; rows of nobody are left out.
    *Privacy:* none by itself. Each entry is a function of one user's rows and lies between 0 and ``row_cap``, so a ``Sum`` with that
    cap cuts nothing off and hides a user (docs/proofs/bounding_theory.md).
    """
    values, whose = np.asarray(losses, dtype=float), texts_of(users)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) != len(whose) or not row_cap > 0:
        raise InvalidTask("moments need one row of losses and one user for each row of data, and a cap above zero.")
    place: dict[str, int] = {}
    codes = np.array([-1 if user is None else place.setdefault(user, len(place)) for user in whose], dtype=np.int64)
    held = np.clip(np.where(np.isnan(values), 0.0, values), 0.0, 1.0)[codes >= 0]
    codes = codes[codes >= 0]
    counts = np.bincount(codes, minlength=len(place)).astype(float)
    weights = np.minimum(counts, row_cap)
    found: dict[str, NDArray[Any]] = {"user": np.array(list(place), dtype=object), "weight": weights}
    for k, column in enumerate(held.T):
        mean = np.bincount(codes, column, len(place)) / counts
        found |= {f"first_{k}": weights * mean, f"second_{k}": weights * mean * mean}
    return found


def kept_share_below(shares: ArrayLike, share_cap: float, rows: int, delta: float) -> float:
    """A lower bound on n_tau/n that fails with probability at most ``delta``: Proposition 5 with 1/2 in place of 1/4.

    *Accuracy:* sum_j min(p_j, tau0)/2 - sqrt(ln(1/delta)/(2n)), at least the published tau0 K(tau0)/4 - sqrt(...);
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
