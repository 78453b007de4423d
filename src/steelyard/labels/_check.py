"""The small judge of a label mechanism: it reads the saved document, trusts nothing, and tolerates nothing.

Only integers and fractions, only the standard library and the bounded reader of numbers (``privacy.written``). Privacy,
row sums and bias are equalities between integers; the lower bound holds for every epsilon-private unbiased mechanism
over all real outputs (or all outputs of a range, for losses that need one), whatever the certificate says, because it is
computed here (_bounds.py) from the certificate's numbers (docs/proofs/labels_solver.md, labels_noise_loss.md). Added noise
is symmetric whatever its numbers are, so what can be wrong is the grid, the width of the range in its steps (too narrow
breaks privacy, too wide moves every label) and the noise's own width (docs/proofs/label_noise.md).
The law: a document passes only if every claim in it is true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

from steelyard.labels._bounds import LATTICE, Knots, Weighted, common, exponential, lower_bound, squared_error
from steelyard.privacy import written

TABLE_FORMAT = "steelyard label mechanism 1"
NOISE_FORMAT = "steelyard label noise 1"
MOST_BITS = 64  # of a row's sum: one random word draws an output
MOST_EPSILON = 64  # beyond any mechanism that is made; e^epsilon is computed from it
MOST_COLUMNS = 1 << 16
_FINEST = 1 << 19  # bits of the outputs' one: each may have a denominator of its own
_TINY = Fraction(1, 1 << 1000)  # nearer to zero a device's arithmetic on floats is not exact
GRID_BITS = 24  # bits between two nodes, where noise is not on the nodes themselves
WIDEST_NOISE = 1 << 48  # the noise's scale in steps, from which on it does not fit 64 bits
_NOISES = {"laplace": ("scale",), "discrete_laplace": ("scale",), "staircase": ("first", "fall")}
UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, IndexError, OverflowError)
_WEIGHT = re.compile(r"[1-9][0-9]{0,19}")  # read alike by int and by a browser's BigInt
_FIELDS = ("format", "epsilon", "bits", "unbiased", "inputs", "columns", "certificate")


@dataclass(frozen=True)
class CheckReport:
    """What was found: ``findings`` is empty if and only if every claim of the document that can be judged holds.

    ``rounding`` is the most that an output moves when it becomes a float; ``unproved`` says what no document can show.
    Where a gap is proved, ``loss`` says of which loss between noisy and true label, and ``ends`` among which outputs (None:
    all reals).
    """

    findings: tuple[str, ...]
    bias: Fraction | None = None
    value: Fraction | None = None
    lower_bound: Fraction | None = None
    rounding: Fraction | None = None
    unproved: tuple[str, ...] = ()
    loss: str | None = None
    ends: tuple[Fraction, Fraction] | None = None

    @property
    def passed(self) -> bool:
        """Whether every claim holds."""
        return not self.findings

    @property
    def gap(self) -> Fraction | None:
        """The relative distance from the best possible, as proved here."""
        if self.value is None or self.lower_bound is None:
            return None
        return (self.value - self.lower_bound) / self.value if self.value else Fraction(0)


def check(document: Mapping[str, Any]) -> CheckReport:
    """Re-prove every claim of a saved mechanism, a table of weights or noise on a grid.

    Privacy, row sums, bias and, with a certificate, the optimality gap; of noise its grid, sensitivity and price.
    """
    try:
        return _check_noise(document) if document["format"] == NOISE_FORMAT else _check_table(document)
    except UNREADABLE as problem:
        return CheckReport((unreadable(problem),))


def unreadable(problem: Exception) -> str:
    """The finding that a document is not one."""
    return f"the document cannot be read: {type(problem).__name__}: {str(problem)[:200]}"


def only(document: Mapping[str, Any], *fields: str) -> None:
    """Refuse a document that lacks a field, or says something more: nobody has proved that."""
    if set(document) != set(fields):
        strange = sorted(str(name)[:40] for name in set(document) ^ set(fields))
        raise ValueError(f"the field {strange[0]!r} is missing or not known")


def listed(value: Any, name: str) -> list[Any]:
    """A JSON list: a text or a mapping goes through a loop too, and says something else."""
    if type(value) is not list:
        raise ValueError(f"{name} must be a list")
    return value


def whole(value: Any, low: int, high: int, name: str) -> int:
    """A JSON integer between two bounds."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}")
    return value


def rising(labels: Any) -> list[Fraction]:
    """The labels of a mechanism: at least two, each larger than the one before, on one lattice."""
    inputs = [written(y, "a label") for y in listed(labels, "the labels")]
    if len(inputs) < 2 or any(x >= y for x, y in pairwise(inputs)):
        raise ValueError("a mechanism has at least two labels, rising")
    common(inputs, LATTICE, "the labels")
    return inputs


def read_epsilon(value: Any) -> Fraction:
    """An epsilon that a mechanism may claim."""
    epsilon = written(value, "epsilon")
    if not 0 < epsilon <= MOST_EPSILON:
        raise ValueError(f"epsilon must be positive and at most {MOST_EPSILON}")
    return epsilon


def _check_table(document: Mapping[str, Any]) -> CheckReport:
    only(document, *_FIELDS)
    inputs, epsilon = rising(document["inputs"]), read_epsilon(document["epsilon"])
    total, count = 1 << whole(document["bits"], 1, MOST_BITS, "bits"), len(inputs)
    columns = [_column(column, count) for column in listed(document["columns"], "the columns")]
    if (
        document["format"] != TABLE_FORMAT
        or type(document["unbiased"]) is not bool
        or not 1 <= len(columns) <= MOST_COLUMNS
    ):
        raise ValueError("not a table of a format that is known, with a word on its bias and at least one output")
    findings = _private(columns, exponential(epsilon)[0])
    findings += [
        f"row {i} sums to {found}, not {total}" for i, found in enumerate(_sums(columns, count)) if found != total
    ]
    bias = _bias(columns, inputs, total)
    rounding = max(abs(Fraction(float(z)) - z) for z, _ in columns)
    if document["unbiased"] and bias:
        findings.append(f"the mechanism is biased by {float(bias):.3g}")
    if rounding > (inputs[-1] - inputs[0]) / (1 << 24):
        findings.append(f"the outputs are not what floats can say: one is moved by {float(rounding):.3g}")
    if any(0 < abs(z) < _TINY for z, _ in columns):
        findings.append("the outputs are not what floats can say: one is all but zero")
    report = CheckReport(tuple(findings), bias, rounding=rounding)
    certificate = document["certificate"]
    return report if certificate is None else _certified(document, report, inputs, columns, epsilon, total)


def _private(columns: Sequence[Weighted], growth: Fraction) -> list[str]:
    """Every column in which a weight is not positive, or more than e^epsilon times another."""
    findings = []
    for number, (_, runs) in enumerate(columns):
        weights = [weight for _, _, weight in runs]
        if min(weights) <= 0 or max(weights) > growth * min(weights):
            findings.append(f"column {number}: a ratio of weights exceeds e^epsilon")
    return findings


def _certified(
    document: Mapping[str, Any],
    report: CheckReport,
    inputs: list[Fraction],
    columns: list[Weighted],
    epsilon: Fraction,
    total: int,
) -> CheckReport:
    """The report with the gap that the certificate proves; its bound is one on unbiased mechanisms and on no others."""
    certificate, findings = document["certificate"], list(report.findings)
    only(certificate, "prior", "u", "slope", "gap", "loss")
    lists = (listed(certificate[name], name) for name in ("prior", "u", "slope"))
    prior, *duals = ([written(x, "a price") for x in numbers] for numbers in lists)
    claimed, mass = written(certificate["gap"], "the gap"), sum(prior)
    if len(prior) != len(inputs) or min(prior) < 0 or mass <= 0 or any("/" in p for p in certificate["prior"]):
        return replace(report, findings=(*findings, "the prior is not a prior"))
    if not document["unbiased"]:
        return replace(report, findings=(*findings, "the certificate is one for mechanisms without bias"))
    knots = _knots(certificate["loss"], inputs)
    value = (squared_error(columns, inputs, prior) if knots is None else knots.error(columns, prior)) / (mass * total)
    least = lower_bound if knots is None else knots.bound
    bound = max(Fraction(0), least(inputs, prior, epsilon, *duals) / mass)  # no loss is below zero
    if claimed < 0 or value - bound > claimed * value:
        proved = f"a gap of {float((value - bound) / value):.3g} only" if value > 0 else "one of zero"
        findings.append(f"the certificate proves {proved}, not the one claimed")
    ends = None if knots is None else (knots.outputs[0], knots.outputs[-1])
    loss = certificate["loss"]["name"]
    return replace(report, findings=tuple(findings), value=value, lower_bound=bound, loss=loss, ends=ends)


def _knots(loss: Mapping[str, Any], inputs: list[Fraction]) -> Knots | None:
    """Where the certificate's loss bends, and what it is there; None for the squared loss, which bends everywhere."""
    only(loss, "name", "outputs", "costs")
    outputs = [written(z, "an output") for z in listed(loss["outputs"], "outputs")]
    costs = [[written(c, "a loss") for c in listed(row, "costs")] for row in listed(loss["costs"], "costs")]
    if loss["name"] == "table" and len(costs) == len(inputs):
        return Knots.of(outputs, costs)
    if loss["name"] == "absolute" and len(outputs) == 2 and not costs:
        return Knots.absolute(inputs, *outputs)
    if loss["name"] == "squared" and not outputs and not costs:
        return None
    raise ValueError("the certificate's loss is none that is known")


def _column(column: Any, count: int) -> Weighted:
    """A column as its output and (first row, past the last row, weight), covering every row once."""
    output, starts, weights = listed(column, "a column")
    stops = [*listed(starts, "starts")[1:], count]
    if not starts or any(type(x) is not int for x in starts) or starts[0] != 0:
        raise ValueError("a column must list where its weights start, from row 0 on")
    if any(a >= b for a, b in zip(starts, stops, strict=True)):
        raise ValueError("a column must list its weights in the order of the rows")
    held = [_weight(weight) for weight in listed(weights, "weights")]
    return written(output, "an output"), list(zip(starts, stops, held, strict=True))


def _weight(text: Any) -> int:
    if not isinstance(text, str) or not _WEIGHT.fullmatch(text):
        raise ValueError("a weight must be a text of digits: a browser reads a JSON number as a double")
    if int(text) > 1 << MOST_BITS:
        raise ValueError("a weight exceeds what any row may sum to")
    return int(text)


def _sums(columns: Sequence[Weighted], count: int) -> list[int]:
    """The sum of every row, from the differences between consecutive rows."""
    changes = [0] * count
    for _, runs in columns:
        before = 0
        for start, _, weight in runs:
            changes[start] += weight - before
            before = weight
    return list(accumulate(changes))


def _bias(columns: Sequence[Weighted], inputs: Sequence[Fraction], total: int) -> Fraction:
    """The most that the mean of a row is away from its label, exactly.

    In integers: outputs count in the one step they have in common, so that sums stay as long as that step's denominator.
    """
    lattice = common(inputs, LATTICE, "the labels")
    unit = math.lcm(lattice, common([z for z, _ in columns], _FINEST, "the outputs"))
    changes = [0] * len(inputs)
    for z, runs in columns:
        place, before = z.numerator * (unit // z.denominator), 0
        for start, _, weight in runs:
            changes[start] += (weight - before) * place
            before = weight
    label = unit // lattice * total
    means = zip(accumulate(changes), inputs, strict=True)
    return Fraction(max(abs(mean - int(y * lattice) * label) for mean, y in means), unit * total)


def blurred(numbers: Sequence[Fraction], width: Fraction) -> bool:
    """Whether floats as large as these are further apart than a 2^-23 of the labels' range: tables refuse such outputs too."""
    return max(abs(numbers[0]), abs(numbers[-1])) > width * (1 << 29)


def _check_noise(document: Mapping[str, Any]) -> CheckReport:
    kind = document["kind"]
    if kind not in _NOISES:
        raise ValueError("not a kind of noise that is known")
    only(document, "format", "epsilon", "kind", "inputs", "grid_bits", "sensitivity", *_NOISES[kind])
    inputs, epsilon, findings = rising(document["inputs"]), read_epsilon(document["epsilon"]), []
    if len({after - before for before, after in pairwise(inputs)}) != 1:
        findings.append("the nodes must be even")
    if blurred(inputs, inputs[-1] - inputs[0]):
        findings.append("the outputs are not what floats can say: the range is too narrow for where it lies")
    bits = whole(document["grid_bits"], 0, GRID_BITS, "grid_bits")
    if bits != (0 if kind == "discrete_laplace" else GRID_BITS):
        findings.append("the grid is not the one of this kind of noise")
    width = whole(document["sensitivity"], 1, WIDEST_NOISE << GRID_BITS, "sensitivity")
    if width != (len(inputs) - 1) << bits:
        findings.append("the sensitivity is not the width of the range in steps of the grid")
    if width >= epsilon * WIDEST_NOISE:
        findings.append("noise this wide does not fit 64 bits")
    if kind == "staircase":
        first = whole(document["first"], 1, width, "first")
        if 2 * first - 1 > width:
            findings.append("the lowest step of the staircase is wider than the others")
        if written(document["fall"], "fall") != epsilon:
            findings.append("the staircase does not fall by e^epsilon")
    elif written(document["scale"], "scale") * epsilon != width:
        findings.append("the noise is not as wide as epsilon says")
    return CheckReport(tuple(findings), Fraction(0))
