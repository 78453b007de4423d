"""A public target: the price of a model that certainly meets it, beside an oracle that may look at the loss for nothing.

    python bench/accuracy_first_target.py [--data FOLDER] [--trials 20] [--part ridge,logistic,told,failures]

Also printed: what a single look would have cost, with the whole failure probability to itself, made at the moment that
only hindsight knows to be best. No rule for when to look can be cheaper than that, so where it is far above the oracle,
looking is what costs. Rows whose target the model that predicts nothing meets are left out: the oracle pays nothing there.
The part "told" asks again about the sets whose rows are shorter than one and says so to the path: it costs less, and the
oracle less still, which makes the ratio larger.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from accuracy_first import (
    DELTA,
    GAMMA,
    Array,
    Data,
    _Private,
    logistic_cells,
    ours,
    ridge_cells,
    solved,
)  # fmt: skip
from off_ledger import Ended
from steelyard.accounting._gaussian import epsilon_of
from steelyard.accounting._objective import LEAST
from steelyard.ledger import open_account
from steelyard.mechanisms import Objective
from steelyard.models._columns import SIZE, Features, Plain
from steelyard.models._losses import Memory
from steelyard.models._objective import ObjectiveFit
from steelyard.models.accuracy import _schedule as schedule
from steelyard.models.accuracy._designs import Design, PooledDesign, Ridge, best_weight
from steelyard.models.accuracy._family import WHOLE
from steelyard.models.accuracy._goal import Goal
from steelyard.models.accuracy._logistic import LogisticSearch, steepness
from steelyard.models.accuracy._losses import MARGIN, margin_cap
from steelyard.models.accuracy._posterior import expected_model, reach_of
from steelyard.models.accuracy._quantiles import normal_quantile
from steelyard.noise import TestNoise
from steelyard.privacy import MICRO, rows
from steelyard.session import Session
from steelyard.tables import read

Level = tuple[
    float, float, float
]  # the path's mu, the true loss of its model, by how much a row moves the sum of losses


def free(levels: Iterable[Level], target: float) -> float:
    """The mu of the first level whose model meets the target."""
    return next(mu for mu, loss, _ in levels if loss <= target)


def hindsight(levels: Iterable[Level], target: float, n: int) -> float:
    """The mu of the cheapest level and single look together; the look passes every other time."""
    z = normal_quantile(GAMMA)
    return min(math.hypot(mu, z * moves / n / (target - loss)) for mu, loss, moves in levels if loss < target)


def ridge_levels(data: Data, penalty: float, seed: int) -> Iterator[Level]:
    """The models of a fine path and what they lose: the one we would try, and the penalized one, whichever is better."""
    n, width = data.x.shape
    private, ridge, noise = _Private(data), Ridge(n, width, penalty), TestNoise(seed)
    x, y = (part / SIZE for part in data.rows)
    norm = 0.5 * math.sqrt(float(np.mean(y**2)) / penalty)
    pool, spent = PooledDesign(design := Design(SIZE, width, best_weight(norm))), 0
    for micro in (1000 * 1.1 ** np.arange(80)).astype(int).tolist():
        cost = micro**2 - spent
        pool.add(cost, design.measure(private.exact, cost, noise))
        noisy, spent = pool.noisy(ridge), micro**2
        penalized = schedule.guess(ridge, noisy, norm, noisy.variance).model
        for model in (expected_model(ridge, noisy, norm), penalized):
            reach = min(reach_of(ridge, noisy, model) / WHOLE, float(np.linalg.norm(model)))
            yield micro / MICRO, float(np.mean((y - np.clip(x @ model, -reach, reach)) ** 2)), (1 + reach) ** 2


def ridge_runs(data: Data, penalty: float, target: float, trials: int) -> tuple[list[float], int, int]:
    """What our runs spent, how many passed a model above the target, and how many gave up."""
    n, width = data.x.shape
    private, ridge = _Private(data), Ridge(n, width, penalty)
    x, y = (part / SIZE for part in data.rows)
    goal = Goal("loss", target, 1 - GAMMA)
    runs = [ours(private, ridge, goal, seed) for seed in range(trials)]

    def loss(run: Ended) -> float:
        return float(np.mean((y - np.clip(x @ run.model, -run.reach, run.reach)) ** 2))

    met = [run for run in runs if run.reason in ("target_met", "null_model_ok")]
    return [math.sqrt(run.spent) for run in runs], sum(loss(run) > target for run in met), trials - len(met)


def logistic_levels(signed: Array, target: float, seed: int) -> Iterator[Level]:
    """Averages of ever dearer draws and what they lose."""
    width, cap = signed.shape[1], margin_cap(target) / 2**MARGIN
    noise, whole = TestNoise(seed), Memory(np.trunc(signed * (SIZE - 64)))
    total, paid = np.zeros(width), 0
    for k in range(60):
        cost = round((2 * LEAST * 1.2**k) ** 2) - paid
        shift = max(math.isqrt(cost) // 2, LEAST)
        ridge = steepness(width) * Fraction(MICRO, shift)
        fit = ObjectiveFit(Objective(width, shift, ridge, max(1, shift // 16)))
        total, paid = total + cost * fit.solve(whole, noise), paid + cost
        model = total / paid
        margins = np.clip(signed @ model, -cap, cap)
        yield math.sqrt(paid) / MICRO, float(np.mean(np.logaddexp(0, -margins))), min(cap, float(np.linalg.norm(model)))


def logistic_runs(data: Data, penalty: float, target: float, trials: int) -> tuple[list[float], int, int]:
    """The same for classifiers, through a session and a ledger in memory."""
    import pyarrow as pa

    n, width = data.x.shape
    names = [f"x{i}" for i in range(width)]
    table = pa.table({**dict(zip(names, data.x.T, strict=True)), "y": (data.y > 0).astype(int)})
    features = Features([Plain(name) for name in names], "clip", 1, intercept=False)
    search, signed = LogisticSearch(features, "y", (0, 1), Fraction(str(penalty))), data.x * np.sign(data.y)[:, None]
    spent, wrong, lost = [], 0, 0
    for seed in range(trials):
        account = open_account(":memory:", "bench", unit=rows(neighbours="replace", n=n), epsilon=50, delta=DELTA)
        found = Session(read(table), account, noise=TestNoise(seed)).open(search).reach_loss(target, 1 - GAMMA)
        spent.append(math.sqrt(found.spent) / MICRO)
        if found.reason not in ("target_met", "null_model_ok"):
            lost += 1
        elif found.model is not None and found.margin is not None:
            margins = np.clip(signed @ found.model, -found.margin, found.margin)
            wrong += float(np.mean(np.logaddexp(0, -margins))) > target
    return spent, wrong, lost


def row(name: str, target: float, levels: list[list[Level]], runs: tuple[list[float], int, int], n: int) -> float:
    """Print one row of the table; the ratio of ours to the oracle."""
    mine, wrong, lost = runs
    told = [float(np.median(mine)), float(np.median([free(path, target) for path in levels]))]
    told.append(float(np.median([hindsight(path, target, n) for path in levels])))
    spent, oracle, best = (epsilon_of(mu, DELTA) for mu in told)
    print(f"{name} | {target:.4f} | {spent:.3f} | {oracle:.3f} | {best / oracle:.1f}x | {spent / oracle:.1f}x | "
          f"{spent / best:.1f}x | {wrong}, {lost} of {len(mine)}", flush=True)  # fmt: skip
    return spent / oracle


def asked(folder: Path | None, parts: Iterable[str]) -> Iterator[tuple[Data, float, float]]:
    """The ridge cells as they are; and, told how long rows can be, those whose rows are shorter than one."""
    if "ridge" in parts:
        yield from ridge_cells(folder)
    if "told" in parts:
        for data, penalty, alpha in ridge_cells(folder):
            if data.length < 1:
                told = data.stretched()
                yield Data(f"{data.name}, told", told.x, told.y), penalty / data.length**2, alpha


def compare(folder: Path | None, trials: int, parts: Iterable[str]) -> None:
    """All rows, and the median of their ratios."""
    print("\nA public target (filter epsilon at delta 1e-6, medians), confidence 0.9")
    print(
        "data | target | ours | free oracle | best single look/oracle | ours/oracle | ours/best look | wrong, gave up"
    )
    ratios = []
    if "ridge" in parts or "told" in parts:
        for data, penalty, alpha in asked(folder, parts):
            x, y = (part / SIZE for part in data.rows)
            best = np.linalg.solve(x.T @ x + len(x) * penalty * np.eye(x.shape[1]), x.T @ y)
            target = float(np.mean((y - np.clip(x @ best, -1, 1)) ** 2)) + 2 * alpha
            if target >= float(np.mean(y**2)):
                print(f"{data.name} | {target:.4f} | left out: predicting nothing loses {float(np.mean(y**2)):.4f}")
                continue
            levels = [list(ridge_levels(data, penalty, seed)) for seed in range(min(trials, 8))]
            ratios.append(row(f"{data.name}, ridge", target, levels, ridge_runs(data, penalty, target, trials), len(x)))
    if "logistic" in parts:
        for data, penalty, alpha in logistic_cells(folder):
            signed = data.x * np.sign(data.y)[:, None]
            best = solved(signed, penalty, np.zeros(signed.shape[1]))
            target = float(np.mean(np.logaddexp(0, -signed @ best))) + alpha
            if target >= math.log(2):
                print(f"{data.name} | {target:.4f} | left out: predicting one half loses {math.log(2):.4f}")
                continue
            levels = [list(_until(logistic_levels(signed, target, seed), target)) for seed in range(min(trials, 5))]
            ratios.append(
                row(f"{data.name}, logistic", target, levels, logistic_runs(data, penalty, target, trials), len(signed))
            )
    print(f"median over rows of ours/oracle: {np.median(ratios):.2f}x")


def _until(levels: Iterator[Level], target: float) -> Iterator[Level]:
    """A path up to four times the mu of its first model that meets the target: later levels are no cheaper."""
    first = math.inf
    for level in levels:
        first = min(first, level[0]) if level[1] <= target else first
        if level[0] > 4 * first:
            return
        yield level


def failures(runs: int) -> None:
    """How often a model passes that does not meet its target: ridge on generated rows, targets hardly above the best."""
    draws = np.random.default_rng(3)
    n, width, penalty = 4000, 5, 0.02
    x = draws.standard_normal((n, width)) * np.exp(-0.6 * np.arange(width))
    x /= np.maximum(np.linalg.norm(x, axis=1), 1)[:, None]
    data = Data("generated", x, np.clip(x @ draws.standard_normal(width) * 0.5 + 0.3 * draws.standard_normal(n), -1, 1))
    grid, labels = (part / SIZE for part in data.rows)
    best = np.linalg.solve(grid.T @ grid + n * penalty * np.eye(width), grid.T @ labels)
    least = float(np.mean((labels - np.clip(grid @ best, -1, 1)) ** 2))
    print(f"\nWrong answers in {runs} runs at an allowed {GAMMA:.0%}")
    for above in (1.002, 1.02, 1.2):
        _, wrong, lost = ridge_runs(data, penalty, least * above, runs)
        print(f"ridge, target {above} times the best loss | {wrong} wrong, {lost} gave up", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("STEELYARD_DATA"))
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--failures", type=int, default=1000)
    parser.add_argument("--part", default="ridge,logistic,told,failures")
    options = parser.parse_args()
    parts: list[str] = options.part.split(",")
    folder = Path(options.data) if options.data else None
    if rows_of := {"ridge", "logistic"} & set(parts):
        compare(folder, options.trials, rows_of)
    if "told" in parts:
        compare(folder, options.trials, ("told",))
    if "failures" in parts:
        failures(options.failures)


if __name__ == "__main__":
    main()
