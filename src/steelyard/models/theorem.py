"""Why a cap on rows per user costs what it does: the three terms of the papers' Theorem 1, cap by cap.

Keeping at most tau rows of each user leaves n_tau of n rows. The loss of a private model then exceeds the best by twice
the bias of the kept rows, by the sampling error of n_tau rows, and by noise of the order (tau/n_tau)^2. One cap makes the
first small, another the last; with heavy users no cap makes both vanish, however many rows there are.
Amin, Kulesza, Muñoz Medina, Vassilvitskii: ICML 2019; bias bounds as corrected in docs/proofs/bounding_theory.md.
Law: an explanation, never the chooser. The papers leave the constants open, and the bound's best cap is far from the model's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from steelyard.bounding import bias_bounds
from steelyard.errors import InvalidTask
from steelyard.models.user_sums import Floats

if TYPE_CHECKING:
    from steelyard.charts import Chart


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

    def chart(self, subtitle: str = "The papers' bound; its constants are taken as 1") -> Chart:
        """The terms and their sum against the cap."""
        from steelyard.charts import Line, lines

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

    The bias term uses the total variation distance, which the papers' two bounds exceed; ``constants`` stand for the ones
    they leave open, of the sampling and of the privacy term, and may be set to see that no choice of theirs is innocent.
    *Privacy:* none: counts of private data are private, and so is every number returned. Give the counts of a released
    histogram (``from_octaves``), of public data or of generated users.

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


def from_octaves(released: Sequence[float]) -> tuple[Floats, Floats]:
    """Row counts and users of a released histogram of log2 rows per user: the middle of each octave, no user below zero."""
    middles = np.array([1.0 if octave == 0 else 1.5 * 2.0**octave for octave in range(len(released))])
    return middles, np.maximum(np.asarray(released, dtype=float), 0.0)


def _octave_caps(counts: Floats) -> list[float]:
    return [2.0**k for k in range(math.ceil(math.log2(max(float(counts.max()), 1.0))) + 1)]


def _terms(
    counts: Floats, cap: float, epsilon: float, dimension: float, failure: float, constants: tuple[float, float]
) -> tuple[float, float, float, float]:
    bounds = bias_bounds(counts, cap)
    sampling = constants[0] * math.sqrt(dimension * math.log(float(counts.sum()) / failure) / bounds.kept)
    privacy = constants[1] * (cap * math.log(3 / failure) / (bounds.kept * epsilon)) ** 2
    return 2 * bounds.total_variation, sampling, privacy, float((counts > cap).sum())
