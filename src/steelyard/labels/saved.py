"""A fitted randomizer as one JSON document, and the judge of such documents.

The document holds the mechanism with weights as texts (a browser's numbers end at 2**53), the outputs as the floats that
are delivered, the grid, and where the prior came from. The judge trusts none of it: the mechanism goes to the
independent checker, and prior, outputs and grid are re-derived. The law: a claim that is not true is a finding.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from steelyard.documents import read_document
from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO, written

from .added import Added, AddedNoise
from .applied import Applied
from .check import FORMAT as TABLE_FORMAT
from .check import Report, check, listed, only, read_epsilon, unreadable, whole
from .check_noise import FORMAT as NOISE_FORMAT
from .check_noise import check_noise
from .continuous import COIN, Nodes
from .groups import Part
from .mechanism import FiniteMechanism
from .packing import PACKED, ROOM, pack, unpack
from .packing import PLAIN as FORMAT
from .prior import Prior
from .provenance import judge_prior, unproved

NOISY = "steelyard noisy label randomizer 1"
GROUPED = "steelyard grouped label randomizer 1"
_NOISY = ("format", "column", "method", "epsilon", "missing", "prior", "mechanism")
_TABLE = (*_NOISY, "coin", "even", "scale", "nodes", "values")
_WEIGHT = re.compile(r"[1-9][0-9]{0,19}")  # read alike by int and by a browser's BigInt
_BROKEN = (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, IndexError, OverflowError)


def document(applied: Applied | Added, method: str, prior: Prior, column: str, epsilon: Fraction) -> dict[str, Any]:
    """Everything needed to apply and to judge a randomizer; ``epsilon`` is the whole of it, prior included."""
    shared = {"column": column, "method": method, "epsilon": str(epsilon), "missing": applied.missing}
    if isinstance(applied, Added):
        return {"format": NOISY, **shared, "prior": prior.to_json(), "mechanism": applied.mechanism.to_json()}
    table = applied.mechanism.to_json()
    table["columns"] = [[z, starts, [str(w) for w in weights]] for z, starts, weights in table["columns"]]
    return {
        "format": FORMAT,
        **shared,
        "coin": COIN,
        "even": applied.nodes.even,
        "scale": applied.nodes.scale,
        "nodes": applied.nodes.floats.tolist(),
        "values": applied.values.tolist(),
        "prior": prior.to_json(),
        "mechanism": table,
    }


def grouped(parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One document for the documents of all groups."""
    return {"format": GROUPED, "groups": dict(parts)}


def restore_all(data: Mapping[str, Any]) -> dict[str, Part]:
    """Every group's randomizer (or the only one, under the name of nothing), after judging the whole document."""
    if data.get("format") != GROUPED:
        applied, prior = restore(data)
        return {"": Part(data["method"], applied, prior)}
    _passed(judge(data))
    return {name: restore_all(part)[""] for name, part in data["groups"].items()}


def first_part(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first group's document, which shares grid, epsilon and purchase with the others; or the only one."""
    return next(iter(data["groups"].values())) if data.get("format") == GROUPED else data


def epsilon_of(data: Mapping[str, Any]) -> Fraction:
    """The whole of epsilon, prior included; the same for all groups of a document that was judged."""
    return Fraction(first_part(data)["epsilon"])


def column_of(data: Mapping[str, Any]) -> str:
    """The label column; the same for all groups of a document that was judged."""
    return str(first_part(data)["column"])


def write(path: str | os.PathLike[str], data: Mapping[str, Any]) -> None:
    """Write a document as compact ASCII JSON; a large one packed (packing.py)."""
    text = _text(data)
    Path(path).write_text(text if len(text) < ROOM else _text(_packed(data)), encoding="ascii")


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def _packed(data: Mapping[str, Any]) -> Mapping[str, Any]:
    if data["format"] == GROUPED:
        return {**data, "groups": {name: _packed(part) for name, part in data["groups"].items()}}
    return pack(data) if data["format"] == FORMAT else data


def plain(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """A document with everything in it unpacked; what cannot be unpacked stays, and is a finding for the judge."""
    if data.get("format") == GROUPED and isinstance(data.get("groups"), Mapping):
        parts = {name: plain(part) if isinstance(part, Mapping) else part for name, part in data["groups"].items()}
        return {**data, "groups": parts}
    if data.get("format") == PACKED:
        with suppress(*_BROKEN):
            return unpack(data)
    return data


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a JSON document; what is no JSON object, or says something twice, is refused."""
    data = read_document(path, "a saved randomizer")
    if not isinstance(data, dict):
        raise InvalidTask(f"{os.fspath(path)} is not a saved randomizer.")
    return dict(plain(data))


def table_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The mechanism inside a document, weights as integers, as the checker wants it; they must be written as texts."""
    table = dict(data["mechanism"])
    table["columns"] = [
        [z, starts, [_weight(w) for w in listed(weights, "weights")]]
        for z, starts, weights in (listed(column, "a column") for column in listed(table["columns"], "the columns"))
    ]
    return table


def _weight(text: Any) -> int:
    if not isinstance(text, str) or not _WEIGHT.fullmatch(text):
        raise ValueError("a weight must be a text of digits: a browser reads a JSON number as a double")
    return int(text)


def restore(data: Mapping[str, Any]) -> tuple[Applied | Added, Prior]:
    """The randomizer of a document that the judge passed; anything else is refused."""
    if data.get("format") not in (FORMAT, NOISY):
        raise InvalidTask(f"this is not a saved label randomizer: its format is {data.get('format')!r}.")
    _passed(judge(data))
    if data["format"] == NOISY:
        noise = AddedNoise.from_json(data["mechanism"])
        return Added(Nodes(noise.inputs), noise, data["missing"]), Prior.from_json(data["prior"])
    mechanism = FiniteMechanism.from_json(table_of(data))
    return Applied(Nodes(mechanism.inputs), mechanism, data["missing"]), Prior.from_json(data["prior"])


def _passed(report: Report) -> None:
    if not report.passed:
        raise InvalidTask(f"the saved randomizer does not hold what it claims: {'; '.join(report.findings[:3])}.")


def judge(data: Mapping[str, Any]) -> Report:
    """Re-prove every claim of a saved randomizer, or of a saved bare mechanism; what cannot be proved is ``unproved``."""
    data = plain(data)
    kind = data.get("format")
    if kind == PACKED:
        return Report(("the document cannot be read: its packed numbers are damaged",))
    if kind in (TABLE_FORMAT, NOISE_FORMAT):
        return check(data) if kind == TABLE_FORMAT else check_noise(data)
    if kind == GROUPED:
        return _judge_groups(data)
    if kind not in (FORMAT, NOISY):
        return Report((f"not a saved randomizer: its format is {str(kind)[:60]!r}",))
    try:
        report, more = _judge_noise(data) if kind == NOISY else _judge_table(data)
        more += _shared(data) + judge_prior(data["prior"], data)
        return replace(report, findings=(*report.findings, *more), unproved=unproved(data))
    except _BROKEN as problem:
        return Report((unreadable(problem),))


def _judge_groups(data: Mapping[str, Any]) -> Report:
    """Every group's claims, and that all groups share the column, the grid, epsilon and the one purchase of a prior."""
    groups = data.get("groups")
    if set(data) != {"format", "groups"} or not isinstance(groups, Mapping) or not groups:
        return Report(("the document names no groups, or something else beside them",))
    if not all(isinstance(part, Mapping) and part.get("format") == FORMAT for part in groups.values()):
        return Report(("a group holds no randomizer that draws from a table",))
    reports = {name: judge(part) for name, part in groups.items()}
    findings = [f"group {name}: {found}" for name, report in reports.items() for found in report.findings]
    if findings:
        return Report(tuple(findings))
    facts = [
        [part[x] for x in ("column", "epsilon", "missing", "nodes")]
        + [part["prior"][x] for x in ("source", "micro", "receipt")]
        for part in groups.values()
    ]
    return _together(
        list(reports.values()),
        ["the groups do not share column, range, epsilon and prior"] * any(f != facts[0] for f in facts),
    )


def _together(reports: list[Report], findings: list[str]) -> Report:
    """What holds for all groups: the largest bias, and the largest gap if every group has one."""
    gaps = [report.gap for report in reports]
    worst = max(reports, key=lambda report: report.gap or Fraction(0))
    return replace(
        Report(tuple(findings)) if None in gaps else replace(worst, findings=tuple(findings)),
        bias=max(report.bias or Fraction(0) for report in reports),
        rounding=max(report.rounding or Fraction(0) for report in reports),
        unproved=tuple(dict.fromkeys(text for report in reports for text in report.unproved)),
    )


def _judge_noise(data: Mapping[str, Any]) -> tuple[Report, list[str]]:
    only(data, *_NOISY)
    report, table = check_noise(data["mechanism"]), data["mechanism"]
    if report.findings:
        return report, []
    nodes = Nodes(tuple(written(y, "a label") for y in table["inputs"]))
    return report, [
        *["the nodes are not different floats"] * (not nodes.told_apart),
        *["the method is not the kind of noise that is added"] * (data["method"] != table["kind"]),
    ]


def _judge_table(data: Mapping[str, Any]) -> tuple[Report, list[str]]:
    """The table, and what a device would use in place of the exact numbers: their nearest floats."""
    only(data, *_TABLE)
    table, findings = table_of(data), []
    report = check(table)
    if report.findings:
        return report, []
    nodes = Nodes(tuple(written(y, "a label") for y in table["inputs"]))
    if not nodes.told_apart:
        return report, ["the nodes are not different floats"]
    if _floats(data["values"]) != [float(written(column[0], "an output")) for column in table["columns"]]:
        findings.append("the outputs delivered are not those of the mechanism")
    same = _floats(data["nodes"]) == nodes.floats.tolist() and _floats([data["scale"]]) == [nodes.scale]
    if not same or data["even"] is not nodes.even or whole(data["coin"], 0, 32, "coin") != COIN:
        findings.append("the grid is not that of the mechanism's labels")
    return report, findings + _method(data["method"], table)


def _method(method: str, table: Mapping[str, Any]) -> list[str]:
    """The name of the method promises whether there is bias, and whether there is a certificate."""
    from .choice import BIASED, METHODS

    if method not in (*METHODS, "compromise"):
        return ["the method is not one that is known"]
    if method not in (*BIASED, "compromise") and not table["unbiased"]:
        return [f"method {method} has no bias, and this table does"]
    if method in ("unbiased", "balanced") and table["certificate"] is None:
        return [f"method {method} comes with a certificate, and there is none"]
    return []


def _floats(given: Any) -> list[float]:
    """JSON numbers as floats, exactly; a truth value is none."""
    if not isinstance(given, list) or any(type(x) not in (int, float) or x != float(x) for x in given):
        raise ValueError("a list of numbers holds something that is no number")
    if any(x == 0 and math.copysign(1, x) < 0 for x in given):
        raise ValueError("a zero has a sign, which a device would deliver")
    return [float(x) for x in given]


def _shared(data: Mapping[str, Any]) -> list[str]:
    """What tables and noise have in common: the column, the value of missing labels, and the sum of the epsilons."""
    findings, table = [], data["mechanism"]
    if not isinstance(data["column"], str) or not data["column"]:
        findings.append("the label column has no name")
    inputs, missing = [written(y, "a label") for y in table["inputs"]], data["missing"]
    if missing is not None and not float(inputs[0]) <= _floats([missing])[0] <= float(inputs[-1]):
        findings.append("the value of missing labels lies outside the range")
    spent = Fraction(whole(data["prior"]["micro"], 0, 1 << 60, "micro"), MICRO)
    if (read_epsilon(data["epsilon"]) * MICRO).denominator != 1:
        findings.append("epsilon is not a whole number of millionths, which is what a ledger can charge")
    if read_epsilon(data["epsilon"]) != written(table["epsilon"], "epsilon") + spent:
        findings.append("epsilon is not what prior and mechanism spend together")
    return findings
