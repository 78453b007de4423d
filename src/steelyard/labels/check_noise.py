"""The small judge of added label noise: it reads the saved document and trusts nothing.

Only integers and fractions, only the standard library and the report of the judge of tables. The noise is symmetric
whatever its numbers are, so what can be wrong is the grid, the width of the range in its steps, and the noise's own
width against epsilon. The law: a document passes only if every claim in it is true (docs/proofs/label_noise.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

from .check import Report

FORMAT = "steelyard label noise 1"
FINE = 24  # bits between two nodes, where noise is not on the nodes themselves


def check_noise(document: Mapping[str, Any]) -> Report:
    """Re-prove the claims of saved noise: an even grid, the sensitivity it has, and the price of the noise."""
    try:
        findings = list(_findings(document))
    except (KeyError, TypeError, ValueError, ZeroDivisionError, IndexError) as problem:
        return Report((f"the document cannot be read: {type(problem).__name__}: {problem}",))
    return Report(tuple(findings), Fraction(0))


def _findings(document: Mapping[str, Any]) -> list[str]:
    inputs, epsilon = [Fraction(y) for y in document["inputs"]], Fraction(document["epsilon"])
    kind, width, findings = document["kind"], _whole(document["sensitivity"]), []
    gaps = {after - before for before, after in pairwise(inputs)}
    if document["format"] != FORMAT or kind not in ("laplace", "discrete_laplace", "staircase"):
        findings.append("not a kind of noise that is known")
    if epsilon <= 0 or len(gaps) != 1 or min(gaps) <= 0:
        findings.append("epsilon must be positive and the nodes even and rising")
    if document["grid_bits"] != (0 if kind == "discrete_laplace" else FINE):
        findings.append("the grid is not the one of this kind of noise")
    if width < (len(inputs) - 1) << _whole(document["grid_bits"]):
        findings.append("the range is wider than the sensitivity the noise was made for")
    if kind == "staircase":
        first, fall = _whole(document["first"]), Fraction(document["fall"])
        if first < 1 or 2 * first - 1 > width:
            findings.append("the lowest step of the staircase is wider than the others")
        if not 0 < fall <= epsilon:
            findings.append("the staircase falls by more than e^epsilon")
    elif Fraction(document["scale"]) <= 0 or width / Fraction(document["scale"]) > epsilon:
        findings.append("the noise is too narrow for epsilon")
    return findings


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a whole number")
    return value
