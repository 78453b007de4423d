"""``Profile``: one private look at how much users contribute; every plan made from it afterwards is free.

Each user's total falls in exactly one bin of a public grid, two to the octave; the counts are noised and released. From
them, for any later epsilon, come the cap, the noise it needs, the bias it brings, and the whole curve between (papers:
Amin, Kulesza, Munoz and Vassilvitskii; proofs/cap.md). The grid depends on the request alone (law 6).
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from steelyard.bounding.amounts import Spend, bound, check_unit, noise_error
from steelyard.documents import decode, read_document, request_of
from steelyard.errors import InvalidTask
from steelyard.lazy import lazy
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Currency, Loss, Number, Terms, positive, rows
from steelyard.release import Outcome
from steelyard.session import Plan
from steelyard.tables import LIMIT, Quantity, Schema, Table

if TYPE_CHECKING:
    from steelyard.bounding.cap import CapChoice, NoisyHistogram, SignedHistogram
    from steelyard.bounding.capgrid import CapGrid
    from steelyard.bounding.theory import Tradeoff

_FINEST = 2**20
"""By default totals below a millionth of ``upper`` are not told apart."""

_MOST_RATIO = 2**40
"""The most that upper may be of the resolution: the integer of one row must be able to reach upper."""

_SUBSTEPS = 2**10
"""Grid steps below the resolution, so that rounding rows does not move totals between bins."""


@dataclass(frozen=True)
class Scale:
    """The public grid of a look at totals: integers of ``step``, caps from ``resolution`` to ``upper`` of them."""

    step: Fraction
    resolution: int
    upper: int
    signed: bool = False

    @classmethod
    def of_values(cls, upper: Fraction, resolution: Number | None, *, signed: bool = False) -> Scale:
        """Amounts up to ``upper``; totals below ``resolution`` need not be told apart."""
        if upper <= 0:
            raise InvalidTask(f"upper must be above zero; got {float(upper):g}.")
        finest = upper / _FINEST if resolution is None else positive(bound(resolution, "resolution"), "resolution")
        if not finest <= upper <= finest * _MOST_RATIO:
            raise InvalidTask("resolution must not be above upper, nor below upper / 2^40.")
        step = finest / _SUBSTEPS
        return cls(step, _SUBSTEPS, math.floor(upper / step), signed)

    @classmethod
    def of_rows(cls, upper: Fraction) -> Scale:
        """Whole rows up to ``upper``."""
        if not 1 <= upper <= _MOST_RATIO or upper.denominator != 1:
            raise InvalidTask(f"upper must be a whole number of rows, from 1 to 2^40; got {float(upper):g}.")
        return cls(Fraction(1), 1, int(upper))

    @property
    def grid(self) -> CapGrid:
        """The bins and candidate caps, in steps."""
        from steelyard.bounding.capgrid import CapGrid

        return CapGrid(self.resolution, self.upper)

    @property
    def edges(self) -> tuple[int, ...]:
        """The bins' half-open edges, in steps."""
        from steelyard.bounding.cap import signed_edges

        return signed_edges(self.grid) if self.signed else self.grid.edges

    def look(
        self, table: Table, terms: Terms, column: str | None, spend: Spend, noise: Noise
    ) -> NoisyHistogram | SignedHistogram:
        """Count units by their total and noise the counts: the only private step of any choice."""
        from steelyard.bounding.cap import NoisyHistogram, SignedHistogram

        counts = table.totals_histogram(terms.unit, Quantity(column, self.step), self.edges)
        noised = tuple(float(count) for count in spend.mechanism(1).release(counts, noise))
        kind = SignedHistogram if self.signed else NoisyHistogram
        return kind(self.grid, noised, law_of(spend), spend.micro / MICRO)


def law_of(spend: Spend) -> str:
    """The name of the noise a spend buys."""
    return "gaussian" if spend.gaussian else "laplace"


@dataclass(frozen=True)
class Profile:
    """One private look at the distribution of per-user totals of a column, or (``rows=True``) of row counts.

    *Privacy:* each user is in one bin, so the counts move by one. *Cost:* exactly ``epsilon``; plans are free.
    ``upper`` is the public largest total worth considering, ``resolution`` the smallest worth keeping.
    """

    column: str | None = None
    epsilon: Number | None = None
    upper: Number | None = None
    resolution: Number | None = None
    rows: bool = False
    mu: Number | None = None

    def __post_init__(self) -> None:
        if (self.column is None) == (not self.rows):
            raise InvalidTask("a profile looks at a column, or with rows=True at the number of rows; give one of them.")
        if self.upper is None:
            raise InvalidTask("a profile needs upper=, the public largest total per user worth considering.")
        for name in ("epsilon", "mu", "upper", "resolution"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, positive(getattr(self, name), name))
        _ = self.scale

    @lazy
    def scale(self) -> Scale:
        """The public grid."""
        upper = bound(self.upper or 0, "upper")
        return Scale.of_rows(upper) if self.rows else Scale.of_values(upper, self.resolution)

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        """One noisy histogram; the error is that of each count."""
        check_unit(schema, terms)
        if self.column is not None:
            schema.require_numeric(self.column)
        spend = Spend.read(self.epsilon, self.mu, terms)
        mechanism = spend.mechanism(1)
        error = noise_error(mechanism, Fraction(1), 0.0)

        def look(table: Table, noise: Noise) -> Outcome:
            seen = self.scale.look(table, terms, self.column, spend, noise)
            found = ContributionProfile(self.column, str(terms.unit), self.scale, seen.counts, seen.law, seen.level)
            return Outcome(found.to_json(), error, {"bins": len(seen.counts)})

        return Plan(mechanism.event, error, look, ContributionProfile.from_json)


@dataclass(frozen=True)
class ContributionProfile:
    """Released counts of users by the size of their total; plans from it cost nothing.

    ``plan(epsilon).best`` is the cap to use, with its predicted noise, bias and error; ``plan(epsilon).chart()`` the
    U-curve. ``save`` and ``load`` keep it as JSON.
    """

    column: str | None
    unit: str
    scale: Scale
    counts: tuple[float, ...]
    law: str
    level: float

    def __post_init__(self) -> None:
        _ = Quantity(None, self.scale.step), self.histogram  # refuses a step, counts, a law and a level that do not fit
        if self.scale.upper > LIMIT:
            raise InvalidTask("upper is more steps than a row's integer can hold.")

    @property
    def histogram(self) -> NoisyHistogram:
        """The counts with what is known of their noise."""
        from steelyard.bounding.cap import NoisyHistogram

        return NoisyHistogram(self.scale.grid, self.counts, self.law, self.level)

    def plan(self, epsilon: Number | None = None, *, mu: Number | None = None, delta: Number | None = None) -> Tradeoff:
        """The predicted trade-off over all candidate caps for a release at epsilon (with ``delta``: Gaussian), or mu.

        *Privacy:* post-processing. *Accuracy:* predictions are posterior means, not promises.
        """
        from steelyard.bounding.cap import plan_caps

        level, law = self._level(epsilon, mu, delta)
        return plan_caps(self.histogram, level, law).times(float(self.scale.step))

    def choose(self, spend: Spend, law: str) -> CapChoice:
        """The best cap for what a release may spend on noise of this law, in grid steps."""
        from steelyard.bounding.cap import choose_cap

        return choose_cap(self.histogram, spend.micro / MICRO, law)

    def kept(self, cap: Number) -> float:
        """The estimated share of everything contributed that a cap keeps (the papers' n_tau / n, for rows).

        >>> scale = Scale.of_rows(Fraction(16))
        >>> counts = (0.0,) * 6 + (100.0,)
        >>> round(ContributionProfile(None, "users", scale, counts, "laplace", 9.0).kept(7), 1)
        0.5
        """
        import numpy as np

        from steelyard.bounding.cap import plan_caps

        limit, curve = float(positive(cap, "cap") / self.scale.step), plan_caps(self.histogram, self.level)
        # what the lowest cap loses, and what it keeps of everybody, is all there is
        whole = curve.bias[0] + curve.caps[0] * max(sum(self.counts), 1.0)
        lost = float(np.interp(math.log(limit), np.log(curve.caps), curve.bias))
        return min(1.0, max(0.0, 1 - lost / whole))

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
        data = read_document(path, "a saved profile")
        try:
            return cls.from_json(data["value"] if isinstance(data, dict) and "value" in data else data)
        except InvalidTask as fault:
            raise InvalidTask(f"{path} is not a saved profile: {fault}") from None

    def _level(self, epsilon: Number | None, mu: Number | None, delta: Number | None) -> tuple[float, str]:
        if mu is not None or delta is not None:
            terms = Terms(rows(), Loss.zero(Currency.GAUSSIAN), None, bound(delta or 0, "delta"))
        else:
            terms = Terms(rows(), Loss.zero(Currency.PURE))
        spend = Spend.read(epsilon, mu, terms)
        return spend.micro / MICRO, "gaussian" if spend.gaussian else "staircase"
