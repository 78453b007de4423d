"""The optimal unbiased label randomizer over all real outputs, with a proof of how optimal it is.

Labels without prior are left out (they are served by random rounding, at no cost), the rest solved coarse to fine by
the interior point, the answer made exact in integers, and the gap between its variance and a dual lower bound computed
in fractions by the independent checker. The problem is of Badanidiyuru et al., "Optimal unbiased randomizers for
regression with label differential privacy" (2023). The law: the gap reported is the checker's, never the solver's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask, OurBug
from steelyard.privacy import positive

from .check import lower_bound, squared_error
from .conic import available, solve_with_clarabel
from .exact import BITS, read_epsilon, read_inputs, read_prior
from .interior import Outcome, Point, minimise, start
from .intervals import Columns, Floats, Ints, Scaled, every_interval, row_duals, targets
from .levels import Thinning, lift
from .mechanism import Certificate, Column, FiniteMechanism
from .recover import Table, integers, slim, spread

ENGINES = ("auto", "own", "clarabel")
SECOND = 256  # labels up to which Clarabel is given all intervals
COARSEST = 64
NEGLIGIBLE = (1e-12, 1e-11, 1e-10, 1e-9)  # inner labels with less prior are served by random rounding


@dataclass(frozen=True)
class Solution:
    """An unbiased mechanism and how close to the best possible it is proved to be.

    ``value`` is its variance under the prior, ``lower_bound`` what no epsilon-private unbiased mechanism can beat,
    ``gap`` their exact relative distance; ``converged`` says whether the gap is within the tolerance asked for.
    """

    mechanism: FiniteMechanism
    value: float
    lower_bound: float
    gap: float
    converged: bool

    @property
    def outputs(self) -> NDArray[np.float64]:
        """The output labels as floats."""
        return np.array([float(z) for z in self.mechanism.outputs])

    @property
    def probabilities(self) -> NDArray[np.float64]:
        """The table as floats: one row per input, one column per output."""
        return self.mechanism.probabilities()

    def __str__(self) -> str:
        met = "as asked" if self.converged else "MORE than asked"
        return f"variance {self.value:.7g}, certified within {self.gap:.2g} of the optimum ({met})"


def solve_unbiased(
    inputs: Iterable[Any], prior: Iterable[Any], epsilon: Any, tolerance: float = 1e-6, engine: str = "auto"
) -> Solution:
    """The unbiased epsilon-private randomizer of least variance under a prior, over all real outputs.

    *Privacy:* pure epsilon per label, exact in integers, whatever the prior.
    *Accuracy:* bias exactly zero; the variance is within ``gap`` of the best possible, proved, and an answer that
    misses ``tolerance`` says so (``converged`` is False and ``gap`` is the true one).
    ``engine`` is "own", "clarabel" (up to 256 labels; an optional package), or "auto": our own, then Clarabel where that
    misses the tolerance and Clarabel is installed.
    *Cost:* about 0.1 s for 128 labels, about a second at most for 400, one to ten for 1000; one core.

    >>> solution = solve_unbiased(range(5), [6, 1, 1, 1, 1], epsilon=1)
    >>> solution.converged, round(solution.value, 3)
    (True, 15.519)
    """
    import scipy.linalg  # noqa: F401  (its BLAS can be limited only once it is loaded)
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    labels, level = read_inputs(inputs), read_epsilon(epsilon)
    masses = read_prior(prior, len(labels))
    goal = float(positive(tolerance, "tolerance"))
    if engine not in ENGINES:
        raise InvalidTask(f"engine must be {', '.join(ENGINES)}; got {engine!r}.")
    if engine == "clarabel" and len(labels) > SECOND:
        raise InvalidTask(f"Clarabel is given up to {SECOND} labels; got {len(labels)}.")
    best = _Best(labels, masses, level)
    # small matrices: more threads only wait for each other; numbers that overflow on the way are thrown out by the judge
    with threadpool_limits(1, user_api="blas"), np.errstate(all="ignore"):
        _search(best, goal, engine)
    return best.solution(goal)


def _search(best: _Best, goal: float, engine: str) -> None:
    """Run the solver, ever more patiently, until the exact gap is within the goal."""
    tasks = list(_tasks(best.inputs, best.prior, best.epsilon))
    for task in tasks if engine != "clarabel" else []:
        for attempt, outcome in enumerate(_attempts(task.problem, goal)):
            best.bound(task, outcome.point)
            if attempt == 0 and best.lower < task.claim(outcome.point) * (1 - goal):
                continue  # some interval left out earns more than it costs: no table would be proved good enough
            best.mechanism(task, task.table(outcome.point, goal))
            if best.gap() <= goal:
                return
    if engine == "clarabel" or (engine == "auto" and available()):
        _second_opinion(best, tasks, goal)
    if best.gap() > goal:
        best.mechanism(tasks[-1], tasks[-1].two_point())


def _second_opinion(best: _Best, tasks: list[_Task], goal: float) -> None:
    """Clarabel over all intervals, at ever coarser readings of which labels are negligible."""
    for task in tasks:
        if task.problem.size > SECOND or best.gap() <= goal:
            return
        everything = Columns.of(task.problem, *every_interval(task.problem.size))
        point = solve_with_clarabel(task.problem, everything, goal * 1e-6)
        if point is not None:
            best.bound(task, point)
            best.mechanism(task, task.table(point, goal))


@dataclass(frozen=True)
class _Task:
    """The labels as floats from the first one on, the labels kept, and the scaled problem over those."""

    labels: Floats
    kept: Ints
    problem: Scaled

    def claim(self, point: Point) -> float:
        """The variance that the iterate's prices would prove, if no interval left out earned more than it costs."""
        mass, mean = targets(self.problem)
        return float(mass @ point.mass + mean @ point.mean) * (self.problem.half * self.problem.rho) ** 2

    def table(self, point: Point, goal: float) -> Table | None:
        """The iterate as a sparse float mechanism over all labels."""
        problem = self.problem
        found = slim(problem, point, self.claim(point) / (problem.half * problem.rho) ** 2, goal)
        if found is None:
            return None
        output = problem.centre + problem.half * problem.rho * found.b / found.a
        return spread(found.columns.left, found.columns.right, found.a, output, self.kept, self.labels)

    def two_point(self) -> Table:
        """The prior-free mechanism of two outputs (Duchi et al.): what remains when all else fails."""
        size, gaps = len(self.labels), np.diff(self.labels) / (2 * (self.labels[-1] - self.labels[0]))
        inner, none, every = np.arange(1, size), np.zeros(size - 1, np.int64), np.full(size - 1, size)
        middle, reach = self.labels[-1] / 2, self.problem.half * self.problem.rho
        outputs = np.repeat([middle - reach, middle + reach], size - 1)
        return Table(np.append(none, inner), np.append(inner, every), np.append(gaps, gaps), outputs)


class _Best:
    """The best mechanism and the best proof so far, both exact."""

    def __init__(self, inputs: tuple[Fraction, ...], prior: tuple[int, ...], epsilon: Fraction) -> None:
        self.inputs, self.prior, self.epsilon = inputs, prior, epsilon
        self.masses, self.total = [Fraction(p) for p in prior], sum(prior)
        zero = tuple(Fraction(0) for _ in inputs)
        self.columns: tuple[Column, ...] | None = None
        self.value, self.lower, self.u, self.slope = Fraction(0), Fraction(0), zero, zero

    def bound(self, task: _Task, point: Point) -> None:
        """Keep the iterate's prices if they prove more than the best so far."""
        if not np.all(np.isfinite(point.mass) & np.isfinite(point.mean)):
            return
        u, slope = (np.zeros(len(self.inputs)) for _ in range(2))
        u[task.kept], slope[task.kept] = row_duals(task.problem, point.mass, point.mean)
        size = float(np.abs(u).max()) or 1.0
        exact_u = tuple(_on_grid(x, size) * self.total for x in u)
        exact_slope = tuple(_on_grid(x, size / task.problem.half) * self.total for x in slope)
        lower = lower_bound(self.inputs, self.masses, self.epsilon, exact_u, exact_slope) / self.total
        if lower > self.lower:
            self.lower, self.u, self.slope = lower, exact_u, exact_slope

    def mechanism(self, task: _Task, table: Table | None) -> None:
        """Keep the exact form of a table if it is better than the best so far."""
        place = Fraction(round(task.problem.centre / task.problem.half * 2**20), 2**21)
        middle = place * (self.inputs[-1] - self.inputs[0])
        columns = None if table is None else integers(table, self.inputs, self.epsilon, middle)
        if columns is None:
            return
        runs = [(c.output, c.runs(len(self.inputs))) for c in columns]
        value = squared_error(runs, self.inputs, self.masses) / (self.total << BITS)
        if self.columns is None or value < self.value:
            self.columns, self.value = columns, value

    def gap(self) -> float:
        """The exact relative gap, rounded up to a float; infinite while there is no mechanism."""
        return math.inf if self.columns is None else math.nextafter(float(1 - self.lower / self.value), math.inf)

    def solution(self, goal: float) -> Solution:
        """The answer with its certificate and its true gap."""
        if self.columns is None:
            raise OurBug("no exact mechanism was found; please report the labels, the prior and epsilon.")
        claim = Fraction(math.ceil((1 - self.lower / self.value) * 10**15), 10**15)
        certificate = Certificate(self.prior, self.u, self.slope, claim)
        mechanism = FiniteMechanism(self.inputs, self.epsilon, self.columns, True, certificate)
        return Solution(mechanism, float(self.value), float(self.lower), float(claim), float(claim) <= goal)


def _on_grid(value: float, size: float) -> Fraction:
    """A float on a dyadic grid 2^-100 below ``size``: small denominators keep the exact check fast."""
    grid = 100 - math.frexp(size)[1]
    return Fraction(round(Fraction(value) * Fraction(2) ** grid)) / Fraction(2) ** grid


def _tasks(inputs: tuple[Fraction, ...], prior: tuple[int, ...], epsilon: Fraction) -> Iterator[_Task]:
    """The problem without the inner labels whose prior is negligible, by ever coarser readings of the word."""
    # floats of the distance from the first label: close labels far from zero keep their distance
    labels = np.array([float(y - inputs[0]) for y in inputs])
    p = np.array([float(Fraction(mass, sum(prior))) for mass in prior])
    before = -1
    for negligible in NEGLIGIBLE:
        worth = p > negligible
        worth[[0, -1]] = True
        kept = np.flatnonzero(worth)
        if len(kept) != before:
            yield _Task(labels, kept, Scaled.of(labels[kept], p[kept], float(epsilon)))
        before = len(kept)


def _attempts(problem: Scaled, goal: float) -> Iterator[Outcome]:
    """Ever more patient runs: coarse to fine, the same continued, then cold on all intervals without pruning."""
    outcome = _refine(problem, goal / 2.5)
    yield outcome
    for factor in (1e-2, 1e-4, 1e-6):
        outcome = minimise(problem, outcome.point, goal * factor)
        yield outcome
    everything = Columns.of(problem, *every_interval(problem.size))
    for price in (-0.5, -1e-3, -1e-6):
        yield minimise(problem, start(problem, everything, price), goal / 20, sparse=False)


def _refine(problem: Scaled, goal: float, feasible: float = 1e-7) -> Outcome:
    """Solve on every other label first, roughly, and start from there."""
    if problem.size <= COARSEST:
        columns = Columns.of(problem, *every_interval(problem.size))
        return minimise(problem, start(problem, columns), goal, feasible)
    thinning = Thinning.of(problem)
    coarse = thinning.coarse()
    rough = _refine(coarse, max(goal, 1e-3), max(feasible, 1e-4))
    return minimise(problem, lift(thinning, coarse, rough.point), goal, feasible)
