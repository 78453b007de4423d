"""Everything shipped, and how each item is audited.

One entry per mechanism and per task, with the parameters and accounts that have bitten others: uneven bounds, one
user with very many rows, replaced rows, keys nobody has, Gaussian and pure accounts. A mechanism or task that ships
without an entry here fails a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from multiprocessing import get_context
from typing import Any

from steelyard import mechanisms as shipped
from steelyard.accounting import mu_cap
from steelyard.audit._corpus import Pool, days, decimals, floats, integers, texts
from steelyard.audit._documents import of_every_method, saved_randomizers
from steelyard.audit._holdouts import hidden_labels
from steelyard.audit._paths import (
    DisjointStep,
    LogisticLevel,
    PureLevels,
    PureQuestions,
    RidgeLevel,
    RidgeLook,
    RowQuestions,
)
from steelyard.audit._randomized import randomized_labels
from steelyard.audit._replays import audit
from steelyard.audit._verdict import Verdict
from steelyard.bounding import (
    Count,
    CountDistinct,
    CountUsers,
    Histogram,
    Mean,
    Median,
    Profile,
    Quantile,
    Ratio,
    ReportPlan,
    Std,
    Sum,
    Together,
    TopK,
    Variance,
    Within,
)
from steelyard.errors import InvalidTask
from steelyard.holdout import Question, Thresholdout
from steelyard.models import Categorical, Features, FitLinear, FitLogistic, FitPoisson, Numeric
from steelyard.models._columns import Column
from steelyard.models._rows import Target
from steelyard.models.accuracy import Goal
from steelyard.models.accuracy._first_above import Row
from steelyard.models.accuracy._logistic import LogisticSearch
from steelyard.models.accuracy._one_shot import LogisticTask
from steelyard.models.accuracy._ridge import RidgeSearch
from steelyard.models.accuracy._split import Split
from steelyard.privacy import ATTO, Loss, Neighbours, Terms, Unit, labels, rows, users

SAMPLES = 400_000
_QUICK = 40_000
_SHARES = {(True, False): 20, (True, True): 20, (False, False): 8, (False, True): 1}  # by quick, by more samples

WHO, EACH, SWAPPED, LABEL = users("who"), rows(), rows(neighbours="replace", n=20), labels("label")
KEYS = ["FR", "DE", "", "nobody"]
DATES = ["1970-01-01", "2020-02-02", "2025-01-01"]
GROUPED: dict[str, Any] = {"by": "land", "keys": KEYS}
FOUND: dict[str, Any] = {"by": "land", "max_keys": 2}
REPORT = ReportPlan(
    {
        "total": Within(Sum("amount", cap=10, lower=-5), 20, noise_alone=True),
        "people": (CountUsers(max_keys=4, **GROUPED), 9),
        "middle": Within(Quantile("amount", lower=-5, upper=100, cap=3), 30, noise_alone=True),
    }
)
AMOUNTS = {"who": texts(), "amount": floats(10.0, 10.5, 9.5, -300.0)}
WHOLE = {"who": integers(1, 2, 3), "amount": integers(99, 100, 101)}
PLACED = {**AMOUNTS, "land": texts(*KEYS)}
PAIRED = {**PLACED, "more": floats(3.0, -2.0, 0.5)}
TOGETHER = Together(
    [
        Sum("amount", epsilon="1", cap=10, **GROUPED),
        Mean("amount", epsilon="1", lower=-50, upper=10, cap=3, **GROUPED),
        Variance("amount", epsilon="1", lower=-50, upper=10, cap=3, **GROUPED),
        Ratio("amount", "more", epsilon="1", cap=10, over_cap=3, **GROUPED),
        CountUsers(epsilon="1", max_keys=2, **GROUPED),
        Histogram("amount", epsilon="1", edges=[-1, 0, 10], cap=3, **GROUPED),
    ]
)
CENTS = {"who": texts("a", "b"), "amount": decimals()}
LABELLED = {"amount": floats(10.0, -9.0, 0.5), "land": texts(*KEYS), "label": floats(-2.0, 3.0, 0.5)}
OWNED = {**LABELLED, "who": texts()}
CLASSED = {**OWNED, "label": integers(0, 1)}
NEAR = [[0.5, 0, 0, 0.5], [-0.5, 0, 0, 0], [0, 0.3, 0, -0.2]]
FEATURES: list[Column] = [Numeric("amount", -9, 10), Categorical("land", ["FR", "DE"])]


@dataclass(frozen=True)
class Item:
    """One thing to audit: a mechanism, or a task with its terms and the columns of its tables."""

    subject: Any
    terms: Terms | None = None
    columns: Mapping[str, Pool] | None = None

    def audit(self, name: str, *, samples: int, share: int) -> Verdict:
        """Every check there is for it."""
        verdict = audit(self.subject, terms=self.terms, columns=self.columns, samples=samples, share=share)
        return replace(verdict, subject=name)


def pure(unit: Unit) -> Terms:
    """The terms of a pure account."""
    return Terms(unit, Loss.pure(100), Fraction(100))


def gaussian(unit: Unit) -> Terms:
    """The terms of a Gaussian account."""
    epsilon, delta = Fraction(8), Fraction(1, 10**6)
    return Terms(unit, mu_cap(epsilon, delta), epsilon, delta)


def set_aside(unit: Unit) -> Terms:
    """The terms of a Gaussian account that sets a tenth of its delta aside for steps that may fail."""
    terms = gaussian(unit)
    spare = terms.delta / 10
    cap = replace(mu_cap(Fraction(8), terms.delta - spare), delta=int(spare * ATTO))
    return replace(terms, cap=cap)


def mechanisms() -> dict[str, Item]:
    """Every mechanism, at more than one setting where the code branches."""
    third = Fraction(1, 3)
    made = {
        "laplace": shipped.Laplace(1_000_000, Fraction(1_000_000)),
        "laplace-narrow": shipped.Laplace(3, 2 * third),
        "gaussian": shipped.Gaussian(1_000_000, Fraction(1_000_000)),
        "gaussian-squared": shipped.Gaussian(None, Fraction(7, 3), squared_sensitivity=2),
        "staircase": shipped.Staircase(7, 3, Fraction(1)),
        "staircase-wide": shipped.Staircase.least(1_000_000, Fraction(2)),
        "histogram": shipped.NoisyCounts.laplace(8, Fraction(2)),
        "histogram-replace": shipped.NoisyCounts.gaussian(8, Fraction(3), Neighbours.REPLACE),
        "exponential": shipped.Exponential(Fraction(1), 1),
        "exponential-monotone": shipped.Exponential(Fraction(2), 3, monotone=True),
        "random-stop": shipped.RandomStop(Fraction(1, 2), Fraction(1, 8)),
        "random-stop-logarithmic": shipped.RandomStop(Fraction(1, 2), Fraction(1, 8), "logarithmic"),
        "above-threshold": shipped.AboveThreshold(1, Fraction(1), Fraction(1)),
        "above-threshold-stops": shipped.AboveThreshold(2, Fraction(4), Fraction(16), stops=2),
        "above-threshold-monotone": shipped.AboveThreshold(1, Fraction(1), Fraction(1), monotone=True),
        "finite": shipped.Finite(((4, 2, 1, 1), (2, 4, 2, 1), (1, 2, 4, 2), (1, 1, 2, 4))),
        "bounded-noise": shipped.BoundedNoise(2, 12, 100, 3, failure=Fraction(1, 20)),
        "bounded-noise-steps": shipped.BoundedNoise(3, 60, 100, 8, sensitivity=4, failure=Fraction(1, 100)),
        "key-threshold": shipped.KeyThreshold(2, Fraction(4), Fraction(1, 1000)),
        "key-threshold-least": shipped.KeyThreshold(2, Fraction(4), Fraction(1, 1000), 9),
        "thresholdout": Thresholdout(40, budget=2, threshold="0.05", sigma="0.1"),
        "laplace-path": shipped.LaplacePath(1, (Fraction(3), Fraction(1))),
        "objective": shipped.Objective(1, 1_000_000, Fraction(2, 5), 200_000),
        "objective-users": shipped.UserObjective(1, 1_000_000, Fraction(2), 200_000),
        "objective-pure": shipped.PureObjective(1, Fraction(1), Fraction(1), 100_000),
    }
    return {name: Item(mechanism) for name, mechanism in {**made, **randomizers()}.items()}


@cache
def randomizers() -> dict[str, Any]:
    """Every kind of label randomizer, put to use."""
    from steelyard.labels._classes import ClassSampler

    made = of_every_method(12, [20, *[1] * 12])
    found: dict[str, Any] = {f"labels-{name.replace('_', '-')}": each.sampler_ for name, each in made.items()}
    return {**found, **{f"labels-classes-{size}": ClassSampler.of(size, 1) for size in (2, 3, 9)}}


def tasks() -> dict[str, Item]:
    """Every task, on the accounts and the kinds of columns it takes."""
    return {
        **bounded(),
        **linear_fits(),
        **logistic_fits(),
        **accuracy_first(LABELLED),
        **questions(),
        **counts(),
        **rows_of_queries(),
    }


def bounded() -> dict[str, Item]:
    """Sums, counts of users, means, quantiles and histograms."""
    return {
        "sum": Item(Sum("amount", epsilon="1", cap=10), pure(WHO), AMOUNTS),
        "sum-uneven": Item(Sum("amount", epsilon="0.5", cap=10, lower=-300), pure(WHO), AMOUNTS),
        "sum-integers": Item(Sum("amount", epsilon="0.001", cap=100, lower=-1), pure(WHO), WHOLE),
        "sum-decimals": Item(Sum("amount", epsilon="2", cap="1.25"), pure(WHO), CENTS),
        "sum-gaussian": Item(Sum("amount", epsilon="1", cap="0.1", lower=-7), gaussian(WHO), AMOUNTS),
        "sum-rows": Item(Sum("amount", epsilon="1", cap=10, lower=-5), pure(EACH), AMOUNTS),
        "sum-replace": Item(Sum("amount", epsilon="1", cap=10, lower=-5), pure(SWAPPED), AMOUNTS),
        "sum-keys": Item(Sum("amount", epsilon="1", cap=10, **GROUPED), pure(WHO), PLACED),
        "sum-keys-gaussian": Item(Sum("amount", mu="0.5", cap=10, **GROUPED), gaussian(WHO), PLACED),
        "sum-keys-few": Item(Sum("amount", epsilon="1", cap=10, max_keys=2, **GROUPED), pure(WHO), PLACED),
        "sum-auto": Item(Sum("amount", epsilon="1", upper=1000), pure(WHO), AMOUNTS),
        "sum-auto-gaussian": Item(Sum("amount", epsilon="1", upper=50, lower=-500), gaussian(WHO), AMOUNTS),
        "sum-auto-keys": Item(Sum("amount", epsilon="1", upper=1000, **GROUPED), pure(WHO), PLACED),
        "sum-auto-keys-gaussian": Item(Sum("amount", epsilon="1", upper=1000, **GROUPED), gaussian(WHO), PLACED),
        "count-auto-keys": Item(Count(epsilon="1", upper=100, **GROUPED), pure(WHO), PLACED),
        "profile": Item(Profile("amount", epsilon="0.1", upper=10**6), pure(WHO), AMOUNTS),
        "profile-rows": Item(Profile(rows=True, mu="0.3", upper=64), gaussian(WHO), WHOLE),
        "count-users": Item(CountUsers(epsilon="1"), pure(WHO), WHOLE),
        "count-users-keys": Item(CountUsers(epsilon="1", max_keys=2, **GROUPED), gaussian(WHO), PLACED),
        "count-users-bought": Item(CountUsers(epsilon="1", **GROUPED), pure(WHO), PLACED),
        "count-users-bought-gaussian": Item(CountUsers(epsilon="1", **GROUPED), gaussian(WHO), PLACED),
        "count-users-found": Item(CountUsers(epsilon="4", by="land", max_keys=2), set_aside(WHO), PLACED),
        "sum-others": Item(Sum("amount", epsilon="1", cap=10, others=True, **GROUPED), pure(WHO), PLACED),
        "count-users-found-others": Item(
            CountUsers(epsilon="4", by="land", max_keys=2, others=True), set_aside(WHO), PLACED
        ),
        "sum-found": Item(Sum("amount", epsilon="4", cap=10, by="land", max_keys=1), set_aside(WHO), PLACED),
        "sum-auto-found": Item(Sum("amount", epsilon="4", upper=99, by="land", max_keys=2), set_aside(WHO), PLACED),
        "mean-found": Item(
            Mean("amount", epsilon="4", upper=10, cap=2, by=["land"], max_keys=1), set_aside(WHO), PLACED
        ),
        "together-found": Item(
            Together([Sum("amount", epsilon="4", cap=10, **FOUND), Count(epsilon="4", cap=3, **FOUND)]),
            set_aside(WHO),
            PLACED,
        ),
        "together": Item(
            Together([Sum("amount", epsilon="1", cap=10, **GROUPED), Count(epsilon="0.5", upper=50, **GROUPED)]),
            pure(WHO),
            PLACED,
        ),
        "report": Item(REPORT, pure(WHO), PLACED),
        "report-gaussian": Item(REPORT, gaussian(WHO), PLACED),
        "mean": Item(Mean("amount", epsilon="1", lower=-50, upper=10, cap=3), pure(WHO), AMOUNTS),
        "mean-gaussian": Item(Mean("amount", mu="0.4", lower=5, upper=9), gaussian(EACH), AMOUNTS),
        "mean-keys": Item(Mean("amount", epsilon="1", lower=-50, upper=10, cap=3, **GROUPED), pure(WHO), PLACED),
        "variance": Item(Variance("amount", epsilon="1", lower=-50, upper=10, cap=3), pure(WHO), AMOUNTS),
        "variance-bought-keys": Item(Variance("amount", mu="0.4", upper="auto", **GROUPED), gaussian(WHO), PLACED),
        "std": Item(Std("amount", epsilon="1", lower=5, upper=9), pure(EACH), AMOUNTS),
        "ratio": Item(Ratio("amount", "more", epsilon="1", cap=10, over_cap=3), pure(WHO), PAIRED),
        "ratio-keys": Item(Ratio("amount", "more", mu="1", cap=10, over_upper=99, **GROUPED), gaussian(WHO), PAIRED),
        "median": Item(Median("amount", epsilon="1", lower=-5, upper=100, cap=3), pure(WHO), AMOUNTS),
        "count-distinct": Item(CountDistinct("land", epsilon="1", cap=2), pure(WHO), PLACED),
        "count-distinct-bought": Item(CountDistinct("amount", epsilon="1", **GROUPED), pure(WHO), PLACED),
        "count-distinct-found": Item(CountDistinct("amount", epsilon="4", **FOUND), set_aside(WHO), PLACED),
        "top-k": Item(TopK("land", k=2, epsilon="1", keys=KEYS), pure(WHO), PLACED),
        "top-k-gaussian": Item(TopK("land", k=1, mu="1", keys=KEYS), gaussian(EACH), PLACED),
        "top-k-found": Item(TopK("land", k=2, epsilon="4", max_keys=2), set_aside(WHO), PLACED),
        "top-k-by-key": Item(TopK("amount", k=1, epsilon="1", cap=2, values=[1, 2], **GROUPED), pure(WHO), PLACED),
        "together-top-k": Item(
            Together([Count(epsilon="2", cap=3, **FOUND), TopK("amount", k=1, epsilon="4", cap=2, **FOUND)]),
            set_aside(WHO),
            PLACED,
        ),
        "value-histogram-dates": Item(Histogram("day", epsilon="1", edges=DATES), pure(WHO), {**PLACED, "day": days()}),
        "value-histogram-texts": Item(Histogram("land", epsilon="1", values=KEYS, cap=3), gaussian(WHO), PLACED),
        "together-all": Item(TOGETHER, gaussian(WHO), PAIRED),
        "mean-bought": Item(Mean("amount", epsilon="1", lower="auto", upper="auto"), pure(WHO), AMOUNTS),
        "mean-bought-keys": Item(Mean("amount", mu="0.4", lower=-9, upper="auto", **GROUPED), gaussian(WHO), PLACED),
        "quantile-bought": Item(Quantile("amount", epsilon="1", lower="auto", upper="auto"), pure(WHO), AMOUNTS),
        "quantile": Item(Quantile("amount", epsilon="1", lower=-5, upper=100, cap=3), pure(WHO), AMOUNTS),
        "value-histogram": Item(Histogram("amount", epsilon="1", edges=[-1, 0, 0.5, 10], cap=3), pure(WHO), AMOUNTS),
        "value-histogram-bought": Item(Histogram("amount", mu="1", edges=[-1, 0, 5, 10]), gaussian(WHO), AMOUNTS),
        "value-histogram-gaussian": Item(Histogram("amount", mu="1", edges=[0, 100, 101], cap=2), gaussian(WHO), WHOLE),
        "value-histogram-ranges": Item(
            Histogram("amount", epsilon="1", edges=[-1, 0, 5, 10], cap=3, ranges=True), gaussian(WHO), AMOUNTS
        ),
        "value-histogram-keys": Item(
            Histogram("amount", epsilon="1", edges=[-1, 0, 10], cap=3, **GROUPED), gaussian(WHO), PLACED
        ),
    }


def linear_fits() -> dict[str, Item]:
    """Linear models, of rows and of users."""
    return {
        "fit-linear": Item(FitLinear(FEATURES, "label", -2, 3, epsilon="1"), gaussian(EACH), LABELLED),
        "fit-linear-pure": Item(FitLinear(FEATURES, "label", -2, 3, epsilon="1"), pure(EACH), LABELLED),
        "fit-linear-replace": Item(
            FitLinear(["amount", "label"], "more", -1, 1, mu="0.5", x_bound=5, intercept=False),
            gaussian(SWAPPED),
            {**LABELLED, "more": floats(1.0, -1.0)},
        ),
        "fit-linear-scale": Item(
            FitLinear(["amount"], "label", 0, "1e-9", epsilon="2", x_bound="0.1", norm="scale"), pure(SWAPPED), LABELLED
        ),
        "fit-linear-users": Item(FitLinear(FEATURES, "label", -2, 3, epsilon="1"), gaussian(WHO), OWNED),
        "fit-linear-labels": Item(FitLinear(FEATURES, "label", -2, 3, epsilon="1"), gaussian(LABEL), LABELLED),
        "fit-linear-objective": Item(
            FitLinear(FEATURES, "label", -2, 3, epsilon="1", method="objective"), gaussian(EACH), LABELLED
        ),
        "fit-linear-cap": Item(FitLinear(FEATURES, "label", -2, 3, epsilon="1", cap=2), pure(WHO), OWNED),
        "fit-linear-cap-objective": Item(
            FitLinear(FEATURES, "label", -2, 3, epsilon="1", method="objective", cap=2), gaussian(WHO), OWNED
        ),
        "fit-linear-cap-output": Item(
            FitLinear(FEATURES, "label", -2, 3, epsilon="1", method="output", cap=2), pure(WHO), OWNED
        ),
        "fit-linear-cap-choice": Item(
            FitLinear(FEATURES, "label", -2, 3, epsilon="1", method="choice", cap=2, candidates=NEAR), pure(WHO), OWNED
        ),
    }


def logistic_fits() -> dict[str, Item]:
    """Classifiers by every method, and counts."""
    return {
        "fit-logistic": Item(FitLogistic(FEATURES, "label", [0, 1], epsilon="1"), gaussian(EACH), LABELLED),
        "fit-logistic-pure": Item(FitLogistic(FEATURES, "label", [0, 1], epsilon="1"), pure(EACH), LABELLED),
        "fit-logistic-replace": Item(
            FitLogistic(["amount"], "label", [0, 1, 2], mu="0.5", x_bound=5, norm="clip"), gaussian(SWAPPED), LABELLED
        ),
        "fit-logistic-output": Item(
            FitLogistic(["amount"], "label", [0, 1], epsilon="1", x_bound=5, method="output"), gaussian(EACH), LABELLED
        ),
        "fit-logistic-descent": Item(
            FitLogistic(["amount"], "label", [0, 1], epsilon="1", x_bound=5, method="descent"), gaussian(EACH), LABELLED
        ),
        "fit-logistic-choice": Item(
            FitLogistic(
                ["amount"],
                "label",
                [0, 1],
                epsilon="1",
                x_bound=5,
                method="choice",
                candidates=[[9, 0], [0, 9], [-9, 0]],
            ),
            pure(EACH),
            LABELLED,
        ),
        "fit-logistic-labels": Item(FitLogistic(FEATURES, "label", [0, 1, 2], epsilon="1"), pure(LABEL), LABELLED),
        "fit-poisson-labels": Item(FitPoisson(FEATURES, "label", 0, 3, epsilon="1"), gaussian(LABEL), LABELLED),
        "fit-logistic-users": Item(FitLogistic(FEATURES, "label", [0, 1], epsilon="1"), gaussian(WHO), OWNED),
        "fit-logistic-cap": Item(FitLogistic(FEATURES, "label", [0, 1], epsilon="1", cap=2), pure(WHO), OWNED),
        "fit-logistic-cap-output": Item(
            FitLogistic(FEATURES, "label", [0, 1], epsilon="1", method="output", cap=2), gaussian(WHO), CLASSED
        ),
        "fit-logistic-cap-descent": Item(
            FitLogistic(FEATURES, "label", [0, 1], epsilon="1", method="descent", cap=2), gaussian(WHO), CLASSED
        ),
        "fit-logistic-cap-choice": Item(
            FitLogistic(["amount"], "label", [0, 1], epsilon="1", x_bound=5, method="choice", cap=2, radius=1),
            gaussian(WHO),
            CLASSED,
        ),
    }


def questions() -> dict[str, Item]:
    """A holdout's questions."""
    return {
        "question": Item(Question("land", epsilon="0.5", equals="FR"), pure(SWAPPED), PLACED),
        "question-gaussian": Item(Question("amount", mu="0.5", lower=-50, upper=10), gaussian(SWAPPED), AMOUNTS),
        "question-integers": Item(Question("amount", epsilon="1", equals=100), gaussian(SWAPPED), WHOLE),
    }


def counts() -> dict[str, Item]:
    """Counts of rows."""
    return {
        "count": Item(Count(epsilon="1", cap=5), pure(WHO), WHOLE),
        "count-rows": Item(Count(epsilon="1"), pure(EACH), AMOUNTS),
        "count-keys": Item(Count(epsilon="1", cap=7, **GROUPED), pure(WHO), PLACED),
        "count-keys-few": Item(Count(epsilon="1", cap=7, rows_per_key=2, **GROUPED), gaussian(WHO), PLACED),
    }


def rows_of_queries() -> dict[str, Item]:
    """The questions of a row of one's own totals, on accounts of either relation and currency."""
    row = Row(Fraction(5), Fraction(1), None)
    totals = RowQuestions(row, (Sum("amount", cap=10, lower=-5), Count(cap=3), Sum("amount", cap=1)))
    return {
        "first-above": Item(totals, pure(WHO), AMOUNTS),
        "first-above-rows": Item(RowQuestions(row, (Count(), Sum("amount", cap=2))), gaussian(EACH), AMOUNTS),
        "first-above-replace": Item(totals, pure(users("who", neighbours="replace", n=500)), AMOUNTS),
    }


def accuracy_first(table: Mapping[str, Pool]) -> dict[str, Item]:
    """The steps of accuracy-first paths, on terms with room for the audit's longest table."""
    many, people = rows(neighbours="replace", n=500), users("who", neighbours="replace", n=500)
    owned = {**table, "who": texts()}
    features = Features([Numeric("amount", -9, 10)], "clip", 1)
    search = RidgeSearch(features, Target("label", -2, 3), Fraction(1, 100))
    logistic = LogisticSearch(features, "label", [0, 1], Fraction(1, 100))
    one_shot = LogisticTask(features, "label", [0, 1], 0.05, 0.9, Fraction(1, 100))
    return {
        "first-level": Item(RidgeLevel(search, 10**10), gaussian(many), table),
        "first-level-coarse": Item(RidgeLevel(search, 10**6), gaussian(many), table),
        "first-look": Item(RidgeLook(search, 10**10, (2**46, -(2**47))), gaussian(many), table),
        "first-logistic": Item(one_shot, gaussian(many), table),
        "first-logistic-level": Item(LogisticLevel(logistic, 10**10), gaussian(many), table),
        "first-logistic-level-users": Item(LogisticLevel(logistic, 10**10), gaussian(people), owned),
        "first-logistic-pure": Item(one_shot, pure(many), table),
        "first-level-users": Item(RidgeLevel(search, 10**10), gaussian(people), owned),
        "first-look-users": Item(RidgeLook(search, 10**10, (2**46, -(2**47))), gaussian(people), owned),
        "first-logistic-users": Item(one_shot, gaussian(people), owned),
        **disjoint_checks(features, owned),
        **pure_paths(features, owned),
    }


def pure_paths(features: Features, table: Mapping[str, Pool]) -> dict[str, Item]:
    """The levels and the questions of models on pure accounts, where rows or users are replaced."""
    search = RidgeSearch(features, Target("label", -2, 3), Fraction(1, 100))
    models, levels = ((0, 0), (2**46, -(2**47)), (2**48, 2**47)), PureLevels(search, (10**5, 3 * 10**5))
    units = {"rows": rows(neighbours="replace", n=500), "users": users("who", neighbours="replace", n=500)}
    steps = {
        "levels": levels,
        "loss": PureQuestions(search, Goal("loss", 0.3, 0.9), models),
        "excess": PureQuestions(search, Goal("excess", 0.05, 0.9), models),
        "log-loss": PureQuestions(
            LogisticSearch(features, "label", [0, 1], Fraction(1, 100)),
            Goal("loss", 0.5, 0.9),
            ((2**19, -(2**21)), (2**23, 2**22)),
        ),
        "wrong-class": PureQuestions(
            LogisticSearch(features, "label", [0, 1], Fraction(1, 100)),
            Goal("error", 0.3, 0.9),
            ((2**19, -(2**21)), (2**23, 2**22)),
        ),
    }
    return {
        f"first-pure-{kind}-{name}": Item(step, pure(unit), table)
        for kind, step in steps.items()
        for name, unit in units.items()
    }


def disjoint_checks(features: Features, table: Mapping[str, Pool]) -> dict[str, Item]:
    """The steps of searches with a check part, on accounts of either relation."""
    search = RidgeSearch(features, Target("label", -2, 3), Fraction(1, 100), Split())
    by_id = replace(search, split=Split(ids="who"))
    units = {"rows": rows(), "users": users("who"), "replace": rows(neighbours="replace", n=500)}
    level, look = DisjointStep(search, 10**10, "level"), DisjointStep(search, 10**10, "look", (2**46, -(2**47)))
    size = DisjointStep(search, 10**6, "size")
    steps = {"level": level, "look": look, "size": size}
    found = {
        f"first-disjoint-{kind}-{name}": Item(step, gaussian(unit), table)
        for kind, step in steps.items()
        for name, unit in units.items()
    }
    return {**found, "first-disjoint-look-ids": Item(replace(look, search=by_id, target=0.9), gaussian(rows()), table)}


def registry() -> dict[str, Item]:
    """Everything, by name."""
    others = {**hidden_labels(), **randomized_labels(), **saved_randomizers()}
    return {**mechanisms(), **tasks(), **{name: Item(subject) for name, subject in others.items()}}


def select(names: Sequence[str]) -> list[str]:
    """The items meant by these names: exact ones, or all that begin with a name; all of them for none."""
    known = list(registry())
    if not names:
        return known
    chosen = [item for item in known if any(item == name or item.startswith(f"{name}-") for name in names)]
    missing = [name for name in names if not any(item == name or item.startswith(f"{name}-") for item in known)]
    if missing:
        raise InvalidTask(f"there is nothing to audit by the name {missing[0]!r}; known are {', '.join(known)}.")
    return chosen


def run(
    names: Sequence[str] = (),
    *,
    samples: int | None = None,
    quick: bool = False,
    jobs: int = 2,
    finished: Callable[[Verdict], None] = lambda verdict: None,
) -> list[Verdict]:
    """Audit the named items (all of them by default), in their order; ``finished`` hears of each as it ends."""
    chosen = select(names)
    size = samples if samples is not None else _QUICK if quick else SAMPLES
    if size < 1000:
        raise InvalidTask(f"an audit needs at least 1000 samples; got {size}.")
    share = _SHARES[quick, size > SAMPLES]
    found = {}
    for verdict in _each(chosen, size, share, min(jobs, len(chosen))):
        finished(verdict)
        found[verdict.subject] = verdict
    return [found[name] for name in chosen]


def _each(names: Sequence[str], samples: int, share: int, jobs: int) -> Iterator[Verdict]:
    if jobs <= 1:
        yield from (_one(name, samples, share) for name in names)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(_one, name, samples, share) for name in reversed(names)]
        for future in as_completed(waiting):
            yield future.result()


def _one(name: str, samples: int, share: int) -> Verdict:
    return registry()[name].audit(name, samples=samples, share=share)
