"""Which mechanism, and how much of epsilon for a prior: decided from public facts and released counts alone.

Without a prior "auto" is the two-point mechanism up to epsilon 3/10, where it is within 1 % of the best whatever labels look like,
and above it "balanced" (_balance.py), whose worst shape of labels is about as little bad as can be; from epsilon 18 on it is debiased response, which is then best for every
label and whose weights are not rounded by a solver. A bought prior must earn its price: it is bought only where the optimum at what is left of
epsilon beats two-point at the full epsilon for a zero-heavy and for an even reference prior, and where there are records enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np

from steelyard.errors import InvalidTask
from steelyard.labels._balance import balanced
from steelyard.labels._baselines import KINDS, AddedNoise, debiased_response, randomized_response, response_with_prior
from steelyard.labels._bins import response_on_bins
from steelyard.labels._mechanism import FiniteMechanism, NoiseLoss, places
from steelyard.labels._nodes import Nodes
from steelyard.labels._noise_loss import NAMED
from steelyard.labels._prior import Prior
from steelyard.labels._prior_free import MOST as STEPS
from steelyard.labels._prior_free import hybrid, piecewise, two_point
from steelyard.labels.solve._frontier import solve_compromise
from steelyard.labels.solve._unbiased import solve_unbiased
from steelyard.privacy import MICRO

WIDEST = 513  # nodes up to which bias is weighed against variance
LEAST, MOST = 100, 10  # a prior takes from a hundredth to a tenth of epsilon
_NEAR = Fraction(3, 10)  # up to this epsilon two outputs are within 1 % of the best for every shape of labels
_FAR = Fraction(
    18
)  # from this epsilon on a true label is nearly certain, and no table beats one that only tells it from all others
RECORDS = 50  # epsilon times records per node that make a histogram worth having
_REFERENCE = 33


def split(micro: int, nodes: int, records: int) -> int:
    """The part of epsilon, in micro, that ``auto`` pays for a prior; zero where that would not pay.

    *Privacy:* a function of public numbers only (the number of records is public where labels are what is hidden).

    >>> split(4_000_000, 401, 300_000), split(1_000_000, 401, 300_000), split(4_000_000, 401, 1000)
    (66834, 0, 0)
    """
    part = max(micro // LEAST, -(-RECORDS * nodes * MICRO // max(records, 1)))
    return part if part <= micro // MOST and _pays(micro, part) else 0


@cache
def _pays(micro: int, part: int) -> bool:
    full, rest = Fraction(micro, MICRO), Fraction(micro - part, MICRO)
    if rest > 32 or full < 1:
        return False
    labels = range(_REFERENCE)
    capped = min(full, Fraction(32))
    simple = two_point(labels, capped).errors()
    for prior in _references():
        free = sum(p * e for p, e in zip(prior, simple, strict=True)) / sum(prior)
        if solve_unbiased(labels, prior, rest, 1e-3).value > free:
            return False
    return True


def _references() -> tuple[list[int], list[int]]:
    """Nine labels in ten at the lower end and a long tail, and all labels alike."""
    place = np.arange(1, _REFERENCE) / (_REFERENCE - 1)
    tail = np.exp(-(np.log(place / 0.1) ** 2) / 2.88) / place
    tail = np.rint(tail / tail.sum() * 10**6).astype(int)
    return [9 * int(tail.sum()), *tail.tolist()], [1] * _REFERENCE


def prior_free(nodes: Nodes, epsilon: Fraction) -> str:
    """The method of ``auto`` where nothing is known of the labels: a function of the nodes and epsilon alone."""
    if epsilon <= _NEAR or len(nodes.labels) == 2:
        return "two_point"
    if len(nodes.labels) <= WIDEST:
        return "balanced" if epsilon < _FAR else "debiased"
    return "piecewise" if epsilon > 1 and places(nodes.labels)[0][-1] <= STEPS else "two_point"


def _without(nodes: Nodes, epsilon: Fraction) -> tuple[str, FiniteMechanism | AddedNoise]:
    """What ``auto`` is without a prior, and its name."""
    method = prior_free(nodes, epsilon)
    prior = balanced(nodes, epsilon) if method == "balanced" else Prior.none(nodes)
    return method, _named(method, nodes, prior, epsilon, "squared")


_FREE: dict[str, Callable[[tuple[Fraction, ...], Fraction], FiniteMechanism]] = {
    "two_point": two_point,
    "rr": randomized_response,
    "debiased": debiased_response,
    "piecewise": piecewise,
    "hybrid": hybrid,
}
METHODS = ("unbiased", "balanced", *_FREE, "rr_on_bins", "rr_with_prior")
WITHOUT_PRIOR = ("balanced", *_FREE, *KINDS)
BIASED = ("rr", "rr_on_bins", "rr_with_prior")
AFFINE = ("squared", "poisson", "logistic")
LEAST_VARIANCE = ("auto", "unbiased", "balanced")  # what they make least is the variance, unless told otherwise


def check_method(method: str, loss: str, noise_loss: Any = None, outputs: Any = None) -> None:
    """Refuse a method or a loss that is not known, losses that unbiased labels do not serve, and one loss said for another.

    ``loss`` is what a model will be trained with, ``noise_loss`` what is made least between noisy and true labels.
    """
    if method not in ("auto", *METHODS, *KINDS):
        raise InvalidTask(f"method must be auto, {', '.join((*METHODS, *KINDS))}; got {method!r}.")
    if loss not in (*AFFINE, "absolute"):
        raise InvalidTask(f"loss must be {', '.join(AFFINE)} or absolute; got {loss!r}.")
    if loss == "absolute" and method not in BIASED:
        raise InvalidTask(
            "labels with no bias serve losses that are affine in the label (squared, Poisson, logistic), not the absolute "
            "loss; use method='rr_on_bins', which keeps noisy labels near the true ones."
        )
    if method == "rr_on_bins" and loss == "logistic":
        raise InvalidTask("rr_on_bins knows the losses squared, absolute and poisson.")
    if (
        noise_loss is not None
        and not callable(noise_loss)
        and not (isinstance(noise_loss, str) and noise_loss in NAMED)
    ):
        raise InvalidTask(
            f"noise_loss is what is made least between noisy and true labels: {', '.join(NAMED)} or a function of (output, "
            f"label); got {noise_loss!r}. What a model is trained with is loss=."
        )
    least = noise_loss is None or (method in LEAST_VARIANCE and noise_loss == "squared")
    if method != "unbiased" and (outputs is not None or not least):
        raise InvalidTask(
            f"noise_loss= and outputs= are for method='unbiased', which makes that loss least; {method!r} does not."
        )
    if method in LEAST_VARIANCE and loss != "squared" and noise_loss is None:
        raise InvalidTask(
            f"loss={loss!r} is what your model is trained with, and labels with no bias serve it; it is not what method "
            f"{method!r} makes least between noisy and true labels. Say that too: noise_loss='squared'"
            + (", 'absolute' or a function." if method == "unbiased" else ".")
        )


def weight_of(records: int) -> int:
    """How much a squared bias weighs against a variance: the square root of the number of records.

    A model of d parameters that explains a share R of the labels' variance loses about d/n times the variance and R times the
    squared bias, so R n/d would be best. Neither is known before training; the root is as far from all bias as from none.
    """
    return max(2, math.isqrt(records))


def check_bias(method: str, loss: str, prior: object, records: int, nodes: int) -> None:
    """Refuse to trade bias for variance where there is nothing to weigh them by."""
    if method != "auto" or loss != "squared":
        raise InvalidTask("unbiased=False lets method='auto' weigh bias against variance, for the squared loss only.")
    if prior is None or not records:
        raise InvalidTask("unbiased=False needs a prior (public weights or 'private') and the labels: fit(y).")
    if nodes > WIDEST:
        raise InvalidTask(f"unbiased=False takes up to {WIDEST} nodes; got {nodes}: give nodes= a smaller number.")


def build(
    method: str,
    nodes: Nodes,
    prior: Prior,
    epsilon: Fraction,
    loss: str,
    records: int | None = None,
    noise: NoiseLoss | None = None,
) -> tuple[str, FiniteMechanism | AddedNoise]:
    """The method that is used in the end, and its mechanism; a function of public and released facts.

    ``records`` is their public number where bias is allowed, None where it is not.
    ``prior`` is what ``balanced`` gave for the method of that name; ``noise`` is what ``unbiased`` makes least.
    """
    if method == "unbiased" and noise is not None:
        return method, solve_unbiased(nodes.labels, prior.weights, epsilon, loss=noise).mechanism
    if method != "auto":
        return method, _named(method, nodes, prior, epsilon, loss)
    if prior.source == "none":
        return _without(nodes, epsilon)
    if records is not None:
        return "compromise", solve_compromise(nodes.labels, prior.weights, epsilon, weight_of(records), 1e-3).mechanism
    best = solve_unbiased(nodes.labels, prior.weights, epsilon).mechanism
    if prior.source == "private":
        simple = two_point(nodes.labels, epsilon)
        if _expected(best, prior.counts) > _expected(simple, prior.counts):
            return "two_point", simple
    return "unbiased", best


def _named(method: str, nodes: Nodes, prior: Prior, epsilon: Fraction, loss: str) -> FiniteMechanism | AddedNoise:
    """The mechanism of a method that was asked for by its name."""
    if method in KINDS:
        return AddedNoise.of(nodes.labels, epsilon, method)
    if method in _FREE:
        return _FREE[method](nodes.labels, epsilon)
    if method == "rr_on_bins":
        return response_on_bins(nodes.labels, prior.weights, epsilon, loss)
    if method == "rr_with_prior":
        return response_with_prior(nodes.labels, prior.weights, epsilon)
    return _optimum(nodes.labels, prior.weights, epsilon)


@lru_cache(maxsize=8)
def _optimum(labels: tuple[Fraction, ...], weights: tuple[int, ...], epsilon: Fraction) -> FiniteMechanism:
    """The optimum for these weights; kept for a while, because a choice and what follows from it ask for the same one."""
    return solve_unbiased(labels, weights, epsilon).mechanism


def _expected(mechanism: FiniteMechanism, counts: tuple[int, ...]) -> Fraction:
    """The total squared error the noisy counts predict, without bias from setting negative counts to zero."""
    return sum((c * e for c, e in zip(counts, mechanism.errors(), strict=True)), Fraction(0))
