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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from steelyard.answers import Part
from steelyard.answers import chart as draw
from steelyard.bounding._amounts import Spend, bound
from steelyard.bounding._cap_grid import CapGrid
from steelyard.bounding._laws import Floats, check_law, mean_noise
from steelyard.bounding._serving import ALONE, Serving
from steelyard.bounding._tails import BROKEN, ENDING, SMOOTH, Behind, Estimate, Trend, behind
from steelyard.bounding._theory import Tradeoff, curve
from steelyard.documents import decode, load, request_of
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.mechanisms import Gaussian, Laplace
from steelyard.noise import Noise
from steelyard.plan import Error
from steelyard.privacy import Currency, Loss, Number, Terms, figure, positive, rows
from steelyard.tables import LIMIT, Quantity

if TYPE_CHECKING:
    from steelyard.charts import Chart

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

    def look(self, count: Callable[[Sequence[int]], Sequence[int]], look: BoughtCounts, noise: Noise) -> NoisyHistogram:
        """Count units by their total and noise the counts: the only private step of any choice.

        ``count`` asks a table how many units lie between each two of the edges, each unit between at most two of them.
        """
        noised = tuple(map(float, look.mechanism.release(count(self.edges), noise)))
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
        return self._sides(BROKEN)

    @lazy
    def ending(self) -> tuple[Behind, ...]:
        """The same if tails are as short as they are long: for the middle of what is plausible."""
        return self._sides(ENDING)

    def _sides(self, trend: Trend) -> tuple[Behind, ...]:
        counts, middle = np.array(self.counts, dtype=float), self.grid.bins - 1
        if not self.signed:
            return (behind(self.grid, counts, self.law, self.level, trend),)
        sides = enumerate((counts[middle:], counts[: middle + 1][::-1]))
        return tuple(behind(self.grid, side, self.law, self.level, trend, at) for at, side in sides)

    @lazy
    def smooth(self) -> Behind:
        """Equally likely users behind the counts of totals that are not negative, if their trend does not break."""
        return behind(self.grid, np.array(self.counts, dtype=float), self.law, self.level, SMOOTH)


@dataclass(frozen=True)
class CapChoice:
    """A cap of the public grid and its index there; for signed totals ``cap`` is the magnitude."""

    index: int
    cap: int


def choice_share(level: float, noise: str = "laplace", keys: int = 1) -> Fraction:
    """The public share of epsilon (for Gaussian noise of mu, whose squares add) that buys the histogram.

    A good cap for many keys cuts many units, whom a cheaper look sees as well: the share falls with the sixth root of their number (of
    mu, whose squares add, with the eighth).
    *Accuracy:* measured on generated totals with bench/bounding_accuracy.py; flat around the values given.
    """
    check_law(level, noise)
    alone = Fraction(45, 100) if noise == "gaussian" else Fraction(25, 100) if level < 5 else Fraction(40, 100)
    return alone if keys == 1 else alone * 1000 / math.ceil(1000 * keys ** (0.125 if noise == "gaussian" else 1 / 6))


def choose_cap(
    histogram: NoisyHistogram, level: float, noise: str | None = None, serving: Serving = ALONE
) -> CapChoice:
    """The cap that is on average least worse than the best one when the sum is released at ``level`` (epsilon, or mu) with this noise.

    ``serving`` says how many numbers share the cap and which error of theirs is to be small.

    Of signed totals it is one magnitude for both sides: under add/remove the sensitivity is the larger of the two caps, so a
    smaller one on the other side would save no noise; the bias counted is the difference of what the two sides lose.
    *Privacy:* post-processing of the histogram. *Accuracy:* measured (bench/bounding_accuracy.py), not guaranteed.
    *Cost:* some tens of milliseconds, most of them for what lies behind the counts, which is worked out once for each histogram.

    >>> counts = (0, 0, 10, 40, 100, 80, 30)
    >>> choose_cap(NoisyHistogram(CapGrid(1, 16), counts, "laplace", 3.0), 1.0).cap
    16
    """
    law, caps = noise or histogram.law, np.array(histogram.grid.caps, dtype=float)
    check_law(level, law)
    at = int(_regret(serving.loss(_lost(histogram.broken, caps), caps, level, law)).argmin())
    return CapChoice(at, histogram.grid.caps[at])


def plan_caps(histogram: NoisyHistogram, level: float, noise: str | None = None, serving: Serving = ALONE) -> Tradeoff:
    """The predicted trade-off of every candidate cap for a release at ``level``, a mean over keys; free, however often it is asked.

    The error is the median of what is plausible at the chosen cap; elsewhere it is that times how much worse the cap is on
    average, so that the chosen cap is the lowest point of what is drawn.
    """
    law, caps = noise or histogram.law, np.array(histogram.grid.caps, dtype=float)
    check_law(level, law)
    every, real = _lost(histogram.broken, caps), caps / float(serving.shrink)
    worse = _regret(serving.loss(every, caps, level, law))
    lost, error = serving.told(_lost(histogram.ending, caps), caps, level, law)
    _, wide = serving.told(every, caps, level, law)
    at, low = int(worse.argmin()), np.minimum(error.min(axis=0), wide.min(axis=0))  # nothing may be cut off
    high = np.quantile(wide, 0.95, axis=0)
    least = float(np.median(error[:, at]))
    told = np.maximum(np.clip(least * worse / worse[at], low, high), least)
    lines, band = (np.median(lost, axis=0), real * mean_noise(level, law), told), (low, np.maximum(high, told))
    return replace(curve(real, *lines, at, float(level), law, band=band), keys=serving.keys)


def _lost(behind: Sequence[Behind], caps: Floats) -> Floats:
    """What each cap cuts off, for every plausible set of users; of two signs, by how much more the one loses."""
    sides = [side.cut(caps) for side in behind]
    return np.abs(sides[0] - sides[1]) if len(sides) > 1 else sides[0]


def _regret(errors: Floats) -> Floats:
    """Each cap's error over the best one's, in the mean over what is plausible: no giant whom nobody sees drowns the rest."""
    held = np.maximum(errors, np.finfo(float).tiny)
    return np.asarray((held / held.min(axis=1, keepdims=True)).mean(axis=0))


@dataclass(frozen=True, repr=False)
class ContributionProfile:
    """Released counts of users by the size of their total; plans from it cost nothing.

    ``plan(epsilon).best`` is the cap to use, with its predicted noise, bias and error; ``plan(epsilon).chart()`` the
    U-curve. ``at(cap)`` is the same profile for a release at a cap of one's own. ``save`` and ``load`` keep it as JSON.
    """

    column: str | None
    unit: str
    step: Fraction
    histogram: NoisyHistogram
    cap: Fraction | None = None

    def __post_init__(self) -> None:
        if self.cap is not None:
            object.__setattr__(self, "cap", bound(positive(self.cap, "cap"), "cap"))
            if self.column is None and self.cap.denominator != 1:
                raise InvalidTask(f"cap must be a whole number of rows; got {float(self.cap):g}.")
        _ = Quantity(None, self.step)  # refuses a step that is none
        if self.histogram.signed:
            raise InvalidTask("a profile is of totals that are not negative.")
        if self.histogram.grid.upper > LIMIT:
            raise InvalidTask("upper is more steps than a row's integer can hold.")

    def __repr__(self) -> str:
        what, top = (
            "rows" if self.column is None else repr(self.column),
            figure(float(self.histogram.grid.upper * self.step)),
        )
        return (
            f"ContributionProfile({what}: {len(self.counts)} bins up to {top}); .plan(epsilon=1).best is the cap to use"
        )

    def _repr_html_(self) -> str:
        from steelyard.charts import fragment

        words = "Plans are free: `profile.plan(epsilon=1)` shows what every cap would do, and `cap=profile` uses the best one."
        return fragment(self._part.title, self.chart(), words)

    def chart(self) -> Chart:
        """The noisy counts as bars, smallest totals first."""
        return draw([self._part], self._part.title, str(self._part.error), f"Hidden: {self.unit}.")

    @property
    def _part(self) -> Part:
        seen = self.histogram
        half = (math.log(20) if seen.law == "laplace" else 1.96) / seen.level
        tops = [float(top * self.step) for top in seen.grid.tops]
        error = Error(mean_noise(seen.level, seen.law), half, unit="units in each bin")
        return Part({"type": "Profile", "column": self.column}, self, error, tops)

    @property
    def counts(self) -> tuple[float, ...]:
        """The noisy counts, smallest totals first."""
        return self.histogram.counts

    def plan(
        self, epsilon: Number | None = None, *, mu: Number | None = None, delta: Number | None = None,
        keys: int | Sequence[Any] = 1, minimise: str = "mean",
    ) -> Tradeoff:  # fmt: skip
        """The predicted trade-off over all candidate caps for a release at epsilon (with ``delta``: Gaussian), or mu.

        ``keys`` are the keys that a release by key will have, or their number, and ``minimise`` the error that matters: "mean" over keys,
        "relative", or of their "total"; bias, noise and error are then means over keys. *Privacy:* post-processing. *Accuracy:*
        calibrated, not proved: bias and error are medians of what is plausible, ``low`` to ``high`` is where the error lies at 95 %.
        """
        level, law = self._level(epsilon, mu, delta)
        many = keys if isinstance(keys, int) else len(keys)
        law = "laplace" if law == "staircase" and many > 1 else law
        serving = Serving(many, minimise, law == "gaussian", profiled=True)
        return plan_caps(self.histogram, level, law, serving).times(float(self.step))

    def at(self, cap: Number) -> ContributionProfile:
        """The same profile with the cap fixed: ``Sum(..., cap=profile.at(500))`` uses 500 and tells what that cuts off."""
        return replace(self, cap=positive(cap, "cap"))

    def cut(self, cap: Number, confidence: float = 0.95) -> Estimate:
        """What a cap is believed to cut off, and its interval; *Privacy:* post-processing, *Accuracy:* calibrated, not proved.

        >>> counts = NoisyHistogram(CapGrid(1, 16), (0.0,) * 6 + (100.0,), "laplace", 9.0)
        >>> round(ContributionProfile(None, "users", Fraction(1), counts).cut(7).value / 100)
        7
        """
        usual, far = (
            side[0].cut(np.array([float(positive(cap, "cap") / self.step)]))[:, 0] * float(self.step)
            for side in (self.histogram.ending, self.histogram.broken)
        )
        return Estimate.between(usual, far, confidence)

    def lost(self, caps: Sequence[Fraction]) -> Floats:
        """What each cap cuts off, for every equally likely set of users behind the counts; none at all: a cap of zero."""
        return self.histogram.broken[0].cut(np.array([float(cap / self.step) for cap in caps])) * float(self.step)

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
        return {name: part for name, part in request_of(self).items() if name != "cap" or part is not None}

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
