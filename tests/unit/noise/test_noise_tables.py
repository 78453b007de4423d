"""The two universal tables: certified floors, exact alias, and the symbol whose law is p_k itself."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.errors import OurBug
from steelyard.noise import _certify as certify
from steelyard.noise import _deviate as deviate
from steelyard.noise._deviate import Law, alias, exponential, normal, weights_of
from unit.noise.exactly import enumerate_tapes, mutant

MIDDLE = {kind: Law(kind, 64, 6, 10) for kind in ("exponential", "normal")}


def true_probabilities(law: Law, count: int) -> list[mpmath.mpf]:
    """p_k at 400 bits and more, from mpmath."""
    h = mpmath.mpf(2) ** -law.strip
    if law.kind == "exponential":
        q = mpmath.exp(-h)
        strips = [1 - q]
        while len(strips) < min(count, law.escape):
            strips.append(strips[-1] * q)
        return [*strips, mpmath.exp(-law.escape * h)][:count]
    total = (mpmath.jtheta(3, 0, mpmath.exp(-h * h / 2)) + 1) / 2 if law.strip < 4 else None
    if total is None:  # Poisson summation: the theta function converges slowly so close to one
        root = mpmath.sqrt(2 * mpmath.pi) / h
        total = (root * (1 + 2 * mpmath.exp(-2 * mpmath.pi**2 / h**2)) + 1) / 2
    return [mpmath.exp(-((k * h) ** 2) / 2) / total for k in range(count)]


@cache
def true_floors(law: Law, count: int) -> list[int]:
    with mpmath.workprec(400):
        return [int(mpmath.floor(p * 2**law.width)) for p in true_probabilities(law, count)]


def floors_agree(law: Law, module: object = certify) -> bool:
    """Whether every weight of the law is the floor that mpmath finds at 400 bits."""
    bits = law.width
    made = (
        module.exponential_floors(law.strip, law.escape, bits)  # type: ignore[attr-defined]
        if law.kind == "exponential"
        else module.normal_floors(law.strip, bits)  # type: ignore[attr-defined]
    )
    truth = true_floors(law, len(made) + 3)
    if law.kind == "normal" and any(truth[len(made) :]):
        return False
    return bool(truth[: len(made)] == made)


@pytest.mark.parametrize("kind", ["exponential", "normal"])
def test_every_weight_of_the_shipped_tables_is_the_true_floor(kind: str) -> None:
    assert floors_agree(Law(kind))


@pytest.mark.parametrize("kind", ["exponential", "normal"])
@pytest.mark.parametrize(("width", "strip", "columns"), [(3, 1, 2), (4, 1, 3), (6, 2, 4), (8, 3, 6), (64, 3, 8)])
def test_small_laws_have_the_true_floors_too(kind: str, width: int, strip: int, columns: int) -> None:
    assert floors_agree(Law(kind, width, strip, columns))


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("exponential", "while term:", "while count < 5:"),
        ("normal", "while term:", "while count < 2:"),
        ("normal", "exp_minus(2 * strip + 1, precision)", "exp_minus(2 * strip, precision)"),
    ],
)
def test_the_floor_check_catches_broken_certificates(kind: str, old: str, new: str) -> None:
    assert floors_agree(MIDDLE[kind])
    assert not floors_agree(MIDDLE[kind], mutant(certify, old, new))


def test_starting_with_too_few_bits_only_costs_another_round() -> None:
    hasty = mutant(certify, "_agreed(attempt, bits + 48)", "_agreed(attempt, bits + 9)")
    assert floors_agree(MIDDLE["exponential"], hasty)


def test_the_digests_are_the_pinned_ones() -> None:
    assert exponential().digest == deviate.EXPONENTIAL_SHA256
    assert normal().digest == deviate.NORMAL_SHA256


def test_a_table_that_differs_in_one_entry_is_refused() -> None:
    law = Law("exponential")
    law.__dict__["table"] = (law.table[0] ^ 1, *law.table[1:])
    with pytest.raises(OurBug, match="built wrongly"):
        deviate._pinned(law, deviate.EXPONENTIAL_SHA256)


@pytest.mark.parametrize("law", [exponential(), normal()], ids=lambda law: law.kind)
def test_the_packed_entries_draw_with_exactly_the_certified_weights(law: Law) -> None:
    assert weights_of(law.table, law.width, law.columns) == law.weights
    assert sum(law.weights) == 1 << 64
    assert law.weights[law.residual] == {"exponential": 8222, "normal": 4497}[law.kind]
    assert law.kind == "exponential" or not any(law.weights[8834 : law.residual])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_alias_reconstructs_any_integer_weights(data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, 5))
    width = columns + data.draw(st.integers(0, 5))
    cuts = data.draw(st.lists(st.integers(0, 1 << width), min_size=0, max_size=(1 << columns) - 1))
    ends = [0, *sorted(cuts), 1 << width]
    weights = [b - a for a, b in itertools.pairwise(ends)]
    table = alias(weights, width, columns)
    padded = weights + [0] * ((1 << columns) - len(weights))
    assert weights_of(table, width, columns) == padded
    mask = (1 << columns) - 1
    drawn = [0] * (mask + 1)
    for w in range(1 << width):  # every word there is
        entry = table[w & mask]
        drawn[w & mask if w | mask < entry else entry & mask] += 1
    assert drawn == padded


@pytest.mark.parametrize("weights", [[3, 4], [9], [-1, 9], [1] * 9])
def test_alias_refuses_weights_that_do_not_fill_it(weights: list[int]) -> None:
    with pytest.raises(OurBug):
        alias(weights, 3, 2)


def symbol_gap(law: Law, depth: int, symbol: object = None) -> mpmath.mpf:
    """How far the enumerated law of ``symbol`` leaves [decided, decided + undecided] around p_k; at most 0 if exact."""
    draw = symbol or law.symbol
    decided, undecided = enumerate_tapes(lambda word: draw(word), law.width, depth)  # type: ignore[operator]
    with mpmath.workprec(200):
        truth = true_probabilities(law, max(decided) + 1)
        gaps = [mpmath.mpf(0)]
        for k, p in enumerate(truth):
            low = mpmath.mpf(decided[k].numerator) / decided[k].denominator
            high = low + mpmath.mpf(undecided.numerator) / undecided.denominator
            gaps += [low - p, p - high]
    return max(gaps)


SMALL = [(2, 0, 2, 7), (3, 0, 3, 4), (3, 1, 3, 5), (4, 1, 3, 4)]


@pytest.mark.parametrize("kind", ["exponential", "normal"])
@pytest.mark.parametrize(("width", "strip", "columns", "depth"), SMALL)
def test_the_symbol_has_law_p_k_on_every_tape(kind: str, width: int, strip: int, columns: int, depth: int) -> None:
    assert symbol_gap(Law(kind, width, strip, columns), depth) <= 0


@pytest.mark.parametrize("kind", ["exponential", "normal"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return symbol if symbol != mask else self._residual(word)", "return symbol if symbol != mask else 0"),
        ("u -= digit", "u -= digit + 1"),
        ("left = (left << self.width) - sum(digits)", "left = left"),
        ("symbol = column if w | mask < entry", "symbol = column if w | mask <= entry + mask"),
    ],
)
def test_the_enumeration_catches_broken_symbols(kind: str, old: str, new: str) -> None:
    twin = mutant(deviate, old, new)
    caught = [symbol_gap(twin.Law(kind, *case[:3]), case[3]) > 0 for case in SMALL]
    assert any(caught)


@pytest.mark.parametrize("kind", ["exponential", "normal"])
def test_the_digits_of_every_level_rebuild_the_floors(kind: str) -> None:
    law = Law(kind, 6, 2, 4)
    left = 1
    totals: dict[int, int] = {}
    for level in (1, 2, 3, 4):
        digits = law.digits(level)
        left = (left << law.width) - sum(digits)
        totals = {k: (totals.get(k, 0) << law.width) + digit for k, digit in enumerate(digits)}
        assert [totals[k] for k in range(len(digits))] == law._floors(level)
        assert 0 < left < len(digits) + 64
        assert left + sum(totals.values()) == 1 << level * law.width


def test_the_second_digit_of_the_shipped_laws_is_certified_as_well() -> None:
    for law in (exponential(), normal()):
        left = (law.weights[law.residual] << 64) - sum(law.digits(2))
        assert 0 < left < 20_000
        assert Fraction(left, 1 << 128) < Fraction(1, 1 << 112)
