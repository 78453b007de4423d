"""Capped learning by three mechanisms and two models: what noise and bias each cap on rows per user costs, measured.

Users of Pareto weight, of whom heavy ones differ from the others. For each cap, the mean loss over all rows above the best:
"bias" is what the best model of the capped rows loses (users weighted min(n_j, tau)), "total" what a private model loses on
average, "noise" the difference (the draw, the ridge, and which rows were kept). Privacy is pure, per user. The choice is among a
grid on a ball, and its best is the grid's; output perturbation has a ridge of a fiftieth of the rows, taken as a public number, as
in the example of Amin et al. (2019). Printed beside them: the bias bound by total variation, and Lemma 1's bound on what a choice adds.

    python bench/papers/capped_figures.py [--rows 10000] [--draws 5] [--epsilon 2] [--out folder]

With ``--out`` one picture of all six trade-offs is drawn (SVG, and PNG where the engine for it is installed).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.bounding import bias_bounds, choice_bound
from steelyard.bounding._bias import kept_rows
from steelyard.charts import Chart, tradeoff
from steelyard.ledger import open_account
from steelyard.models import FitLinear, FitLogistic
from steelyard.models._columns import SIZE
from steelyard.models._exponential_mechanism import BallChoice
from steelyard.models._losses import LOG_COSH, LOGISTIC, LossFunction
from steelyard.models._rows import Rows
from steelyard.noise import TestNoise
from steelyard.privacy import users

Floats = NDArray[np.float64]
CAPS = tuple(2**k for k in range(9))
WAYS = ("objective", "output", "choice")
RADIUS = {"linear": 1.0, "logistic": 3.0}
NAMES = ["a", "b"]


@dataclass(frozen=True)
class Data:
    """Rows of length at most one with an intercept, labels in [-1, 1] (signs, for classes), and whose they are."""

    x: Floats
    y: Floats
    whose: NDArray[np.int64]
    loss: LossFunction

    @property
    def counts(self) -> NDArray[np.int64]:
        return np.bincount(self.whose)

    def rows(self) -> Rows:
        return Rows(np.trunc(self.x * SIZE), self.y if self.loss.classifies else np.rint(self.y * SIZE), self.whose)

    def losses(self, theta: Floats) -> Floats:
        """Each row's loss under each column of coefficients."""
        scores = self.x @ theta
        if self.loss.classifies:
            return self.loss.value(scores * self.y.reshape(-1, *[1] * (scores.ndim - 1)), None)
        return self.loss.value(scores, self.y.reshape(-1, *[1] * (scores.ndim - 1)))

    def best(self, cap: float, among: Floats | None) -> Floats:
        """The best coefficients where users weigh min(n_j, cap): over all of them, or among the columns given."""
        weights = np.minimum(1, cap / self.counts)[self.whose]
        if among is not None:
            return np.asarray(among[:, int(np.argmin(weights @ self.losses(among)))])
        return self._minimum(weights)

    def _minimum(self, weights: Floats) -> Floats:
        v, labels = (self.x * self.y[:, None], None) if self.loss.classifies else (self.x, self.y)
        theta = np.zeros(v.shape[1])
        for _ in range(40):
            slopes, curves = self.loss.derivatives(v @ theta, labels)
            hessian = (v * (curves * weights)[:, None]).T @ v + 1e-9 * np.eye(theta.size)
            step = np.linalg.solve(hessian, v.T @ (slopes * weights))
            theta = theta - step * min(1.0, 1 / max(float(np.linalg.norm(step)), 1e-9))
        return np.asarray(theta)


def made(kind: str, rows: int, seed: int) -> Data:
    """Pareto users (index 1, at most a twentieth of the rows); coefficients drift with a user's weight."""
    source = np.random.default_rng([seed, kind == "linear"])
    counts = np.minimum(np.floor(source.pareto(1.0, rows) + 1), rows // 20).astype(int)
    counts = counts[: int(np.searchsorted(np.cumsum(counts), rows))]
    whose = np.repeat(np.arange(counts.size), counts)
    heavy = (np.log(counts) / np.log(counts.max()))[:, None] ** 2
    own = np.array([1.0, -0.5, 0.2]) + heavy * ([-0.8, 1.2, 0.3] + 0.3 * source.normal(size=(counts.size, 3)))
    x = source.normal(size=(whose.size, 2)) * 0.5
    x = np.column_stack([x / np.maximum(1, np.linalg.norm(x, axis=1))[:, None], np.ones(whose.size)]) / np.sqrt(2)
    score = (x * own[whose]).sum(axis=1)
    if kind == "linear":
        return Data(x, np.clip(0.7 * score + 0.15 * source.normal(size=whose.size), -1, 1), whose, LOG_COSH)
    signs = np.where(source.random(whose.size) < 1 / (1 + np.exp(-6 * score)), 1.0, -1.0)
    return Data(x, signs, whose, LOGISTIC)


def task(kind: str, way: str, cap: int, epsilon: float, rows: int) -> Any:
    more: dict[str, Any] = {"epsilon": epsilon, "x_bound": 1, "cap": cap, "method": way}
    more |= {"radius": RADIUS[kind]} if way == "choice" else {"ridge": rows // 50} if way == "output" else {}
    return FitLinear(NAMES, "y", -1, 1, **more) if kind == "linear" else FitLogistic(NAMES, "y", [0, 1], **more)


def curve(data: Data, kind: str, way: str, epsilon: float, draws: int, rows_known: int) -> dict[str, list[float]]:
    """Noise, bias and total, cap by cap."""
    terms = open_account(":memory:", "capped", unit=users("who"), epsilon=epsilon).terms
    grid = None
    if way == "choice":
        grid = np.array(BallChoice.over(3, RADIUS[kind], 1, data.loss).candidates).T
    floor = float(data.losses(data.best(np.inf, grid)).mean())
    found: dict[str, list[float]] = {"noise": [], "bias": [], "total": []}
    rows = data.rows()
    for cap in CAPS:
        method = task(kind, way, cap, epsilon, rows_known).fit(terms)
        told = [method.fit(rows, TestNoise(f"{kind} {way} {cap} {draw}")).coefficients for draw in range(draws)]
        total = float(np.mean([data.losses(theta).mean() for theta in told])) - floor
        bias = float(data.losses(data.best(cap, grid)).mean()) - floor
        for name, value in (("noise", total - bias), ("bias", bias), ("total", total)):
            found[name].append(value)
    return found


def panel(found: dict[str, list[float]], kind: str, way: str, about: str) -> Chart:
    words: dict[str, Any] = {"title": f"{kind}, {way}", "subtitle": about, "y_title": "excess loss"}
    words |= {"x_title": "cap, rows per user"}
    return tradeoff(CAPS, found["noise"], found["bias"], found["total"], **words)


def together(panels: list[Chart], columns: int = 3) -> str:
    """All pictures as one."""
    width, height = 680, max(chart.height for chart in panels)
    rows = -(-len(panels) // columns)
    inner = [
        chart.svg("light").replace(
            "<svg ", f'<svg x="{width * (place % columns)}" y="{height * (place // columns)}" ', 1
        )
        for place, chart in enumerate(panels)
    ]
    size = f'width="{width * columns}" height="{height * rows}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(inner)}</svg>\n'


def save(panels: list[Chart], out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    drawn = together(panels)
    (out / "capped.svg").write_text(drawn)
    try:
        from resvg_py import svg_to_bytes
    except ImportError:
        return
    (out / "capped.png").write_bytes(bytes(svg_to_bytes(drawn, zoom=1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    panels = []
    for kind in ("linear", "logistic"):
        data = made(kind, given.rows, given.seed)
        counts = data.counts
        print(
            f"\n{kind}: {len(data.y)} rows of {counts.size} users, the heaviest {counts.max()}; epsilon {given.epsilon:g} per user"
        )
        print("cap        " + "".join(f"{cap:<9}" for cap in CAPS))
        bounds = [bias_bounds(counts, cap).total_variation for cap in CAPS]
        lemma = [choice_bound(cap, kept_rows(counts, cap), given.epsilon, dimension=3, delta=0.05) for cap in CAPS]
        for name, values in (("bias, total variation", bounds), ("choice, Lemma 1", lemma)):
            print(f"{name:<22} " + " ".join(f"{value:.2g}" for value in values))
        for way in WAYS:
            found = curve(data, kind, way, given.epsilon, given.draws, given.rows)
            panels.append(panel(found, kind, way, f"{counts.size} Pareto users, epsilon {given.epsilon:g}, pure"))
            for name, values in found.items():
                print(f"{way:<10} {name:<6} " + " ".join(f"{value:<8.4f}" for value in values))
            best = int(np.argmin(found["total"]))
            print(f"{way:<10} best cap {CAPS[best]}: {found['total'][best]:.4f}")
    if given.out is not None:
        save(panels, given.out)


if __name__ == "__main__":
    main()
