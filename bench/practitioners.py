"""Classifiers and count models from private labels, beside no privacy and beside what is known: real tables and generated ones.

Classes: Adult and Bank (two classes), and a generated set of ten. Log loss on held-out records of

    clean      scikit-learn's logistic regression on true labels
    rr         the same on labels by randomized response (K-ary)
    rr+prior   the same on labels by RRWithPrior, the shares of the classes given for nothing
    two-stage  RRWithPrior in two stages (Ghazi et al. 2021): half by rr, its model the prior of the other half; plain training
    debiased   rr, and probabilities put right by the inverse of the channel
    vectors    LabelPrivateClassifier as it comes: sets of classes, MultinomialRegression
    staged     LabelPrivateClassifier(stages=2)

Counts: a generated log-linear set. Poisson loss (e^s - y s) of PoissonRegression on noisy counts by auto, two-point and Laplace.

    python bench/practitioners.py --data ../shared/data             3 seeds: some minutes
    python bench/practitioners.py --data ../shared/data --seeds 20  what the docs quote
"""

from __future__ import annotations

import argparse
import functools
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from steelyard.labels import LabelPrivateClassifier, LabelPrivateRegressor, PoissonRegression
from steelyard.labels._classes import ClassSampler
from steelyard.labels._top import TopSampler
from steelyard.noise import ExactNoise

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
EPSILONS = (0.3, 1.0, 3.0)
LEFT_OUT = {"adult": ("fnlwgt", "education", "native_country", "output", "split"), "bank": ("y", "duration")}
LABEL = {"adult": "output", "bank": "y"}
NUMBERS = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week", "balance", "campaign", "pdays", "previous", "day")  # fmt: skip
MOST = 20_000  # records trained on


@functools.cache
def real(name: str, folder: Path) -> tuple[Floats, Ints]:
    """Numbers brought to deviation one (long tails by their logarithm), everything else as zeros and ones; two classes."""
    import pyarrow.parquet as pq

    table, columns = pq.read_table(folder / f"{name}.parquet"), []
    for column in table.column_names:
        if column in LEFT_OUT[name]:
            continue
        values = np.asarray(table[column].to_pylist(), dtype=object)
        if column in NUMBERS:
            number = values.astype(np.float64)
            number = np.sign(number) * np.log1p(np.abs(number)) if np.abs(number).max() > 1000 else number
            columns.append((number - number.mean()) / number.std())
        else:
            columns += [(values == each).astype(np.float64) for each in sorted(set(values.tolist()), key=str)]
    label = [str(each) for each in table[LABEL[name]].to_pylist()]
    return np.column_stack(columns), np.isin(label, ["yes", "1", ">50K", ">50K.", "True"]).astype(np.int64)


def ten(seed: int) -> tuple[Floats, Ints]:
    """Ten classes of falling shares by a log-linear model of twelve features."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(30_000, 12))
    scores = x @ draw.normal(size=(12, 10)) - 0.2 * np.arange(10) + draw.gumbel(size=(30_000, 10))
    return x, scores.argmax(axis=1)


def counts(seed: int) -> tuple[Floats, Ints]:
    """Counts from 0 to 20 by a log-linear model of eight features."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(30_000, 8))
    return x, np.minimum(draw.poisson(np.exp(0.4 + x @ draw.normal(size=8) * 0.25)), 20)


def trained(x: Floats, labels: Ints, size: int) -> Callable[[Floats], Floats]:
    """scikit-learn's logistic regression on these classes; classes that did not come have no chance."""
    if len(set(labels.tolist())) < 2:
        constant = np.eye(size)[labels[0]]
        return lambda rows: np.tile(constant, (len(rows), 1))
    model = LogisticRegression(max_iter=300).fit(x, labels)

    def likely(rows: Floats) -> Floats:
        found = np.zeros((len(rows), size))
        found[:, model.classes_] = model.predict_proba(rows)
        return found

    return likely


def answers(prior: Floats, labels: Ints, epsilon: float) -> Ints:
    """Labels by RRWithPrior, one prior for each record."""
    return TopSampler.of(prior, epsilon).draw(labels, ExactNoise())


def by_response(labels: Ints, size: int, epsilon: float) -> Ints:
    """Labels by K-ary randomized response."""
    sampler = ClassSampler.of(size, epsilon, chosen=1)
    return np.asarray(sampler.at(sampler.draw(labels, ExactNoise())).argmax(axis=1))


def two_stage(x: Floats, labels: Ints, size: int, epsilon: float) -> Callable[[Floats], Floats]:
    """Half of the records by randomized response, the other half by RRWithPrior with the first half's model."""
    half = np.arange(len(x)) % 2 == 0
    first = by_response(labels[half], size, epsilon)
    prior = np.maximum(trained(x[half], first, size)(x[~half]), 1e-6)
    told = np.empty_like(labels)
    told[half], told[~half] = first, answers(prior, labels[~half], epsilon)
    return trained(x, told, size)


def methods(x: Floats, y: Ints, size: int, epsilon: float) -> dict[str, Callable[[Floats], Floats]]:
    """Every way of learning from private labels."""
    shares = np.tile(np.bincount(y, minlength=size) / len(y), (len(y), 1))
    ours: dict[str, Any] = {
        "debiased": LabelPrivateClassifier(LogisticRegression(max_iter=300), epsilon, range(size)),
        "vectors": LabelPrivateClassifier(epsilon=epsilon, classes=range(size)),
        "staged": LabelPrivateClassifier(epsilon=epsilon, classes=range(size), stages=2),
    }
    return {
        "rr": trained(x, by_response(y, size, epsilon), size),
        "rr+prior": trained(x, answers(shares, y, epsilon), size),
        "two-stage": two_stage(x, y, size, epsilon),
        **{name: model.fit(x, y).predict_proba for name, model in ours.items()},
    }


def loss(likely: Floats, y: Ints) -> float:
    """Log loss, chances held above a millionth."""
    held = np.maximum(likely, 1e-6)
    return float(log_loss(y, held / held.sum(axis=1, keepdims=True), labels=range(likely.shape[1])))


def show(name: str, found: dict[str, list[float]]) -> None:
    """A line of means and standard errors."""
    cells = [
        f"{way} {np.mean(each):.4f} ± {np.std(each) / max(len(each) - 1, 1) ** 0.5:.4f}" for way, each in found.items()
    ]
    print(f"{name:18}  " + "  ".join(cells), flush=True)


def classes(name: str, folder: Path, epsilons: tuple[float, ...], seeds: int) -> None:
    """One table of classes, over seeds of the split (or of the generator)."""
    for epsilon in epsilons:
        found: dict[str, list[float]] = {}
        for seed in range(seeds):
            x, y = ten(seed) if name == "ten" else real(name, folder)
            order = np.random.default_rng(seed).permutation(len(x))
            train, test = order[:MOST], order[MOST : MOST + 10_000]
            size = int(y.max()) + 1
            found.setdefault("clean", []).append(loss(trained(x[train], y[train], size)(x[test]), y[test]))
            for way, likely in methods(x[train], y[train], size, epsilon).items():
                found.setdefault(way, []).append(loss(likely(x[test]), y[test]))
        show(f"{name} epsilon {epsilon:g}", found)


def numbers(epsilons: tuple[float, ...], seeds: int) -> None:
    """Poisson models of counts."""
    for epsilon in epsilons:
        found: dict[str, list[float]] = {}
        for seed in range(seeds):
            x, y = counts(seed)
            train, test = slice(0, MOST), slice(MOST, None)
            made: dict[str, Any] = {"clean": PoissonRegression("auto").fit(x[train], y[train])}
            for method in ("auto", "two_point", "laplace"):
                model = LabelPrivateRegressor(PoissonRegression("auto"), epsilon, 0, 20, method)
                made[method] = model.fit(x[train], y[train].astype(np.float64))
            for way, model in made.items():
                mean = model.predict(x[test])
                found.setdefault(way, []).append(float(np.mean(mean - y[test] * np.log(mean))))
        show(f"counts epsilon {epsilon:g}", found)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", default=os.environ.get("STEELYARD_DATA"), help="folder of adult.parquet and bank.parquet"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--only", nargs="+", default=["adult", "bank", "ten", "counts"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.only:
        if name == "counts":
            numbers(tuple(given.epsilons), given.seeds)
        elif name == "ten" or given.data:
            classes(name, Path(given.data or "."), tuple(given.epsilons), given.seeds)


if __name__ == "__main__":
    main()
