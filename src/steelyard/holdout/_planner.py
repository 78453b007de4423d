"""Which holdout fits: how many questions n rows can answer within a tolerance, by every method, and the best of them.

Nothing here reads data: a plan is arithmetic on n, the number of questions, the tolerance (tau) and the confidence (1 -
beta). The best method is the one with the smallest certified half-width among the modes of a holdout that are valid for
what is known about the questions: any analyst at all, or one whose guesses are good. Published bounds stand beside.
Law: a plan never promises more for fewer rows, more questions, a smaller tolerance or a higher confidence; what it
recommends opens, with the options it names, and answers so many questions of 0/1 loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask
from steelyard.holdout import _published as published
from steelyard.holdout._intervals import half_width
from steelyard.holdout._nats import certified_nats, grid_nats, ladder_nats, log_inverse, question_nats, usual_steps
from steelyard.holdout._published import Width, capacity
from steelyard.holdout._theorems import rows_needed
from steelyard.holdout._transfer import down, normal_design, planned_capacity, planned_width, up
from steelyard.lazy import lazy
from steelyard.privacy import Number, decimal_text, exact, positive, probability

if TYPE_CHECKING:
    from steelyard.charts import Chart

MOST = 10**9
DELTA = Fraction(1, 10**6)
_FINEST = 7000  # no tolerance below 1e-7 is looked at
_NONE = "none"
_ROUNDED = 1.003  # prices are whole micros, and the nats of a tolerance are searched to a thousandth
_BOUNDED = 7  # its place among the methods
Method = tuple[str, Width, str, str]
ADVERSARIAL, GUESSES, LEADERBOARD, ROUNDS = "any questions", "good guesses", "a leaderboard", "rounds of candidates"


@dataclass(frozen=True)
class Row:
    """What one method certifies at these numbers; ``ours`` or ``published`` says whose argument it is."""

    name: str
    questions: int
    half_width: float
    valid_for: str
    origin: str

    @property
    def best_at(self) -> str:
        """The mode of a holdout that works like this; empty where it is here only for comparison."""
        return _MODES.get(self.name, "")


@dataclass(frozen=True, repr=False)
class HoldoutPlan:
    """The best method for a holdout, what it certifies, and what the others would; ``str()`` is the table.

    ``possible`` says whether ``questions`` answers are certified within ``tolerance``; if not, ``half_width`` is the
    tolerance that could be.
    """

    n: int
    questions: int
    tolerance: float
    confidence: float
    guess_error: float | None
    rows: tuple[Row, ...]
    delta: Fraction = DELTA

    @property
    def best(self) -> Row:
        """The mode with the smallest certified half-width that is valid for these questions."""
        return min(self._candidates, key=lambda row: row.half_width)

    @property
    def options(self) -> dict[str, Any]:
        """What the best mode is opened with: ``Holdout(labels, tolerance=..., confidence=..., **plan.options)``.

        Where labels are hidden, declare ``classes=`` as well.
        """
        told = {"mode": self.best.best_at, "questions": self.questions}
        noise = _NOISES.get(self.best.name)
        return told if noise is None else {**told, "noise": noise, "delta": decimal_text(self.delta, 30)}

    @property
    def half_width(self) -> float:
        """What every answer is certified within, all of them at once, by the best method."""
        return self.best.half_width

    @property
    def possible(self) -> bool:
        """Whether so many questions fit into the tolerance."""
        return self.half_width <= self.tolerance

    @property
    def allowed(self) -> int:
        """The most questions any valid mode certifies within the tolerance (at most a thousand million)."""
        return max(row.questions for row in self._candidates)

    @lazy
    def misses(self) -> int:
        """How many wrong guesses certified checks can afford among these questions; -1 if not even a right one."""
        return published.misses(self.n, self.questions, self.tolerance, _beta(self.confidence))

    @property
    def _candidates(self) -> list[Row]:
        wanted = (ADVERSARIAL,) if self.guess_error is None else (ADVERSARIAL, GUESSES)
        return [row for row in self.rows if row.valid_for in wanted and row.best_at]

    def __str__(self) -> str:
        best = self.best
        ask = f"{self.questions:,} questions on {self.n:,} rows, {self.confidence:.12g} confident"
        if self.possible:
            options = "".join(f", {key}={value!r}" for key, value in self.options.items())
            head = (
                f"{ask}: every answer within {_width(best.half_width)} by {best.name} (asked: ±{self.tolerance:g}).\n"
                f"Open it with tolerance={self.tolerance:g}, confidence={self.confidence:.12g}{options}."
            )
        else:
            offered = _width(best.half_width)
            instead = "Nothing can" if offered == _NONE else f"{offered} can, by {best.name}"
            head = (
                f"{ask}: ±{self.tolerance:g} cannot be certified. {instead}; "
                f"within ±{self.tolerance:g} at most {self.allowed:,} questions."
            )
        lines = [
            f"  {row.name:<34} {_short(row.questions):>14}   {_width(row.half_width):>7}   {row.valid_for} ({row.origin})"
            for row in self.rows
        ]
        title = f"  {'method':<34} {'questions':>14}   {'width':>7}   valid for"
        return "\n".join([head, title, *lines])

    def __repr__(self) -> str:
        told = "possible" if self.possible else "not possible"
        return f"HoldoutPlan({self.questions:,} questions on {self.n:,} rows within ±{self.tolerance:g}: {told}; best {self.best.name})"

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        head = str(self).partition("\n  ")[0]
        rows = [
            (row.name, _short(row.questions), _width(row.half_width), f"{row.valid_for} ({row.origin})")
            for row in self.rows
        ]
        return fragment(
            "Plan of a holdout", head, Tabular(("method", "questions", "width", "valid for"), rows), self.chart()
        )

    def chart(self) -> Chart:
        """Bars: how many questions each method allows within the tolerance, on a scale of powers of ten."""
        from steelyard.charts import bars

        shown = [row for row in self.rows if row.questions > 0]
        return bars(
            [f"{row.name} ({_short(row.questions)})" for row in shown],
            [math.log10(row.questions) + 0.05 for row in shown],
            title=f"Questions within ±{self.tolerance:g} on {self.n:,} rows",
            subtitle=f"all answers at once, with confidence {self.confidence:.12g}",
            caption="; ".join(f"{row.name}: {row.valid_for}" for row in shown if row.valid_for != ADVERSARIAL),
            x_title="questions, as a power of ten",
        )


def plan(
    n: int,
    questions: int,
    tolerance: float,
    confidence: float = 0.95,
    guess_error: float | None = None,
    delta: Number = DELTA,
) -> HoldoutPlan:
    """The best way to answer so many questions on a holdout of n rows, and what every way would allow.

    ``tolerance`` is how far an answer may be from the population, ``confidence`` the chance that all answers are that
    close. ``guess_error``: how far the guesses that come with the questions are from the holdout's scores, at most;
    left out, certified checks are shown for exact guesses and not chosen. ``delta``: that of the mode "private".
    *Privacy:* no row is read. *Cost:* about 50 milliseconds.

    >>> print(plan(100_000, 200, 0.05).best.name)
    bounded noise
    >>> plan(10_000, 1_000_000, 0.05, guess_error=0.019).possible
    True
    """
    _check(n, questions, tolerance, confidence, guess_error)
    beta = _beta(confidence)
    chance = positive(probability(delta, "delta"), "delta")
    rows = [_row(*method, n, questions, tolerance, beta) for method in _methods(float(chance), guess_error or 0.0)]
    rows.insert(_BOUNDED, _bounded(n, questions, tolerance, beta, float(chance / 2)))
    return HoldoutPlan(n, questions, tolerance, confidence, guess_error, tuple(rows), chance)


def _methods(delta: float, guess_error: float) -> list[Method]:
    """Every method but bounded noise: its name, its half-width, what it is valid for and whose argument it is."""

    def normal(n: int, questions: int, beta: float) -> float:
        return normal_design(n, questions, beta, delta)[1] * _ROUNDED

    def guessed(n: int, questions: int, beta: float) -> float:
        half = half_width(n, -certified_nats(questions, 0, 0, beta, horizon=questions) * _ROUNDED)
        return min(1.0, max(guess_error + half, half / 0.95))  # a twentieth of the tolerance is for rounded answers

    def confirmed(n: int, questions: int, beta: float) -> float:
        # Guesses may be off by half of the tolerance; an eighth is how far the theorem lets the holdout be off.
        return min(1.0, max(guess_error * 8 / 3, _thresholdout(n, 1, questions, beta)))

    return [
        ("rows of its own for each question", _steady(published.splitting), ADVERSARIAL, "published"),
        ("rounded answers", _steady(published.rounding), ADVERSARIAL, "published"),
        ("Bassily et al. 2016, normal", _steady(published.bassily), ADVERSARIAL, "published"),
        ("Rogers et al. 2020, normal", _steady(published.rogers), ADVERSARIAL, "published"),
        ("Jung et al. 2020, normal", _steady(published.jung), ADVERSARIAL, "published"),
        ("Thresholdout, all paid", _steady(_contradicted), ADVERSARIAL, "published"),
        ("normal noise", _steady(normal), ADVERSARIAL, "ours"),
        ("certified checks, all paid", _steady(_paid), ADVERSARIAL, "ours"),
        ("certified checks", guessed, GUESSES, "ours"),
        ("Thresholdout", confirmed, GUESSES, "published"),
        ("ladder, ten records", _leaderboard, LEADERBOARD, "published"),
        ("rounds of a hundred", _winners, ROUNDS, "published"),
    ]


def _steady(width: Width) -> Width:
    """The width at numbers of three digits on the safe side, so that a search's last digits cannot break the order."""

    def at(n: int, questions: int, beta: float) -> float:
        return min(1.0, width(down(n), up(questions), beta))

    return at


def _row(
    name: str, width: Width, valid_for: str, origin: str, n: int, questions: int, tolerance: float, beta: float
) -> Row:
    digits = up if valid_for == ADVERSARIAL else int
    allowed = capacity(width, n, tolerance, beta, most=MOST, up=digits)
    return Row(name, allowed, width(n, questions, beta), valid_for, origin)


def _bounded(n: int, questions: int, tolerance: float, beta: float, failure: float) -> Row:
    width = planned_width(down(n), up(questions), beta, failure)
    allowed = planned_capacity(down(n), tolerance, beta, failure, up(questions))
    return Row("bounded noise", allowed, width, ADVERSARIAL, "ours")


def _paid(n: int, questions: int, beta: float) -> float:
    """Certified checks, every guess wrong: the least tolerance that has the nats."""
    return _least(lambda tolerance: _pays(n, questions, beta, tolerance))


def _contradicted(n: int, questions: int, beta: float) -> float:
    """Thresholdout, every guess wrong."""
    return _thresholdout(n, questions, questions, beta)


def _thresholdout(n: int, budget: int, questions: int, beta: float) -> float:
    """The least tolerance for which Theorem 3.3 asks for no more than n rows."""
    return _least(lambda tolerance: rows_needed(budget, questions, tolerance, beta) <= n)


def _least(fits: Callable[[float], bool]) -> float:
    """The least tolerance that fits, of a thousand to a factor ten; 1 where none does."""
    return 10 ** (-published.largest(lambda place: fits(10 ** (-place / 1000)), _FINEST) / 1000)


def _pays(n: int, questions: int, beta: float, tolerance: float) -> bool:
    """Whether the last of so many paid answers, rounded, is still within the tolerance by Hoeffding's bound."""
    steps = usual_steps(n, tolerance)
    nats = question_nats(questions, questions - 1, steps, grid_nats(steps), beta, questions)
    return 0.5 / steps + half_width(n, -nats * _ROUNDED) <= tolerance


def _leaderboard(n: int, questions: int, beta: float) -> float:
    """Ten records on a grid of 0.01 from an even start upwards; half a grid step is added."""
    return min(1.0, 0.005 + half_width(n, -ladder_nats(questions, min(10, questions), 50, beta)))


def _winners(n: int, questions: int, beta: float) -> float:
    """Rounds of a hundred candidates, of which only the winner is named; the last winner is certified."""
    rounds = -(-questions // 100)
    return min(1.0, half_width(n, -log_inverse(beta) - rounds * math.log(min(questions, 100))))


def _beta(confidence: float) -> float:
    """1 - confidence, rounded down to three digits so that searches see few different numbers."""
    beta = Fraction(1) - exact(confidence, "confidence")
    scale = 10 ** (2 - math.floor(math.log10(beta)))
    return float(Fraction(math.floor(beta * scale), scale))


def _check(n: int, questions: int, tolerance: float, confidence: float, guess_error: float | None) -> None:
    for name, count in (("n", n), ("questions", questions)):
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= 10**12:
            raise InvalidTask(f"{name} must be a whole number between 1 and 10^12; got {count!r}.")
    for name, share in (("tolerance", tolerance), ("confidence", confidence)):
        if isinstance(share, bool) or not 0 < share < 1:
            raise InvalidTask(f"{name} must lie between 0 and 1, both excluded; got {share!r}.")
    if guess_error is not None and not 0 <= guess_error < 1:
        raise InvalidTask(f"guess_error must be at least 0 and below 1; got {guess_error!r}.")
    if 1 - confidence < 1e-12:
        raise InvalidTask(f"confidence must leave at least 1e-12 for error; got {confidence!r}.")


def _short(count: int) -> str:
    return f"{MOST:,}+" if count >= MOST else f"{count:,}"


def _width(half: float) -> str:
    """A half-width as text, rounded up: what is printed opens."""
    shown = Decimal(half).quantize(Decimal("0.0001"), ROUND_CEILING)
    return f"±{shown}" if shown < 1 else _NONE


_MODES = {
    "bounded noise": "private",
    "normal noise": "private",
    "certified checks, all paid": "certified",
    "certified checks": "certified",
    "ladder, ten records": "ladder",
    "rounds of a hundred": "rounds",
}
_NOISES = {"bounded noise": "bounded", "normal noise": "gaussian"}
