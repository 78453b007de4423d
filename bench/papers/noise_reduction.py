"""The methods of 2017, corrected and tuned, for comparison: they search a row of noisier and noisier copies of one model.

Ligett, Neel, Roth, Waggoner and Wu, "Accuracy First" (2017): noise reduction by a Laplace walk, watched by
AboveThreshold; doubling; and the epsilon that theory alone would choose. The loss is halved once, unlike in the code that
came with the talk; its sensitivity of the check (too small for an excess) and the smallest that holds are both offered.
``tuned`` chooses the levels and the threshold of a watch on made-up rows, with a threshold that allows for the one
kind of error that matters. Law: floats, public or test data, benchmarks; nothing here is reachable from a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from steelyard.models.accuracy._quantiles import LONGEST

Array = NDArray[np.float64]
Risk = Callable[[Array], float]


@dataclass(frozen=True)
class Classic:
    """One problem: the exact statistic and its L1 sensitivity, how it becomes a model, and how a model is judged.

    ``excess`` is the true excess risk of a model; ``moves`` is by how much one replaced row can move it; ``no_less`` is
    quickly computed and never above the excess, so that hopeless models need not be judged.
    """

    statistic: Array
    sensitivity: float
    model: Callable[[Array], Array]
    excess: Risk
    moves: float
    theory: float
    n: int
    no_less: Risk = lambda _: 0.0


@dataclass(frozen=True)
class Spent:
    """What a method returned: the pure epsilon it cost ex post, the check's share of it, and the true excess."""

    epsilon: float
    check: float
    excess: float


def walk(scales: Array, size: int, draws: np.random.Generator) -> Array:
    """Laplace noise at falling scales, one path for each entry: the finest first drawn, then made coarser.

    Going from scale b to b' > b keeps the value with probability (b/b')^2 and else adds fresh noise of scale b'.
    """
    noise = np.empty((len(scales), size))
    noise[-1] = draws.laplace(scale=scales[-1], size=size)
    for step in range(len(scales) - 2, -1, -1):
        keep = draws.uniform(size=size) < (scales[step + 1] / scales[step]) ** 2
        noise[step] = noise[step + 1] + np.where(keep, 0.0, draws.laplace(scale=scales[step], size=size))
    return noise


def noise_reduction(
    problem: Classic, alpha: float, failure: float, draws: np.random.Generator, levels: int = 1000
) -> Spent:
    """A walk watched by AboveThreshold as published: from 1/n to four times theory's epsilon, errors of both kinds allowed for."""
    epsilons = np.geomspace(1 / problem.n, 4 * problem.theory, levels)
    b = alpha / (4 * math.log(1.5**0.75 * math.sqrt(levels) / failure))
    threshold = alpha / 4 + 0.75 * b * math.log(1.5) - 0.5 * b * math.log(levels)
    return _watched(problem, epsilons, threshold, b / 2, draws)


def _watched(problem: Classic, epsilons: Array, threshold: float, unit: float, draws: np.random.Generator) -> Spent:
    """The first model that seems to stay below the threshold, at the ex-post price of its level; noise of 2 and 4 units."""
    check = problem.moves / unit
    noise = walk(problem.sensitivity / epsilons, problem.statistic.size, draws)
    bar = threshold + draws.laplace(scale=2 * unit)
    for step, epsilon in enumerate(epsilons):
        model = problem.model(problem.statistic + noise[step].reshape(problem.statistic.shape))
        most = draws.laplace(scale=4 * unit) + bar
        if problem.no_less(model) <= most and (excess := problem.excess(model)) <= most:
            return Spent(check + float(epsilon), check, excess)
    return Spent(check + float(epsilons[-1]), check, math.inf)


@dataclass(frozen=True)
class Setting:
    """What may be chosen of a watched walk before a row is read: its levels, and the share of alpha that passes."""

    epsilons: tuple[float, ...]
    passing: float

    def unit(self, alpha: float, failure: float) -> float:
        """The unit of the watch's noise with which no model beyond alpha passes, but for the failure probability."""
        return alpha * (1 - self.passing) / one_sided(len(self.epsilons), failure)


def tuned_reduction(
    problem: Classic, alpha: float, failure: float, draws: np.random.Generator, setting: Setting
) -> Spent:
    """A walk watched at this setting: a model beyond alpha passes with at most the failure probability."""
    unit = setting.unit(alpha, failure)
    return _watched(problem, np.array(setting.epsilons), alpha * setting.passing, unit, draws)


@cache
def one_sided(levels: int, failure: float) -> float:
    """What Lap(4) on each of so many questions less Lap(2) on their threshold exceeds with the failure probability."""
    place = (np.arange(20_000) + 0.5) / 20_000
    bar = 2 * np.sign(place - 0.5) * -np.log1p(-2 * np.abs(place - 0.5))

    def chance(least: float) -> float:
        t = least + bar
        below = np.where(t > 0, 1 - np.exp(-np.abs(t) / 4) / 2, np.exp(-np.abs(t) / 4) / 2)
        return float(np.mean(1 - below**levels))

    low, high = 0.0, 200.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > failure else (low, middle)
    return high


def made_up(n: int, width: int, length: float) -> Iterator[tuple[Array, Array]]:
    """Rows of a public shape that owe nothing to any table: features apart, and features that share a factor."""
    draws = np.random.default_rng(41)
    for shared in (0.0, 0.8):
        mixed = (1 - shared) * draws.uniform(-1, 1, (n, width - 1)) + shared * draws.uniform(-1, 1, (n, 1))
        x = np.column_stack([mixed, np.ones(n)]) * length / math.sqrt(width)
        score = x[:, :-1] @ draws.standard_normal(width - 1)
        yield x, np.clip(0.3 * score / score.std() + 0.1 * draws.standard_normal(n), -1, 1)


@dataclass(frozen=True)
class Tuned:
    """Median epsilons tuned on made-up problems and, in hindsight, on the problem itself; runs of the first that missed."""

    median: float
    hindsight: float
    missed: int


def tuned(
    problem: Classic, made: Sequence[Classic], alpha: float, failure: float, trials: int, itself: Classic | None = None
) -> Tuned:
    """What noise reduction costs with the setting that was cheapest in a rehearsal; ``itself`` serves for hindsight."""
    found = [
        [tuned_reduction(problem, alpha, failure, np.random.default_rng([7, seed]), setting) for seed in range(trials)]
        for setting in (cheapest(made, alpha, failure), cheapest([itself or problem], alpha, failure))
    ]
    medians = [float(np.median([run.epsilon for run in runs])) for runs in found]
    return Tuned(medians[0], medians[1], sum(run.excess > alpha for run in found[0]))


def cheapest(rehearsals: Sequence[Classic], alpha: float, failure: float, trials: int = 15) -> Setting:
    """The setting that is cheapest on these problems (geometric mean of medians): levels, how far they reach, what passes."""
    crossed = [_crossing(problem, alpha, trial) for problem in rehearsals for trial in range(3)]
    centre = math.exp(float(np.mean(np.log(crossed))))
    found: dict[Setting, float] = {}
    for count in (10, 20, 40, 80, 160):
        for reach in (4, 16, 64):
            epsilons = np.geomspace(centre / reach, centre * reach, count)
            seen = [
                [_excesses(problem, epsilons, alpha, np.random.default_rng([11, trial])) for trial in range(trials)]
                for problem in rehearsals
            ]
            for passing in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8):
                setting = Setting(tuple(epsilons.tolist()), passing)
                found[setting] = _rehearsed(rehearsals, seen, setting, alpha, failure)
    return min(found, key=lambda setting: found[setting])


def _crossing(problem: Classic, alpha: float, trial: int) -> float:
    """The first epsilon of a fine walk whose model is well within alpha."""
    epsilons = np.geomspace(1e-7 * problem.theory, 4 * problem.theory, 150)
    good = _excesses(problem, epsilons, alpha, np.random.default_rng([12, trial])) <= alpha / 3
    return float(epsilons[int(good.argmax())])


def _excesses(problem: Classic, epsilons: Array, alpha: float, draws: np.random.Generator) -> Array:
    """The true excess at each level of one walk; where it is hopeless, no more than that."""
    noise = walk(problem.sensitivity / epsilons, problem.statistic.size, draws)
    found = np.empty(len(epsilons))
    for step in range(len(epsilons)):
        model = problem.model(problem.statistic + noise[step].reshape(problem.statistic.shape))
        least = problem.no_less(model)
        found[step] = least if least > 3 * alpha else problem.excess(model)
    return found


def _rehearsed(
    rehearsals: Sequence[Classic], seen: list[list[Array]], setting: Setting, alpha: float, failure: float
) -> float:
    """The geometric mean over problems of the median price at one setting; a walk that never passes has no price."""
    unit, prices = setting.unit(alpha, failure), []
    for problem, walks in zip(rehearsals, seen, strict=True):
        costs, draws = [], np.random.default_rng(13)
        for excess in walks * 5:  # five watches over each walk
            most = alpha * setting.passing + draws.laplace(scale=2 * unit)
            passed = excess <= most + draws.laplace(scale=4 * unit, size=excess.size)
            level = setting.epsilons[int(passed.argmax())] if passed.any() else math.inf
            costs.append(problem.moves / unit + level)
        prices.append(math.inf if math.isinf(max(costs)) else float(np.median(costs)))
    return float(np.exp(np.mean(np.log(prices))))


def doubling(problem: Classic, alpha: float, failure: float, draws: np.random.Generator) -> Spent:
    """Fresh noise at twice the epsilon until a fresh Laplace test passes; every attempt is paid for."""
    tries = max(1, math.ceil(math.log2(4 * problem.theory * problem.n)))
    test = 2 * problem.moves * math.log((tries + 1) / (2 * failure)) / alpha
    spent = 0.0
    for k in range(tries + 1):
        epsilon = 2.0**k / problem.n
        noise = draws.laplace(scale=problem.sensitivity / epsilon, size=problem.statistic.shape)
        excess = problem.excess(problem.model(problem.statistic + noise))
        spent += epsilon + test
        if excess + draws.laplace(scale=problem.moves / test) <= alpha / 2:
            return Spent(spent, (k + 1) * test, excess)
    return Spent(spent, (tries + 1) * test, math.inf)


def ridge(x: Array, y: Array, penalty: float, alpha: float, *, published: bool = True, length: float = 1.0) -> Classic:
    """Covariance perturbation: |x|_1 <= 1 and |y| <= 1, noise on X'X and X'y, each at half of epsilon.

    ``published`` takes the ball and the check's sensitivity as they were published; otherwise the best model's shorter ball and the
    smallest sensitivity that holds in it for rows of at most this ``length``, twice the largest loss: models at the right
    angle attain it. Rows whose L1 norm exceeds one have an L1 sensitivity larger by sqrt(d) and by d.
    """
    n, width = x.shape
    longest = float(np.abs(x).sum(axis=1).max())
    wide = longest > 1 + 1e-9
    stretch, square = (math.sqrt(width), float(width)) if wide else (1.0, 1.0)
    matrix, moment = x.T @ x + n * penalty * np.eye(width), x.T @ y
    best = np.linalg.solve(matrix, moment)
    long = 1 / math.sqrt(penalty)
    ball, moves = (long, 0.5 * (long + 1) ** 2 / n) if published else (long / 2, (length * long / 2 + 1) ** 2 / n)
    scales = np.concatenate([np.full(width * width, square), np.full(width, stretch)])

    def model(statistic: Array) -> Array:
        noisy = statistic * scales
        try:
            theta = np.linalg.solve(noisy[: width * width].reshape(width, width), noisy[width * width :])
        except np.linalg.LinAlgError:
            return np.zeros(width)
        length = float(np.linalg.norm(theta))
        return np.asarray(theta * min(1.0, ball / length) if length > 0 else theta)

    def excess(theta: Array) -> float:
        off = theta - best
        return float(off @ matrix @ off / (2 * n))

    statistic = np.concatenate([matrix.ravel(), moment]) / scales
    theory = 4 * math.sqrt(2) * (2 * math.sqrt(width) * long + width * long**2) / (n * alpha)
    return Classic(statistic, 4.0, model, excess, moves, theory, n)


def logistic(best: Array, risk: Risk, n: int, penalty: float, alpha: float, *, published: bool = True) -> Classic:
    """Output perturbation: the best model moves by at most 2/(n lambda) in L2, sqrt(d) times that in L1.

    ``published`` as for ridge. In a ball of radius r the losses of two models on a row differ by at most r, either way:
    the excess moves by 2 r/n, which opposite models attain, and which in the best model's ball is less than was published.
    """
    width = len(best)
    ball = math.sqrt(2 * math.log(2) / penalty) if published else math.sqrt(LONGEST / penalty)
    least = risk(best)

    def model(theta: Array) -> Array:
        length = float(np.linalg.norm(theta))
        return np.asarray(theta * min(1.0, ball / length) if length > 0 else theta)

    sensitivity = 2 * math.sqrt(width) / (n * penalty)
    moves = (math.log1p(math.exp(ball)) if published else 2 * ball) / n
    theory = 2 * math.sqrt(2) * width / (n * penalty * alpha)
    return Classic(
        best, sensitivity, model, lambda theta: risk(theta) - least, moves, theory, n,
        lambda theta: penalty / 2 * float((theta - best) @ (theta - best)) * 0.999,
    )  # fmt: skip


def quadratic(problem: Classic, signed: Array, penalty: float) -> Classic:
    """A logistic problem whose excess is taken as quadratic around the best model: quick, and good enough to rehearse with."""
    best = problem.statistic
    chance = 1 / (1 + np.exp(np.clip(signed @ best, -40, 40)))
    curve = (signed * (chance * (1 - chance))[:, None]).T @ signed / len(signed) + penalty * np.eye(len(best))
    bent = lambda theta: float((theta - best) @ curve @ (theta - best) / 2)  # noqa: E731
    return replace(problem, excess=bent, no_less=lambda _: 0.0)


def log_loss(model: Array, signed: Array, penalty: float) -> float:
    """The penalized mean log loss of a model on rows times their signs (length at most one)."""
    return float(np.mean(np.logaddexp(0, -signed @ model)) + penalty / 2 * model @ model)
