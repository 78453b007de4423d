"""The definition of the noise: one exact draw at a time, in integers, from a row of words.

A deviate is a strip k and a fraction x whose binary digits are revealed only when a decision needs them; (k + x) 2^-H
is an exact Exp(1) or |N(0, 1)|. The scale enters at the very end, as a multiplication and a floor of integers:
floor(scale * Exp(1)) is geometric, and a rounded scale * N(0, 1) is the integer noise that is exactly Gaussian-private.
Karney (2013) draws normals this way; Canonne, Kamath and Steinke (2020) give the Bernoulli(exp(-g)) loop.
Law: every decision is taken on revealed digits alone, and the bulk code must agree with this file word for word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from steelyard.noise.stream import uniform_below
from steelyard.noise.tables import Law

Word = Callable[[], int]


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
