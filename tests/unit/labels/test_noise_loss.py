"""Unbiased labels of least absolute error, or of a loss of one's own: exact, certified, and told apart from a model's loss."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.labels import LabelRandomizer, solve_unbiased
from steelyard.labels._bins import response_on_bins
from steelyard.labels._bounds import Knots
from steelyard.labels._check import check
from steelyard.labels._noise_loss import reach
from steelyard.labels.solve._solution import Solution

Floats = NDArray[np.float64]
Document = dict[str, Any]


def general_programme(cost: Floats, y: Floats, z: Floats, epsilon: float) -> float:
    """The least loss over ALL private unbiased tables with these outputs: M = a + x, 0 <= x <= (E - 1) a (HiGHS)."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix, hstack, identity, kron, vstack

    k, m = cost.shape
    total = hstack([coo_matrix(np.ones((k, m))), kron(identity(k), np.ones((1, m)))])
    mean = hstack([coo_matrix(np.tile(z, (k, 1))), kron(identity(k), z[None, :])])
    limits = hstack([-math.expm1(epsilon) * kron(np.ones((k, 1)), identity(m)), identity(k * m)]).tocsr()
    equal, right = vstack([total, mean]).tocsr(), np.concatenate([np.ones(k), y])
    found = linprog(
        np.concatenate([cost.sum(0), cost.ravel()]),
        A_ub=limits,
        b_ub=np.zeros(k * m),
        A_eq=equal,
        b_eq=right,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9},
    )
    assert found.status == 0, found.message
    won = found.eqlin.marginals @ (equal @ found.x - right)  # what HiGHS won by missing an equation, at its own price
    won += found.ineqlin.marginals @ np.maximum(limits @ found.x, 0)
    return float(found.fun - won)


def certified(solution: Solution) -> None:
    report = solution.mechanism.verify()
    assert report.passed, report.findings
    assert report.bias == 0
    assert report.value is not None
    assert report.lower_bound is not None
    assert report.lower_bound <= report.value
    assert float(report.value) == pytest.approx(solution.value, rel=1e-12)


def instances(count: int) -> list[tuple[Floats, Floats, float]]:
    """Labels, prior and epsilon of random instances: even and uneven labels, flat, heavy and sparse priors."""
    rng = np.random.default_rng(11)
    found: list[Any] = []
    for n in range(count):
        size = int(rng.integers(2, 13))
        labels = np.arange(size) * 1.0 if n % 2 else np.cumsum(np.round(np.exp(rng.normal(size=size)), 3) + 0.001)
        prior = [np.ones(size), rng.dirichlet(np.full(size, 0.3)), (rng.random(size) < 0.5) + np.eye(size)[0]][n % 3]
        found.append((labels, prior / prior.sum(), float(np.round(np.exp(rng.uniform(np.log(0.05), np.log(8))), 3))))
    return found


@pytest.mark.parametrize("number", range(24))
def test_no_general_table_has_less_absolute_error_and_ours_is_certified(number: int) -> None:
    labels, prior, epsilon = instances(24)[number]
    solution = solve_unbiased(labels, prior, epsilon, loss="absolute")
    assert solution.converged
    certified(solution)
    low, high = (float(z) for z in reach(tuple(Fraction(str(y)) for y in labels), Fraction(str(epsilon))))
    unit = labels[-1] - labels[0]
    for outputs in (np.unique([low, *labels, high]), np.linspace(low, high, 61)):
        cost = prior[:, None] * np.abs(outputs[None, :] - labels[:, None]) / unit
        least = general_programme(cost, labels / unit, outputs / unit, epsilon) * unit
        assert solution.lower_bound <= least * (1 + 1e-6)
        if len(outputs) < 61:
            assert least <= solution.value * (1 + 1e-6)


def test_the_squared_optimum_is_not_the_absolute_one() -> None:
    prior = [4.0, 1, 1, 1, 1, 1, 1, 4]
    squared, absolute = (solve_unbiased(range(8), prior, 2, loss=loss) for loss in ("squared", "absolute"))
    error = sum(
        p * abs(z - y) * w
        for p, y, row in zip(prior, range(8), squared.probabilities, strict=True)
        for z, w in zip(squared.outputs, row, strict=True)
    ) / sum(prior)
    assert error > 1.02 * absolute.value


def test_a_wider_range_is_never_worse_and_outputs_stay_in_it() -> None:
    ranges = [(-3, 8), (-4, 9), (-10, 15), (-100, 105)]
    found = [solve_unbiased(range(6), [3, 1, 1, 1, 1, 2], 2, loss="absolute", outputs=ends) for ends in ranges]
    assert all(wider.lower_bound <= one.value for one, wider in pairwise(found))
    assert found[0].value > 1.01 * found[-1].value
    for one, (low, high) in zip(found, ranges, strict=True):
        assert low <= min(one.mechanism.outputs) <= max(one.mechanism.outputs) <= high
        certified(one)


def test_a_loss_of_ones_own_is_certified_on_its_grid() -> None:
    grid = [Fraction(n, 4) for n in range(-40, 61)]
    solution = solve_unbiased(
        range(6), [3, 1, 1, 1, 1, 2], 1, loss=lambda z, y: abs(z - y) ** 1.5 * (1 + (y > 2)), outputs=grid
    )
    assert solution.converged
    certified(solution)
    y, z, p = np.arange(6.0), np.array([float(o) for o in grid]), np.array([3, 1, 1, 1, 1, 2]) / 9
    cost = p[:, None] * np.abs(z[None, :] - y[:, None]) ** 1.5 * (1 + (y > 2))[:, None]
    assert general_programme(cost, y, z, 1.0) == pytest.approx(solution.value, rel=2e-6)


def test_the_absolute_loss_as_a_function_is_the_absolute_loss() -> None:
    named, own = (
        solve_unbiased(range(5), [6, 1, 1, 1, 1], 1, loss=loss, outputs=(-6, 10))
        for loss in ("absolute", lambda z, y: abs(z - y))
    )
    assert own.value == pytest.approx(named.value, rel=2e-6)


@pytest.mark.parametrize("epsilon", ["0.0001", "0.01", "10"])
def test_extreme_epsilons_are_certified_or_say_that_they_are_not(epsilon: str) -> None:
    solution = solve_unbiased(range(5), [6, 1, 1, 1, 1], epsilon, loss="absolute")
    certified(solution)
    assert solution.converged == (solution.gap <= 1e-6)
    assert solution.converged


@pytest.mark.parametrize("prior", [[0, 0, 1, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 1], [1, 1e-9, 1e-13, 0, 1e-9]])
def test_priors_with_zeros_are_certified(prior: list[float]) -> None:
    solution = solve_unbiased([0, 1, 2.5, 3, 10], prior, 2, loss="absolute")
    assert solution.converged
    certified(solution)


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"loss": "poisson"}, "made least between noisy and true"),
    ({"loss": None}, "made least between noisy and true"),
    ({"loss": "absolute", "outputs": (9, -9)}, "must rise"),
    ({"loss": "absolute", "outputs": (-9, math.nan)}, "an output"),
    ({"loss": "absolute", "outputs": (-9, math.inf)}, "an output"),
    ({"loss": "absolute", "outputs": (-9, 0, 9)}, "the pair"),
    ({"loss": "absolute", "outputs": (0, 4)}, "no room for labels without bias"),
    ({"loss": "absolute", "outputs": (-1e9, 1e9)}, "are no range"),
    ({"loss": "absolute", "outputs": (-1e300, 1e300)}, "are no range"),
    ({"loss": "absolute", "outputs": 7}, "outputs="),
    ({"loss": "absolute", "outputs": "ab"}, "outputs="),
    ({"loss": "squared", "outputs": (-9, 9)}, "takes any real output"),
    ({"loss": lambda z, y: -abs(z - y)}, "at least zero"),
    ({"loss": lambda z, y: 0.0}, "at least zero"),
    ({"loss": lambda z, y: math.sqrt(abs(z - y))}, "not convex"),
    (
        {"loss": lambda z, y: min(abs(z - y), 1.0), "outputs": [-9, 0, 1e-12, 1, 2, 3, 4, 9]},
        "not convex",
    ),  # two close outputs
    ({"loss": lambda z, y: Fraction(abs(z - y)) + Fraction(1, 3**30_000)}, "no common step"),
    ({"loss": lambda z, y: abs(z - y), "outputs": [-9, 1e-305, 9]}, "all but zero"),
    ({"loss": "absolute", "outputs": (-(1 + Fraction(1, 3**900)) * 9, 9)}, "whole weights"),
    ({"loss": lambda z, y: math.nan}, "finite number"),
    ({"loss": lambda z, y: "near"}, "finite number"),
    ({"loss": lambda z, y: None}, "finite number"),
]


@pytest.mark.parametrize(("options", "words"), HOSTILE)
def test_what_cannot_be_made_least_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        solve_unbiased(range(5), [6, 1, 1, 1, 1], 1, **options)


@pytest.mark.parametrize(
    ("inputs", "prior", "epsilon"),
    [([1], [1], 1), ([0, 0, 1], [1, 1, 1], 1), ([0, math.nan], [1, 1], 1), ([0, 1], [1], 1), ([0, 1], [0, 0], 1)]
    + [([0, 1], [1, 1], epsilon) for epsilon in (0, -1, 33, math.nan, "1e-9")],
)
def test_odd_labels_priors_and_epsilons_are_refused_whatever_the_loss(inputs: Any, prior: Any, epsilon: Any) -> None:
    with pytest.raises(InvalidTask):
        solve_unbiased(inputs, prior, epsilon, loss="absolute")


def test_too_many_labels_are_refused_before_anything_is_solved() -> None:
    with pytest.raises(InvalidTask, match="take fewer nodes"):
        solve_unbiased(range(600), [1] * 600, 1, loss="absolute")


# the judge


@cache
def _saved(case: int) -> str:
    epsilon, prior, loss = [
        ("0.3", [5, 1, 1, 0, 2, 1], "absolute"),
        ("2.5", [9, 1, 1, 1, 4, 4], "absolute"),
        ("1", [1, 2, 3, 4], lambda z, y: abs(z - y) ** 1.5),
    ][case]
    return json.dumps(solve_unbiased(range(len(prior)), prior, epsilon, loss=loss).mechanism.to_json())


def document(case: int) -> Document:
    loaded: Document = json.loads(_saved(case))
    return loaded


def a_flattering_price(doc: Document, rng: random.Random) -> None:
    u = doc["certificate"]["u"]
    i = rng.randrange(len(u))
    u[i] = str(Fraction(u[i]) + max(abs(Fraction(x)) for x in u) / 100)


def a_flattering_gap(doc: Document, rng: random.Random) -> None:
    doc["certificate"]["gap"] = str(Fraction(doc["certificate"]["gap"]) / 2 - Fraction(1, 10**12))


def another_loss(doc: Document, rng: random.Random) -> None:
    doc["certificate"]["loss"] = {"name": "squared", "outputs": [], "costs": []}


def no_loss(doc: Document, rng: random.Random) -> None:
    del doc["certificate"]["loss"]


def a_loss_without_a_name(doc: Document, rng: random.Random) -> None:
    doc["certificate"]["loss"]["name"] = "quartic"


def a_narrower_range(doc: Document, rng: random.Random) -> None:
    outputs = doc["certificate"]["loss"]["outputs"]
    outputs[-1] = str(max(Fraction(column[0]) for column in doc["columns"]) - Fraction(1, 10**6))


def an_output_out_of_range(doc: Document, rng: random.Random) -> None:
    """Swap a column for two that keep all means, one of them outside the range."""
    z, starts, weights = doc["columns"][-1]
    doc["columns"][-1] = [str(Fraction(z) + 1), starts, [str(int(w) // 2) for w in weights]]
    doc["columns"].append([str(Fraction(z) - 1), starts, [str(int(w) - int(w) // 2) for w in weights]])


def a_moved_output(doc: Document, rng: random.Random) -> None:
    column = rng.choice(doc["columns"])
    column[0] = str(Fraction(column[0]) + Fraction(1, 10**12))


def a_ratio_too_large(doc: Document, rng: random.Random) -> None:
    heavy = max(doc["columns"], key=lambda c: max(map(int, c[2])) / min(map(int, c[2])))
    top = max(map(int, heavy[2]))
    heavy[2] = [str(int(w) + (int(w) == top) * (top >> 20)) for w in heavy[2]]


def a_weight_moved(doc: Document, rng: random.Random) -> None:
    column = rng.choice(doc["columns"])
    column[2][rng.randrange(len(column[2]))] = "12345"


def a_larger_prior(doc: Document, rng: random.Random) -> None:
    doc["certificate"]["prior"][0] = str(10**6)


FAULTS: list[Callable[[Document, random.Random], None]] = [
    a_flattering_price, a_flattering_gap, another_loss, no_loss, a_loss_without_a_name, a_narrower_range,
    an_output_out_of_range, a_moved_output, a_ratio_too_large, a_weight_moved, a_larger_prior,
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.__name__))
@pytest.mark.parametrize("case", range(3))
def test_every_planted_fault_is_refused(fault: Callable[..., None], case: int) -> None:
    assert check(document(case)).passed
    rng = random.Random(case)
    for _ in range(5):
        broken = document(case)
        fault(broken, rng)
        assert not check(broken).passed


@pytest.mark.parametrize("case", range(3))
def test_no_prices_however_inflated_prove_more_than_the_value(case: int) -> None:
    rng, base = random.Random(5), check(document(case))
    assert base.value is not None
    for _ in range(60):
        broken = copy.deepcopy(document(case))
        for name in ("u", "slope"):
            numbers = [Fraction(x) for x in broken["certificate"][name]]
            size = max(map(abs, numbers)) * Fraction(10) ** rng.randrange(-12, 1)
            broken["certificate"][name] = [str(x + size * Fraction(rng.uniform(-1, 1))) for x in numbers]
        bound = check(broken).lower_bound
        assert bound is None or bound <= base.value


def bounds_at(knots: Knots, inputs: list[Fraction]) -> tuple[float, float]:
    """What some prices prove at these knots, and their true least sum over a fine scan of the range."""
    u, s, p = [Fraction(3)] * 3, [Fraction(2)] * 3, [Fraction(1)] * 3
    proved = float(knots.bound(inputs, p, Fraction(1), u, s))
    z = np.linspace(-8, 10, 100_001)
    c = np.array([np.abs(z - float(y)) - 2 * (z - float(y)) - 3 for y in inputs])
    return proved, 9 + min(0.0, float(np.minimum(c, math.e * c).sum(axis=0).min()))


def test_the_bound_is_the_least_over_the_whole_range_and_a_twin_without_its_ends_is_caught() -> None:
    inputs = [Fraction(0), Fraction(1), Fraction(2)]
    whole = Knots.absolute(inputs, Fraction(-8), Fraction(10))
    proved, scanned = bounds_at(whole, inputs)
    assert proved <= scanned
    assert proved == pytest.approx(scanned, rel=1e-6)
    inner = Knots(whole.outputs[1:-1], tuple(row[1:-1] for row in whole.costs), whole.unit)
    assert bounds_at(inner, inputs)[0] > scanned + 1


# what kind of tables are best


@pytest.mark.parametrize("number", range(20))
def test_two_k_two_valued_columns_suffice(number: int) -> None:
    """A basic optimum over all sets of labels and our outputs: no worse than ours, and at most 2k columns of two values."""
    from scipy.optimize import linprog

    labels, prior, epsilon = instances(20)[number]
    k = len(labels)
    if k > 8:
        labels, prior, k = labels[:8], prior[:8] + 0.01, 8
    for loss in ("absolute", "squared"):
        solution = solve_unbiased(labels, prior, epsilon, loss=loss)
        outputs, unit = np.unique(solution.outputs), labels[-1] - labels[0]
        sets = np.array([[n >> i & 1 for i in range(k)] for n in range(2**k - 1)])
        rows = np.repeat(1 + math.expm1(epsilon) * sets, len(outputs), axis=0) / math.exp(epsilon / 2)
        z = np.tile(outputs, len(sets))
        power = 2 if loss == "squared" else 1
        cost = (rows * (prior / prior.sum()) * np.abs((z[:, None] - labels) / unit) ** power).sum(axis=1)
        equal, right = np.hstack([rows, rows * z[:, None] / unit]).T, np.concatenate([np.ones(k), labels / unit])
        found = linprog(cost, A_eq=equal, b_eq=right, method="highs-ds")
        assert found.status == 0, found.message
        assert np.count_nonzero(found.x) <= 2 * k
        assert found.fun * unit**power <= solution.value * (1 + 1e-6)
        if loss == "absolute":
            assert len(outputs) <= k + 2 + 4  # the spare places of the exact table are at most a few


def test_no_bias_keeps_the_best_predictor_for_every_law_and_bias_does_not() -> None:
    """Section 6 of the proof, in fractions: conditional means of noisy labels, over random laws and over single labels."""
    prior, rng = [4, 1, 2, 1, 1], random.Random(2)
    kept = [solve_unbiased(range(5), prior, 1, loss=loss).mechanism for loss in ("squared", "absolute")]
    biased = response_on_bins(range(5), prior, 1)
    for mechanism in (*kept, biased):
        total = 1 << mechanism.bits
        mean = [sum(w * z for w, z in zip(mechanism.row(i), mechanism.outputs, strict=True)) / total for i in range(5)]
        laws = [[rng.randrange(1, 9) for _ in range(5)] for _ in range(20)]
        laws += [[int(i == j) for j in range(5)] for i in range(5)]  # the laws that tell any bias
        same = [
            sum(w * m for w, m in zip(law, mean, strict=True)) == sum(w * y for w, y in zip(law, range(5), strict=True))
            for law in laws
        ]
        assert all(same) == mechanism.unbiased


# through the product


def test_a_randomizer_of_least_absolute_error_is_saved_judged_loaded_and_drawn(tmp_path: Path) -> None:
    prior = [6, 1, 1, 1, 1, 1]
    made = LabelRandomizer(2, 0, 5, "unbiased", prior, noise_loss="absolute", outputs=(-4, 9)).fit()
    report = made.verify()
    assert report.passed
    assert report.loss == "absolute"
    assert report.ends == (-4, 9)
    made.save(tmp_path / "m.json")
    loaded = LabelRandomizer.load(tmp_path / "m.json")
    assert loaded.mechanism_ == made.mechanism_
    assert (loaded.noise_loss, loaded.outputs) == ("absolute", (-4, 9))
    noisy = loaded.transform(np.full(40_000, 3.0))
    assert -4 <= noisy.min() <= noisy.max() <= 9
    assert noisy.mean() == pytest.approx(3, abs=6 * noisy.std() / 200)
    assert "<svg" in made.chart().svg()


def test_a_large_one_is_packed_and_comes_back_the_same(tmp_path: Path) -> None:
    made = LabelRandomizer(2, 0, 159, "unbiased", [1] * 160, noise_loss="absolute").fit()
    made.save(tmp_path / "m.json")
    assert '"ratios"' in (tmp_path / "m.json").read_text()
    assert LabelRandomizer.load(tmp_path / "m.json").mechanism_ == made.mechanism_


def test_a_loss_of_ones_own_is_saved_as_its_table(tmp_path: Path) -> None:
    made = LabelRandomizer(2, 0, 3, "unbiased", noise_loss=lambda z, y: max(0.0, abs(z - y) - 0.5)).fit()
    made.save(tmp_path / "m.json")
    loaded = LabelRandomizer.load(tmp_path / "m.json")
    assert loaded.verify().loss == "table"
    assert "table of losses" in loaded.verify().unproved[0]
    with pytest.raises(InvalidTask, match="noise_loss"):
        loaded.fit()  # the function itself is not in the file


def test_groups_and_a_bought_prior_take_another_loss_too() -> None:
    y = [0, 0, 0, 3, 1] * 200
    made = LabelRandomizer(2, 0, 3, "unbiased", "private", noise_loss="absolute").fit(y)
    assert made.verify().loss == "absolute"
    priors = {"a": [9, 1, 1, 1], "b": [1, 1, 1, 9]}
    grouped = LabelRandomizer(2, 0, 3, "unbiased", priors, noise_loss="absolute").fit(groups=["a", "b"])
    assert grouped.verify().passed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "unbiased", "loss": "poisson"}, "not what method 'unbiased' makes least"),
        ({"method": "auto", "loss": "poisson", "prior": [1] * 4}, "not what method 'auto' makes least"),
        ({"method": "balanced", "loss": "logistic"}, "not what method 'balanced' makes least"),
        ({"method": "unbiased", "noise_loss": np.array([1, 2])}, "What a model is trained with is loss="),
        ({"method": "unbiased", "noise_loss": "poisson"}, "What a model is trained with is loss="),
        ({"method": "two_point", "noise_loss": "absolute"}, "for method='unbiased'"),
        ({"method": "auto", "noise_loss": "absolute"}, "for method='unbiased'"),
        ({"method": "rr_on_bins", "noise_loss": "absolute"}, "for method='unbiased'"),
        ({"method": "rr", "noise_loss": "squared"}, "'rr' does not"),
        ({"method": "rr_on_bins", "loss": "absolute", "noise_loss": "squared"}, "'rr_on_bins' does not"),
        ({"method": "two_point", "outputs": (-9, 9)}, "for method='unbiased'"),
        ({"method": "unbiased", "outputs": (-9, 9)}, "takes any real output"),
        ({"method": "unbiased", "noise_loss": "absolute", "outputs": (0, 3)}, "no room"),
        ({"method": "unbiased", "loss": "absolute"}, "affine in the label"),
    ],
)
def test_a_models_loss_is_not_taken_for_the_loss_between_labels(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidTask, match=words):
        LabelRandomizer(1, 0, 3, **options).fit()


def test_both_losses_may_be_said() -> None:
    one, other = (
        LabelRandomizer(1, 0, 3, "unbiased", [3, 1, 1, 1], loss=loss, noise_loss="squared").fit()
        for loss in ("poisson", "squared")
    )
    assert one.mechanism_ == other.mechanism_


def test_an_impossible_range_is_refused_before_a_prior_is_bought() -> None:
    from steelyard.ledger import open_account
    from steelyard.privacy import labels

    account = open_account(":memory:", "a", unit=labels("y"), epsilon="9")
    made = LabelRandomizer(1, 0, 3, "unbiased", "private", account=account, noise_loss="absolute", outputs=(-1, 4))
    with pytest.raises(InvalidTask, match="no room"):
        made.fit([0, 1, 2, 3] * 50)
    assert account.spent.amount == 0


def _account() -> Any:
    from steelyard.ledger import open_account
    from steelyard.privacy import labels

    return open_account(":memory:", "a", unit=labels("y"), epsilon="9")


def test_a_function_and_its_outputs_are_read_once_so_that_nothing_fails_after_the_charge() -> None:
    asked: list[float] = []

    def loss(z: float, y: float) -> float:
        asked.append(z)
        return abs(z - y)

    grid = range(-6, 10)
    made = LabelRandomizer(4, 0, 3, "unbiased", "private", account=_account(), noise_loss=loss, outputs=iter(grid))
    assert made.fit([0, 1, 2, 3] * 50).verify().passed
    assert len(asked) == 4 * len(grid)


@pytest.mark.parametrize(("method", "noise_loss"), [("auto", None), ("unbiased", "squared"), ("unbiased", "absolute")])
def test_labels_too_far_out_for_floats_are_refused_before_a_prior_is_bought(
    method: str, noise_loss: str | None
) -> None:
    account, low = _account(), 10**9
    made = LabelRandomizer(
        4, low, low + Fraction(1, 8), method, "private", account=account, nodes=3, noise_loss=noise_loss
    )
    with pytest.raises(InvalidTask, match="too far out for floats"):
        made.fit([low] * 5000)
    assert account.spent.amount == 0


@pytest.mark.parametrize("noise_loss", ["absolute", "squared"])
def test_labels_without_a_common_step_are_refused_before_a_prior_is_bought(noise_loss: str) -> None:
    account, draw = _account(), random.Random(1)
    nodes = [0, *(Fraction(i, 100) + Fraction(1, draw.getrandbits(160) | 1) for i in range(1, 100)), 3]
    made = LabelRandomizer(1, 0, 3, "unbiased", "private", account=account, nodes=nodes, noise_loss=noise_loss)
    with pytest.raises(InvalidTask, match="no common step"):
        made.fit([0, 1, 2, 3] * 50)
    assert account.spent.amount == 0


def test_a_range_too_narrow_for_whole_weights_is_refused_before_a_prior_is_bought() -> None:
    # enough for a mechanism at this epsilon, and not for one of integers
    account, more = _account(), Fraction(14, 10**10)
    made = LabelRandomizer(
        24, 0, 3, "unbiased", "private", account=account, noise_loss="absolute", outputs=(-more, 3 + more)
    )
    with pytest.raises(InvalidTask, match="whole weights"):
        made.fit([0, 1, 2, 3] * 50)
    assert account.spent.amount == 0


def test_a_document_whose_whole_numbers_are_written_as_quotients_is_refused_because_it_cannot_be_loaded() -> None:
    document = solve_unbiased([0, 1, 3], [2, 1, 1], 1, loss="absolute").mechanism.to_json()
    document["certificate"]["prior"][0] = "4/2"
    assert not check(document).passed


def test_labels_on_a_lattice_finer_than_floats_are_solved() -> None:
    certified(solve_unbiased([0, 1.5 * 2.0**-900, 1], [1, 1, 1], 1, loss="absolute"))
    certified(solve_unbiased(range(3), [1, 1, 1], 1, loss=lambda z, y: Fraction(abs(z - y)) + Fraction(1, 2**1100)))


def test_a_loss_that_can_be_made_zero_is_proved_to_be_zero(tmp_path: Path) -> None:
    made = LabelRandomizer(
        2, 0, 2, "unbiased", noise_loss=lambda z, y: max(0.0, abs(z - y) - 50), outputs=(-100, 100)
    ).fit()
    report = made.verify()
    assert report.passed, report.findings
    assert (report.value, report.gap) == (0, 0)
    made.save(tmp_path / "m.json")
    assert LabelRandomizer.load(tmp_path / "m.json").mechanism_ == made.mechanism_
    lying = made.mechanism_.to_json()
    lying["certificate"]["gap"] = "-1/10"
    assert not check(lying).passed
    empty = made.mechanism_.to_json()
    empty["certificate"]["loss"]["costs"] = [["0" for _ in row] for row in empty["certificate"]["loss"]["costs"]]
    assert not check(empty).passed


def test_groups_that_are_certified_for_different_losses_are_not_told_as_one() -> None:
    from steelyard.labels._document import judge

    priors = {"a": [9, 1, 1, 1], "b": [1, 1, 1, 9]}
    documents = [
        LabelRandomizer(2, 0, 3, "unbiased", priors, noise_loss=loss, outputs=outputs).fit(groups=priors)._document()
        for loss, outputs in (("squared", None), ("absolute", None), ("absolute", (-9, 12)))
    ]
    for one in documents:
        assert judge(one).passed
        for other in documents:
            mixed = {**one, "groups": {"a": one["groups"]["a"], "b": other["groups"]["b"]}}
            assert judge(mixed).passed == (one is other)
