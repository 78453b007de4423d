"""How many nats a history costs, and the published bounds on adaptive questions.

A question chosen after a history is one of as many questions as there are histories; a code for histories whose
weights sum to at most one (Kraft) turns that into an error level exp(-nats) per question, for all questions at once
(docs/proofs/nats.md, ladder.md, rounds.md). The published bounds give a half-width for ``questions`` answers.
Law: nats and half-widths are rounded up. Nothing here may be shown an exact holdout score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask

_ULP = 2.0**-52
_SIDE, _ZOOMS = 25, 6
_NORMAL = NormalDist()
Floats = NDArray[np.float64]
Range = tuple[float, float]
Width = Callable[[int, int, float], float]


def certified_nats(
    question: int,
    failures: int,
    spent: Fraction | float,
    beta: Fraction | float,
    *,
    horizon: int | None = None,
) -> float:
    """The nats of the ``question``-th check (from 1) after ``failures`` paid answers whose grids took ``spent`` nats.

    ``spent`` is the sum of ``grid_nats`` over the paid answers. Test the answer at level exp(-nats), two-sided.
    ``horizon``: the largest number of questions, if fixed before the first one; every question then costs ln(horizon).

    >>> round(certified_nats(1, 0, 0, 0.05), 4)
    4.382
    """
    _whole(question, "question", 1)
    _whole(failures, "failures", 0)
    if failures > question - 1:
        raise InvalidTask(f"{failures} failures cannot precede question {question}.")
    if not 0 <= spent < math.inf:
        raise InvalidTask(f"spent nats are finite and at least 0; got {spent!r}.")
    if horizon is not None and question > horizon:
        raise InvalidTask(f"question {question} comes after the last one that was announced, {horizon}.")
    number = question * (question + 1) if horizon is None else horizon
    words = math.log(number) + math.log((failures + 1) * (failures + 2))
    return _up(log_inverse(beta) + words + log_choose(question - 1, failures) + _up(float(spent)))


def grid_nats(values: int) -> float:
    """What one answer rounded to a grid 0, 1/values, ..., 1 costs: ln(values + 1), rounded up."""
    _whole(values, "the number of grid steps", 1)
    return _up(math.log(values + 1))


def ladder_nats(
    submissions: int,
    records: int,
    levels: int,
    beta: Fraction | float,
    *,
    fixed: bool = True,
    final_only: bool = False,
) -> float:
    """The nats of a leaderboard that showed ``records`` new best scores on a grid.

    ``levels`` counts the grid values strictly above the score shown at the start (one more if the first score is always
    shown). ``fixed``: the number of submissions was fixed beforehand; otherwise it may be the number so far.
    ``final_only``: only the last best score is certified, and not each one on the way.

    >>> round(ladder_nats(10_000, 3, 50, 0.05), 2)
    50.92
    """
    _whole(submissions, "submissions", 1)
    _whole(records, "records", 0)
    _whole(levels, "levels", 0)
    if records > min(submissions, levels):
        raise InvalidTask(f"{records} records need as many submissions ({submissions}) and levels ({levels}).")
    events = 0.0 if final_only else math.log(submissions)
    length = 0.0 if fixed else math.log(submissions + 1) + (math.log(submissions) if final_only else 0.0)
    history = log_choose(submissions, records) + log_choose(levels, records)
    return _up(log_inverse(beta) + events + length + history + math.log((records + 1) * (records + 2)))


def rounds_nats(sizes: Sequence[int], beta: Fraction | float, *, every_round: bool = False) -> float:
    """The nats of the winner's score after rounds of these sizes, of which only the winners' indices were shown.

    ``every_round`` certifies each round's winner as well. The rounds are fixed beforehand; ties break without data.

    >>> round(rounds_nats([100] * 10, 0.05), 3)
    49.047
    """
    if not sizes:
        raise InvalidTask("rounds need at least one round.")
    histories, events = 1, 0
    for size in sizes:
        _whole(size, "the size of a round", 1)
        histories *= size
        events += histories
    return _up(log_inverse(beta) + math.log(events if every_round else histories))


def log_choose(n: int, k: int) -> float:
    """ln of the binomial coefficient, rounded up."""
    if k in (0, n):
        return 0.0
    if min(k, n - k) <= 64:
        return _up(math.log(math.comb(n, k)))
    whole = math.lgamma(n + 1)
    return whole - math.lgamma(k + 1) - math.lgamma(n - k + 1) + 64 * _ULP * whole


def splitting(n: int, questions: int, beta: float) -> float:
    """The half-width when every question gets rows of its own."""
    rows = n // questions
    return _up(math.sqrt(math.log(2 * questions / beta) / (2 * rows))) if rows else math.inf


def rounding(n: int, questions: int, beta: float) -> float:
    """The half-width when answers are rounded to the best grid 1/g and every history is counted."""
    return min(_rounded(n, questions, beta, steps) for steps in _grids(n, questions))


def _rounded(n: int, questions: int, beta: float, steps: int) -> float:
    nats = math.log(2 * questions / beta) + (questions - 1) * math.log(steps + 1)
    return _up(0.5 / steps + math.sqrt(nats / (2 * n)))


def _grids(n: int, questions: int) -> set[int]:
    """Grids around the best one: d/ds of 1/2s + sqrt(k ln s / 2n) vanishes near s = sqrt(2 n ln s / k)."""
    steps = 2.0
    for _ in range(30):
        steps = max(2.0, math.sqrt(2 * n * math.log(steps + 1) / questions))
    return {max(1, round(steps * share / 32)) for share in range(16, 65)}


def misses(n: int, questions: int, tolerance: float, beta: float, *, rough: bool = False) -> int:
    """How many wrong guesses certified checks can afford among so many announced questions; -1 if not even a right one.

    A guess is right when it lies within the tolerance less the half-width of the holdout's score. With ``rough``, every
    guess within half the tolerance of the population counts as right, which leaves a quarter for the half-width.
    """
    if not _affordable(0, n, questions, tolerance, beta, rough):
        return -1
    low, high = 0, 1
    while high <= questions and _affordable(high, n, questions, tolerance, beta, rough):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        fits = middle <= questions and _affordable(middle, n, questions, tolerance, beta, rough)
        low, high = (middle, high) if fits else (low, middle)
    return low


def _affordable(failures: int, n: int, questions: int, tolerance: float, beta: float, rough: bool) -> bool:
    known = log_inverse(beta) + math.log(2 * questions) + math.log((failures + 1) * (failures + 2))
    known += log_choose(questions, failures)
    if rough:
        steps = math.ceil(2 / (3 * tolerance))
        return 4 * math.sqrt((known + failures * math.log(steps + 1)) / (2 * n)) <= tolerance
    return any(
        0.5 / steps + math.sqrt((known + failures * math.log(steps + 1)) / (2 * n)) <= tolerance
        for steps in _grids(n, max(failures, 1))
    )


def bassily(n: int, questions: int, beta: float) -> float:
    """The half-width of Bassily, Nissim, Smith, Steinke, Stemmer and Ullman (2016) with Gaussian noise.

    The argument copies the conversation 1/beta times, rounded; what it says at a smaller beta is true as well.
    """
    copies = math.floor(1 / beta)
    ways = [(m, -math.expm1(m * math.log1p(-chance))) for m, chance in ((copies, beta), (copies + 1, 1 / (copies + 1)))]

    def width(log_delta: Floats, log_total: Floats) -> Floats:
        total, delta = np.exp(log_total), np.exp(log_delta)
        inside = np.maximum(np.log(math.pi * total) / 2 - log_delta, 0.0)
        epsilon = np.minimum(total + 2 * np.sqrt(total * inside), 30.0)
        noise = np.sqrt((math.log(4 * questions) - log_delta) * questions / total) / n
        first, second = ((np.expm1(epsilon) + 2 * m * delta + noise) / sure for m, sure in ways)
        return np.asarray(np.minimum(first, second))

    return _least(width, (-25.0, -2.0), (-30.0, 1.0))


def rogers(n: int, questions: int, beta: float) -> float:
    """The half-width of Rogers et al. (2020), Theorem 2.1, with Gaussian noise and its plain tail."""

    def width(logit: Floats, log_total: Floats) -> Floats:
        total, share = np.exp(log_total), 1 / (1 + np.exp(-logit))
        information = (2 * total * n + np.log1p(np.exp(logit))) / share
        noise = np.sqrt(math.log(4 * questions / beta) * questions / total) / n
        return np.asarray(np.sqrt(information / (2 * n * beta)) + noise)

    return _least(width, (-15.0, 15.0), (-30.0, 2.0))


def jung(n: int, questions: int, beta: float) -> float:
    """The half-width of Jung, Ligett, Neel, Roth, Sharifi-Malvajerdi and Shenfeld (2020) with Gaussian noise."""
    found = (2.0, beta / 4, 1.0)
    for half_octaves in range(2, 25):
        share, sigma = beta * 2 ** (-half_octaves / 2), math.sqrt(math.sqrt(questions) / (4 * n))
        for _ in range(4):
            noise, distance = _jung_parts(n, questions, beta, share, sigma)
            found = min(found, (noise + distance, share, sigma))
            # The noise grows with sigma about as fast as the distance falls, so the sum is least where they are equal.
            sigma *= math.sqrt(distance / noise)
    best, share, middle = found
    near = (middle * math.exp(step / 40) for step in range(-12, 13))
    return min(best, *(sum(_jung_parts(n, questions, beta, share, sigma)) for sigma in near))


def _jung_parts(n: int, questions: int, beta: float, share: float, sigma: float) -> tuple[float, float]:
    """What the noise adds, and the distance; the best epsilon and alpha inside have a closed form."""
    mu = math.sqrt(questions) / (n * sigma)
    epsilon = min(max(mu * (-_NORMAL.inv_cdf((beta - share) / 2) - mu / 2), 0.0), 30.0)
    spread = 2 * questions / (share * sigma * math.sqrt(2 * math.pi))
    deviations = math.sqrt(2 * math.log(max(spread, 1.0)))
    noise = deviations * sigma + questions * math.erfc(deviations / math.sqrt(2)) / share
    ends = (epsilon / mu - mu / 2) / math.sqrt(2), (epsilon / mu + mu / 2) / math.sqrt(2)
    delta = max(0.0, math.erfc(ends[0]) - math.exp(epsilon) * math.erfc(ends[1])) / 2
    return noise, math.expm1(epsilon) + 2 * delta / (beta - share)


def capacity(
    width: Width, n: int, tolerance: float, beta: float, *, most: int = 10**9, up: Callable[[int], int] = int
) -> int:
    """The largest number of questions whose half-width is at most the tolerance; 0 when there is none.

    ``width`` must rise with the questions. The search is a secant in the logarithms, kept inside its bracket; ``up`` may
    round a number up to those worth looking at.
    """
    allowed = math.log(tolerance)

    def excess(questions: int) -> float:
        found = width(n, questions, beta)
        return math.log(found) - allowed if found > 0 else -math.inf

    low, at_low = 1, excess(1)
    if at_low > 0:
        return 0
    high, at_high = most + 1, excess(most + 1)
    if at_high <= 0:
        return most
    while (least := up(low + 1)) < high:
        middle = max(least, up(_between(low, at_low, high, at_high)))
        middle = middle if middle < high else least
        at = excess(middle)
        if at <= 0:
            # Halving the far end's excess keeps a secant from creeping (the Illinois rule).
            low, at_low, at_high = middle, at, at_high / 2
        else:
            high, at_high, at_low = middle, at, at_low / 2
    return low


def _between(low: int, at_low: float, high: int, at_high: float) -> int:
    if not (math.isfinite(at_low) and math.isfinite(at_high)) or high - low < 8:
        return round(math.sqrt(low * high)) if high > 4 * low else (low + high) // 2
    share = at_low / (at_low - at_high)
    guess = math.exp(math.log(low) + min(max(share, 0.02), 0.98) * math.log(high / low))
    return min(max(round(guess), low + 1), high - 1)


def _least(function: Callable[[Floats, Floats], Floats], first: Range, second: Range) -> float:
    """The least value of a function with one valley in a box, on ever finer grids around the best point so far."""
    best = math.inf
    boxes = [first, second]
    for _ in range(_ZOOMS):
        x, y = (np.linspace(low, high, _SIDE) for low, high in boxes)
        values = function(x[:, None], y[None, :])
        i, j = (int(place) for place in np.unravel_index(int(np.argmin(values)), values.shape))
        best = min(best, float(values[i, j]))
        steps = [2 * (high - low) / (_SIDE - 1) for low, high in boxes]
        boxes = [
            (max(low, at - step), min(high, at + step))
            for at, step, (low, high) in zip((float(x[i]), float(y[j])), steps, (first, second), strict=True)
        ]
    return best


def log_inverse(beta: Fraction | float) -> float:
    """ln(1 / beta) of a probability."""
    if not 0 < beta < 1:
        raise InvalidTask(f"beta is a probability between 0 and 1; got {beta!r}.")
    return -math.log(beta)


def _whole(value: int, name: str, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidTask(f"{name} must be a whole number of at least {least}; got {value!r}.")


def _up(value: float) -> float:
    return value + 16 * _ULP * abs(value)
