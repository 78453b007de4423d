"""The methods of 2017, corrected, for comparison: they search a row of noisier and noisier copies of one model.

Ligett, Neel, Roth, Waggoner and Wu: noise reduction by a Laplace walk, watched by AboveThreshold; doubling; and the
epsilon that theory alone would choose. The loss is halved once, unlike in the code that came with the paper; the
paper's sensitivity of the check (too small for an excess) and the smallest that holds are both offered.
Law: these run on floats, on public or test data, in benchmarks; nothing here is reachable from a release.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

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
    """A walk watched by AboveThreshold: the first model that seems good enough, at the ex-post price of its level."""
    epsilons = np.geomspace(1 / problem.n, 4 * problem.theory, levels)
    b = alpha / (4 * math.log(1.5**0.75 * math.sqrt(levels) / failure))
    threshold = alpha / 4 + 0.75 * b * math.log(1.5) - 0.5 * b * math.log(levels)
    check = 2 * problem.moves / b
    noise = walk(problem.sensitivity / epsilons, problem.statistic.size, draws)
    bar = -threshold + draws.laplace(scale=2 * problem.moves / check)
    for step, epsilon in enumerate(epsilons):
        model = problem.model(problem.statistic + noise[step].reshape(problem.statistic.shape))
        most = draws.laplace(scale=4 * problem.moves / check) - bar
        if problem.no_less(model) <= most and (excess := problem.excess(model)) <= most:
            return Spent(check + float(epsilon), check, excess)
    return Spent(check + float(epsilons[-1]), check, math.inf)


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

    ``published`` takes the ball and the check's sensitivity of the paper; otherwise the best model's shorter ball and the
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


def log_loss(model: Array, signed: Array, penalty: float) -> float:
    """The penalized mean log loss of a model on rows times their signs (length at most one)."""
    return float(np.mean(np.logaddexp(0, -signed @ model)) + penalty / 2 * model @ model)
