"""The pictures of Badanidiyuru et al. (2023) on generated records: noisy-label error, test loss, optimal mechanisms.

Two sets. Conversions: 15 features, about 74 % zeros, a log-normal tail clipped at 400, least squares, squared error. Counts:
5 features, Poisson counts clipped at 30, PoissonRegression, Poisson log loss. Their Criteo records may not be
shipped, so their numbers cannot be compared digit by digit; the order of the curves can. Whoever uses a prior buys it
inside epsilon. Bands are two standard errors over seeds. The first pictures are a prior and its optimal mechanisms, with
outputs gathered on an even grid.

    python bench/papers/labels_figures.py --out figures              3 seeds, about a minute
    python bench/papers/labels_figures.py --out figures --seeds 20   the whole of it, some minutes
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from papers.shown import BADANIDIYURU, Check, Shown
from steelyard.charts import Chart, Line, lines, matrix
from steelyard.labels._baselines import staircase_variance
from steelyard.labels._mechanism import FiniteMechanism
from steelyard.labels._poisson import PoissonRegression
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
    """The package's own Poisson model, which takes noisy labels of either sign."""
    model = PoissonRegression().fit(X, y)
    return lambda other: model.predict(other)


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


def run(study: Study, seeds: int, size: int, epsilons: Sequence[float] = EPSILONS) -> Shown:
    """Both pictures of a study, and whether the order of the curves is the one that was published."""
    names = (*ADDED, *OURS)
    errors, losses = (np.zeros((len(names), len(epsilons), seeds)) for _ in range(2))
    clean = np.zeros(seeds)
    for seed in range(seeds):
        (X, y), (tests, truth) = study.records(size, seed), study.records(50_000, 10**6 + seed)
        clean[seed] = study.loss(study.model(X, y)(tests), truth)
        for j, epsilon in enumerate(epsilons):
            for i, name in enumerate(names):
                labels = noisy(study, name, y, epsilon, seed)
                errors[i, j, seed] = squared(labels, y)
                losses[i, j, seed] = study.loss(study.model(X, labels)(tests), truth)
    for what, found in (
        ("noisy-label squared error", errors),
        (f"test {study.kind} (clean {clean.mean():.4g})", losses),
    ):
        tell(f"{study.name}: {what}", names, epsilons, found)
    told = f"{size:,} generated records, {seeds} seed{'s' * (seeds > 1)}; bands are two standard errors"
    base, relative = Line("no privacy", epsilons, [1.0] * len(epsilons)), losses / clean.mean()
    charts = (
        picture(f"Error of noisy labels: {study.name}", told, "mean squared error", names, epsilons, errors, []),
        picture(
            f"Test loss on noisy labels: {study.name}",
            told,
            f"{study.kind}, relative to no privacy",
            names,
            epsilons,
            relative,
            [base],
        ),
    )
    claim = ("labels without bias cost variance and still train the better model: the optimal unbiased randomizer gives the most "
             "utility, and biased ones stop learning although their labels lie nearer.")  # fmt: skip
    return Shown(BADANIDIYURU, f"Experiment, {study.name}", claim, charts, order(names, epsilons, errors, losses))


def tell(title: str, names: Sequence[str], epsilons: Sequence[float], found: Floats) -> None:
    print(f"\n{title}, mean ± standard error\n| mechanism | " + " | ".join(map(str, epsilons)) + " |")
    print("|---" * (len(epsilons) + 1) + "|")
    for i, name in enumerate(names):
        cells = (f"{cell.mean():.4g} ± {cell.std() / math.sqrt(found.shape[2]):.1g}" for cell in found[i])
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def order(names: Sequence[str], epsilons: Sequence[float], errors: Floats, losses: Floats) -> tuple[Check, ...]:
    """What was said of the curves, against ours. ``auto`` is our unbiased method with a bought prior."""
    at = {name: place for place, name in enumerate(names)}
    error, loss, auto, bins = errors.mean(axis=2), losses.mean(axis=2), at["auto"], at["bins (biased)"]
    plain = [error[at[name]] for name in (*ADDED, "debiased response")]
    least = float((error[auto] / np.min(plain, axis=0)).max())
    above, apart = (
        loss[auto] / loss.min(axis=0) - 1,
        losses[auto] - losses[loss.argmin(axis=0), np.arange(len(epsilons))],
    )
    chance = 2 * apart.std(axis=1) / math.sqrt(losses.shape[2]) >= apart.mean(axis=1)
    beaten = [f"{epsilon:g} ({100 * by:.1f} %)" for epsilon, by, luck in zip(epsilons, above, chance, strict=True)
              if by >= 0.005 and not luck]  # fmt: skip
    high = [j for j, epsilon in enumerate(epsilons) if 1 <= epsilon <= 4]
    nearer = all(error[bins, j] < error[auto, j] for j in high)
    worse = float(min(loss[bins, j] / loss[auto, j] for j in high))
    return (
        Check(f"our unbiased labels have at most {least:.2f} times the error of the best of Laplace, staircase, piecewise and debiased response", least < 1.02),
        Check(f"a model trained on them is the best, or within 0.5 % or chance of it, at every epsilon; beaten at: {', '.join(beaten) or 'none'}", not beaten),
        Check(f"from epsilon 1 to 4 biased bins lie nearer to the labels ({nearer}) and train a model of at least {worse:.3f} times the loss", nearer and worse > 1),
    )  # fmt: skip


def picture(title: str, told: str, what: str, names: Sequence[str], epsilons: Sequence[float], found: Floats,
            more: list[Line]) -> Chart:  # fmt: skip
    mean, spread = found.mean(axis=2), 2 * found.std(axis=2) / math.sqrt(found.shape[2])
    curves = [
        Line(name, epsilons, m.tolist(), (m - s).tolist(), (m + s).tolist())
        for name, m, s in zip(names, mean, spread, strict=True)
        if name in SHOWN
    ]
    heights = mean[[name in SHOWN for name in names]]
    logarithmic = bool(0 < 10 * heights.min() < heights.max())
    return lines([*curves, *more], title=title, subtitle=told, x_title="epsilon", y_title=what, log_x=True,
                 log_y=logarithmic)  # fmt: skip


def prior() -> list[float]:
    """Weights of the labels 0 to 30: nine in ten are zero, the others fall like a log-normal."""
    place = np.arange(1, 31)
    tail = np.exp(-(np.log(place / 4) ** 2) / 2.88) / place
    return [9 * float(tail.sum()), *tail.tolist()]


def gridded(mechanism: FiniteMechanism, title: str, bins: int = 40) -> Chart:
    """The chance of each noisy label given the label, with the outputs gathered on an even grid."""
    outputs = np.array([float(z) for z in mechanism.outputs])
    edges = np.linspace(outputs.min(), outputs.max(), bins + 1)
    place = np.clip(np.searchsorted(edges, outputs, side="right") - 1, 0, bins - 1)
    table = np.zeros((len(mechanism.inputs), bins))
    np.add.at(table.T, place, mechanism.probabilities().T)
    about = f"epsilon {float(mechanism.epsilon):g}; {len(outputs)} outputs between {outputs.min():.1f} and {outputs.max():.1f}, gathered in {bins} columns"
    return matrix(table.tolist(), down=[f"{float(y):g}" for y in mechanism.inputs],
                  across=[f"{(a + b) / 2:.0f}" for a, b in pairwise(edges)], title=title, subtitle=about,
                  x_title="noisy label", y_title="label")  # fmt: skip


def mechanisms(epsilons: Sequence[float] = (0.5, 2.0)) -> Shown:
    """A prior that is mostly zero, and its optimal unbiased mechanisms."""
    weights = prior()
    total = sum(weights)
    shape = [Line("prior", list(range(31)), [weight / total for weight in weights])]
    charts = [lines(shape, title="Prior", x_title="label", y_title="share", log_y=True)]
    checks = []
    for epsilon in epsilons:
        found = solve_unbiased(range(31), weights, epsilon)
        made = found.mechanism
        charts.append(gridded(made, f"Optimal unbiased mechanism, epsilon {epsilon:g}"))
        values = {len(set(column.weights)) for column in made.columns}
        steep = max(max(column.weights) / min(column.weights) for column in made.columns)
        proved = made.verify()
        checks += [
            Check(f"epsilon {epsilon:g}: bias {max(abs(b) for b in made.bias())} in exact fractions, proved within {float(found.gap):.1g} of the least variance",
                  not any(made.bias()) and proved.passed),
            Check(f"epsilon {epsilon:g}: a staircase: columns have {' or '.join(map(str, sorted(values)))} values, the larger e^{math.log(steep):.3f} times the smaller",
                  values <= {1, 2} and abs(math.log(steep) - epsilon) < 1e-6),
            Check(f"epsilon {epsilon:g}: {len(made.outputs)} outputs for 31 labels", len(made.outputs) <= 3 * 31),
        ]  # fmt: skip
    claim = "the mechanism of least variance under a prior, without bias, is a staircase of few outputs."
    return Shown(BADANIDIYURU, "Picture of the optimal mechanism", claim, tuple(charts), tuple(checks))


def figures(quick: bool) -> list[Shown]:
    """All of them; quickly, one seed of fewer records at fewer epsilons."""
    if not quick:
        return [mechanisms(), *(run(study, 8, 60_000) for study in STUDIES)]
    return [mechanisms(), *(run(study, 4, 60_000, (0.5, 1.0, 2.0, 4.0, 8.0)) for study in STUDIES)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("figures"), help="the folder for the pictures")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--size", type=int, default=60_000, help="training records")
    parser.add_argument("--study", choices=[study.name for study in STUDIES], help="one of the two sets only")
    args = parser.parse_args()
    asked = [study for study in STUDIES if args.study in (None, study.name)]
    for shown in (mechanisms(), *(run(study, args.seeds, args.size) for study in asked)):
        shown.save(args.out)


if __name__ == "__main__":
    main()
