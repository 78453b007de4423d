"""The bulk code is the scalar code on the same words, above all on words made to separate them."""

from __future__ import annotations

import random
import types
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from steelyard.noise import _bulk as bulk
from steelyard.noise._deviate import Law, attempt, exponential, normal, replay
from steelyard.noise._stream import SeededStream, Stream
from unit.noise.exactly import mutant

TOP = (1 << 64) - 1
SCALES = [
    Fraction(1, 10**30),
    Fraction(1, 10),
    Fraction(1, 2),
    Fraction(1),
    Fraction(10, 3),
    Fraction(0.1),
    Fraction(10**6),
    Fraction(10**6, 7),
    Fraction(10**6 << 10),
    Fraction(3602879701896397, 5),
    Fraction((1 << 45) - 1),
    Fraction((1 << 48) - 1),
]
LAWS = [exponential(), normal()]


def hostile(law: Law, scale: Fraction, count: int, seed: str) -> NDArray[np.uint64]:
    """Word triples at the cuts of the alias table, at the ends of the digits, at ties and around integer boundaries."""
    source = random.Random(seed)
    rows = [_triple(law, scale, source) for _ in range(count)]
    return np.array(rows, dtype=np.uint64).T.copy()


def _triple(law: Law, scale: Fraction, source: random.Random) -> tuple[int, int, int]:
    first, k = _strip(law, source)
    second = _digits(law, scale, k, source)
    x = second >> 1
    ties = [x >> 9, (x >> 9) + 1, (x >> 9) - 1, (2 * k) << 43, (2 * k + 1) << 43, ((2 * k + 1) << 43) - 1, 0, TOP]
    third = source.choice(ties) if source.random() < 0.5 else source.getrandbits(64)
    return first, second, third & TOP


def _strip(law: Law, source: random.Random) -> tuple[int, int]:
    column = source.choice([0, 1, law.escape, law.residual, source.getrandbits(14), source.getrandbits(14)])
    entry = law.table[column]
    cut = entry >> 14
    high = source.choice([cut - 1, cut, cut + 1, 0, (1 << 50) - 1, source.getrandbits(50)]) % (1 << 50)
    return high << 14 | column, column if high < cut else entry & law.residual


def _digits(law: Law, scale: Fraction, k: int, source: random.Random) -> int:
    kind = source.random()
    if kind < 0.25:
        return source.getrandbits(64)
    if kind < 0.35:
        return source.choice([0, 1, 2, 3, TOP, TOP - 1, 1 << 63, (1 << 63) - 1])
    half = Fraction(0) if law.laplace else Fraction(1, 2)
    boundary = int(scale * Fraction(k, 1 << 10) + half) + source.choice([0, 1, 1, 2])
    place = int((boundary - half) / scale * (1 << 73)) - (k << 63)
    place += source.choice([source.randint(-3, 3), source.randint(-6, 6) << 13, source.randint(-(1 << 16), 1 << 16)])
    return (place % (1 << 63)) << 1 | source.getrandbits(1)


class Counting:
    """Fresh words, and how many were read."""

    def __init__(self, seed: int) -> None:
        self._stream, self.read = SeededStream(seed.to_bytes(32, "big")), 0

    def word(self) -> int:
        self.read += 1
        return self._stream.word()


def mismatches(
    law: Law, scale: Fraction, words: NDArray[np.uint64], module: types.ModuleType = bulk
) -> tuple[int, int]:
    """Attempts where bulk and scalar differ on the same words, and how many the three words settled."""
    ruler = module.Ruler.of(scale, rounded=not law.laplace)
    values, stand = module.attempts(law, module.packed(law), ruler, words, Counting(7).word)
    fresh = Counting(7)
    wrong = settled = 0
    for i, triple in enumerate(words.T.tolist()):
        before = fresh.read
        value = attempt(law, replay(iter(triple), fresh.word), *scale.as_integer_ratio())
        settled += fresh.read == before
        wrong += (value is not None) != bool(stand[i]) or (value is not None and value != values[i])
    return wrong, settled


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_bulk_equals_scalar_on_hostile_words(law: Law, scale: Fraction) -> None:
    wrong, settled = mismatches(law, scale, hostile(law, scale, 3_000, f"{law} {scale}"))
    assert wrong == 0
    assert settled > 750


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_bulk_equals_scalar_on_many_hostile_words(law: Law, scale: Fraction) -> None:
    assert mismatches(law, scale, hostile(law, scale, 42_000, f"many {law} {scale}"))[0] == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("third <= (x >> np.uint64(9))", "third < (x >> np.uint64(9))"),
        ("(third >> np.uint64(43)) <= (k + k)", "(third >> np.uint64(43)) < (k + k)"),
        ("unsettled |= k >= np.uint64(law.escape)", "unsettled |= k > np.uint64(law.residual)"),
        ("_SLACK = 5", "_SLACK = 0"),
        ("(words | mask) < entry", "words <= (entry | mask)"),
        ("values = (values ^ -sign) + sign", "values = values ^ -sign"),
        ("(values | (sign ^ 1)) != 0", "(values | 1) != 0"),
        ("1 << (point - 1) if rounded else 0", "0"),
        ("product += z_high", "product += 0"),
        ("z_low >>= np.uint64(32)", "z_low >>= np.uint64(31)"),
    ],
)
def test_the_hostile_words_catch_every_broken_bulk(old: str, new: str) -> None:
    twin = mutant(bulk, old, new)
    some = [Fraction(10, 3), Fraction(3602879701896397, 5), Fraction(1, 2)]
    assert any(
        mismatches(law, scale, hostile(law, scale, 1_500, f"{law} {scale}"), twin)[0] for law in LAWS for scale in some
    )


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_the_fixed_point_product_is_never_too_large_and_short_by_less_than_its_slack(law: Law, scale: Fraction) -> None:
    words = hostile(law, scale, 2_000, f"product {law} {scale}")
    k, x = bulk.strips(law, bulk.packed(law), words[0]), words[1] >> np.uint64(1)
    ruler = bulk.Ruler.of(scale, rounded=not law.laplace)
    floor, unsure = ruler.floors(k, x)
    half = Fraction(0) if law.laplace else Fraction(1, 2)
    for i in range(2_000):
        low = scale * Fraction((int(k[i]) << 63) + int(x[i]), 1 << 73) + half
        high = low + scale / (1 << 73)  # every fraction with these 63 digits lies below
        if not unsure[i] and k[i] < law.escape:
            assert int(floor[i]) == low.__floor__() == -(-high).__floor__() - 1


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
def test_only_about_one_attempt_in_a_thousand_is_handed_over(law: Law) -> None:
    for scale in (Fraction(1), Fraction(10**6), Fraction(1 << 40)):
        words = SeededStream(bytes(32)).words(300_000).reshape(3, -1)
        fresh = Counting(3)
        bulk.attempts(law, bulk.packed(law), bulk.Ruler.of(scale, rounded=not law.laplace), words, fresh.word)
        assert fresh.read < 500


class Recording(Stream):
    """A secure stream that remembers what it handed out."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        super().__init__()

    def word(self) -> int:
        self.seen.append(super().word())
        return self.seen[-1]

    def words(self, size: int) -> NDArray[np.uint64]:
        out = super().words(size)
        self.seen += out.tolist()
        return out


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.kind)
def test_no_word_serves_two_draws(law: Law) -> None:
    stream = Recording()
    draws = bulk.draw_array(law, stream, Fraction(1, 3), 20_000)
    assert len(draws) == 20_000
    assert len(set(stream.seen)) == len(stream.seen) >= 60_000
