"""Linear models that are broken on purpose: the audit's replay must find each of them, and pass the honest one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from steelyard.audit import Verdict, audit
from steelyard.audit._corpus import floats
from steelyard.audit._suite import gaussian, pure
from steelyard.mechanisms import Gaussian, Laplace, sigma_for
from steelyard.models._columns import SIZE, Features, Numeric, Plain
from steelyard.models._fits import FitLinear
from steelyard.models._statistics import StatisticsRelease
from steelyard.noise import Noise
from steelyard.plan import Outcome, Plan
from steelyard.privacy import Terms, rows
from steelyard.tables import Schema, Table

COLUMNS = {"a": floats(3.0, -4.0, 50.0), "b": floats(4.0, 3.0), "label": floats(1.0, -1.0)}


def verdict(task: FitLinear, terms: Terms | None = None) -> Verdict:
    return audit(task, terms=terms or gaussian(rows()), columns=COLUMNS, share=20)


def broken(found: Verdict) -> set[str]:
    return {check.name.split(":")[0] for check in found.checks if not check.ok}


class Unclipped(Features):
    """Rows keep their length, whatever the declared one is."""

    def whole(self, batch: Any, shares: Any = None) -> Any:
        return np.rint(self.scaled(batch))

    def _factor(self, squares: Any) -> Any:
        return np.full_like(squares, self._reach)


class Beside(Features):
    """The constant stands beside a row of full length instead of inside it."""

    def whole(self, batch: Any, shares: Any = None) -> Any:
        bare = Features(self.columns, self.norm, self.x_bound, intercept=False)
        return np.vstack([bare.whole(batch), np.full(batch.num_rows, float(SIZE))])


class Maximum(FitLinear):
    """The bounds of a column are read off its rows."""

    def plan(self, schema: Schema, terms: Terms) -> Plan:
        honest = super().plan(schema, terms)

        def run(table: Table, noise: Noise) -> Outcome:
            task = FitLinear(self._seen(table), self.label, self.lower, self.upper, self.epsilon)
            return task.plan(schema, terms).run(table, noise)

        return replace(honest, run=run)

    @staticmethod
    def _seen(table: Table) -> Features:
        seen = [np.abs(batch.column(0).to_numpy(zero_copy_only=False)) for batch in table.batches(["a"])]
        finite = [part[np.isfinite(part)] for part in seen]
        largest = max((float(part.max()) for part in finite if part.size), default=0.0)
        bound = min(max(largest, 1e-6), 1e100)
        return Features([Numeric("a", -bound, bound)])


class LowerTwice(StatisticsRelease):
    """The diagonal's share of the sensitivity is taken from a lower bound of zero, as a shipped library did."""

    @property
    def mechanism(self) -> Gaussian | Laplace:
        square = self.weights.label**2 * SIZE**4
        return Gaussian(None, sigma_for(square, self.spend.micro**2), self.neighbours, square)


class Careless(FitLinear):
    """Noises for the careless sensitivity."""

    def statistics(self, terms: Terms) -> StatisticsRelease:
        honest = super().statistics(terms)
        return LowerTwice(honest.width, honest.spend, honest.neighbours)


PLAIN = [Plain("a"), Plain("b")]
HONEST = FitLinear(Features(PLAIN, x_bound=5), "label", -1, 1, epsilon=1)


def test_the_honest_model_is_clean() -> None:
    assert not broken(verdict(HONEST))
    assert not broken(verdict(HONEST, pure(rows())))


@pytest.mark.parametrize(
    "twin",
    [
        FitLinear(Unclipped(PLAIN, x_bound=5), "label", -1, 1, epsilon=1),
        FitLinear(Beside(PLAIN, x_bound=5), "label", -1, 1, epsilon=1),
        Maximum([Numeric("a", -1, 1)], "label", -1, 1, epsilon=1),
        Careless(PLAIN, "label", -1, 1, epsilon=1, x_bound=5),
    ],
    ids=["rows of any length", "a constant beside the row", "bounds read off the data", "a diagonal without noise"],
)
def test_a_broken_model_is_found_out(twin: FitLinear) -> None:
    assert broken(verdict(twin)) & {"distance", "noise", "transcript", "errors"}


def test_a_broken_model_is_found_out_on_a_pure_account() -> None:
    twin = replace_features(HONEST, Unclipped(PLAIN, x_bound=5))
    assert broken(verdict(twin, pure(rows())))


def replace_features(task: FitLinear, features: Features) -> FitLinear:
    return FitLinear(features, task.label, task.lower, task.upper, task.epsilon)
