"""What is made least between noisy and true labels: the squared error, the absolute one, or a loss of the caller's own.

This is not the loss that a model is trained with: labels without bias serve every loss that is affine in the label, and
which of several unbiased mechanisms is best is another question, asked here. A loss that grows no faster than the distance
can be made ever smaller by ever rarer, ever farther outputs, so outputs are kept in a public range. The law: a loss, its
outputs and its range are public; nothing here sees a label of anybody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.labels._bounds import LATTICE, Knots, common
from steelyard.labels._check import blurred
from steelyard.labels._mechanism import NoiseLoss, growth_below
from steelyard.privacy import exact

Loss = str | Callable[[float, float], float] | NoiseLoss
NAMED = ("squared", "absolute")
MOST = 1 << 18  # labels times outputs of a programme
EVEN = 65  # outputs of a grid that was not given, besides the labels
FARTHEST = 10**5  # times the width that is needed
_ROOM, _SPARE = 2, Fraction(1, 20)
_FINE, _TINY = (
    1 << 11,
    Fraction(1, 1 << 1000),
)  # bits of the labels' common step; the least output that a device tells from zero
_BENT = 1e-9  # of the largest loss: how far floats may be from a convex table


def read_noise_loss(
    loss: Any, outputs: Iterable[Any] | None, inputs: tuple[Fraction, ...], epsilon: Fraction
) -> NoiseLoss:
    """The loss with its public outputs, all exact; what cannot be one is refused. One that was read stays as it is."""
    if isinstance(loss, NoiseLoss) and outputs is None:
        return loss
    if loss == "squared":
        if outputs is not None:
            raise InvalidTask("the squared loss takes any real output: leave outputs= out, or take another loss.")
        return NoiseLoss()
    if not callable(loss) and loss != "absolute":
        raise InvalidTask(
            f"what is made least between noisy and true labels is 'squared', 'absolute' or a function of (output, label); "
            f"got {loss!r}. The loss that a model is trained with is not asked for here."
        )
    given = None if outputs is None else _rising(outputs)
    ends = reach(inputs, epsilon) if given is None else (given[0], given[-1])
    _check_reach(ends, inputs, epsilon)
    if not callable(loss):
        if given is not None and len(given) != 2:
            raise InvalidTask(f"outputs= of an absolute loss is the pair (low, high); got {len(given)} numbers.")
        _check_size(len(inputs), len(inputs) + 2)
        return _judged(NoiseLoss("absolute", ends), inputs)
    grid = given if given is not None and len(given) > 2 else _grid(ends, inputs)
    _check_size(len(inputs), len(grid))
    return _judged(_table(loss, grid, inputs), inputs)


def _judged(loss: NoiseLoss, inputs: tuple[Fraction, ...]) -> NoiseLoss:
    """The loss, if its numbers share steps that the judge can count in."""
    try:
        common([*inputs, *knots_of(loss, inputs).outputs], LATTICE, "labels and outputs")
    except ValueError as problem:
        raise InvalidTask(f"{problem}: round them first.") from None
    return loss


def check_floats(loss: NoiseLoss, inputs: tuple[Fraction, ...], epsilon: Fraction) -> None:
    """Refuse, before a prior is paid for, labels so far out for their range, or so fine, that noisy ones could not be said."""
    try:
        common(inputs, _FINE, "the labels")
    except ValueError as problem:
        raise InvalidTask(f"{problem}: round them first.") from None
    low, *_, high = loss.outputs or reach(inputs, epsilon)
    if blurred((low, high), inputs[-1] - inputs[0]):
        raise InvalidTask(
            f"noisy labels from {float(low):g} to {float(high):g} are too far out for floats to tell labels apart that lie "
            f"within {float(inputs[-1] - inputs[0]):g}: take a public number off all labels; nothing was charged."
        )


def _check_size(labels: int, outputs: int) -> None:
    if labels * outputs > MOST:
        raise InvalidTask(
            f"labels times outputs must be at most {MOST} for this loss; got {labels} times {outputs}: take fewer nodes."
        )


def reach(inputs: tuple[Fraction, ...], epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """The default range: twice as far beyond the labels as outputs must reach at this epsilon, and half the range.

    >>> [float(z) for z in reach((Fraction(0), Fraction(10)), Fraction(1))]
    [-16.64, 26.64]
    """
    width = inputs[-1] - inputs[0]
    beyond = _ROOM / (growth_below(epsilon) - 1) + Fraction(1, 2)
    far = width * Fraction(math.ceil(beyond * 1000), 1000)
    return inputs[0] - far, inputs[-1] + far


def knots_of(loss: NoiseLoss, inputs: tuple[Fraction, ...]) -> Knots:
    """Where the loss bends, and what it is there."""
    return (
        Knots.absolute(inputs, *loss.outputs) if loss.name == "absolute" else Knots.of(list(loss.outputs), loss.costs)
    )


def _rising(outputs: Iterable[Any]) -> tuple[Fraction, ...]:
    if isinstance(outputs, str) or not isinstance(outputs, Iterable):
        raise InvalidTask(f"outputs= is a pair (low, high), or a rising list; got {outputs!r}.")
    found = tuple(exact(z.item() if hasattr(z, "item") else z, "an output") for z in outputs)
    if len(found) < 2 or any(a >= b for a, b in pairwise(found)):
        raise InvalidTask("outputs= must rise, from low to high, and be at least two.")
    if any(0 < abs(z) < _TINY for z in found):
        raise InvalidTask("outputs= holds a number that is all but zero: say 0.")
    return found


def _check_reach(ends: tuple[Fraction, Fraction], inputs: tuple[Fraction, ...], epsilon: Fraction) -> None:
    """Refuse a range in which no mechanism without bias fits, or hardly one."""
    needed = (inputs[-1] - inputs[0]) / (growth_below(epsilon) - 1) * (1 + _SPARE)
    if ends[0] > inputs[0] - needed or ends[1] < inputs[-1] + needed:
        raise InvalidTask(
            f"outputs from {float(ends[0]):g} to {float(ends[1]):g} leave no room for labels without bias: at epsilon "
            f"{float(epsilon):g} they must go from {float(inputs[0] - needed):.6g} or below to "
            f"{float(inputs[-1] + needed):.6g} or above."
        )
    if ends[1] - ends[0] > FARTHEST * (inputs[-1] - inputs[0] + 2 * needed):
        raise InvalidTask(
            f"outputs from {float(ends[0]):g} to {float(ends[1]):g} are no range: more than {FARTHEST:,} times as wide as needed "
            "gains nothing and is beyond what floats can solve."
        )


def _grid(ends: tuple[Fraction, Fraction], inputs: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """The labels, and outputs evenly from end to end."""
    even = {ends[0] + (ends[1] - ends[0]) * n / (EVEN - 1) for n in range(EVEN)}
    return tuple(sorted({*even, *inputs}))


def _table(
    loss: Callable[[float, float], float], grid: tuple[Fraction, ...], inputs: tuple[Fraction, ...]
) -> NoiseLoss:
    """The loss of every output for every label; finite, at least zero, and convex in the output."""
    rows = [[_number(loss(float(z), float(y))) for z in grid] for y in inputs]
    most = max(max(row) for row in rows)
    if most <= 0 or min(min(row) for row in rows) < 0:
        raise InvalidTask("a loss between noisy and true labels is at least zero, and not zero everywhere.")
    for y, row in zip(inputs, rows, strict=True):
        if _bent(grid, row) > most * Fraction(_BENT):
            raise InvalidTask(f"the loss of the label {float(y):g} is not convex in the output.")
    return NoiseLoss("table", grid, tuple(tuple(row) for row in rows))


def _bent(grid: tuple[Fraction, ...], row: list[Fraction]) -> Fraction:
    """How far a row lies above the largest convex function below it."""
    hull: list[int] = []
    for n, z in enumerate(grid):
        while len(hull) > 1:
            m, o = hull[-2:]
            if (row[o] - row[m]) * (z - grid[o]) < (row[n] - row[o]) * (grid[o] - grid[m]):
                break
            hull.pop()
        hull.append(n)
    above = Fraction(0)
    for m, o in pairwise(hull):
        slope = (row[o] - row[m]) / (grid[o] - grid[m])
        above = max([above, *(row[n] - row[m] - slope * (grid[n] - grid[m]) for n in range(m + 1, o))])
    return above


def _number(value: Any) -> Fraction:
    try:
        return exact(value.item() if hasattr(value, "item") else value, "a loss")
    except (TypeError, ValueError):
        raise InvalidTask(f"a loss must be a finite number for every output and label; got {value!r}.") from None
