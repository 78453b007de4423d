"""Ridge models on a pure account beside the methods of 2017, like for like: one question, pure epsilon on both sides.

    python bench/accuracy_first_pure.py [--data FOLDER] [--trials 5]

Excess risk at most alpha with confidence 0.9, on the sets of accuracy_first.py. 2017 is given the smallest check that
holds, the length of the rows, and a threshold and levels tuned on made-up rows (in brackets: on these rows, in hindsight);
what was published is printed beside it. Ours is the path of an account without its ledger: the same steps and prices,
test noise. The data folder may be in STEELYARD_DATA.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from accuracy_first import GAMMA, Array, _median, _Private, ridge_cells, tuned_ridge
from papers import noise_reduction as classic
from steelyard.mechanisms import LaplacePath
from steelyard.models._columns import SIZE
from steelyard.models.accuracy._designs import Ridge, as_model
from steelyard.models.accuracy._family import Told
from steelyard.models.accuracy._goal import Goal, share_of
from steelyard.models.accuracy._ridge import LaplaceRidge
from steelyard.models.accuracy._watch import Watch, room
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, Neighbours


@dataclass
class Run:
    """One run: what the watch and the last level cost, in millionths of epsilon, and the model that passed."""

    watch: int
    level: int
    model: Array | None


def ours(private: _Private, ridge: Ridge, alpha: float, seed: int) -> Run:
    """The path of an account without its ledger."""
    family = LaplaceRidge(Goal("excess", alpha, 1 - GAMMA), ridge, SIZE, ridge.width)
    noise, levels, triangle = TestNoise(seed), family.stops, family.triangle
    bought = Watch.of(family.needs(), GAMMA * share_of(0))
    running, released = bought.mechanism.start(bought.threshold, noise), list[int]()
    scales = tuple(Fraction(triangle.sensitivity * MICRO, level) for level in levels)
    path, values = LaplacePath(triangle.sensitivity, scales, Neighbours.REPLACE), triangle.values(private.exact)
    for step, level in enumerate(levels):
        released = path.refine(values, released, step, noise) if step else path.release(values, noise)
        family.learn(Told("level", level - family.paid, released))
        look = family.candidate()
        if running.above(room(look, look.value(private))):
            return Run(bought.micro, level, as_model(look.model))
    return Run(bought.micro, levels[-1], None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("STEELYARD_DATA"))
    parser.add_argument("--trials", type=int, default=5)
    args = parser.parse_args()
    print("Ridge, excess risk at most alpha, confidence 0.9, pure epsilon (medians over trials)")
    print("data | lambda | alpha | 2017 published, 300 levels | corrected, tuned (in hindsight) | ours: watch + level | "
          "published/ours | tuned/ours (hindsight) | missed: ours, tuned")  # fmt: skip
    for data, penalty, alpha in ridge_cells(None if args.data is None else Path(args.data)):
        x, y = (part / SIZE for part in data.rows)
        published = classic.ridge(x, y, penalty, alpha)
        old, best = _median(published, alpha, 300, args.trials), tuned_ridge(data, penalty, alpha, args.trials)
        n, width = data.x.shape
        private, ridge = _Private(data.stretched()), Ridge(n, width, penalty / data.length**2)
        runs = [ours(private, ridge, alpha, seed) for seed in range(args.trials)]
        spent = float(np.median([run.watch + run.level for run in runs])) / MICRO
        level = float(np.median([run.level for run in runs])) / MICRO
        missed = sum(run.model is None or published.excess(run.model / data.length) > alpha for run in runs)
        print(f"{data.name} | {penalty} | {alpha} | {old:.1f} | {best.median:.2f} ({best.hindsight:.2f}) | {spent:.3f}: "
              f"{runs[0].watch / MICRO:.3f} + {level:.3f} | {old / spent:.0f}x | "
              f"{best.median / spent:.1f}x ({best.hindsight / spent:.1f}x) | "
              f"{missed}/{args.trials}, {best.missed}/{args.trials}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
