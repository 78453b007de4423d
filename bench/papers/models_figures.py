"""The learning part of Amin et al., "Bounding User Contributions" (ICML 2019): what a cap on rows per user trades, and its cost.

Users take part with probability proportional to 1/j^(1 + alpha). Table 1: the measured log-loss of a private model over caps,
its minimum, the bound of Theorem 1 over the same caps and the users each cuts; the bound explains the curve's shape but its own
minimum lies elsewhere. Table 2: the bound's least bias plus noise as rows grow a thousandfold: it does not vanish, because
the heaviest users bring a constant share of all rows. The theorem leaves its constants open; they are 1 here.

    python bench/papers/models_figures.py [--out folder]

With ``--out`` the figures are drawn too (SVG).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from papers.shown import AMIN, Check, Shown
from steelyard.bounding import bias_bounds
from steelyard.charts import Chart, Line, lines
from steelyard.errors import InvalidTask

Floats = NDArray[np.float64]
CAPS = tuple(2.0**k for k in range(13))
EPSILON, MU = 1.0, 0.2367


@dataclass(frozen=True)
class TheoremTerms:
    """The terms over a row of caps: ``bias`` (twice the bias bound), ``sampling``, ``privacy``; and users cut by each cap."""

    caps: tuple[float, ...]
    bias: tuple[float, ...]
    sampling: tuple[float, ...]
    privacy: tuple[float, ...]
    capped_users: tuple[float, ...]

    @property
    def total(self) -> tuple[float, ...]:
        """The sum of the three, cap by cap."""
        return tuple(map(sum, zip(self.bias, self.sampling, self.privacy, strict=True)))

    def chart(self, subtitle: str = "Theorem 1 of Amin et al.; its constants are taken as 1") -> Chart:
        """The terms and their sum against the cap."""
        named = {"bound": self.total, "bias": self.bias, "sampling": self.sampling, "privacy": self.privacy}
        series = [Line(label, self.caps, values) for label, values in named.items()]
        title, x_title, y_title = "What a cap on rows per user trades", "cap, rows per user", "excess loss"
        return lines(series, title=title, subtitle=subtitle, x_title=x_title, y_title=y_title, log_x=True)


def theorem_terms(
    counts: ArrayLike,
    epsilon: float,
    dimension: float,
    *,
    confidence: float = 0.95,
    caps: Sequence[float] | None = None,
    users: ArrayLike | None = None,
    constants: tuple[float, float] = (1.0, 1.0),
) -> TheoremTerms:
    """The terms of Theorem 1 for users with these row ``counts`` (``users`` says how many of each; 1 by default).

    The bias term uses the total variation distance, which Amin's two bounds exceed; ``constants`` stand for the ones
    left open, of the sampling and of the privacy term, and may be set to see that no choice of theirs is innocent.
    *Privacy:* none: counts of private data are private, and so is every number returned. Give the counts of a released
    histogram, of public data or of generated users.

    >>> terms = theorem_terms([1, 1, 8], epsilon=1, dimension=2, caps=[1, 8])
    >>> terms.bias[1], terms.capped_users
    (0.0, (1.0, 0.0))
    """
    if not (epsilon > 0 and dimension > 0 and 0 < confidence < 1 and min(constants) > 0):
        raise InvalidTask(
            "Theorem 1 needs epsilon, dimension and constants above zero and a confidence between 0 and 1."
        )
    rows = np.asarray(counts, dtype=float).ravel()
    many = np.ones_like(rows) if users is None else np.asarray(users, dtype=float).ravel()
    if rows.size == 0 or rows.size != many.size or not (np.isfinite(rows * many).all() and (rows * many > 0).any()):
        raise InvalidTask("Theorem 1 needs the row counts of at least one user.")
    expanded = np.repeat(rows, np.rint(np.maximum(many, 0)).astype(np.int64))
    wanted = _octave_caps(expanded) if caps is None else [float(cap) for cap in caps]
    found = [_terms(expanded, cap, epsilon, dimension, 1 - confidence, constants) for cap in wanted]
    return TheoremTerms(tuple(wanted), *(tuple(column) for column in zip(*found, strict=True)))


def _octave_caps(counts: Floats) -> list[float]:
    return [2.0**k for k in range(math.ceil(math.log2(max(float(counts.max()), 1.0))) + 1)]


def _terms(
    counts: Floats, cap: float, epsilon: float, dimension: float, failure: float, constants: tuple[float, float]
) -> tuple[float, float, float, float]:
    bounds = bias_bounds(counts, cap)
    sampling = constants[0] * math.sqrt(dimension * math.log(float(counts.sum()) / failure) / bounds.kept)
    privacy = constants[1] * (cap * math.log(3 / failure) / (bounds.kept * epsilon)) ** 2
    return 2 * bounds.total_variation, sampling, privacy, float((counts > cap).sum())


def counts_of(alpha: float, rows: int, seed: int) -> Floats:
    """Rows per user."""
    shares = 1 / np.arange(1.0, 100_001) ** (1 + alpha)
    found = np.random.default_rng([seed, int(10 * alpha)]).multinomial(rows, shares / shares.sum())
    return found[found > 0].astype(float)


def measured(alpha: float, rows: int, h: float, seed: int, draws: int) -> Floats:
    """Mean log-loss over fresh rows of a private logistic model, cap by cap (objective perturbation, width 5)."""
    source, width = np.random.default_rng([seed, int(10 * alpha), 1]), 5
    counts = counts_of(alpha, rows, seed).astype(int)
    users = np.repeat(np.arange(counts.size), counts)
    own = (np.log1p(counts) / math.log1p(counts.max()))[:, None] ** 2 * source.normal(size=(counts.size, width))
    theta = 4 * np.eye(width)[0] + 2 * h * own
    x = source.normal(size=(2, rows, width))
    x /= np.maximum(1, np.linalg.norm(x, axis=2))[:, :, None]
    chance = 1 / (1 + np.exp(-np.einsum("tij,ij->ti", x, theta[users])))
    y = np.where(source.random((2, rows)) < chance, 1.0, -1.0)
    rank = np.arange(rows) - np.searchsorted(users, users)
    losses = np.zeros(len(CAPS))
    for place, cap in enumerate(CAPS):
        keep = rank < cap
        for _ in range(draws):
            tilt = source.normal(0.0, cap / MU, (width,))
            found = _minimised(x[0, keep], y[0, keep], cap / MU, np.asarray(tilt))
            losses[place] += float(np.logaddexp(0, -y[1] * (x[1] @ found)).mean()) / draws
    return losses


def _minimised(x: Floats, y: Floats, ridge: float, tilt: Floats) -> Floats:
    """Damped Newton steps on the summed log-loss plus ridge and tilt."""
    theta = np.zeros(x.shape[1])
    for _ in range(25):
        p = 1 / (1 + np.exp(np.clip(y * (x @ theta), -40, 40)))
        slope = -(x * (y * p)[:, None]).sum(axis=0) + ridge * theta + tilt
        step = np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + ridge * np.eye(theta.size), slope)
        theta = theta - step * min(1.0, 2 / max(float(np.linalg.norm(step)), 1e-9))
    return theta


def trades(rows: int, draws: int) -> Shown:
    """The loss of private models over caps, beside the terms of Theorem 1."""
    print(f"Table 1: {rows} rows, epsilon {EPSILON:g}. Measured loss and bound, least over caps, and users cut there")
    print("alpha  users   least loss  at cap  users cut   loss at the bound's cap  bound  at cap  users cut")
    curves, charts, checks = [], [], []
    for alpha in (0.2, 0.5, 1.0):
        losses = measured(alpha, rows, 1.0, 1, draws)
        counts = counts_of(alpha, rows, 1)
        terms = theorem_terms(counts, EPSILON, 5, caps=CAPS)
        best, bound = int(losses.argmin()), int(np.argmin(terms.total))
        print(f"{alpha:<5g}  {counts.size:<6} {losses[best]:<10.4f}  {CAPS[best]:<6g}  {terms.capped_users[best]:<10g}  "
              f"{losses[bound]:<23.4f}  {terms.total[bound]:<5.3g}  {CAPS[bound]:<6g}  {terms.capped_users[bound]:g}"
              )  # fmt: skip
        curves.append(Line(f"alpha {alpha:g}", CAPS, losses.tolist()))
        charts.append(
            terms.chart(f"Theorem 1, its constants taken as 1; p ~ 1/j^{1 + alpha:g}, {rows} rows, epsilon 1")
        )
        words = f"alpha {alpha:g}: loss {losses[0]:.3f} at cap 1, least {losses[best]:.3f} at {CAPS[best]:g}, {losses[-1]:.3f} at {CAPS[-1]:g}"
        checks.append(Check(words, bool(losses[best] < min(losses[0], losses[-1]) - 0.002)))
    about = f"Logistic models by objective perturbation, {rows} rows, epsilon 1; users differ, heavy ones most"
    title, x_title = "Loss of a private model over caps", "cap, rows per user"
    chart = lines(curves, title=title, subtitle=about, x_title=x_title, y_title="log-loss", log_x=True)
    claim = "between caps that bias the model and caps that drown it in noise lies one that is better than both ends."
    return Shown(AMIN, "Theorem 1, the sweet spot", claim, (chart, charts[1]), tuple(checks))


def cost() -> Shown:
    """The bound's least bias plus noise, as rows grow a thousandfold."""
    print("\nTable 2: the bound's least bias + noise over caps, as rows grow (epsilon 1), and users cut there")
    sizes = (10_000, 100_000, 1_000_000, 10_000_000)
    print("alpha  " + "  ".join(f"n = {rows:<12}" for rows in sizes))
    curves, checks = [], []
    for alpha in (0.2, 0.5, 1.0):
        found = []
        for rows in sizes:
            terms = theorem_terms(counts_of(alpha, rows, 2), EPSILON, 1)
            both = np.array(terms.bias) + np.array(terms.privacy)
            found.append((float(both.min()), int(terms.capped_users[int(both.argmin())])))
        print(f"{alpha:<5g}  " + "  ".join(f"{value:.3f} ({cut} cut)".ljust(16) for value, cut in found))
        values = [value for value, _ in found]
        curves.append(Line(f"alpha {alpha:g}", sizes, values))
        words = f"alpha {alpha:g}: {values[0]:.2f} at 10,000 rows, {values[-1]:.2f} at 10 million"
        checks.append(Check(words, values[-1] > 0.7 * values[0]))
    title, about = "The cost that more rows do not remove", "Least bias plus noise over caps, epsilon 1"
    chart = lines(curves, title=title, subtitle=about, x_title="rows", y_title="bound", log_x=True)
    claim = "no cap makes bias and noise vanish together as rows grow: the cost of privacy stays."
    return Shown(AMIN, "The cost of privacy", claim, (chart,), tuple(checks))


def figures(quick: bool) -> list[Shown]:
    """Both; quickly, with fewer rows and draws."""
    return [trades(10_000 if quick else 30_000, 8 if quick else 20), cost()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rows and draws of noise")
    parser.add_argument("--out", type=Path, help="draw the figures into this folder")
    options = parser.parse_args()
    for shown in figures(options.quick):
        shown.save(options.out)


if __name__ == "__main__":
    main()
