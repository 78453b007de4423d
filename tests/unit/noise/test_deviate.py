"""The scalar definition, checked exactly: every tape of small words, cell by cell of the lazily revealed fraction."""

from __future__ import annotations

import itertools
import random
import types
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from steelyard.noise import _deviate as deviate
from steelyard.noise._deviate import Law
from unit.noise.exactly import NeedsMore, enumerate_tapes, mutant, p_value

WIDTH = 2
CELLS = 4  # bits of the cells in which the mass of an outcome is compared


def cell_masses(
    decide: Callable[[deviate.Digits], bool], depth: int, module: types.ModuleType = deviate
) -> tuple[dict[int, Fraction], Fraction]:
    """The exact mass of 'True and x lies in cell c', for a fraction x of which one word is revealed at the start."""

    def experiment(word: Callable[[], int]) -> tuple[bool, int, int]:
        x = module.Digits(word(), WIDTH, WIDTH, word)
        answer = decide(x)
        return answer, x.value, x.bits

    decided, undecided = enumerate_tapes(experiment, WIDTH, depth)
    masses: dict[int, Fraction] = defaultdict(Fraction)
    for (answer, value, bits), mass in decided.items():
        if not answer:
            continue
        if bits >= CELLS:
            masses[value >> (bits - CELLS)] += mass
        else:  # digits that nobody has read are uniform, so the mass spreads evenly
            for cell in range(value << (CELLS - bits), (value + 1) << (CELLS - bits)):
                masses[cell] += mass / (1 << (CELLS - bits))
    return masses, undecided


def gap(
    decide: Callable[[deviate.Digits], bool],
    density: Callable[[mpmath.mpf], mpmath.mpf],
    depth: int,
    module: types.ModuleType = deviate,
) -> float:
    """How far the mass in some cell lies outside what the density and the undecided mass allow; at most 0 if exact."""
    masses, undecided = cell_masses(decide, depth, module)
    worst = mpmath.mpf(0)
    slack = mpmath.mpf(undecided.numerator) / undecided.denominator
    edges = [mpmath.mpf(i) / (1 << CELLS) for i in range((1 << CELLS) + 1)]
    truth = [mpmath.quad(density, [a, b]) for a, b in itertools.pairwise(edges)]
    made = [mpmath.mpf(masses[c].numerator) / masses[c].denominator for c in range(1 << CELLS)]
    for mass, true in zip(made, truth, strict=True):
        worst = max(worst, mass - true, true - mass - slack)
    # the masses miss at most the undecided mass in total, which is sharper than cell by cell
    return float(max(worst, sum(truth) - sum(made) - slack)) - 1e-12


COMPARISONS = [(0, 0), (0, 1), (1, 1), (2, 2), (5, 3), (0, 3)]
SURVIVALS = [(0, 1, False), (0, 0, False), (2, 3, True), (0, 1, True), (6, 3, True)]


def comparison_gap(whole: int, power: int, module: types.ModuleType = deviate) -> float:
    return gap(lambda x: bool(module.below_fraction(x, whole, power)), lambda x: (whole + x) / 2**power, 7, module)


def survival_gap(whole: int, power: int, squared: bool, module: types.ModuleType = deviate) -> float:
    return gap(
        lambda x: bool(module.survives(x, whole, power, squared=squared)),
        lambda x: mpmath.exp(-(whole + x) / 2**power * (x if squared else 1)),
        7,
        module,
    )


def acceptance_gap(kind: str, k: int, module: types.ModuleType = deviate) -> float:
    law = Law(kind, WIDTH, 0, 2)
    density = {"exponential": lambda x: mpmath.exp(-x), "normal": lambda x: mpmath.exp(-x * (2 * k + x) / 2)}[kind]
    return gap(lambda x: bool(module.accepts(law, k, x)), density, 7, module)


@pytest.mark.parametrize(("whole", "power"), COMPARISONS)
def test_a_lazy_comparison_has_its_exact_law_and_leaves_unread_digits_uniform(whole: int, power: int) -> None:
    assert comparison_gap(whole, power) <= 0


@pytest.mark.parametrize(("whole", "power", "squared"), SURVIVALS)
def test_survival_has_probability_exp_minus_g_in_every_cell(whole: int, power: int, squared: bool) -> None:
    assert survival_gap(whole, power, squared) <= 0


@pytest.mark.parametrize(("kind", "k"), [("exponential", 0), ("normal", 0), ("normal", 1), ("normal", 3)])
def test_a_place_in_a_strip_is_kept_in_proportion_to_the_density(kind: str, k: int) -> None:
    assert acceptance_gap(kind, k) <= 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if u << gap > v:", "if u << gap >= v:"),
        ("if (u + 1) << gap <= v:", "if u << gap <= v:"),
        ("if u < v << -gap:", "if u <= v << -gap:"),
        ("if u >= (v + 1) << -gap:", "if u >= v << -gap:"),
        ("self.value = self.value << self.width | self.word()", "self.value = self.value << self.width"),
        ("u, bits = u << x.width | x.word(), bits + x.width", "u, bits = u << x.width, bits + x.width"),
    ],
)
def test_the_comparison_check_catches_every_broken_comparison(old: str, new: str) -> None:
    twin = mutant(deviate, old, new)
    assert any(comparison_gap(*case, module=twin) > 0 for case in COMPARISONS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return n % 2 == 1", "return n == 1"),
        ("if n > 1 and uniform_below(x.word, x.width, n):", "if False:"),
        ("if squared and not below_fraction(x, 0, 0):", "if False:"),
        ("self.value = self.value << self.width | self.word()", "self.value = self.value << self.width"),
    ],
)
def test_the_survival_check_catches_every_broken_loop(old: str, new: str) -> None:
    twin = mutant(deviate, old, new)
    assert any(survival_gap(*case, module=twin) > 0 for case in SURVIVALS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for _ in range(1 << halvings)", "for _ in range(1)"),
        ("max(0, (2 * k).bit_length() - power)", "0"),
        ("power = 2 * law.strip + 1", "power = 2 * law.strip + 2"),
    ],
)
def test_the_acceptance_check_catches_a_wrong_exponent(old: str, new: str) -> None:
    twin = mutant(deviate, old, new)
    assert any(acceptance_gap("normal", k, twin) > 0 for k in (0, 1, 3))


FLOORS = [(1, 1), (10, 3), (3, 10), (7, 2), (1, 16), (255, 256), (1 << 9, 5)]


def floor_gap(n: int, d: int, k: int, half: bool, module: types.ModuleType = deviate) -> Fraction:
    """How far the law of the floor is from the exact measure of x that gives each integer; 0 if exact."""
    law = Law("exponential", 3, 1, 3)

    def experiment(word: Callable[[], int]) -> int:
        x = module.Digits(word() >> 1, 2, 3, word)
        return int(module.floor_scaled(law, k, x, n, d, half=half))

    decided, undecided = enumerate_tapes(experiment, 3, 5)
    shift = Fraction(1, 2) if half else Fraction(0)
    worst = Fraction(0)
    for y in range(min(decided) - 1, max(decided) + 2):
        low, high = ((y + end - shift) * Fraction(2 * d, n) - k for end in (0, 1))
        true = max(Fraction(0), min(high, Fraction(1)) - max(low, Fraction(0)))
        made = decided.get(y, Fraction(0))
        worst = max(worst, made - true, true - made - undecided)
    return worst


@pytest.mark.parametrize(("n", "d"), FLOORS)
@pytest.mark.parametrize("half", [False, True])
def test_the_floor_has_the_exact_measure_of_every_integer(n: int, d: int, half: bool) -> None:
    assert max(floor_gap(n, d, k, half) for k in (0, 3)) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if rest + width <= unit:", "if True:"),
        ("if rest + width <= unit:", "if rest + width <= 2 * unit:"),
        ("low, width, unit = 2 * low + unit, 2 * width, 2 * unit", "low, width, unit = 2 * low, 2 * width, 2 * unit"),
        ("self.value = self.value << self.width | self.word()", "self.value = self.value << self.width"),
    ],
)
def test_the_floor_check_catches_every_broken_floor(old: str, new: str) -> None:
    twin = mutant(deviate, old, new)
    assert any(floor_gap(n, d, 3, half, twin) > 0 for n, d in FLOORS for half in (False, True))


def random_word(width: int, seed: str) -> Callable[[], int]:
    source = random.Random(seed)
    return lambda: source.getrandbits(width)


SMALL_LAWS = [(3, 0, 3), (4, 1, 3), (6, 2, 4), (8, 3, 6)]


def small_word_p(
    kind: str, shape: tuple[int, int, int], scale: Fraction, count: int, module: types.ModuleType
) -> float:
    law = Law(kind, *shape)
    word = random_word(shape[0], f"{kind} {shape} {scale}")
    draws = np.array([module.draw(law, word, *scale.as_integer_ratio()) for _ in range(count)])
    return p_value(draws, "laplace" if law.laplace else "normal", float(scale))


@pytest.mark.parametrize("kind", ["exponential", "normal"])
@pytest.mark.parametrize("shape", SMALL_LAWS)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(10, 3), Fraction(40)])
def test_whole_draws_from_small_words_follow_the_law(kind: str, shape: tuple[int, int, int], scale: Fraction) -> None:
    assert small_word_p(kind, shape, scale, 6_000, deviate) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exponential", "normal"])
@pytest.mark.parametrize("shape", SMALL_LAWS)
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(10, 3), Fraction(40)])
def test_a_million_draws_from_small_words_follow_the_law(
    kind: str, shape: tuple[int, int, int], scale: Fraction
) -> None:
    assert small_word_p(kind, shape, scale, 1_000_000, deviate) > 1e-4


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("exponential", "return -y if y or not laplace else None", "return -y"),
        ("exponential", "offset += k", "offset = k"),
        ("exponential", "if not accepts(law, k, x):", "if False:"),
        ("normal", "if not accepts(law, k, x):", "if False:"),
        ("normal", "half=not laplace", "half=False"),
        ("exponential", "half=not laplace", "half=True"),
    ],
)
def test_the_chi_square_of_whole_draws_catches_broken_twins(kind: str, old: str, new: str) -> None:
    twin = mutant(deviate, old, new)
    shapes = [(3, 0, 3), (4, 1, 3)]  # wide strips for the acceptance, few of them for the escape
    assert min(small_word_p(kind, shape, Fraction(10, 3), 6_000, twin) for shape in shapes) < 1e-4


def test_a_replayed_draw_reads_the_given_words_first() -> None:
    word = deviate.replay(iter([5, 6]), lambda: 7)
    assert [word() for _ in range(4)] == [5, 6, 7, 7]


def test_a_tape_that_ends_is_noticed() -> None:
    decided, undecided = enumerate_tapes(lambda word: word() + word(), 1, 1)
    assert not decided
    assert undecided == 1
    assert issubclass(NeedsMore, Exception)
