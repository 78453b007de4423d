"""Nats of histories, by enumerating them; published bounds against the numbers their papers imply."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import InvalidTask
from steelyard.holdout import _published as published
from steelyard.holdout._intervals import half_width
from steelyard.holdout._nats import certified_nats, grid_nats, ladder_nats, log_choose, round_micros
from steelyard.privacy import MICRO

Nats = Callable[[int, int, float], float]


def histories(question: int, steps: Callable[[int], int]) -> Iterator[tuple[int, float]]:
    """Every history before a question, as its failures and its nats; the f-th failure is rounded to ``steps(f)``."""
    for pattern in itertools.product((False, True), repeat=question - 1):
        failures = sum(pattern)
        grids = [steps(f) for f in range(failures)]
        for _ in itertools.product(*(range(g + 1) for g in grids)):
            yield failures, sum(grid_nats(g) for g in grids)


def kraft(nats: Nats, questions: int) -> float:
    """The total level spent over all questions and all histories, as a share of beta."""
    levels = (
        math.exp(-nats(t, failures, spent)) for t in range(1, questions + 1) for failures, spent in histories(t, _grid)
    )
    return math.fsum(levels) / 0.05


def _grid(failure: int) -> int:
    return (2, 5, 3, 4, 2)[failure]


def ours(t: int, f: int, spent: float) -> float:
    return certified_nats(t, f, spent, 0.05)


def test_all_histories_together_spend_at_most_beta() -> None:
    sums = [kraft(ours, questions) for questions in range(1, 6)]
    assert sums[0] == pytest.approx(0.25)
    assert sums == sorted(sums)
    assert sums[-1] <= 1


@pytest.mark.parametrize(
    "twin",
    [
        lambda t, f, spent: certified_nats(1, 0, spent, 0.05),
        lambda t, f, spent: certified_nats(t, f, 0, 0.05),
        lambda t, f, spent: certified_nats(t, f, spent, 0.05) - log_choose(t - 1, f) - math.log(t * (t + 1)),
    ],
    ids=["forgets which questions failed", "forgets the paid values", "forgets the pattern and the question"],
)
def test_a_ledger_that_forgets_part_of_the_history_is_caught(twin: Nats) -> None:
    assert kraft(twin, 5) > 1


def transcripts(submissions: int, levels: int) -> Counter[int]:
    """How many score boards there can be, by their number of records; the board starts at level 0."""
    found: Counter[int] = Counter()

    def play(left: int, best: int, records: int) -> None:
        if not left:
            found[records] += 1
            return
        play(left - 1, best, records)
        for level in range(best + 1, levels + 1):
            play(left - 1, level, records + 1)

    play(submissions, 0, 0)
    return found


@pytest.mark.parametrize(("submissions", "levels"), [(5, 4), (4, 6), (6, 2)])
def test_a_ladder_pays_for_every_board_it_can_show(submissions: int, levels: int) -> None:
    boards = transcripts(submissions, levels)
    assert all(count == math.comb(submissions, u) * math.comb(levels, u) for u, count in boards.items())
    spent = sum(
        count * submissions * math.exp(-ladder_nats(submissions, u, levels, 0.05)) for u, count in boards.items()
    )
    assert spent <= 0.05


def first_shown(submissions: int, levels: int) -> Counter[int]:
    """The boards of a ladder whose first score is always shown, whichever of levels + 1 values it has."""
    found: Counter[int] = Counter()
    for first in range(levels + 1):
        for records, count in transcripts(submissions - 1, levels - first).items():
            found[records + 1] += count
    return found


def test_a_ladder_that_always_shows_its_first_score_needs_a_level_more() -> None:
    boards = first_shown(4, 4)
    assert all(count <= math.comb(4, u) * math.comb(5, u) for u, count in boards.items())
    assert any(count > math.comb(4, u) * math.comb(4, u) for u, count in boards.items())


def test_a_ladder_of_unknown_length_pays_for_its_length() -> None:
    fixed, free = (ladder_nats(100, 3, 50, 0.05, fixed=fixed) for fixed in (True, False))
    assert free - fixed == pytest.approx(math.log(101))


def rounds_nats(sizes: list[int]) -> float:
    """What is charged for rounds of these sizes, and the level of one question."""
    return math.log(1 / 0.05) + sum(round_micros(size) for size in sizes) / MICRO


def test_rounds_pay_for_every_row_of_winners() -> None:
    for sizes in ([5] * 4, [3, 7, 2], [1, 1], [1000]):
        rows = math.prod(sizes)
        assert rows <= math.exp(rounds_nats(sizes)) * 0.05 <= rows * (1 + 1e-5)


def test_every_winner_at_the_price_of_the_last_is_caught() -> None:
    events = sum(5**played for played in range(1, 5))
    assert events == 780
    assert math.exp(rounds_nats([5] * 4)) * 0.05 < events


@pytest.mark.parametrize(
    ("n", "submissions", "records", "half"),
    [(10**4, 10**4, 0, 0.026), (10**4, 10**4, 3, 0.051), (10**4, 10**4, 10, 0.077), (10**4, 10**4, 30, 0.112),
     (10**5, 10**6, 0, 0.0095), (10**5, 10**6, 3, 0.0187), (10**5, 10**6, 10, 0.0290), (10**5, 10**6, 30, 0.0445)],
)  # fmt: skip
def test_ladder_half_widths_are_the_known_ones(n: int, submissions: int, records: int, half: float) -> None:
    assert half_width(n, -ladder_nats(submissions, records, 50, 0.05)) == pytest.approx(half, abs=6e-4)


@pytest.mark.parametrize(
    ("n", "rounds", "size", "half"), [(10**4, 10, 100, 0.0499), (10**4, 3, 1000, 0.0349), (10**5, 30, 1000, 0.0325)]
)
def test_rounds_half_widths_are_the_known_ones(n: int, rounds: int, size: int, half: float) -> None:
    assert half_width(n, -rounds_nats([size] * rounds)) == pytest.approx(half, abs=6e-5)


@given(st.integers(1, 10**6), st.data())
def test_nats_never_fall_below_their_formula(t: int, data: st.DataObject) -> None:
    f = data.draw(st.integers(0, min(t - 1, 2000)))
    plain = math.log(1 / 0.05) + math.log(t * (t + 1)) + math.log((f + 1) * (f + 2)) + 7.0
    exact = plain + math.log(math.comb(t - 1, f))
    assert exact * (1 - 1e-14) <= certified_nats(t, f, 7.0, 0.05) <= exact * (1 + 1e-9) + 1e-6


@pytest.mark.parametrize(
    ("width", "allowed"),
    [
        (published.splitting, {1_000: 1, 10_000: 8, 100_000: 63, 1_000_000: 504}),
        (published.rounding, {1_000: 1, 10_000: 8, 100_000: 87, 1_000_000: 876}),
        (published.bassily, {10_000: 0, 100_000: 2, 1_000_000: 160}),
        (published.rogers, {10_000: 0, 100_000: 16, 1_000_000: 1_532}),
        (published.jung, {10_000: 0, 100_000: 23, 1_000_000: 1_776}),
    ],
)
def test_published_bounds_allow_what_they_are_known_to_allow(width: published.Width, allowed: dict[int, int]) -> None:
    for n, known in allowed.items():
        assert published.capacity(width, n, 0.05, 0.05) == pytest.approx(known, rel=0.01, abs=0.5)


def test_the_capacity_is_the_last_question_that_fits() -> None:
    for n in (900, 12_345, 700_000):
        most = published.capacity(published.splitting, n, 0.04, 0.1)
        assert most == 0 or published.splitting(n, most, 0.1) <= 0.04
        assert published.splitting(n, most + 1, 0.1) > 0.04


@pytest.mark.parametrize(
    "call",
    [
        lambda: certified_nats(0, 0, 0, 0.05),
        lambda: certified_nats(3, 3, 0, 0.05),
        lambda: certified_nats(3, 1, -1.0, 0.05),
        lambda: certified_nats(3, 1, math.nan, 0.05),
        lambda: certified_nats(3, 1, Fraction(1), 1.0),
        lambda: grid_nats(0),
        lambda: ladder_nats(3, 4, 10, 0.05),
        lambda: ladder_nats(3, 2, 1, 0.05),
    ],
)
def test_histories_that_cannot_be_are_refused(call: Callable[[], float]) -> None:
    with pytest.raises(InvalidTask):
        call()
