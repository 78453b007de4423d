"""``GradualSum``: a sum that is sharpened step by step, each step paid for on its own.

Every step is an independent Gaussian measurement of the same bounded total; the answer is their average, weighted by
precision. After steps that cost a_1, ..., a_k (mu squared) it is as sharp as one release that cost their sum, so
stopping early saves the rest and going on costs only the difference. A restart picks up the stored steps (law 1).
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from fractions import Fraction

from steelyard.bounding.amounts import Amount, Spend, bound, check_unit, noise_error
from steelyard.bounding.totals import Sum
from steelyard.desk import Desk
from steelyard.errors import CurrencyMismatch, InvalidTask
from steelyard.mechanisms import Gaussian, sigma_for
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Currency, Number, Terms
from steelyard.release import Outcome, Release
from steelyard.tables import Quantity, Schema, Table


@dataclass(frozen=True)
class GradualSum:
    """Open with ``session.open(GradualSum("amount", cap=100), key="total")``; then ``.refine(epsilon)`` at will.

    *Privacy:* each step is charged before it is drawn. *Cost:* after ``refine(epsilon)`` the whole path has cost
    exactly what one ``Sum`` at that epsilon would have. Gaussian accounts only.
    """

    column: str
    cap: Number
    lower: Number = 0

    def __post_init__(self) -> None:
        for name in ("cap", "lower"):
            object.__setattr__(self, name, bound(getattr(self, name), name))

    def check(self, schema: Schema, terms: Terms) -> None:
        """Refuse what the schema or the account rule out."""
        check_unit(schema, terms)
        if terms.currency is not Currency.GAUSSIAN:
            raise CurrencyMismatch("a gradual sum adds Gaussian steps; open the account with a delta.")
        Sum(self.column, mu=1, cap=self.cap, lower=self.lower).plan(schema, terms)

    def start(self, desk: Desk) -> SumPath:
        """Begin, or pick up where the stored steps left off."""
        return SumPath(self, desk)


class SumPath:
    """A running gradual sum: ``refine`` until it is sharp enough."""

    def __init__(self, task: GradualSum, desk: Desk) -> None:
        self._task, self._desk = task, desk
        grid = Spend(True, MICRO)  # the grid must not change between steps, so it is that of mu = 1
        self._amount = Amount.of_values(Fraction(task.lower), Fraction(task.cap), grid)
        self._steps: list[tuple[int, int]] = []
        self._turn = threading.Lock()
        self._resume()

    @property
    def spent(self) -> int:
        """What the path has cost so far, in 1e-12 of mu squared."""
        return sum(cost for cost, _ in self._steps)

    def refine(self, epsilon: Number | None = None, *, mu: Number | None = None) -> Release:
        """Sharpen the sum to what one release at this epsilon (or mu) would give; pays only the difference."""
        level = Spend.read(epsilon, mu, self._desk.terms).micro ** 2
        with self._turn:
            self._resume()  # somebody else may have taken steps under this key meanwhile
            if level <= self.spent:
                raise InvalidTask("the path is already this sharp; ask for a larger epsilon, or use the last answer.")
            step = step_of(self._amount.sensitivity, level - self.spent)
            charge = self._desk.charge(step.event, f"step {len(self._steps)}")
            release = self._desk.answer(charge, step.event, lambda table, noise: self._measure(table, noise, step))
            self._steps.append((int(release.point["cost"]), int(release.point["measured"])))
            return release

    def _measure(self, table: Table, noise: Noise, step: Gaussian) -> Outcome:
        amount, unit = self._amount, self._desk.terms.unit
        total = table.capped_sum(unit, Quantity(self._task.column, amount.step), amount.lower, amount.upper)
        measured = step.release([total], noise)[0]
        steps = [*self._steps, (math.ceil(step.mu_squared * MICRO**2), measured)]
        cost = sum(paid for paid, _ in steps)
        average = Fraction(sum(paid * value for paid, value in steps), cost)
        whole = step_of(amount.sensitivity, cost)
        point = {
            "cap": float(Fraction(self._task.cap)),
            "steps": len(steps),
            "cost": steps[-1][0],
            "measured": measured,
        }
        return Outcome(float(average * amount.step), noise_error(whole, amount.step), point)

    def _resume(self) -> None:
        """Read back the steps that were stored under this key, in order."""
        while (found := self._desk.find(f"step {len(self._steps)}")) is not None:
            self._steps.append((int(found.point["cost"]), int(found.point["measured"])))


def step_of(sensitivity: int, cost: int) -> Gaussian:
    """The measurement whose price is exactly ``cost`` (1e-12 of mu squared)."""
    return Gaussian(sensitivity, sigma_for(sensitivity**2, cost))
