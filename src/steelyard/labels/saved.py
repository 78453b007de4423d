"""A fitted randomizer as one JSON document, and the judge of such documents.

The document holds the mechanism with weights as texts (a browser's numbers end at 2**53), the outputs as the floats that
are delivered, the grid, and where the prior came from. The judge trusts none of it: the mechanism goes to the
independent checker, and prior, outputs and grid are re-derived. The law: a claim that is not true is a finding.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.privacy import MICRO

from .added import Added, AddedNoise
from .applied import Applied
from .check import Report, check
from .check_noise import FORMAT as NOISE_FORMAT
from .check_noise import check_noise
from .continuous import COIN, Nodes
from .groups import Part
from .mechanism import FORMAT as TABLE_FORMAT
from .mechanism import FiniteMechanism
from .packing import PACKED, ROOM, pack, unpack
from .packing import PLAIN as FORMAT
from .prior import Prior, from_counts

NOISY = "steelyard noisy label randomizer 1"
GROUPED = "steelyard grouped label randomizer 1"


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
        with suppress(KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, IndexError, OverflowError):
            return unpack(data)
    return data


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a JSON document; what is no JSON object is refused."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InvalidTask(
            f"{os.fspath(path)} cannot be read as a saved randomizer ({type(problem).__name__})."
        ) from None
    if not isinstance(data, dict):
        raise InvalidTask(f"{os.fspath(path)} is not a saved randomizer.")
    return dict(plain(data))


def table_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The mechanism inside a document, weights as integers, as the checker wants it."""
    table = dict(data["mechanism"])
    table["columns"] = [[z, starts, [int(w) for w in weights]] for z, starts, weights in table["columns"]]
    return table


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
    """Re-prove every claim of a saved randomizer, or of a saved bare mechanism."""
    data = plain(data)
    if data.get("format") == PACKED:
        return Report(("the document cannot be read: its packed numbers are damaged",))
    if data.get("format") in (TABLE_FORMAT, NOISE_FORMAT):
        return check(data) if data["format"] == TABLE_FORMAT else check_noise(data)
    if data.get("format") == GROUPED:
        return _judge_groups(data.get("groups"))
    if data.get("format") not in (FORMAT, NOISY):
        return Report((f"not a saved randomizer: its format is {data.get('format')!r}",))
    try:
        if data["format"] == NOISY:
            report, more = check_noise(data["mechanism"]), _range(data["mechanism"]["inputs"], data["missing"])
        else:
            report, more = check(table_of(data)), _grid(data)
        return replace(report, findings=(*report.findings, *more, *_prior(data)))
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError, IndexError, OverflowError) as problem:
        return Report((f"the document cannot be read: {type(problem).__name__}: {problem}",))


def _judge_groups(groups: Any) -> Report:
    """Every group's claims, and that all groups share the column, the grid, epsilon and the one purchase of a prior."""
    if not isinstance(groups, Mapping) or not groups or not all(isinstance(d, Mapping) for d in groups.values()):
        return Report(("the document names no groups",))
    reports = {name: judge(data) for name, data in groups.items()}
    findings = [f"group {name}: {found}" for name, report in reports.items() for found in report.findings]
    findings += [f"group {n}: a group holds groups" for n, data in groups.items() if data.get("format") != FORMAT]
    if not findings:
        shared = ("column", "epsilon", "missing", "nodes")
        facts = [
            [data[x] for x in shared] + [data["prior"][x] for x in ("source", "micro", "receipt")]
            for data in groups.values()
        ]
        findings += ["the groups do not share column, range, epsilon and prior"] * any(f != facts[0] for f in facts)
    worst = max(reports.values(), key=lambda report: report.gap or Fraction(0))
    return replace(worst, findings=tuple(findings))


def _grid(data: Mapping[str, Any]) -> list[str]:
    """What a device would use in place of the exact numbers must be their nearest floats."""
    table, findings = data["mechanism"], []
    nodes = Nodes(tuple(Fraction(y) for y in table["inputs"]))
    if data["values"] != [float(Fraction(column[0])) for column in table["columns"]]:
        findings.append("the outputs delivered are not those of the mechanism")
    same = (data["nodes"], data["scale"], data["even"], data["coin"]) == (
        nodes.floats.tolist(),
        nodes.scale,
        nodes.even,
        COIN,
    )
    if not same:
        findings.append("the grid is not that of the mechanism's labels")
    return findings + _range(table["inputs"], data["missing"])


def _range(inputs: Sequence[str], missing: float | None) -> list[str]:
    if missing is None or float(Fraction(inputs[0])) <= missing <= float(Fraction(inputs[-1])):
        return []
    return ["the value of missing labels lies outside the range"]


def _prior(data: Mapping[str, Any]) -> list[str]:
    """A prior must say where it came from, and a bought one must follow from its released counts and its charge."""
    prior, table = Prior.from_json(data["prior"]), data["mechanism"]
    findings, certificate = [], table.get("certificate")
    if prior.source not in ("none", "public", "private"):
        findings.append("the prior does not say where it came from")
    if certificate is not None and [Fraction(p) for p in certificate["prior"]] != list(prior.weights):
        findings.append("the mechanism was made for another prior than the one declared")
    if prior.source == "private":
        if prior.weights != from_counts(prior.counts):
            findings.append("the prior does not follow from the counts that were released")
        if prior.micro < 1 or prior.receipt is None or prior.receipt["cost"]["amount"] < 1:
            findings.append("a prior learnt from labels has no charge")
    elif prior.micro or prior.counts or prior.receipt is not None:
        findings.append("a prior that was not bought carries a price")
    if Fraction(data["epsilon"]) != Fraction(table["epsilon"]) + Fraction(prior.micro, MICRO):
        findings.append("epsilon is not what prior and mechanism spend together")
    return findings
