"""The small judge of added label noise: it reads the saved document and trusts nothing.

Only integers and fractions, and the readers of the judge of tables. The noise is symmetric whatever its numbers are, so
what can be wrong is the grid, the width of the range in its steps (too narrow breaks privacy, too wide moves every label),
and the noise's own width. The law: a document passes only if every claim in it is true (docs/proofs/label_noise.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from steelyard.privacy import written

from .check import Report, only, read_epsilon, rising, unreadable, whole

FORMAT = "steelyard label noise 1"
FINE = 24  # bits between two nodes, where noise is not on the nodes themselves
WIDEST = 1 << 48  # the noise's scale in steps, from which on it does not fit 64 bits
_KINDS = {"laplace": ("scale",), "discrete_laplace": ("scale",), "staircase": ("first", "fall")}


def check_noise(document: Mapping[str, Any]) -> Report:
    """Re-prove the claims of saved noise: an even grid, the sensitivity it has, and the price of the noise."""
    try:
        findings = _findings(document)
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, IndexError, OverflowError) as problem:
        return Report((unreadable(problem),))
    return Report(tuple(findings), Fraction(0))


def blurred(inputs: Sequence[Fraction]) -> bool:
    """Whether floats as large as the labels are further apart than a 2^-23 of the range: tables refuse such outputs too."""
    return max(abs(inputs[0]), abs(inputs[-1])) > (inputs[-1] - inputs[0]) * (1 << 29)


def _findings(document: Mapping[str, Any]) -> list[str]:
    kind = document["kind"]
    if document["format"] != FORMAT or kind not in _KINDS:
        raise ValueError("not a kind of noise that is known")
    only(document, "format", "epsilon", "kind", "inputs", "grid_bits", "sensitivity", *_KINDS[kind])
    inputs, epsilon, findings = rising(document["inputs"]), read_epsilon(document["epsilon"]), []
    if len({after - before for before, after in pairwise(inputs)}) != 1:
        findings.append("the nodes must be even")
    if blurred(inputs):
        findings.append("the outputs are not what floats can say: the range is too narrow for where it lies")
    bits = whole(document["grid_bits"], 0, FINE, "grid_bits")
    if bits != (0 if kind == "discrete_laplace" else FINE):
        findings.append("the grid is not the one of this kind of noise")
    width = whole(document["sensitivity"], 1, WIDEST << FINE, "sensitivity")
    if width != (len(inputs) - 1) << bits:
        findings.append("the sensitivity is not the width of the range in steps of the grid")
    if width >= epsilon * WIDEST:
        findings.append("noise this wide does not fit 64 bits")
    if kind == "staircase":
        first = whole(document["first"], 1, width, "first")
        if 2 * first - 1 > width:
            findings.append("the lowest step of the staircase is wider than the others")
        if written(document["fall"], "fall") != epsilon:
            findings.append("the staircase does not fall by e^epsilon")
    elif written(document["scale"], "scale") * epsilon != width:
        findings.append("the noise is not as wide as epsilon says")
    return findings
