"""The exact law of a sampler, found by walking all its choices of uniform integers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import TypeVar

from steelyard.noise import Noise, TestNoise

Outcome = TypeVar("Outcome", bound=Hashable)


class _TooDeep(Exception):
    pass


class _Tape(TestNoise):
    """Answers ``below`` from a script and records what was asked."""

    def __init__(self, script: list[int], smallest: float) -> None:
        super().__init__(0)
        self.script, self.smallest = script, smallest
        self.bounds: list[int] = []
        self.chance = 1.0

    def below(self, bound: int) -> int:
        place = len(self.bounds)
        self.chance /= bound
        if self.chance < self.smallest:
            raise _TooDeep
        self.bounds.append(bound)
        if place == len(self.script):
            self.script.append(0)
        return self.script[place]


def law(sampler: Callable[[Noise], Outcome], smallest: float) -> tuple[dict[Outcome, Fraction], Fraction]:
    """Lower bounds on each outcome's probability, exact, and the probability left unexplored.

    Branches less likely than ``smallest`` are cut.
    """
    found: dict[Outcome, Fraction] = defaultdict(Fraction)
    script: list[int] = []
    while True:
        tape = _Tape(script, smallest)
        try:
            outcome = sampler(tape)
        except _TooDeep:
            del script[len(tape.bounds) :]
        else:
            share = Fraction(1)
            for bound in tape.bounds:
                share /= bound
            found[outcome] += share
        while script and script[-1] == tape.bounds[len(script) - 1] - 1:
            script.pop()
        if not script:
            break
        script[-1] += 1
    return dict(found), 1 - sum(found.values(), Fraction(0))


def agrees(found: dict[Outcome, Fraction], left: Fraction, truth: Callable[[Outcome], float]) -> bool:
    """Whether every explored outcome's true probability lies between its bound and that plus what is left."""
    return all(float(p) - 1e-12 <= truth(x) <= float(p + left) + 1e-12 for x, p in found.items())
