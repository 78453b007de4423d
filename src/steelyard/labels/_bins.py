"""Randomized response on bins: the mechanism of least noisy-label loss when bias is allowed.

Labels are cut into consecutive bins, each with one output; the bin of the true label is told with weight e^epsilon
against one for each other bin. The best cuts come from a dynamic programme over prefix costs. Of Ghazi et al.,
"Regression with label differential privacy" (2023), who prove that some optimum has this form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.labels._mechanism import Column, FiniteMechanism, read_epsilon, read_inputs, read_prior, response_weights

Floats = NDArray[np.float64]


def response_on_bins(
    inputs: Iterable[Any], prior: Iterable[Any], epsilon: Any, loss: str = "squared"
) -> FiniteMechanism:
    """The epsilon-private mechanism of least expected loss between true and noisy label, bias allowed.

    ``loss`` is "squared", "absolute" or "poisson" (the deviance of predicting the noisy label; labels >= 0).
    *Cost:* O(k^2) bin costs and O(k^2) per number of bins tried.
    """
    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    masses = read_prior(prior, len(labels))
    if loss not in _COSTS:
        raise InvalidTask(f"loss must be one of {', '.join(sorted(_COSTS))}; got {loss!r}.")
    if loss == "poisson" and labels[0] < 0:
        raise InvalidTask(f"a Poisson loss needs labels of at least 0; got {float(labels[0]):g}.")
    y, p = np.array([float(v) for v in labels]), np.array([float(m) for m in masses])
    growth = float(np.exp(float(level)))
    cost, place = _COSTS[loss](y, p / p.sum(), growth - 1)
    cuts = best_cuts(cost, growth)
    low, high = response_weights(level, len(cuts) - 1)
    columns = tuple(
        Column.peak(Fraction(float(place[start, stop])), start, stop, len(labels), low, high)
        for start, stop in pairwise(cuts)
    )
    return FiniteMechanism(labels, level, columns, unbiased=False)


def best_cuts(cost: Floats, growth: float) -> list[int]:
    """Bin ends 0 = c_0 < ... < c_d = k that minimize sum of cost / (growth + d - 1), d free."""
    size = len(cost) - 1
    best, chosen = np.inf, [0, size]
    layer = np.full(size + 1, np.inf)
    layer[0] = 0.0
    back: list[NDArray[np.intp]] = []
    for bins in range(1, size + 1):
        options = layer[:, None] + cost
        back.append(options.argmin(axis=0))
        layer = options.min(axis=0)
        value = float(layer[size]) / (growth + bins - 1)
        if value < best:
            best, chosen = value, _trace(back, size)
        elif bins > 2 * len(chosen) + 8:
            break
    return chosen


def _trace(back: list[NDArray[np.intp]], size: int) -> list[int]:
    cuts = [size]
    for step in reversed(back):
        cuts.append(int(step[cuts[-1]]))
    return cuts[::-1]


def _moments(values: Floats, extra: float) -> Floats:
    """Table [l, r] of sum over all + extra * sum over l..r-1."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray(sums[-1] + extra * (sums[None, :] - sums[:, None]))


def _forbid(cost: Floats) -> Floats:
    cost[np.tril_indices(len(cost))] = np.inf
    return cost


def _squared(y: Floats, p: Floats, extra: float) -> tuple[Floats, Floats]:
    centre = float(p @ y)
    shifted = y - centre
    mass, first, second = (_moments(p * shifted**power, extra) for power in range(3))
    with np.errstate(divide="ignore", invalid="ignore"):
        place = first / mass
        return _forbid(second - first * place), place + centre


def _poisson(y: Floats, p: Floats, extra: float) -> tuple[Floats, Floats]:
    """z - y log z is least at the weighted mean; a zero mean (all labels 0) costs nothing."""
    mass, first = _moments(p, extra), _moments(p * y, extra)
    with np.errstate(divide="ignore", invalid="ignore"):
        place = first / mass
        logs = np.where(first > 0, first * np.log(np.where(place > 0, place, 1.0)), 0.0)
    entropy = _moments(p * np.where(y > 0, y * np.log(np.where(y > 0, y, 1.0)), 0.0), extra)
    return _forbid(entropy - logs), place


def _absolute(y: Floats, p: Floats, extra: float) -> tuple[Floats, Floats]:
    """The best output is a weighted median, one of the labels, so all labels are tried."""
    size = len(y)
    distance = np.abs(y[:, None] - y[None, :]) * p[None, :]
    sums = np.concatenate([np.zeros((size, 1)), np.cumsum(distance, axis=1)], axis=1)
    cost, place = np.full((size + 1, size + 1), np.inf), np.zeros((size + 1, size + 1))
    for left in range(size):
        table = sums[:, -1:] + extra * (sums[:, left + 1 :] - sums[:, left : left + 1])
        cost[left, left + 1 :] = table.min(axis=0)
        place[left, left + 1 :] = y[table.argmin(axis=0)]
    return cost, place


_COSTS: dict[str, Callable[[Floats, Floats, float], tuple[Floats, Floats]]] = {
    "squared": _squared,
    "absolute": _absolute,
    "poisson": _poisson,
}
