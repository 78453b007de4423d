"""What may lie behind a noisy histogram of totals: some thousand equally likely sets of users.

Up to the window's start counts are many and the noise alone blurs them. From there on the number of users in a bin
is followed upwards, bin by bin, by particles: each carries a level and a slope of its logarithm, the slope wanders and
bends downwards, and now and then the trend breaks, falls, and goes on with another slope: the end of the crowd, or
the few giants beyond it; a heavy one breaks less often and stays heavier. Another crowd may begin anywhere, and rise before it
falls. Each particle draws its users, and is kept as often as the noisy count speaks for it.
What must not change: everything here reads noisy counts and public numbers, and its draws are a fixed public sequence,
so the same histogram always says the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from steelyard.accounting import normal_tail
from steelyard.bounding._cap_grid import CapGrid
from steelyard.bounding._laws import Floats, spread_noise
from steelyard.errors import InvalidTask

_PARTICLES = 1000
_STRIDE = 1237
_SLOPE, _SLOPES = -0.3, 0.4  # a priori, in logarithms per half octave: Pareto with an index near one, give or take
_BEND, _LEAN = 0.35, 0.2  # the most that a slope steepens from bin to bin: an exponential tail, about
_DEEP = 6.0  # how many times as far a trend falls where a crowd ends
_WOBBLE = 0.1  # how far a single bin strays from its trend
_STEEPEST, _FLATTEST = -8.0, 0.7
_SEEN = 12.0  # noise scales that none of so many bins reaches by noise alone
_FAINT = (1.0, 12.0)  # noise scales in the first bin of a crowd that is not seen at a glance
_EMPTY = 10  # of signed totals, one in so many sides on which no crowd is seen at a glance has one
_NONE = -50.0  # the logarithm of a rate of nobody
_TRIED = 0.05  # how many particles try whether a bin begins another crowd
_RARE = 50.0  # a priori it does with one in 20 * 50 f for a crowd of f users: about one in a hundred in all
_CROWD = {"laplace": 10.0, "gaussian": 6.0}  # noise scales: where a count is lower no crowd begins
_FAINT_CROWD = 1.5  # the same where crowds may be seen in several bins together
_HUMPS = 0.5  # how many of those begin with any slope and bend, as a hump does; the others fall at once
_LEARNT = 4  # half octaves after which the counts have told a trend's slope
_FLAT = 0.15  # no trend that breaks is taken to have been flatter: Pareto with an index near 0.4


@dataclass(frozen=True)
class Trend:
    """How trends go on a priori.

    They are followed from ``window`` / level users on; so many are ``straight`` (Pareto), and slopes ``wander``. So often one
    ``breaks``, and ``again`` once it did, down to ``seldom`` of that where it is flatter than ``after``: its logarithm falls by ``fall`` in the
    mean, by six times that at the ``deep`` end of a crowd, and goes straight on with a slope around ``after``, give or take a factor
    of e^``afters``; where it was flatter before, with one between the two, that before counting for ``heavier``. Other crowds may
    be ``faint`` where they begin.
    """

    window: float
    straight: float
    wander: float
    breaks: float = 0.0
    again: float = 0.0
    fall: float = 0.5
    deep: float = 0.4
    after: float = 0.4
    afters: float = 0.4
    seldom: float = 1.0
    heavier: float = 0.0
    faint: bool = False


SMOOTH = Trend(600.0, 0.8, 0.015)
"""Trends that do not break: for the middle of what is plausible."""

ENDING = Trend(200.0, 0.5, 0.03, breaks=0.2, again=0.1, after=0.5, afters=0.2, faint=True)
"""Trends that end, or fall and go on in another way: for the middle of what a cap may cut off."""

BROKEN = replace(ENDING, seldom=0.5, heavier=0.5)
"""The same where heavy trends break less often and stay heavier: for what cannot be ruled out, and the choice of a cap."""


@dataclass(frozen=True)
class Estimate:
    """A number that was modelled: the median of what is plausible, and where it lies at ``confidence``."""

    value: float
    low: float
    high: float
    confidence: float = 0.95

    @classmethod
    def of(cls, draws: Floats, confidence: float) -> Estimate:
        """From equally likely values."""
        if not 0 < confidence < 1:
            raise InvalidTask(f"confidence must lie between 0 and 1; got {confidence!r}.")
        rest = (1 - confidence) / 2
        low, value, high = (float(v) for v in np.quantile(draws, (rest, 0.5, 1 - rest)))
        return cls(value, low, high, confidence)

    @classmethod
    def between(cls, usual: Floats, far: Floats, confidence: float) -> Estimate:
        """The median of the ``usual`` draws, and the shortest of some ends that hold so many of those that may be ``far``."""
        rest, value = 1 - cls.of(far, confidence).confidence, float(np.median(usual))
        below = np.linspace(0.0, rest, 6)
        lows, highs = np.quantile(far, below), np.quantile(far, 1 - rest + below)
        at = int((highs - lows).argmin())
        return cls(value, min(float(lows[at]), value), max(float(highs[at]), value), confidence)


@dataclass(frozen=True)
class Behind:
    """Draws by bins: how many users each bin holds, and the mean of their totals in grid steps; ``tops`` are the bins' largest."""

    users: Floats
    totals: Floats
    tops: Floats

    def cut(self, caps: Floats) -> Floats:
        """What each cap cuts off, for every draw."""
        heads, amounts = (_from_above(each) for each in (self.users, self.users * self.totals))
        place = np.searchsorted(
            self.tops, caps
        )  # the bin in which a cap lies; what is above its top lies above the cap
        within = np.minimum(place, self.tops.size - 1)
        inside = self.users[:, within] * np.maximum(self.totals[:, within] - caps, 0.0)
        beyond = np.minimum(place + 1, self.tops.size)
        return np.asarray(np.maximum(amounts[:, beyond] - caps * heads[:, beyond], 0.0) + inside)

    def kept(self, cap: float) -> Floats:
        """The share of everything that a cap keeps, for every draw."""
        whole = (self.users * self.totals).sum(axis=1)
        kept = (self.users * np.minimum(self.totals, cap)).sum(axis=1)
        return np.asarray(np.where(whole > 0, kept / np.maximum(whole, 1e-300), 1.0))


def offsets(cut: Floats, cap: float, level: float, noise: str, confidence: float) -> tuple[float, float]:
    """How far below and above the released value the truth lies at ``confidence``: what was cut, less the noise."""
    rest = np.array([(1 - confidence) / 2])
    low, high = offset_ends(cut, cap, level, noise, rest, rest)
    return float(low[0]), float(high[0])


def offset_ends(
    cut: Floats, cap: float, level: float, noise: str, below: Floats, above: Floats
) -> tuple[Floats, Floats]:
    """The same ends where the truth lies below, and above, as often as said."""
    off = _off(cut, cap, level, noise)
    return np.asarray(np.quantile(off, below)), np.asarray(np.quantile(off, 1 - above))


def middle(cut: Floats, cap: float, level: float, noise: str, weights: Floats) -> float:
    """The weighted median of the same: what makes the weighted mean of absolute errors least when it is added to the released value."""
    off = _off(cut, cap, level, noise)
    order = np.argsort(off)
    pile = np.cumsum((weights / weights.max())[order])
    return float(off[order][np.searchsorted(pile, pile[-1] / 2)])


def _off(cut: Floats, cap: float, level: float, noise: str) -> Floats:
    """The truth less the released value, for equally likely sets of users and evenly spaced noise."""
    order = np.argsort((np.arange(cut.size) * _STRIDE) % cut.size)
    return np.asarray(cut - cap * spread_noise(level, noise, cut.size)[order])


def behind(grid: CapGrid, counts: Floats, law: str, level: float, trend: Trend, side: int | None = None) -> Behind:
    """Equally likely users behind counts, smallest totals first; of signed totals each ``side`` has draws of its own."""
    wide, real = grid.spread(counts)
    draw = np.random.default_rng(1 + (side or 0))  # a public sequence: post-processing that anybody can repeat
    inside = np.flatnonzero(level * np.cumsum(wide[::-1])[::-1] <= trend.window)
    start = int(inside[0]) if inside.size else wide.size - 1
    known = start > 0
    if level * wide[start:].max() > _SEEN:  # a trend begins where the crowd is largest, not on the way up to it
        start, known = start + int(wide[start:].argmax()), True
    users = np.zeros((_PARTICLES, wide.size))
    blur = _noise(law, level, draw, (_PARTICLES, start))
    users[:, :start] = np.maximum(wide[:start] - blur, 0.0) * real[:start]
    before = max(float(wide[max(start - 1, 0) : start + 4].max()), 2 / level)
    cloud = _Cloud(law, level, draw, before if known else 0.0, trend)
    room, odds = _exposures(grid), 1 if side is None else _EMPTY
    for slot in range(start, wide.size):
        cloud.move(1 / (odds * (wide.size - start) - (slot - start) + 1))
        if real[slot]:
            cloud.see(slot, float(wide[slot]), float(room[slot]), slot == wide.size - 1)
    cloud.write(users, start)
    return Behind(users, _positions(grid, users, draw), np.array(grid.slot_tops, dtype=float))


def _from_above(parts: Floats) -> Floats:
    """Sums of each bin and all above it, and a last one of nothing."""
    sums = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1]
    return np.concatenate([sums, np.zeros((len(parts), 1))], axis=1)


class _Cloud:
    """Particles that follow a trend of counts from bin to bin, from ``before`` on; where that is 0 it may begin anywhere."""

    def __init__(self, law: str, level: float, draw: np.random.Generator, before: float, trend: Trend) -> None:
        self.law, self.level, self.draw, self.trend = law, level, draw, trend
        self.born = np.full(_PARTICLES, before > 0)
        self.log_rate = math.log(before or math.exp(_NONE)) + draw.normal(size=_PARTICLES)
        self.slope = _SLOPE + _SLOPES * draw.normal(size=_PARTICLES)
        bent = np.maximum(draw.random(_PARTICLES) - trend.straight, 0.0) / (1 - trend.straight)
        self.bend = _BEND * bent**2  # none at all for Pareto
        self.broke, self.age = np.zeros(_PARTICLES, dtype=bool), np.zeros(_PARTICLES)
        self.variance = 2 / level**2 if law == "laplace" else 1 / level**2
        self.seen: list[tuple[int, Floats, NDArray[np.intp]]] = []  # bins, users drawn there, and whose were taken then

    def move(self, begins: float) -> None:
        """One half octave on; so often what has not begun begins here."""
        draw, size, trend = self.draw, _PARTICLES, self.trend
        steeper = self.slope - self.bend * (np.abs(self.slope) + _LEAN)
        slope = steeper + trend.wander * draw.normal(size=size) * (1 + np.abs(self.slope))
        before = np.where(self.age < _LEARNT, math.inf, np.maximum(-self.slope, _FLAT))
        heavy = _within(before / trend.after, trend.seldom, 1.0)
        breaks = draw.random(size) < heavy * np.where(self.broke, trend.again, trend.breaks)
        slope = np.where(breaks, self._after(before), slope)
        self.slope = _within(slope, _STEEPEST, _FLATTEST)
        far = np.where(draw.random(size) < trend.deep, _DEEP, 1.0)
        falls = np.where(breaks, trend.fall * far * draw.exponential(size=size), 0.0)
        self.broke, self.bend = self.broke | breaks, np.where(breaks, 0.0, self.bend)
        self.log_rate = _within(self.log_rate + self.slope - falls, _NONE, 40.0)
        self.age = self.age + 1
        if not self.born.all():
            self._begin(begins)

    def _after(self, before: Floats | float = math.inf) -> Floats:
        """The slopes of trends that broke, or of crowds that begin to fall."""
        steep, share = (
            self.trend.after * np.exp(self.trend.afters * self.draw.normal(size=_PARTICLES)),
            self.trend.heavier,
        )
        return np.asarray(-steep if share == 0 else -np.minimum(steep, steep ** (1 - share) * before**share))

    def _begin(self, chance: float) -> None:
        """A crowd too small to be seen at a glance, of any size up to that: it may begin anywhere."""
        draw, size = self.draw, _PARTICLES
        now = ~self.born & (draw.random(size) < chance)
        users = _FAINT[0] * (_FAINT[1] / _FAINT[0]) ** draw.random(size) / self.level
        self.log_rate = np.where(now, np.log(users), np.where(self.born, self.log_rate, _NONE))
        self.slope = np.where(now, _SLOPES * draw.normal(size=size), self.slope)
        self.born, self.age = self.born | now, np.where(now, 0, self.age)

    def write(self, users: Floats, start: int) -> None:
        """Give each particle the users of those that it came from, back to the bins before ``start``."""
        line, bins = np.arange(_PARTICLES), np.zeros(users.T.shape)
        for slot, found, taken in reversed(self.seen):
            line = taken[line]
            bins[slot] = found[line]
        users[:, start:] = bins[start:].T
        users[:, :start] = users[line, :start]

    def see(self, slot: int, count: float, room: float, last: bool) -> None:
        """Draw the users of a bin, weigh them by its noisy count, and take as many of each particle as it is worth."""
        rate = np.exp(self.log_rate + _WOBBLE * self.draw.normal(size=_PARTICLES)) * room
        if last:  # all that lies beyond is here
            rate = rate / -np.expm1(np.minimum(self.slope, -0.1))
        if self.variance < float(np.median(rate)):
            found, weight = self._from_count(count, rate)
        else:
            found = self.draw.poisson(np.minimum(rate, 1e15)).astype(float)
            weight = _log_chance(self.law, self.level, np.abs(count - found))
        found = self._begin_crowds(count, room, found, weight)
        self.seen.append((slot, found, self._choose(weight)))

    def _begin_crowds(self, count: float, room: float, found: Floats, weight: Floats) -> Floats:
        """Some particles take the count for another crowd, if it is above what noise alone brings; changes ``weight``."""
        least = (_FAINT_CROWD if self.trend.faint else _CROWD[self.law]) / self.level
        if count < least:
            return found
        tried = self.draw.random(_PARTICLES) < _TRIED
        humps = self.draw.random(_PARTICLES) < (_HUMPS if self.trend.faint else 0.0)
        crowd = np.rint(count - _noise(self.law, self.level, self.draw, (_PARTICLES,)))
        weight[tried] = np.where(crowd >= least, -np.log(_RARE * np.maximum(crowd, 1.0)), -np.inf)[tried]
        self.log_rate = np.where(tried, np.log(np.maximum(crowd, 1.0) / max(room, 1e-9)), self.log_rate)
        begins = np.where(humps, _SLOPES * self.draw.normal(size=_PARTICLES), self._after())
        self.slope, self.age = np.where(tried, begins, self.slope), np.where(tried, 0, self.age)
        self.bend = np.where(tried & humps, _BEND * self.draw.random(_PARTICLES) ** 2, self.bend)
        return np.where(tried, np.maximum(crowd, 0.0), found)

    def _from_count(self, count: float, rate: Floats) -> tuple[Floats, Floats]:
        """Users as the sharp count says, weighed by the trend."""
        found = np.maximum(np.rint(count - _noise(self.law, self.level, self.draw, (_PARTICLES,))), 0.0)
        none = math.log(max(_chance_from(self.law, self.level, count), 1e-300))
        at_none = float(_log_chance(self.law, self.level, np.array([abs(count)]))[0]) - none
        weight = found * np.log(np.maximum(rate, 1e-300)) - rate - _log_factorial(found)
        return found, np.where(found == 0, weight + at_none, weight)

    def _choose(self, weight: Floats) -> NDArray[np.intp]:
        share = np.exp(weight - weight.max())
        pile = np.cumsum(share)
        places = (np.arange(_PARTICLES) + self.draw.random()) / _PARTICLES * pile[-1]
        taken = np.minimum(np.searchsorted(pile, places), _PARTICLES - 1)
        self.log_rate, self.slope, self.bend = self.log_rate[taken], self.slope[taken], self.bend[taken]
        self.born, self.broke, self.age = self.born[taken], self.broke[taken], self.age[taken]
        return np.asarray(taken, dtype=np.intp)


def _within(values: Floats, least: float, most: float) -> Floats:
    """What ``np.clip`` gives, at half its price for so few."""
    return np.asarray(np.minimum(np.maximum(values, least), most))


def _exposures(grid: CapGrid) -> Floats:
    """How many whole totals each half octave holds, over how wide it is: few small ones hold just their share."""
    ideal = grid.upper * 2.0 ** ((np.arange(-1, grid.slots + 1) - grid.slots) / 2)
    tops = np.array(grid.slot_tops, dtype=float)
    whole = np.diff(tops, prepend=math.floor(ideal[0]))
    return np.asarray(np.where(np.diff(ideal) > 8, 1.0, np.maximum(whole, 0.0) / np.diff(ideal)))


def _positions(grid: CapGrid, users: Floats, draw: np.random.Generator) -> Floats:
    """The mean total of a bin's users: log-uniform in the bin, the more of them the nearer to its middle."""
    tops = np.array(grid.slot_tops, dtype=float)
    lows = np.maximum(np.concatenate([[tops[0] / math.sqrt(2)], tops[:-1]]) + 1, 1.0)
    tops, lows = np.maximum(tops, 1.0), np.minimum(lows, np.maximum(tops, 1.0))
    place = 0.5 + (draw.random(users.shape) - 0.5) * np.maximum(1 / np.sqrt(np.maximum(users, 1.0)), 0.5)
    return np.asarray(lows * (tops / lows) ** place)


def _noise(law: str, level: float, draw: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    if law == "gaussian":
        return np.asarray(np.rint(draw.normal(scale=1 / level, size=shape)))
    chance = -math.expm1(-level)
    return np.asarray(draw.geometric(chance, shape) - draw.geometric(chance, shape), dtype=float)


def _log_chance(law: str, level: float, distance: Floats) -> Floats:
    """The logarithm of the chance of noise of this size, up to a constant that is right for ``_chance_from``."""
    if law == "laplace":
        return np.asarray(math.log(math.tanh(level / 2)) - level * distance)
    far = 40.0 / level
    if level < 0.5:
        return np.asarray(math.log(level / math.sqrt(2 * math.pi)) - (level * np.minimum(distance, far)) ** 2 / 2)
    return np.asarray(_normal_chances(level)[np.minimum(np.rint(distance), 79).astype(np.int64)])


@lru_cache(maxsize=8)
def _normal_chances(level: float) -> Floats:
    """The log chances of rounded normal noise of 0, 1, 2, ..."""
    inside = [normal_tail((k - 0.5) * level) - normal_tail((k + 0.5) * level) for k in range(80)]
    return np.asarray(np.log(np.maximum(inside, 1e-300)))


def _chance_from(law: str, level: float, least: float) -> float:
    """The chance of noise of at least ``least``, a whole number."""
    if law == "gaussian":
        return normal_tail((least - 0.5) * level)
    fall = math.exp(-level)
    return float(fall**least if least > 0 else 1 + fall - fall ** (1 - least)) / (1 + fall)


def _log_factorial(n: Floats) -> Floats:
    m = np.maximum(n, 1.0)
    stirling = m * np.log(m) - m + 0.5 * np.log(2 * math.pi * m) + 1 / (12 * m)
    return np.asarray(np.where(n < 1, 0.0, stirling))
