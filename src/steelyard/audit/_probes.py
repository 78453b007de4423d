"""How each shipped mechanism is put to the test: neighbouring inputs, batch samplers, and what is enumerated.

The inputs are the worst ones of each proof: a vector moved by its whole sensitivity, questions that rise before they
fall, costs that move against each other. Additive mechanisms noise each entry independently, so one call on a long
vector is a batch of short releases; the others are run one by one, with fewer samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from steelyard import mechanisms as shipped
from steelyard.audit._exact import enumerated, matrix_check
from steelyard.audit._sampling import ALPHA, Sampler, certify
from steelyard.audit._steering import SteeredNoise, declared_scale
from steelyard.audit._verdict import Check, Claim, Epsilon, claim_of
from steelyard.errors import InvalidTask
from steelyard.mechanisms import Gaussian, KeyThreshold, Laplace, Objective, PureObjective
from steelyard.mechanisms._objective import GRID
from steelyard.mechanisms._observe import observing
from steelyard.noise import ExactNoise, Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ONE_BY_ONE = 25  # a release run by itself costs about this many batched ones


@dataclass(frozen=True)
class Effort:
    """How much work an audit may do; never what it concludes."""

    samples: int = 400_000
    alpha: float = ALPHA
    runs: int = 4_000

    @property
    def singles(self) -> int:
        """Samples of mechanisms that must be run one by one."""
        return max(2_000, self.samples // _ONE_BY_ONE)


Probe = Callable[[Any, Effort, Noise], Iterator[Check]]


def probe(mechanism: object, effort: Effort) -> Iterator[Check]:
    """Every check there is for one mechanism."""
    yield from _checks_of(mechanism)(mechanism, effort, ExactNoise())


def _checks_of(mechanism: object) -> Probe:
    """The checks for a mechanism: by its class, or, for those of other rooms, by what they offer or promise."""
    if callable(getattr(mechanism, "members", None)):
        return _classes
    if callable(getattr(mechanism, "noisy", None)):
        return _labels
    if getattr(getattr(mechanism, "event", None), "name", "") == "thresholdout":
        return _thresholdout
    for kind, checks in _PROBES:
        if isinstance(mechanism, kind):
            return checks
    known = ", ".join(kind.__name__ for kind, _ in _PROBES)
    raise InvalidTask(f"{type(mechanism).__name__} is no task and no mechanism the audit knows ({known}).")


def _sampled(name: str, sides: Sequence[Sampler], claim: Claim, samples: int, effort: Effort) -> Check:
    left, right = sides
    return certify(left, right, claim, samples=max(1000, samples), alpha=effort.alpha).check(f"sampling, {name}")


def _epsilon(mechanism: Any) -> Epsilon:
    """The claim of a mechanism that can be enumerated: those are pure."""
    claim = claim_of(mechanism.event)
    assert isinstance(claim, Epsilon)
    return claim


def _additive(mechanism: Laplace | Gaussian, effort: Effort, noise: Noise) -> Iterator[Check]:
    yield _width(mechanism)
    claim = claim_of(mechanism.event)
    for name, move in _moves(mechanism):
        sides = [_vectors(mechanism, values, noise) for values in ([0] * len(move), move)]
        yield _sampled(name, sides, claim, effort.samples // len(move), effort)


def _moves(mechanism: Laplace | Gaussian) -> Iterator[tuple[str, list[int]]]:
    """Vectors at exactly the declared distance from zero."""
    if isinstance(mechanism, Gaussian):
        root = math.isqrt(mechanism.square)
        if root * root == mechanism.square:
            yield "one entry moved", [root]
        else:
            yield "entries moved by one", [1] * min(mechanism.square, 16)
        return
    size = mechanism.sensitivity
    yield "one entry moved", [size]
    if size > 1:
        yield "two entries moved apart", [size - size // 2, -(size // 2)]


def _vectors(mechanism: Any, values: Sequence[int], noise: Noise) -> Sampler:
    """Releases that noise each entry by itself, all in one call."""

    def draw(size: int) -> NDArray[Any]:
        import numpy as np

        batch = np.array(mechanism.release(list(values) * size, noise))
        return batch if len(values) == 1 else batch.reshape(size, len(values))

    return draw


def _width(mechanism: Laplace | Gaussian) -> Check:
    """Whether the noise that is asked for is the noise that is charged for."""
    with observing() as window:
        noise = SteeredNoise(window, "width")
        mechanism.release([0, 1, 2], noise)
    wanted, law = declared_scale(mechanism.event), mechanism.event.name
    seen = [(draw.law, draw.scale) for draw in noise.draws]
    fits = len(seen) == 1 and seen[0][0] == law and wanted is not None and seen[0][1] >= wanted
    asked = ", ".join(f"{name} {float(scale):.6g}" for name, scale in seen) or "nothing"
    charged = "unknown" if wanted is None else f"{float(wanted):.6g}"
    return Check("noise width", fits and len(window) == 1, f"charged for {law} {charged}; draws {asked}")


def _singly(run: Callable[[], Any]) -> Sampler:
    """Runs one by one: a number each, or a row."""

    def batch(size: int) -> NDArray[Any]:
        import numpy as np

        return np.array([run() for _ in range(size)])

    return batch


def _staircase(mechanism: shipped.Staircase, effort: Effort, noise: Noise) -> Iterator[Check]:
    claim = claim_of(mechanism.event)
    for name, move in (("moved by the sensitivity", mechanism.sensitivity), ("moved by one", 1)):
        sides = [_singly(partial(_first, mechanism, value, noise)) for value in (0, move)]
        yield _sampled(name, sides, claim, effort.singles, effort)


def _first(mechanism: Any, value: int, noise: Noise) -> int:
    return int(mechanism.release([value], noise)[0])


def _histogram(mechanism: shipped.NoisyCounts, effort: Effort, noise: Noise) -> Iterator[Check]:
    yield from _additive(mechanism.mechanism, effort, noise)


def _finite(mechanism: shipped.Finite, effort: Effort, noise: Noise) -> Iterator[Check]:
    claim, last = _epsilon(mechanism), len(mechanism.weights) - 1
    yield matrix_check(mechanism.weights, claim)
    bracket = enumerated(partial(_first, mechanism), range(min(last + 1, 8)), runs=effort.runs)
    yield bracket.check("enumeration", claim)
    samplers = [_vectors(mechanism, [index], noise) for index in (0, last)]
    yield _sampled("first and last input", samplers, claim, effort.samples // 4, effort)


def _exponential(mechanism: shipped.Exponential, effort: Effort, noise: Noise) -> Iterator[Check]:
    claim, step = _epsilon(mechanism), mechanism.sensitivity
    left, right = ((0, 0, 0), (0, step, step)) if mechanism.monotone else ((step, 0, 0), (0, step, step))
    if mechanism.weight.denominator * step <= 64:
        bracket = enumerated(mechanism.choose, [left, right], runs=effort.runs)
        yield bracket.check("enumeration, three candidates", claim)
    wide = [(side[0], *[side[1]] * 9) for side in (left, right)]
    samplers = [_singly(partial(mechanism.choose, costs, noise)) for costs in wide]
    yield _sampled("ten candidates", samplers, claim, effort.singles, effort)


def _random_stop(mechanism: shipped.RandomStop, effort: Effort, noise: Noise) -> Iterator[Check]:
    """The best of so many choices, where the best is likelier on one side."""
    step = shipped.Exponential(mechanism.epsilon, 1)
    samplers = [_singly(partial(_best, mechanism, step, costs, noise)) for costs in ((0, 1, 1), (1, 0, 0))]
    yield _sampled("the best of three", samplers, claim_of(mechanism.event), effort.singles // 4, effort)


def _best(mechanism: shipped.RandomStop, step: shipped.Exponential, costs: Sequence[int], noise: Noise) -> int:
    return max(step.choose(costs, noise) for _ in range(mechanism.runs(noise)))


def _above_threshold(mechanism: shipped.AboveThreshold, effort: Effort, noise: Noise) -> Iterator[Check]:
    claim, step = _epsilon(mechanism), mechanism.sensitivity
    if max(mechanism.threshold_scale, mechanism.question_scale) <= 1:
        bracket = enumerated(partial(_answers, mechanism), [(0, step), (step, 0)], runs=effort.runs, rest=1e-6)
        yield bracket.check("enumeration, two questions", claim)
    rise, fall = [0] * 4, [step] * 4
    tail = [0] * mechanism.stops, [0 if mechanism.monotone else -step] * mechanism.stops
    sides = (*rise, *tail[0]), (*fall, *tail[1])
    samplers = [_rows(partial(_answers, mechanism, values, noise), len(values)) for values in sides]
    yield _sampled("rise before fall", samplers, claim, effort.singles, effort)


def _answers(mechanism: shipped.AboveThreshold, values: Sequence[int], noise: Noise) -> tuple[bool, ...]:
    questions = mechanism.start(0, noise)
    given: list[bool] = []
    for value in values:
        if questions.left == 0:
            break
        given.append(questions.above(value))
    return tuple(given)


def _thresholdout(mechanism: Any, effort: Effort, noise: Noise) -> Iterator[Check]:
    """Guesses that a moved row contradicts before it confirms them; free answers are marked by a negative number."""
    claim, step, middle = claim_of(mechanism.event), mechanism.steps, mechanism.n * mechanism.steps // 2
    rise, fall = [middle] * 3, [middle + step] * 3
    tail = [middle] * mechanism.budget, [middle - step] * mechanism.budget
    sides = (*rise, *tail[0]), (*fall, *tail[1])
    samplers = [_rows(partial(_shown_answers, mechanism, totals, noise), len(totals)) for totals in sides]
    yield _sampled("rise before fall", samplers, claim, effort.singles, effort)


def _shown_answers(mechanism: Any, totals: Sequence[int], noise: Noise) -> list[int]:
    running, guess = mechanism.start(noise), mechanism.n * mechanism.steps // 2 - mechanism.level
    shown: list[int] = []
    for total in totals:
        if running.left == 0:
            break
        value, paid = running.answer(total, guess)
        shown.append(value if paid else -2)
    return shown


def _rows(run: Callable[[], Sequence[int]], width: int) -> Sampler:
    """Runs of at most ``width`` answers as rows of one length, the end marked."""

    def row() -> list[int]:
        answers = [int(answer) for answer in run()]
        return answers + [-1] * (width - len(answers))

    return _singly(row)


def _laplace_path(mechanism: shipped.LaplacePath, effort: Effort, noise: Noise) -> Iterator[Check]:
    claim = claim_of(mechanism.event)
    sides = [
        _rows(partial(_path, mechanism, value, noise), len(mechanism.scales)) for value in (0, mechanism.sensitivity)
    ]
    yield _sampled("the whole path", sides, claim, effort.singles, effort)


def _path(mechanism: shipped.LaplacePath, value: int, noise: Noise) -> list[int]:
    released = mechanism.release([value], noise)
    shown = list(released)
    for step in range(1, len(mechanism.scales)):
        released = mechanism.refine([value], released, step, noise)
        shown += released
    return shown


def _key_threshold(mechanism: KeyThreshold, effort: Effort, noise: Noise) -> Iterator[Check]:
    claim, most = claim_of(mechanism.event), mechanism.max_keys
    yield _width(mechanism.counts)
    for name, before in (
        ("keys of one unit appear", mechanism.least - 1),
        ("keys gain a unit", mechanism.threshold - 1),
    ):
        counts = [dict.fromkeys(range(most), units) for units in (before, before + 1)]
        sides = [_singly(partial(_shown, mechanism, units, noise)) for units in counts]
        yield _sampled(name, sides, claim, effort.singles, effort)


def _shown(mechanism: KeyThreshold, units: dict[int, int], noise: Noise) -> int:
    """The sum of what is shown, and how many keys are, as one number."""
    shown = mechanism.release(units, noise)
    return sum(shown.values()) * (mechanism.max_keys + 1) + len(shown)


def _bounded_noise(mechanism: shipped.BoundedNoise, effort: Effort, noise: Noise) -> Iterator[Check]:
    claim, width = claim_of(mechanism.event), mechanism.questions
    totals = [0] * width, [mechanism.sensitivity] * width
    sides = [_rows(partial(mechanism.release, values, noise), width) for values in totals]
    yield _sampled("every question moved", sides, claim, effort.singles, effort)


def _labels(randomizer: Any, effort: Effort, noise: Noise) -> Iterator[Check]:
    """A label randomizer put to use: its table if it has one, and the ends of its range against each other."""
    claim = _epsilon(randomizer)
    if hasattr(randomizer, "table"):
        yield matrix_check(randomizer.table.weights(), claim)
    low, high = (float(end) for end in (randomizer.nodes.lower, randomizer.nodes.upper))
    for name, other in (("lower and upper", high), ("lower and a label between nodes", low + (high - low) * 0.37)):
        sides = [partial(_drawn, randomizer, label, noise) for label in (low, other)]
        yield _sampled(name, sides, claim, effort.samples // 4, effort)


def _classes(sampler: Any, effort: Effort, noise: Noise) -> Iterator[Check]:
    """A sampler of sets of classes: its whole table, and the first class against the last."""
    claim = _epsilon(sampler)
    yield matrix_check(sampler.weights(), claim)
    sides = [partial(_drawn_sets, sampler, label, noise) for label in (0, sampler.size - 1)]
    yield _sampled("first and last class", sides, claim, effort.samples // 4, effort)


def _drawn_sets(sampler: Any, label: int, noise: Noise, size: int) -> NDArray[Any]:
    import numpy as np

    members = sampler.members(sampler.draw(np.full(size, label), noise))
    drawn: NDArray[Any] = members @ (1 << np.arange(sampler.size))
    return drawn


def _drawn(randomizer: Any, label: float, noise: Noise, size: int) -> NDArray[Any]:
    import numpy as np

    drawn: NDArray[Any] = randomizer.draw(np.full(size, label), noise)
    return drawn


def _objective(mechanism: Objective | PureObjective, effort: Effort, noise: Noise) -> Iterator[Check]:
    """Rows of one feature, all ones: the released coefficient with one row more or less."""
    claim = claim_of(mechanism.event)
    for rows in (0, 3):
        sides = [partial(_perturbed, mechanism, count, noise) for count in (rows, rows + 1)]
        yield _sampled(f"{rows} rows and one more", sides, claim, effort.singles, effort)


def _perturbed(mechanism: Objective | PureObjective, rows: int, noise: Noise, size: int) -> NDArray[Any]:
    import numpy as np

    linear = np.array([float(mechanism.perturbation(noise)[0]) for _ in range(size)]) / 2.0**GRID
    ridge = float(mechanism.ridge)
    low, high = (-linear - 1) / ridge, (rows - linear + 1) / ridge
    for _ in range(80):
        middle = (low + high) / 2
        rising = ridge * middle + linear - rows / (1 + np.exp(np.minimum(middle, 700))) > 0
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    steps = np.rint(low / float(mechanism.step)).tolist()
    return np.array([mechanism.release([int(step)], noise)[0] for step in steps])


_PROBES: tuple[tuple[type, Probe], ...] = (
    (Laplace, _additive),
    (Gaussian, _additive),
    (shipped.Staircase, _staircase),
    (shipped.NoisyCounts, _histogram),
    (shipped.Finite, _finite),
    (shipped.Exponential, _exponential),
    (shipped.RandomStop, _random_stop),
    (shipped.AboveThreshold, _above_threshold),
    (KeyThreshold, _key_threshold),
    (shipped.BoundedNoise, _bounded_noise),
    (shipped.LaplacePath, _laplace_path),
    (Objective, _objective),
    (PureObjective, _objective),
)
