"""The pictures of the label papers, on generated records: noisy-label error and test loss against epsilon, mechanisms.

Two sets. Conversions: 15 features, about 74 % zeros, a log-normal tail clipped at 400, least squares, squared error. Counts:
5 features, Poisson counts clipped at 30, a Poisson model, Poisson log loss. The Criteo records of the papers may not be
shipped, so their numbers cannot be compared digit by digit; the order of the curves can. Whoever uses a prior buys it
inside epsilon. Bands are two standard errors over seeds. The last pictures are optimal mechanisms.

    python bench/papers/labels_figures.py --out figures              3 seeds, about a minute
    python bench/papers/labels_figures.py --out figures --seeds 20   the whole of it, some minutes; --png needs resvg
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from steelyard.charts import Chart, Line, lines
from steelyard.labels._baselines import staircase_variance
from steelyard.labels._charts import draw_mechanism
from steelyard.labels._randomizer import LabelRandomizer
from steelyard.labels.solve._unbiased import solve_unbiased

Floats = NDArray[np.float64]
EPSILONS = (0.3, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0)
ADDED = ("Laplace", "staircase", "piecewise")
OURS = {
    "two-point": ("two_point", None),
    "debiased response": ("debiased", None),
    "response with prior (biased)": ("rr_with_prior", "private"),
    "bins (biased)": ("rr_on_bins", "private"),
    "optimum": ("unbiased", "private"),
    "auto": ("auto", "private"),
}
SHOWN = ("Laplace", "two-point", "bins (biased)", "optimum", "auto")  # in pictures; the tables have all


@dataclass(frozen=True)
class Study:
    """A way to make records, the range and grid of their labels, a model and its loss."""

    name: str
    records: Callable[[int, int], tuple[Floats, Floats]]
    upper: int
    nodes: int
    model: Callable[[Floats, Floats], Callable[[Floats], Floats]]
    loss: Callable[[Floats, Floats], float]
    kind: str


def conversions(size: int, seed: int) -> tuple[Floats, Floats]:
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(size, 15))
    bought = draw.random(size) < 1 / (1 + np.exp(1.25 - 0.8 * X[:, 0] - 0.5 * X[:, 1]))
    amount = np.exp(3.7 + 0.35 * X[:, 2] - 0.25 * X[:, 3] + draw.normal(size=size))
    return X, np.minimum(np.where(bought, amount, 0.0), 400)


def counts(size: int, seed: int) -> tuple[Floats, Floats]:
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(size, 5))
    rate = np.exp(0.3 + 0.5 * X[:, 0] - 0.3 * X[:, 1] + 0.2 * X[:, 2])
    return X, np.minimum(draw.poisson(rate), 30).astype(np.float64)


def wide(X: Floats) -> Floats:
    return np.column_stack([np.ones(len(X)), X])


def least_squares(X: Floats, y: Floats) -> Callable[[Floats], Floats]:
    found = np.linalg.lstsq(wide(X), y, rcond=None)[0]
    return lambda other: np.asarray(wide(other) @ found)


def poisson(X: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """A log-linear model by damped Newton steps; the loss exp(f) - y f is convex whatever sign noisy labels have."""
    A, theta = wide(X), np.zeros(X.shape[1] + 1)
    theta[0] = math.log(max(float(y.mean()), 0.05))
    value = math.inf
    for _ in range(30):
        rate = np.exp(np.minimum(A @ theta, 8))
        now = float(np.mean(rate - y * (A @ theta))) + 1e-3 * float(theta @ theta)
        gradient = A.T @ (rate - y) / len(y) + 2e-3 * theta
        step = np.linalg.solve((A.T * rate) @ A / len(y) + 2e-3 * np.eye(len(theta)), gradient)
        theta = theta - min(1.0, 1 / float(np.abs(step).max() + 1e-9)) * step
        if abs(value - now) < 1e-10:
            break
        value = now
    return lambda other: np.asarray(np.exp(np.minimum(wide(other) @ theta, 8)))


def log_loss(predicted: Floats, truth: Floats) -> float:
    return float(np.mean(predicted - truth * np.log(predicted)))


def squared(predicted: Floats, truth: Floats) -> float:
    return float(np.mean((predicted - truth) ** 2))


STUDIES = (
    Study("conversions", conversions, 400, 101, least_squares, squared, "squared error"),
    Study("counts", counts, 30, 31, poisson, log_loss, "Poisson log loss"),
)


def added(name: str, y: Floats, upper: float, epsilon: float, draw: np.random.Generator) -> Floats:
    """Noise that is no finite table, from an ordinary generator: for comparison only."""
    if name == "Laplace":
        return y + draw.laplace(scale=upper / epsilon, size=len(y))
    if name == "staircase":
        gamma = min((g / 100 for g in range(1, 100)), key=lambda g: staircase_variance(upper, epsilon, g))
        fall, sign = math.exp(-epsilon), draw.choice([-1.0, 1.0], len(y))
        outer = draw.random(len(y)) >= gamma / (gamma + (1 - gamma) * fall)
        start, size = np.where(outer, gamma, 0.0), np.where(outer, 1 - gamma, gamma)
        return y + sign * upper * (draw.geometric(1 - fall, len(y)) - 1 + start + size * draw.random(len(y)))
    half, t = math.exp(epsilon / 2), 2 * y / upper - 1
    reach = (half + 1) / (half - 1)
    left = (reach + 1) / 2 * t - (reach - 1) / 2
    near, place = draw.random(len(y)) < half / (half + 1), draw.random(len(y))
    beside = place * (reach + 1) - reach
    far = np.where(beside < left, beside, beside + reach - 1)
    return np.asarray((np.where(near, left + place * (reach - 1), far) + 1) / 2 * upper)


def noisy(study: Study, name: str, y: Floats, epsilon: float, seed: int) -> Floats:
    if name in ADDED:
        return added(name, y, study.upper, epsilon, np.random.default_rng(seed))
    method, prior = OURS[name]
    made: Floats = LabelRandomizer(epsilon, 0, study.upper, method, prior, nodes=study.nodes).fit_transform(y)
    return made


def run(study: Study, seeds: int, size: int) -> tuple[list[Chart], bool]:
    """Both pictures of a study, and whether auto came within half a per cent, or within chance, of the best everywhere."""
    names, good = (*ADDED, *OURS), True
    errors, losses = (np.zeros((len(names), len(EPSILONS), seeds)) for _ in range(2))
    clean = np.zeros(seeds)
    for seed in range(seeds):
        (X, y), (tests, truth) = study.records(size, seed), study.records(50_000, 10**6 + seed)
        clean[seed] = study.loss(study.model(X, y)(tests), truth)
        for j, epsilon in enumerate(EPSILONS):
            for i, name in enumerate(names):
                labels = noisy(study, name, y, epsilon, seed)
                errors[i, j, seed] = squared(labels, y)
                losses[i, j, seed] = study.loss(study.model(X, labels)(tests), truth)
    told = f"{size:,} generated records, {seeds} seeds; bands are two standard errors"
    for what, found in (
        ("noisy-label squared error", errors),
        (f"test {study.kind} (clean {clean.mean():.4g})", losses),
    ):
        print(f"\n{study.name}: {what}, mean ± standard error\n| mechanism | " + " | ".join(map(str, EPSILONS)) + " |")
        print("|---" * (len(EPSILONS) + 1) + "|")
        for i, name in enumerate(names):
            cells = (f"{cell.mean():.4g} ± {cell.std() / math.sqrt(seeds):.1g}" for cell in found[i])
            print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    for j, epsilon in enumerate(EPSILONS):
        best = int(losses[:, j].mean(axis=1).argmin())
        apart = losses[-1, j] - losses[best, j]
        share = float(apart.mean() / abs(losses[best, j].mean()))
        chance = 2 * float(apart.std()) / math.sqrt(seeds) >= apart.mean()
        good &= share < 0.005 or chance
        print(f"epsilon {epsilon:g}: auto is {100 * share:.2f} % above the best, {names[best]}")
    base = Line("no privacy", EPSILONS, [float(clean.mean())] * len(EPSILONS))
    return [
        picture(f"Error of noisy labels: {study.name}", told, "mean squared error", names, errors, []),
        picture(f"Test loss of a model trained on noisy labels: {study.name}", told, study.kind, names, losses, [base]),
    ], good


def picture(title: str, told: str, what: str, names: tuple[str, ...], found: Floats, more: list[Line]) -> Chart:
    mean, spread = found.mean(axis=2), 2 * found.std(axis=2) / math.sqrt(found.shape[2])
    curves = [
        Line(name, EPSILONS, m.tolist(), (m - s).tolist(), (m + s).tolist())
        for name, m, s in zip(names, mean, spread, strict=True)
        if name in SHOWN
    ]
    logarithmic = bool(mean.min() > 0)
    return lines([*curves, *more], title=title, subtitle=told, x_title="epsilon", y_title=what, log_x=True,
                 log_y=logarithmic)  # fmt: skip


def mechanisms() -> dict[str, Chart]:
    """Optimal mechanisms over 31 labels, nine in ten of them zero, and all alike."""
    place = np.arange(1, 31)
    tail = np.exp(-(np.log(place / 4) ** 2) / 2.88) / place
    zeros, even = [9 * float(tail.sum()), *tail.tolist()], [1.0] * 31
    return {
        f"mechanism-{name}-{epsilon:g}": draw_mechanism(solve_unbiased(range(31), prior, epsilon).mechanism, name)
        for name, prior in (("zero-heavy", zeros), ("even", even))
        for epsilon in (0.5, 2.0, 5.0)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("figures"), help="the folder for the pictures")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--size", type=int, default=60_000, help="training records")
    parser.add_argument("--png", action="store_true", help="PNG instead of SVG")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    drawn, good = mechanisms(), True
    for study in STUDIES:
        (drawn[f"{study.name}-labels"], drawn[f"{study.name}-loss"]), fine = run(study, args.seeds, args.size)
        good &= fine
    for name, chart in drawn.items():
        print(chart.save(args.out / f"{name}.{'png' if args.png else 'svg'}"))
    print(
        "auto is within 0.5 % or within chance of the best everywhere"
        if good
        else "auto is beaten somewhere: see above"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
