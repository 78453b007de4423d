"""Whether a saved label randomizer is true, worked out from the definitions and from what would be drawn.

The table is written out and every probability compared; e^epsilon comes from decimal arithmetic with a hundred digits; the
mean is the exact expectation of the floats that are delivered; the sampler's own alias table and grid are read back; the least
possible error is that of a fresh solution of the same problem; prices follow from the definition of each currency. Law: no
line of this file is the judge's.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from steelyard.accounting import normal_quantile

Document = dict[str, Any]
_ODD = re.compile(r"\s.*|.*\s|\+.*|-?[0-9]+_[0-9_]*|-?[0-9]*\.[0-9]*|-?[0-9.]+[eE][+-]?[0-9]+")
_MEAN = 2.0**-20  # of the range: what rounding outputs to floats may move a mean by


def untruth(data: Document) -> str | None:
    """What is not true of a document, in words; None if all of it is. Nothing here asks the judge."""
    from steelyard.labels._document import plain

    try:
        if not _plain(data):
            return "it holds a number with an exponent, a blank or without end"
        if data.get("format") == "steelyard label mechanism 1":
            return _false_table(data)
        whole = plain(data)
        parts = [{**whole, **part} for part in whole["groups"].values()]
        if any(part["mechanism"]["inputs"] != parts[0]["mechanism"]["inputs"] for part in parts):
            return "the groups have different ranges"
        for part in parts:
            false = _false_part(part, _sampler(part["mechanism"]))
            if false is not None:
                return false
    except Exception as failure:  # what cannot even be worked out is no document
        return f"it cannot be worked out ({type(failure).__name__}: {str(failure)[:100]})"
    return None


def _plain(data: Any) -> bool:
    """Whether no text in a document would keep whoever reads it as a number busy, or be read as another one elsewhere."""
    if isinstance(data, str):
        odd = len(data) < 30 and _ODD.fullmatch(data)  # a digest may look like one, and is longer
        return not odd and (len(data) < 1500 or not data[:9].isdigit())
    if isinstance(data, dict):
        return all(_plain(part) for name, part in data.items() if name not in ("column", "account"))  # any name will do
    return all(map(_plain, data)) if isinstance(data, list) else True


def unusable(data: Document) -> str | None:
    """Why a document that passed cannot be loaded and drawn from; None if it can."""
    from steelyard.labels import LabelRandomizer

    if data.get("format") == "steelyard label mechanism 1":
        return None
    try:
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "d.json"
            path.write_text(json.dumps(data))
            made = LabelRandomizer.load(path)
        group = None if made.groups_ is None else [next(iter(made.groups_))] * 2
        noisy = made.transform([float(made.lower)] * 2, groups=group)
    except Exception as failure:  # whatever it is: a judge passed this document
        return f"it cannot be used ({type(failure).__name__}: {str(failure)[:100]})"
    return None if len(noisy) == 2 and np.all(np.isfinite(noisy)) else "what it draws are no numbers"


def _sampler(table: Document) -> Any:
    """The mechanism put to use as it would be, without a judge."""
    from steelyard.labels._baselines import AddedNoise
    from steelyard.labels._mechanism import FiniteMechanism
    from steelyard.labels._sampler import sampler_of

    return sampler_of((AddedNoise if "kind" in table else FiniteMechanism).from_json(table), None)


def _false_part(data: Document, sampler: Any) -> str | None:
    table = data["mechanism"]
    spent = Fraction(table["epsilon"]) + Fraction(data["prior"]["micro"], 10**6)
    if Fraction(data["epsilon"]) != spent:
        return "epsilon is not the sum of what is spent"
    if data["missing"] is not None and not Fraction(table["inputs"][0]) <= Fraction(data["missing"]) <= Fraction(table["inputs"][-1]) * (1 + Fraction(1, 2**50)):  # fmt: skip
        return "missing labels count as something outside the range"
    return _false_prior(data) or (_false_noise(table, sampler) if "kind" in table else _false_drawn(data, sampler))


def _false_drawn(data: Document, sampler: Any) -> str | None:
    """A table with what is drawn from it, here and on a device."""
    table = data["mechanism"]
    inputs, scale = [Fraction(y) for y in table["inputs"]], 1 << (64 - table["bits"])
    rows = _rows(table)
    if sampler.table.weights() != [[w * scale for w in row] for row in rows]:
        return "the sampler draws with other weights"
    values = [float(Fraction(column[0])) for column in table["columns"]]
    if sampler.values.tolist() != values:
        return "the outputs delivered are others"
    nodes = np.array([float(y) for y in inputs])
    if sampler.nodes.floats.tolist() != nodes.tolist() or len(set(nodes.tolist())) != len(inputs):
        return "the nodes are others, or share a float"
    for coin in (0, 2**32 - 1):
        if sampler.nodes.round(nodes, np.full(len(nodes), coin, np.uint32)).tolist() != list(range(len(nodes))):
            return "a label at a node does not go to that node"
    width, total = inputs[-1] - inputs[0], 1 << table["bits"]
    for y, row in zip(inputs, rows, strict=True):
        mean = sum(w * Fraction(z) for w, z in zip(row, values, strict=True)) / total
        if table["unbiased"] and abs(mean - y) > Fraction(_MEAN) * width:
            return "what is delivered is not right on average"
    return _false_table(table)


def _rows(table: Document) -> list[list[int]]:
    """The table written out: one list of weights for each label; a device reads weights that are texts only."""
    count, columns = len(table["inputs"]), []
    for _, starts, weights in table["columns"]:
        if not all(isinstance(weight, str) for weight in weights):
            raise ValueError("a device reads other weights")
        column: list[int] = []
        for start, stop, weight in zip(starts, [*starts[1:], count], weights, strict=True):
            column += [int(weight)] * (stop - start)
        columns.append(column)
    return [list(row) for row in zip(*columns, strict=True)]


def _false_table(table: Document) -> str | None:
    """Privacy, row sums, bias and optimality of a table."""
    inputs, rows, total = [Fraction(y) for y in table["inputs"]], _rows(table), 1 << table["bits"]
    if any(sum(row) != total or min(row) <= 0 for row in rows) or len(rows) != len(inputs):
        return "a row does not sum to one"
    growth = _growth(table["epsilon"])
    if any(Decimal(max(column)) > growth * Decimal(min(column)) for column in zip(*rows, strict=True)):
        return "a ratio exceeds e^epsilon"
    outputs = [Fraction(column[0]) for column in table["columns"]]
    means = [sum(w * z for w, z in zip(row, outputs, strict=True)) / total for row in rows]
    if table["unbiased"] and means != inputs:
        return "it is biased"
    return None if table["certificate"] is None else _false_gap(table, rows, outputs)


def _growth(epsilon: str) -> Decimal:
    """e^epsilon, a little above it: a hundred digits."""
    with localcontext() as context:
        context.prec = 100
        value = Fraction(epsilon)
        return (Decimal(value.numerator) / Decimal(value.denominator)).exp() * (1 + Decimal(10) ** -90)


def _false_gap(table: Document, rows: list[list[int]], outputs: list[Fraction]) -> str | None:
    """The error against that of a fresh solution: whoever claims less distance than there is to it claims too much."""
    if not table["unbiased"]:
        return "it is certified against mechanisms of another kind"
    certificate, inputs = table["certificate"], [Fraction(y) for y in table["inputs"]]
    prior = [int(p) for p in certificate["prior"]]
    loss, ends = certificate["loss"]["name"], tuple(certificate["loss"]["outputs"])
    if loss not in ("squared", "absolute") or (loss == "absolute") != (len(ends) == 2) or certificate["loss"]["costs"]:
        return "it is certified for a loss that nobody can work out"
    if ends and not Fraction(ends[0]) <= min(outputs) <= max(outputs) <= Fraction(ends[1]):
        return "it has outputs outside the range it is certified for"
    power = {"squared": 2, "absolute": 1}[loss]
    error = sum(
        p * sum(w * abs(z - y) ** power for w, z in zip(row, outputs, strict=True))
        for p, row, y in zip(prior, rows, inputs, strict=True)
    )
    error = Fraction(error, sum(prior) << table["bits"])
    gap = Fraction(certificate["gap"])
    least = _least(tuple(table["inputs"]), tuple(prior), table["epsilon"], loss, ends)
    if gap < 0 or float(error * (1 - gap)) > least * (1 + 1e-9):
        return "its error is further from the least possible than it says"
    return None


@cache
def _least(inputs: tuple[str, ...], prior: tuple[int, ...], epsilon: str, loss: str, ends: tuple[str, ...]) -> float:
    from steelyard.labels import solve_unbiased

    outputs = [Fraction(z) for z in ends] or None
    labels = [Fraction(y) for y in inputs]
    return float(solve_unbiased(labels, prior, Fraction(epsilon), loss=loss, outputs=outputs).value)


def _false_noise(noise: Document, sampler: Any) -> str | None:
    """Noise: the grid point of each node, the width of the noise over the width of the range, and the step."""
    inputs, epsilon = [Fraction(y) for y in noise["inputs"]], Fraction(noise["epsilon"])
    fine = 1 << noise["grid_bits"]
    below, steps = sampler.nodes.places(np.array([float(y) for y in inputs]))
    at = [(int(b) * fine + (int(s) if fine > 1 else 0)) for b, s in zip(below, steps, strict=True)]
    mean = [inputs[0] + place * sampler.mechanism.step for place in at]
    if mean != inputs:
        return "what is delivered is not right on average"
    drawn = sampler.mechanism.noise
    if noise["kind"] == "staircase":
        if drawn.epsilon > epsilon or 2 * drawn.first - 1 > drawn.sensitivity or at[-1] - at[0] > drawn.sensitivity:
            return "the staircase does not hide the range"
        return None
    return "the noise does not hide the range" if (at[-1] - at[0]) / drawn.scale > epsilon else None


def _false_prior(data: Document) -> str | None:
    """A prior: weights of the labels; a bought one follows from its counts and is paid for in some currency."""
    prior = data["prior"]
    weights = [int(w) for w in prior["weights"]]
    if len(weights) != len(data["mechanism"]["inputs"]) or min(weights) < 0 or not any(weights):
        return "the prior has no weight for each label"
    certificate = data["mechanism"].get("certificate")
    if certificate is not None and [int(p) for p in certificate["prior"]] != weights:
        return "the proof is one for another prior"
    if prior["source"] != "private":
        free = not prior["counts"] and prior["receipt"] is None and prior["micro"] == 0
        return None if free and prior["source"] in ("none", "public") else "a prior that was not bought has a price"
    held = [max(0, count) for count in prior["counts"]]
    mass = sum(held) or len(held)
    wanted = [Fraction(99 * count, 100) + Fraction(mass, 100 * len(held)) for count in held]
    if len(held) != len(weights) or any(w * wanted[0] != weights[0] * x for w, x in zip(weights, wanted, strict=True)):
        return "the prior does not follow from its counts"
    return _false_receipt(prior)


def _false_receipt(prior: Document) -> str | None:
    receipt, epsilon = prior["receipt"], prior["micro"] / 10**6
    if set(receipt) != {"sequence", "head", "cost", "account", "ledger_id"} or receipt["sequence"] < 1:
        return "the receipt names no entry"
    if len(receipt["head"]) != 64 or len(receipt["ledger_id"]) != 32 or not receipt["account"]:
        return "the receipt names no ledger"
    amount = receipt["cost"]["amount"]
    if receipt["cost"]["currency"] == "pure":
        return None if amount == prior["micro"] else "the receipt is one of another price"
    mu = 2 * normal_quantile(math.exp(epsilon) / (1 + math.exp(epsilon)))
    close = math.isclose(amount / 10**12, mu * mu, rel_tol=1e-4)
    return None if close and receipt["cost"]["currency"] == "gaussian" else "the receipt is one of another price"
