"""The private cap: from one noisy histogram of totals to the cap on a user's total, and to the whole trade-off.

The histogram is the only private look; the cap, its predicted bias and every plan made from it are post-processing.
Inside one release the budget is split by a public rule (``choice_share``): a part buys the histogram, the rest the
capped sum. A histogram bought on its own (a profile) serves any number of later releases of the same totals.
What must not change: the cap is one of the grid's public caps, and nothing here sees an exact count but ``look``, which
noises the counts before it hands them on.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, cast

import numpy as np

from steelyard.bounding._amounts import Spend, bound
from steelyard.bounding._cap_grid import CapGrid
from steelyard.bounding._laws import check_law, mean_error, mean_noise
from steelyard.bounding._posterior import CapSetting, posterior
from steelyard.bounding._tails import BROKEN, SMOOTH, Behind, Estimate, behind
from steelyard.bounding._theory import Tradeoff, curve
from steelyard.documents import decode, load, request_of
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.privacy import Currency, Loss, Number, Terms, positive, rows
from steelyard.tables import LIMIT, Quantity, Table

_FINEST = 2**20
"""By default totals below a millionth of ``upper`` are not told apart."""

_MOST_RATIO = 2**40
"""The most that upper may be of the resolution: the integer of one row must be able to reach upper."""

_SUBSTEPS = 2**10
"""Grid steps below the resolution, so that rounding rows does not move totals between bins."""


@dataclass(frozen=True)
class BoughtCounts:
    """What buys one look at totals, and the noise that hides a unit in one bin at exactly that price."""

    spend: Spend
    mechanism: Laplace | Gaussian


@dataclass(frozen=True)
class TotalsGrid:
    """The public grid of a look at totals: integers of ``step``, counted in the bins of ``grid``, to both signs or to one."""

    step: Fraction
    grid: CapGrid
    signed: bool = False

    @classmethod
    def of_values(cls, upper: Fraction, resolution: Number | None, *, signed: bool = False) -> TotalsGrid:
        """Amounts up to ``upper``; totals below ``resolution`` need not be told apart."""
        if upper <= 0:
            raise InvalidTask(f"upper must be above zero; got {float(upper):g}.")
        finest = upper / _FINEST if resolution is None else positive(bound(resolution, "resolution"), "resolution")
        if not finest <= upper <= finest * _MOST_RATIO:
            raise InvalidTask("resolution must not be above upper, nor below upper / 2^40.")
        step = finest / _SUBSTEPS
        return cls(step, CapGrid(_SUBSTEPS, math.floor(upper / step)), signed)

    @classmethod
    def of_rows(cls, upper: Fraction) -> TotalsGrid:
        """Whole rows up to ``upper``."""
        if not 1 <= upper <= _MOST_RATIO or upper.denominator != 1:
            raise InvalidTask(f"upper must be a whole number of rows, from 1 to 2^40; got {float(upper):g}.")
        return cls(Fraction(1), CapGrid(1, int(upper)))

    @property
    def edges(self) -> tuple[int, ...]:
        """The bins' half-open edges, in steps."""
        return self.grid.signed_edges if self.signed else self.grid.edges

    def look(self, table: Table, terms: Terms, column: str | None, look: BoughtCounts, noise: Noise) -> NoisyHistogram:
        """Count units by their total and noise the counts: the only private step of any choice."""
        edges = self.edges
        counts = table.totals_histogram(terms.unit, Quantity(column, self.step), edges)
        noised = tuple(map(float, look.mechanism.release(counts, noise)))
        return NoisyHistogram(self.grid, noised, look.spend.law, look.spend.level, self.signed)


@dataclass(frozen=True)
class NoisyHistogram:
    """Released counts of users by the size of their total: ``level`` is the epsilon or mu they cost at sensitivity 1.

    Of signed totals, largest negative bin first, the middle bin lies around zero and ``grid`` counts magnitudes.
    """

    grid: CapGrid
    counts: tuple[float, ...]
    law: str
    level: float
    signed: bool = False

    def __post_init__(self) -> None:
        bins = len(self.grid.signed_edges if self.signed else self.grid.edges) - 1
        if len(self.counts) != bins:
            raise InvalidTask(f"a histogram on this grid has {bins} counts; got {len(self.counts)}.")
        if self.law not in ("laplace", "gaussian") or not (self.level > 0 and math.isfinite(self.level)):
            raise InvalidTask(
                f"counts carry laplace or gaussian noise at a positive level; got {self.law!r} at {self.level!r}."
            )

    @lazy
    def broken(self) -> tuple[Behind, ...]:
        """Equally likely users behind the counts above zero, and of signed totals those below, if trends may break."""
        counts, middle = np.array(self.counts, dtype=float), self.grid.bins - 1
        sides = [counts[middle:], counts[: middle + 1][::-1]] if self.signed else [counts]
        return tuple(behind(self.grid, side, self.law, self.level, BROKEN) for side in sides)

    @lazy
    def smooth(self) -> Behind:
        """Equally likely users behind the counts of totals that are not negative, if their trend does not break."""
        return behind(self.grid, np.array(self.counts, dtype=float), self.law, self.level, SMOOTH)


@dataclass(frozen=True)
class CapChoice:
    """A cap of the public grid and its index there; for signed totals ``cap`` is the magnitude."""

    index: int
    cap: int


def choice_share(level: float, noise: str = "laplace") -> Fraction:
    """The public share of epsilon (for Gaussian noise of mu, whose squares add) that buys the histogram.

    *Accuracy:* measured on generated totals with bench/bounding_accuracy.py; flat around the values given.
    """
    check_law(level, noise)
    if noise == "gaussian":
        return Fraction(45, 100)
    return Fraction(25, 100) if level < 5 else Fraction(40, 100)


def choose_cap(histogram: NoisyHistogram, level: float, noise: str | None = None) -> CapChoice:
    """The cap with the smallest expected loss when the sum is released at ``level`` (epsilon, or mu) with this noise.

    Of signed totals it is one magnitude for both sides: under add/remove the sensitivity is the larger of the two caps, so a
    smaller one on the other side would save no noise; the bias counted is the difference of what the two sides lose.
    *Privacy:* post-processing of the histogram. *Accuracy:* measured (bench/bounding_accuracy.py), not guaranteed.
    *Cost:* some milliseconds; the first choice at a new level builds a table and takes some tens.

    >>> counts = (0, 0, 10, 40, 100, 80, 30)
    >>> choose_cap(NoisyHistogram(CapGrid(1, 16), counts, "laplace", 3.0), 1.0).cap
    16
    """
    at = _chosen(histogram, level, noise or histogram.law)
    return CapChoice(at, histogram.grid.caps[at])


def plan_caps(histogram: NoisyHistogram, level: float, noise: str | None = None) -> Tradeoff:
    """The predicted trade-off of every candidate cap for a release at ``level``; free, however often it is asked."""
    law, caps = noise or histogram.law, np.array(histogram.grid.caps, dtype=float)
    at = _chosen(histogram, level, law)
    sides = [side.cut(caps) for side in histogram.broken]
    lost = np.abs(sides[0] - sides[1]) if histogram.signed else sides[0]
    error = mean_error(lost, caps, level, law)
    low, high = np.quantile(error, (0.025, 0.975), axis=0)
    lines = np.median(lost, axis=0), caps * mean_noise(level, law), np.median(error, axis=0)
    return curve(caps, *lines, at, float(level), law, band=(low, high))


def _chosen(histogram: NoisyHistogram, level: float, law: str) -> int:
    counts, middle = np.array(histogram.counts, dtype=float), histogram.grid.bins - 1
    check_law(level, law)
    tables = posterior(CapSetting(histogram.grid, histogram.law, float(histogram.level), law, float(level)))
    if not histogram.signed:
        return tables.chosen(counts)
    return tables.chosen_for_both(counts[middle:], counts[: middle + 1][::-1])  # both sides begin with the middle bin


@dataclass(frozen=True)
class ContributionProfile:
    """Released counts of users by the size of their total; plans from it cost nothing.

    ``plan(epsilon).best`` is the cap to use, with its predicted noise, bias and error; ``plan(epsilon).chart()`` the
    U-curve. ``save`` and ``load`` keep it as JSON.
    """

    column: str | None
    unit: str
    step: Fraction
    histogram: NoisyHistogram

    def __post_init__(self) -> None:
        _ = Quantity(None, self.step)  # refuses a step that is none
        if self.histogram.signed:
            raise InvalidTask("a profile is of totals that are not negative.")
        if self.histogram.grid.upper > LIMIT:
            raise InvalidTask("upper is more steps than a row's integer can hold.")

    @property
    def counts(self) -> tuple[float, ...]:
        """The noisy counts, smallest totals first."""
        return self.histogram.counts

    def plan(self, epsilon: Number | None = None, *, mu: Number | None = None, delta: Number | None = None) -> Tradeoff:
        """The predicted trade-off over all candidate caps for a release at epsilon (with ``delta``: Gaussian), or mu.

        *Privacy:* post-processing. *Accuracy:* calibrated, not proved: bias and error are medians of what is plausible, and
        ``low`` to ``high`` is where the error lies at 95 %.
        """
        level, law = self._level(epsilon, mu, delta)
        return plan_caps(self.histogram, level, law).times(float(self.step))

    def kept(self, cap: Number, confidence: float = 0.95) -> Estimate:
        """The share of everything contributed that a cap keeps (n_tau / n of Amin et al., for rows), and its interval.

        *Privacy:* post-processing. *Accuracy:* calibrated, not proved: numerator and denominator are those of the same
        plausible users, so a giant whom nobody can see widens the interval instead of vanishing.

        >>> counts = NoisyHistogram(CapGrid(1, 16), (0.0,) * 6 + (100.0,), "laplace", 9.0)
        >>> round(ContributionProfile(None, "users", Fraction(1), counts).kept(7).value, 1)
        0.5
        """
        return Estimate.of(self.histogram.smooth.kept(float(positive(cap, "cap") / self.step)), confidence)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``ContributionProfile.from_json`` reads it back."""
        return request_of(self)

    @classmethod
    def from_json(cls, data: Any) -> ContributionProfile:
        """Read back what ``to_json`` wrote; anything else is refused."""
        return cast(ContributionProfile, decode(cls, data, "profile"))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the profile as JSON; it is a release and may be published."""
        target = Path(path)
        target.write_text(json.dumps(self.to_json(), indent=1) + "\n")
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ContributionProfile:
        """Read back what ``save`` wrote."""
        return cast(ContributionProfile, load(cls, path, "a saved profile", "value"))

    def _level(self, epsilon: Number | None, mu: Number | None, delta: Number | None) -> tuple[float, str]:
        if mu is not None or delta is not None:
            terms = Terms(rows(), Loss.zero(Currency.GAUSSIAN), None, bound(delta or 0, "delta"))
        else:
            terms = Terms(rows(), Loss.zero(Currency.PURE))
        spend = Spend.read(epsilon, mu, terms)
        return spend.level, "gaussian" if spend.gaussian else "staircase"
