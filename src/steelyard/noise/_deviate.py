"""The definition of the noise: one exact draw at a time, in integers, from a row of words.

A deviate is a strip k and a fraction x whose binary digits are revealed only when a decision needs them; (k + x) 2^-H
is an exact Exp(1) or |N(0, 1)|. The scale enters at the very end, as a multiplication and a floor of integers:
floor(scale * Exp(1)) is geometric, and a rounded scale * N(0, 1) is the integer noise that is exactly Gaussian-private.
Karney (2013) draws normals this way; Canonne, Kamath and Steinke (2020) give the Bernoulli(exp(-g)) loop.
Law: every decision is taken on revealed digits alone, and the bulk code must agree with this file word for word.

The strip comes from an exact integer alias table: what the integers cannot hold is one more symbol.
A word of W bits picks strip k with weight floor(2^W p_k); the integer that is left over is the weight of a symbol of
its own, RESIDUAL, which continues with the next W binary digits of every p_k. So the symbol drawn has law p_k itself,
not an approximation of it (Knuth and Yao's idea in base 2^W, with Walker's alias for the first digit).
The two shipped laws are universal constants: no scale enters, and their digests are pinned.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from steelyard.errors import OurBug
from steelyard.lazy import lazy
from steelyard.noise._certify import exponential_floors, normal_floors
from steelyard.noise._stream import uniform_below

Word = Callable[[], int]
EXPONENTIAL_SHA256 = "1fc8bd9e618b5de326310185d81b1378baed727a076892005cc2fe995f244b87"
NORMAL_SHA256 = "097eaffbf42287d051b1211df20558e47ca0389ba4ff1a836e8f7592c0ead295"


def alias(weights: Sequence[int], width: int, columns: int) -> tuple[int, ...]:
    """2^columns packed entries ``cut << columns | other`` that hold integer weights summing to 2^width exactly.

    A word's low bits name a column, its high bits are compared with the cut: below it the symbol is the column itself,
    from it on the symbol is ``other``. A full column is stored as cut 0 and its own name.
    """
    size, capacity = 1 << columns, 1 << (width - columns)
    left = list(weights) + [0] * (size - len(weights))
    if len(left) != size or sum(left) != size * capacity or min(left) < 0:
        raise OurBug(f"alias weights must be {size} or fewer non-negative integers summing to 2^{width}.")
    entries = list(range(size))
    small = [symbol for symbol in range(size) if left[symbol] < capacity]
    large = [symbol for symbol in range(size) if left[symbol] >= capacity]
    while small:
        symbol, donor = small.pop(), large[-1]
        entries[symbol] = left[symbol] << columns | donor
        left[donor] -= capacity - left[symbol]
        if left[donor] < capacity:
            small.append(large.pop())
    return tuple(entries)


def weights_of(table: Sequence[int], width: int, columns: int) -> list[int]:
    """The integer weights that a packed table really draws with: the inverse of ``alias``, used to verify it."""
    mask, capacity = (1 << columns) - 1, 1 << (width - columns)
    weights = [0] * (mask + 1)
    for column, entry in enumerate(table):
        weights[column] += entry >> columns
        weights[entry & mask] += capacity - (entry >> columns)
    return weights


@dataclass(frozen=True)
class Law:
    """One scale-free law: its word size, its strips of width 2^-strip and its 2^columns alias columns."""

    kind: str  # "exponential" or "normal"
    width: int = 64
    strip: int = 10
    columns: int = 14

    @lazy
    def laplace(self) -> bool:
        """Whether this is the exponential law, the one with a sign to spare and an escape."""
        return self.kind == "exponential"

    @lazy
    def escape(self) -> int:
        """The first symbol that is not a strip; the exponential law adds this many strips and draws again."""
        return (1 << self.columns) - 2

    @lazy
    def residual(self) -> int:
        """The symbol that stands for everything the first digits left over."""
        return (1 << self.columns) - 1

    @lazy
    def weights(self) -> list[int]:
        """The weight of every symbol in [0, 2^columns): strips, escape, residual."""
        floors = self._floors(1)
        if len(floors) > self.escape + 1 or (self.kind == "normal" and len(floors) > self.escape):
            raise OurBug(f"{self} has too few columns for its strips.")
        floors += [0] * (self.residual - len(floors))
        return [*floors, (1 << self.width) - sum(floors)]

    @lazy
    def table(self) -> tuple[int, ...]:
        """The packed alias table."""
        return alias(self.weights, self.width, self.columns)

    @lazy
    def digest(self) -> str:
        """SHA-256 of the packed table, entries as little-endian 64-bit words."""
        return hashlib.sha256(b"".join(entry.to_bytes(8, "little") for entry in self.table)).hexdigest()

    def _floors(self, level: int) -> list[int]:
        bits = level * self.width
        if self.kind == "normal":
            return normal_floors(self.strip, bits)
        return exponential_floors(self.strip, self.escape, bits)

    @cache  # noqa: B019 - laws are few and live for ever
    def digits(self, level: int) -> list[int]:
        """The ``level``-th digit, in base 2^width, of every symbol's probability."""
        now, before = self._floors(level), self._floors(level - 1) if level > 1 else []
        before += [0] * (len(now) - len(before))
        return [new - (old << self.width) for new, old in zip(now, before, strict=True)]

    def symbol(self, word: Callable[[], int]) -> int:
        """One symbol with law exactly p_k (the escape symbol included), reading as few words as possible."""
        w = word()
        mask = self.residual
        column = w & mask
        entry = self.table[column]
        other = entry & mask  # computed on both branches, so that common strips do not take longer than rare ones
        symbol = column if w | mask < entry else other
        return symbol if symbol != mask else self._residual(word)

    def _residual(self, word: Callable[[], int]) -> int:
        left, level = self.weights[-1], 1
        while True:
            level += 1
            digits = self.digits(level)
            u = uniform_below(word, self.width, left << self.width)
            for symbol, digit in enumerate(digits):
                if u < digit:
                    return symbol
                u -= digit
            left = (left << self.width) - sum(digits)


def _pinned(law: Law, digest: str) -> Law:
    if law.digest != digest:
        raise OurBug(f"the {law.kind} table was built wrongly: its digest is {law.digest}, not {digest}.")
    return law


@cache
def exponential() -> Law:
    """The law behind Laplace noise, checked against its pinned digest; built once, in about 0.05 s."""
    return _pinned(Law("exponential"), EXPONENTIAL_SHA256)


@cache
def normal() -> Law:
    """The law behind normal noise, checked against its pinned digest; built once, in about 0.05 s."""
    return _pinned(Law("normal"), NORMAL_SHA256)


class Digits:
    """A uniform fraction in [value, value + 1) / 2^bits; the digits after ``bits`` are still unread words."""

    __slots__ = ("bits", "value", "width", "word")

    def __init__(self, value: int, bits: int, width: int, word: Word) -> None:
        self.value, self.bits, self.width, self.word = value, bits, width, word

    def reveal(self) -> None:
        """Read one more word of digits."""
        self.value = self.value << self.width | self.word()
        self.bits += self.width


def below_fraction(x: Digits, whole: int, power: int) -> bool:
    """Whether a fresh uniform lies below (whole + x) / 2^power, revealing digits of either side until that is sure."""
    u, bits = x.word(), x.width
    while True:
        v, gap = whole << x.bits | x.value, x.bits + power - bits
        if gap > 0:
            if u << gap > v:
                return False
            if (u + 1) << gap <= v:
                return True
            u, bits = u << x.width | x.word(), bits + x.width
        else:
            if u < v << -gap:
                return True
            if u >= (v + 1) << -gap:
                return False
            x.reveal()


def survives(x: Digits, whole: int, power: int, *, squared: bool) -> bool:
    """True with probability exp(-g), where g = (whole + x) / 2^power <= 1, times x if ``squared``.

    Continue with probability g / n for n = 1, 2, ...; the round at which this stops is odd with probability exp(-g).
    """
    n = 1
    while below_fraction(x, whole, power):
        if squared and not below_fraction(x, 0, 0):
            break
        if n > 1 and uniform_below(x.word, x.width, n):
            break
        n += 1
    return n % 2 == 1


def accepts(law: Law, k: int, x: Digits) -> bool:
    """Whether a uniform place x in strip k is kept: with probability density(k + x) / density(k)."""
    if law.laplace:
        return survives(x, 0, law.strip, squared=False)
    power = 2 * law.strip + 1
    halvings = max(0, (2 * k).bit_length() - power)
    if not halvings:
        return survives(x, 2 * k, power, squared=True)
    # g is halved until it is at most one, and the kept place must then survive 2^halvings times
    return all(survives(x, 2 * k, power + halvings, squared=True) for _ in range(1 << halvings))


def floor_scaled(law: Law, k: int, x: Digits, numerator: int, denominator: int, *, half: bool) -> int:
    """floor(scale * deviate), or floor(scale * deviate + 1/2), for scale = numerator / denominator."""
    while True:
        unit = denominator << (law.strip + x.bits)
        low, width = numerator * (k << x.bits | x.value), numerator
        if half:
            low, width, unit = 2 * low + unit, 2 * width, 2 * unit
        floor, rest = divmod(low, unit)
        if rest + width <= unit:
            return floor
        x.reveal()


def attempt(law: Law, word: Word, numerator: int, denominator: int) -> int | None:
    """One attempt at an integer draw of scale numerator / denominator; None when it was rejected.

    The exponential law gives discrete Laplace noise, the normal law the rounded normal.
    """
    laplace = law.laplace
    k = law.symbol(word)
    if laplace and k == law.escape:
        k = _beyond(law, word)
    w = word()
    x = Digits(w >> 1, law.width - 1, law.width, word)
    if not accepts(law, k, x):
        return None
    y = floor_scaled(law, k, x, numerator, denominator, half=not laplace)
    if w & 1:
        return -y if y or not laplace else None
    return y


def _beyond(law: Law, word: Word) -> int:
    """A strip after the last one in the table: the exponential law has no memory, so the draw starts again there."""
    offset = k = law.escape
    while k == law.escape:
        k = law.symbol(word)
        offset += k
    return offset


def draw(law: Law, word: Word, numerator: int, denominator: int) -> int:
    """One integer draw of scale numerator / denominator."""
    while (value := attempt(law, word, numerator, denominator)) is None:
        pass
    return value


def replay(words: Iterator[int], word: Word) -> Word:
    """Hand out the given words first, then go on with fresh ones."""

    def following() -> int:
        for given in words:
            return given
        return word()

    return following
