"""How many nats a history of answers costs: the price list of the modes that promise validity and no privacy.

A question chosen after a history is one of as many questions as there are histories; a code for histories whose
weights sum to at most one (Kraft) turns that into an error level exp(-nats) per question, for all questions at once
(docs/proofs/nats.md, ladder.md, rounds.md).
Law: nats are rounded up.
"""

from __future__ import annotations

import math
from fractions import Fraction

from steelyard.errors import InvalidTask
from steelyard.holdout._intervals import read_whole
from steelyard.privacy import MICRO

_ULP = 2.0**-52
_FLOAT = 1e-9


def certified_nats(
    question: int,
    failures: int,
    spent: Fraction | float,
    beta: Fraction | float,
    *,
    horizon: int | None = None,
) -> float:
    """The nats of the ``question``-th check (from 1) after ``failures`` paid answers whose grids took ``spent`` nats.

    ``spent`` is the sum of ``grid_nats`` over the paid answers. Test the answer at level exp(-nats), two-sided.
    ``horizon``: the largest number of questions, if fixed before the first one; every question then costs ln(horizon).

    >>> round(certified_nats(1, 0, 0, 0.05), 4)
    4.382
    """
    read_whole(question, "question")
    read_whole(failures, "failures", 0)
    if failures > question - 1:
        raise InvalidTask(f"{failures} failures cannot precede question {question}.")
    if not 0 <= spent < math.inf:
        raise InvalidTask(f"spent nats are finite and at least 0; got {spent!r}.")
    if horizon is not None and question > horizon:
        raise InvalidTask(f"question {question} comes after the last one that was announced, {horizon}.")
    number = question * (question + 1) if horizon is None else horizon
    words = math.log(number) + math.log((failures + 1) * (failures + 2))
    return rounded_up(log_inverse(beta) + words + log_choose(question - 1, failures) + rounded_up(float(spent)))


def question_nats(
    asked: int, paid: int, steps: int, grid: float, beta: Fraction | float, questions: int | None
) -> float:
    """The nats of question number ``asked`` after ``paid`` surprises, each of which took ``grid`` nats.

    ln C(asked - 1, paid) falls once nearly all answers are surprises; the number is raised until it does not.
    """
    number = max(asked, paid + 1 + paid // (steps + 1), 1)
    nats = certified_nats(number, paid, paid * grid, beta)
    if questions is None:
        return nats
    return nats - math.log(number) - math.log(number + 1) + math.log(questions) + _FLOAT


def grid_nats(values: int) -> float:
    """What one answer rounded to a grid 0, 1/values, ..., 1 costs: ln(values + 1), rounded up."""
    read_whole(values, "the number of grid steps")
    return rounded_up(math.log(values + 1))


def ladder_nats(submissions: int, records: int, levels: int, beta: Fraction | float, *, fixed: bool = True) -> float:
    """The nats of a leaderboard that showed ``records`` new best scores on a grid.

    ``levels`` counts the grid values strictly above the score shown at the start (one more if the first score is always
    shown). ``fixed``: the number of submissions was fixed beforehand; otherwise it may be the number so far.

    >>> round(ladder_nats(10_000, 3, 50, 0.05), 2)
    50.92
    """
    read_whole(submissions, "submissions")
    read_whole(records, "records", 0)
    read_whole(levels, "levels", 0)
    if records > min(submissions, levels):
        raise InvalidTask(f"{records} records need as many submissions ({submissions}) and levels ({levels}).")
    events = math.log(submissions)
    length = 0.0 if fixed else math.log(submissions + 1)
    history = log_choose(submissions, records) + log_choose(levels, records)
    return rounded_up(log_inverse(beta) + events + length + history + math.log((records + 1) * (records + 2)))


def round_micros(candidates: int) -> int:
    """The micro-nats of naming the best of so many candidates: ln N, because one of N things is told."""
    return math.ceil(math.log(candidates) * MICRO + 1e-6)


def usual_steps(rows: int, tolerance: Fraction | float) -> int:
    """Ten grid steps to a tolerance; no more than there are rows."""
    return max(1, min(rows, math.ceil(10 / tolerance)))


def log_choose(n: int, k: int) -> float:
    """ln of the binomial coefficient, rounded up."""
    if k in (0, n):
        return 0.0
    if min(k, n - k) <= 64:
        return rounded_up(math.log(math.comb(n, k)))
    whole = math.lgamma(n + 1)
    return whole - math.lgamma(k + 1) - math.lgamma(n - k + 1) + 64 * _ULP * whole


def log_inverse(beta: Fraction | float) -> float:
    """ln(1 / beta) of a probability."""
    if not 0 < beta < 1:
        raise InvalidTask(f"beta is a probability between 0 and 1; got {beta!r}.")
    return -math.log(beta)


def rounded_up(value: float) -> float:
    """A sum or product of a few floats, raised by what their rounding may have taken."""
    return value + 16 * _ULP * abs(value)
