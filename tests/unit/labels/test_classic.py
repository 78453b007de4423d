"""The textbook mechanisms: exact tables, known formulas, and dynamic programmes that match brute force."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.labels import _baselines as baselines
from steelyard.labels import _prior_free as prior_free
from steelyard.labels._baselines import debiased_response, randomized_response, response_with_prior
from steelyard.labels._bins import response_on_bins
from steelyard.labels._mechanism import FiniteMechanism
from steelyard.labels._prior_free import two_point
from steelyard.labels.solve._unbiased import solve_unbiased

PRIOR = [8, 1, 5, 1, 0, 3]


def every_table(epsilon: str) -> list[FiniteMechanism]:
    labels = range(6)
    tops = [response_with_prior(labels, PRIOR, epsilon, top) for top in (None, 1, 2, 5, 6)]
    bins = [response_on_bins(labels, PRIOR, epsilon, loss) for loss in ("squared", "absolute", "poisson")]
    return [
        randomized_response(labels, epsilon),
        debiased_response(labels, epsilon),
        two_point(labels, epsilon),
        *tops,
        *bins,
    ]


@pytest.mark.parametrize("epsilon", ["0.05", "1", "8"])
def test_every_table_passes_the_judge(epsilon: str) -> None:
    for mechanism in every_table(epsilon):
        assert mechanism.verify().passed, mechanism.verify().findings


@pytest.mark.parametrize("epsilon", ["0.05", "1", "8"])
def test_every_table_claiming_less_epsilon_is_refused(epsilon: str) -> None:
    for mechanism in every_table(epsilon):
        data = mechanism.to_json() | {"epsilon": str(Fraction(epsilon) * (1 - Fraction(1, 10**4)))}
        alone = len(mechanism.columns) == 1
        assert FiniteMechanism.from_json(data).verify().passed is alone


def test_randomized_response_has_the_textbook_probabilities() -> None:
    table = randomized_response(range(4), "1").probabilities()
    assert table[0, 0] == pytest.approx(math.e / (math.e + 3))
    assert table[0, 1] == pytest.approx(1 / (math.e + 3))


def test_debiased_response_is_unbiased_with_the_known_outputs() -> None:
    mechanism = debiased_response([0, 1, 5], 1)
    assert set(mechanism.bias()) == {Fraction(0)}
    assert float(mechanism.outputs[2]) == pytest.approx(((math.e + 2) * 5 - 6) / (math.e - 1))


def test_the_best_top_is_the_one_that_tells_the_truth_most_often() -> None:
    prior = np.array(PRIOR) / sum(PRIOR)
    for epsilon in ("0.1", "1", "3"):
        truth = []
        for top in [None, *range(1, 7)]:
            mechanism = response_with_prior(range(6), PRIOR, epsilon, top)
            table = mechanism.probabilities()
            truth.append(sum(prior[int(z)] * table[int(z), j] for j, z in enumerate(mechanism.outputs)))
        assert truth[0] == pytest.approx(max(truth[1:]), rel=1e-12)


def test_two_point_is_exactly_unbiased_and_has_its_formula() -> None:
    mechanism = two_point([-3, 0, "0.5", 7], "0.8")
    assert len(mechanism.outputs) == 2
    assert set(mechanism.bias()) == {Fraction(0)}
    for y, error in zip(mechanism.inputs, mechanism.errors(), strict=True):
        assert float(error) == pytest.approx(prior_free.two_point_variance(float(y), -3, 7, 0.8), rel=1e-9)


def test_two_point_refuses_labels_without_a_common_step() -> None:
    with pytest.raises(InvalidTask, match="common step"):
        two_point([0, "1.00000000000000000001", 2], 1)


@pytest.mark.parametrize("loss", ["squared", "absolute", "poisson"])
@pytest.mark.parametrize("epsilon", ["0.5", "2", "5"])
def test_bins_match_brute_force_over_every_cut(loss: str, epsilon: str) -> None:
    y, p, growth = np.arange(6.0), np.array(PRIOR) / sum(PRIOR), math.exp(float(epsilon))

    def losses(z: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        if loss == "squared":
            return (z - y) ** 2
        if loss == "absolute":
            return np.abs(z - y)
        safe = np.where(y > 0, y, 1.0)
        return z - y + np.where(y > 0, y * np.log(safe / z), 0.0) if z > 0 else np.where(y > 0, np.inf, 0.0)

    def bin_cost(start: int, stop: int) -> float:
        weight = p * np.where((np.arange(6) >= start) & (np.arange(6) < stop), growth, 1.0)
        mean = float(weight @ y / weight.sum())
        places = list(y) if loss == "absolute" else [mean]
        return min(float(weight @ losses(z)) for z in places)

    best = math.inf
    for count in range(1, 7):
        for inner in itertools.combinations(range(1, 6), count - 1):
            cuts = [0, *inner, 6]
            best = min(best, sum(bin_cost(a, b) for a, b in itertools.pairwise(cuts)) / (growth + count - 1))
    mechanism = response_on_bins(range(6), PRIOR, epsilon, loss)
    table = mechanism.probabilities()
    found = sum(float(p @ (table[:, j] * losses(float(z)))) for j, z in enumerate(mechanism.outputs))
    assert found == pytest.approx(best, rel=1e-9)


def test_bins_refuse_unknown_losses_and_negative_counts() -> None:
    with pytest.raises(InvalidTask, match="loss must be one of"):
        response_on_bins(range(3), [1, 1, 1], 1, "cubic")
    with pytest.raises(InvalidTask, match="at least 0"):
        response_on_bins([-1, 0], [1, 1], 1, "poisson")
    with pytest.raises(InvalidTask, match="top must lie"):
        response_with_prior(range(3), [1, 1, 1], 1, 4)


def test_the_optimal_unbiased_mechanism_beats_every_other_unbiased_one() -> None:
    labels, prior = list(range(21)), [20] + [1] * 20
    p = np.array(prior) / sum(prior)
    for epsilon in (0.5, 2.0, 6.0):
        best = solve_unbiased(labels, prior, epsilon).value
        others = [baselines.laplace_variance(20, epsilon), baselines.staircase_variance(20, epsilon)]
        others.append(baselines.discrete_laplace_variance(20, epsilon))
        for formula in (prior_free.two_point_variance, prior_free.piecewise_variance):
            others.append(float(sum(w * formula(y, 0, 20, epsilon) for w, y in zip(p, labels, strict=True))))
        for mechanism in (
            debiased_response(labels, epsilon),
            two_point(labels, epsilon),
            prior_free.hybrid(labels, epsilon),
        ):
            others.append(float(sum(w * float(e) for w, e in zip(p, mechanism.errors(), strict=True))))
        assert best < min(others)


def test_additive_variances_match_their_densities() -> None:
    k = np.arange(-4000, 4001)
    weights = np.exp(-np.abs(k) * 0.7 / 5)
    assert baselines.discrete_laplace_variance(5, 0.7) == pytest.approx(float((weights * k**2).sum() / weights.sum()))
    epsilon, gamma, x = 1.3, 0.3, np.linspace(0, 60, 3_000_001)
    height = np.exp(-epsilon * (np.floor(x) + (x - np.floor(x) >= gamma)))
    assert baselines.staircase_variance(1, epsilon, gamma) == pytest.approx(
        float((height * x**2).sum() / height.sum()), rel=1e-4
    )
    assert baselines.staircase_variance(1, epsilon) <= baselines.staircase_variance(1, epsilon, gamma)
    h, t = math.exp(0.4), 0.35
    c, left = (h + 1) / (h - 1), (h * t - 1) / (h - 1)
    right = (h * t + 1) / (h - 1)
    z = np.linspace(-c, c, 2_000_001)
    density = np.where((z >= left) & (z <= right), h * h, 1.0)
    density /= density.sum()
    assert float(density @ z) == pytest.approx(t, abs=1e-5)
    assert float(density @ (z - t) ** 2) == pytest.approx(prior_free.piecewise_variance(t, -1, 1, 0.8), rel=1e-4)


@pytest.mark.parametrize(("width", "epsilon"), [(0, 1), (1, 0), (math.inf, 1), (-1, 1)])
def test_formulas_refuse_empty_ranges_and_no_epsilon(width: float, epsilon: float) -> None:
    with pytest.raises(InvalidTask, match="above zero"):
        baselines.laplace_variance(width, epsilon)


def test_formulas_refuse_labels_outside_their_range() -> None:
    with pytest.raises(InvalidTask, match="outside"):
        prior_free.two_point_variance(11, 0, 10, 1)


def test_the_package_is_a_unit_constructor_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from steelyard import labels, privacy\n"
        "import steelyard.labels as package\n"
        "assert package('spend') == privacy.labels('spend')\n"
        "heavy = {'numpy', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert callable(package.solve_unbiased) and 'two_point_variance' in dir(package)\n"
        "try:\n    package.nothing\nexcept AttributeError:\n    pass\nelse:\n    raise SystemExit('no error')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
