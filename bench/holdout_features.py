"""Which truth a holdout certifies when predictors were made from its own features: an example without one label.

A linear classifier is trained on rows of its own. A nearest-neighbour model is then distilled from it on the *features* of
the holdout: asked about a row of the holdout it finds that very row and says what the linear one says, elsewhere it is
worse. Prints, over fresh holdouts, how often the interval holds the population's accuracy and that of the fixed design
(the mean over the holdout's rows of the chance that the prediction is right), for both predictors.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.holdout._holdout import Holdout

Floats = NDArray[np.float64]
Predict = Callable[[Floats], NDArray[np.bool_]]
WIDTH, NOISE = 30, 0.25


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line for each predictor, and fail if the promise that is made is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=3_000)
    given = parser.parse_args(arguments)
    seen = [trial(np.random.default_rng(run), given.rows) for run in range(given.runs)]
    print(f"{'predictor':<34} {'interval':>15} {'population':>11} {'missed':>9} {'fixed design':>13} {'missed':>9}")
    for name in seen[0]:
        low, high, population, design = (np.array([run[name][part] for run in seen]) for part in range(4))
        missed = [int(np.sum((truth < low) | (truth > high))) for truth in (population, design)]
        print(
            f"{name:<34} {low.mean():>7.3f}-{high.mean():.3f} {population.mean():>11.3f} {missed[0]:>4} of {len(low):<2} "
            f"{design.mean():>13.3f} {missed[1]:>4} of {len(low)}"
        )
        assert missed[1] <= max(1, given.runs // 10)


def trial(rng: np.random.Generator, rows: int, tolerance: float = 0.05) -> dict[str, tuple[float, float, float, float]]:
    """For both predictors the interval of one check, the population's accuracy and the fixed design's."""
    truth = rng.normal(size=WIDTH) / math.sqrt(WIDTH)
    train, kept, fresh = (rng.normal(size=(count, WIDTH)) for count in (20_000, rows, 4_000))
    linear = fitted(train, drawn(rng, train, truth))
    near = distilled(linear, kept)
    labels = drawn(rng, kept, truth)
    found = {}
    for name, predict in (("made without the features", linear), ("distilled on the features", near)):
        guess = float(np.mean(linear(train) == drawn(rng, train, truth)))
        answer: Any = Holdout(labels, tolerance=tolerance).check(predict(kept), guess=round(guess, 3))
        population = float(np.mean(chances(fresh, truth, predict(fresh))))
        found[name] = answer.low, answer.high, population, float(np.mean(chances(kept, truth, predict(kept))))
    return found


def chances(x: Floats, truth: Floats, predicted: NDArray[np.bool_]) -> Floats:
    """The chance, row by row, that a prediction is right."""
    likely = np.array([0.5 * math.erfc(-each / NOISE / math.sqrt(2)) for each in x @ truth])
    return np.where(predicted, likely, 1 - likely)


def drawn(rng: np.random.Generator, x: Floats, truth: Floats) -> NDArray[np.bool_]:
    """Labels of these rows."""
    return np.asarray(x @ truth + NOISE * rng.normal(size=len(x)) > 0)


def fitted(x: Floats, y: NDArray[np.bool_]) -> Predict:
    """A linear classifier, by least squares."""
    weights = np.linalg.lstsq(x, 2.0 * y - 1, rcond=None)[0]
    return lambda rows: np.asarray(rows @ weights > 0)


def distilled(teacher: Predict, x: Floats) -> Predict:
    """What the teacher says of the nearest of these rows."""
    said, squares = teacher(x), np.square(x).sum(axis=1)

    def predict(rows: Floats) -> NDArray[np.bool_]:
        return np.asarray(said[np.argmin(squares - 2 * rows @ x.T, axis=1)])

    return predict


if __name__ == "__main__":
    main()
