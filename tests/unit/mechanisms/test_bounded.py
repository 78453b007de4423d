"""Bounded noise: what is drawn is what is accounted, and the account is never below the truth."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.accounting import price
from steelyard.accounting._bounded import log_concave
from steelyard.accounting._curves import Curve, repeated
from steelyard.accounting._gaussian import delta_of
from steelyard.errors import CurrencyMismatch, InvalidTask, NeighbourMismatch, OurBug
from steelyard.mechanisms import BoundedNoise
from steelyard.noise import ExactNoise, TestNoise
from steelyard.privacy import ATTO, Currency, Loss, Terms, rows

EPSILONS = (0.0, 0.1, 0.4, 1.0, 2.5)


def exact_delta(mechanism: BoundedNoise, shift: int, epsilon: float) -> float:
    """The true delta of all questions moved by ``shift``, by walking every row of answers."""
    weights = [int(w) for w in mechanism.weights]
    padded, moved = weights + [0] * shift, [0] * shift + weights
    total = float(sum(weights))
    pairs = [(p / total, q / total) for p, q in zip(padded, moved, strict=True) if p]
    rows_of = itertools.product(pairs, repeat=mechanism.questions)
    return math.fsum(
        max(0.0, math.prod(p for p, _ in row) - math.exp(epsilon) * math.prod(q for _, q in row)) for row in rows_of
    )


def never_below(curve: Curve, mechanism: BoundedNoise) -> bool:
    return all(curve.delta(e) >= exact_delta(mechanism, mechanism.sensitivity, e) * (1 - 1e-12) for e in EPSILONS)


@pytest.mark.parametrize(
    "mechanism",
    [
        BoundedNoise(2, 6, 50, 1),
        BoundedNoise(2, 6, 50, 3),
        BoundedNoise(4, 5, 50, 4),
        BoundedNoise(3, 9, 50, 3, sensitivity=3),
        BoundedNoise(2, 40, 50, 2),
    ],
)
def test_the_curve_is_never_below_the_truth_and_close_to_it(mechanism: BoundedNoise) -> None:
    assert never_below(mechanism.curve, mechanism)
    for epsilon in EPSILONS:
        truth = exact_delta(mechanism, mechanism.sensitivity, epsilon)
        assert mechanism.delta(epsilon) <= truth * 1.02 + 1e-6


@pytest.mark.parametrize("shift", [1, 2, 3, 4])
def test_a_row_that_moves_a_total_by_less_is_hidden_at_least_as_well(shift: int) -> None:
    mechanism = BoundedNoise(3, 12, 50, 2, sensitivity=4)
    assert all(mechanism.delta(e) >= exact_delta(mechanism, shift, e) * (1 - 1e-12) for e in EPSILONS)


def one_question(mechanism: BoundedNoise) -> Curve:
    """Broken twin: charged for a single question."""
    return replace(mechanism, questions=1).curve


def forgets_the_edge(mechanism: BoundedNoise) -> Curve:
    """Broken twin: outcomes that only one of the neighbours can have are left out."""
    return replace_infinite(mechanism.curve)


def replace_infinite(curve: Curve) -> Curve:
    return Curve(curve.step, curve.lowest, curve.masses, 0.0)


def wider_noise(mechanism: BoundedNoise) -> Curve:
    """Broken twin: accounted for a little more noise than is drawn."""
    return replace(mechanism, radius=mechanism.radius + 1).curve


def rounded_down(mechanism: BoundedNoise) -> Curve:
    """Broken twin: every loss goes to the grid point below."""
    curve = mechanism.curve
    return Curve(curve.step, curve.lowest - mechanism.questions, curve.masses, curve.infinite)


@pytest.mark.parametrize("twin", [one_question, forgets_the_edge, wider_noise, rounded_down])
def test_a_wrong_account_is_caught(twin: object) -> None:
    mechanism = BoundedNoise(2, 6, 50, 3)
    assert callable(twin)
    assert never_below(mechanism.curve, mechanism)
    assert not never_below(twin(mechanism), mechanism)


@pytest.mark.parametrize(("power", "radius", "questions"), [(2, 60, 20), (3, 100, 150), (2, 400, 200)])
def test_many_questions_agree_with_an_independent_accountant(power: int, radius: int, questions: int) -> None:
    mechanism = BoundedNoise(power, radius, 10 * radius, questions)
    weights = mechanism.weights.astype(float) / float(mechanism.weights.sum())
    lower = {x: math.log(w) for x, w in enumerate(weights.tolist()) if w}
    upper = {x + 1: math.log(w) for x, w in enumerate(weights.tolist()) if w}
    rounded_up, rounded_down = (
        oracle.from_two_probability_mass_functions(
            lower,
            upper,
            pessimistic_estimate=upwards,
            value_discretization_interval=float(mechanism.curve.step) / 100,
        ).self_compose(questions)
        for upwards in (True, False)
    )
    scale = math.pi / 2 * power / math.sqrt(power - 1) / radius * math.sqrt(questions)
    for share in (0.0, 1.0, 2.0):
        epsilon = share * scale
        ours = mechanism.delta(epsilon)
        assert rounded_down.get_delta_for_epsilon(epsilon) <= ours
        assert ours <= rounded_up.get_delta_for_epsilon(epsilon) * 1.01 + 1e-5


def test_very_many_questions_lose_as_much_as_their_fisher_information_says() -> None:
    mechanism = BoundedNoise(2, 25_000, 10**6, 28_000)
    mu = math.pi / 25_001 * math.sqrt(28_000)
    for share in (0.5, 1.0, 2.0):
        truth = delta_of(share * mu, mu)
        assert truth * 0.999 <= mechanism.delta(share * mu) <= truth * 1.05


@settings(max_examples=25)
@given(st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(0.01, 1)), min_size=2, max_size=6), st.integers(1, 40))
def test_the_transform_is_never_below_plain_convolution(points: list[tuple[float, float]], times: int) -> None:
    losses = np.array([loss for loss, _ in points])
    masses = np.array([mass for _, mass in points])
    masses /= masses.sum()
    curve = repeated(losses, masses, 0.0, times)
    law: dict[float, float] = {0.0: 1.0}
    for _ in range(min(times, 3)):
        after: dict[float, float] = {}
        for (a, p), (b, q) in itertools.product(law.items(), zip(losses.tolist(), masses.tolist(), strict=True)):
            after[a + b] = after.get(a + b, 0.0) + p * q
        law = after
    if times <= 3:
        for epsilon in (0.0, 0.1, 0.3):
            truth = math.fsum(p * -math.expm1(min(0.0, epsilon - loss)) for loss, p in law.items())
            assert curve.delta(epsilon) >= truth * (1 - 1e-12)
    assert float(curve.masses.sum()) + curve.infinite >= 1 - 1e-9


class Words(TestNoise):
    """Gives the words of a list, one after the other."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(0)
        self.words = iter(words)

    def below(self, bound: int) -> int:
        word = next(self.words)
        assert 0 <= word < bound
        return word


@pytest.mark.parametrize("mechanism", [BoundedNoise(2, 7, 50, 100), BoundedNoise(5, 300, 50, 10**4)])
def test_exactly_so_many_words_lead_to_each_noise_as_its_weight_says(mechanism: BoundedNoise) -> None:
    ends = np.cumsum(mechanism.weights).tolist()
    for place, (end, weight) in enumerate(zip(ends, mechanism.weights.tolist(), strict=True)):
        if weight:
            noise = Words([end - weight, end - 1])
            assert [mechanism.draw(noise), mechanism.draw(noise)] == [place - mechanism.radius] * 2


def test_noise_never_exceeds_its_radius_and_has_the_declared_spread() -> None:
    mechanism = BoundedNoise(2, 500, 10**4, 10**6)
    drawn = np.array([mechanism.draw(ExactNoise()) for _ in range(4000)])
    assert np.abs(drawn).max() <= 500
    variance = 500**2 * (1 / 3 - 2 / math.pi**2)
    assert abs(drawn.mean()) < 5 * math.sqrt(variance / 4000)
    assert drawn.var() == pytest.approx(variance, rel=0.1)


@settings(max_examples=30)
@given(st.integers(2, 12), st.integers(4, 3000), st.integers(2, 4))
def test_rounded_weights_stay_symmetric_and_log_concave(power: int, radius: int, sensitivity: int) -> None:
    weights = BoundedNoise(power, radius, 10, 1, sensitivity=sensitivity).weights
    assert np.array_equal(weights, weights[::-1])
    assert log_concave(weights)
    assert int(weights.sum()) < 2**63


def test_a_law_with_a_bump_is_not_log_concave() -> None:
    assert not log_concave(np.array([1, 4, 4, 5, 4, 4, 1]))
    assert not log_concave(np.array([1, 0, 1]))


def terms(delta: int = 10**16) -> Terms:
    unit = rows(neighbours="replace", n=10_000)
    return Terms(unit, Loss(Currency.GAUSSIAN, 10**13, delta), Fraction(1), Fraction(2, 100))


def test_the_whole_conversation_is_charged_up_front() -> None:
    mechanism = BoundedNoise(2, 250, 10_000, 10, failure=Fraction(1, 1000))
    cost = price(mechanism.event, terms())
    assert cost.delta == ATTO // 1000
    assert mechanism.delta(mechanism.event.parameters["epsilon_numerator"] / 10**6) <= 1e-3  # type: ignore[operator]
    assert mechanism.event.parameters["questions"] == 10
    with pytest.raises(CurrencyMismatch, match="additive_delta"):
        price(mechanism.event, terms(0))
    with pytest.raises(NeighbourMismatch):
        price(mechanism.event, replace(terms(), unit=rows()))


def test_more_totals_than_were_charged_for_are_refused() -> None:
    mechanism = BoundedNoise(2, 250, 10_000, 2, failure=Fraction(1, 1000))
    assert len(mechanism.release([5, 6], TestNoise(1))) == 2
    with pytest.raises(OurBug):
        mechanism.release([5, 6, 7], TestNoise(1))


def test_a_failure_below_the_edge_has_no_price() -> None:
    with pytest.raises(InvalidTask, match="no epsilon is enough"):
        _ = BoundedNoise(2, 5, 100, 100, failure=Fraction(1, 10**6)).event


@pytest.mark.parametrize(
    "wrong",
    [
        {"power": 1},
        {"power": 65},
        {"radius": 0},
        {"radius": 2**25},
        {"n": 0},
        {"questions": 0},
        {"sensitivity": 8},
        {"failure": Fraction(0)},
        {"failure": 0.1},
    ],
)
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidTask):
        replace(BoundedNoise(2, 7, 50, 3), **wrong)  # type: ignore[arg-type]
