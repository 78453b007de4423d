"""A table that asks its engine each question once, and noise that adds nothing: for many draws of one task."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from steelyard.mechanisms._observe import Observed, observing
from steelyard.noise import TestNoise
from steelyard.privacy import Loss, Terms, Unit, users
from steelyard.tables import Schema, Table

USER = users("user")
MICRO = 10**6


class Remembered:
    """Answers like the table it wraps, but never asks the engine the same thing twice (limits draw no fresh secret)."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._answers: dict[str, Any] = {}

    @property
    def schema(self) -> Schema:
        """The table's own."""
        return self._table.schema

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*arguments: Any, **named: Any) -> Any:
            question = repr((name, arguments, named))
            if question not in self._answers:
                self._answers[question] = getattr(self._table, name)(*arguments, **named)
            return self._answers[question]

        return ask


class NoNoise(TestNoise):
    """Zero everywhere it may be: what is released is what was bounded."""

    def laplace(self, scale: Fraction, size: int) -> list[int]:
        return [0] * size

    def normal(self, sigma: Fraction, size: int) -> list[int]:
        return [0] * size


def terms(unit: Unit = USER, *, gaussian: bool = False, aside: bool = False) -> Terms:
    """An account's terms with plenty of everything; ``aside`` sets a delta aside."""
    if not gaussian:
        return Terms(unit, Loss.pure(100), Fraction(100))
    cap = Loss(Loss.mu(100).currency, Loss.mu(100).amount, 10**12 if aside else 0)
    return Terms(unit, cap, Fraction(1), Fraction(2 if aside else 1, 10**6))


def seen_in(task: Any, table: Any, mine: Terms, seed: int = 0) -> list[Observed]:
    """What the task's mechanisms were fed, with noise from a seed."""
    with observing() as seen:
        task.plan(table.schema, mine).run(table, TestNoise(seed))
    return seen


def distance(event: Any, left: tuple[int, ...], right: tuple[int, ...]) -> Fraction:
    """How far two vectors lie apart in the event's norm, in sensitivities (squared for Gaussian noise)."""
    moves = [abs(a - b) for a, b in zip(left, right, strict=True)]
    given = event.parameters
    if event.name in ("laplace", "staircase"):
        return Fraction(sum(moves), given["sensitivity"])
    if event.name == "gaussian":
        square = given["sensitivity"] ** 2 if "sensitivity" in given else given["sensitivity_squared"]
        return Fraction(sum(move * move for move in moves), square)
    return Fraction(max(moves), given["sensitivity"])
