"""A fitted randomizer as one JSON document, and the judge of such documents.

The document holds the column, the whole epsilon, what missing labels count as and, for each group (one without a name
where there are none), the method, the prior with where it came from, and the mechanism; whatever follows from these is
not written down. Weights are texts, because a browser's numbers end at 2**53, and long lists are packed (packing.py).
The judge trusts none of it: mechanisms go to the independent checker, and priors are re-derived: made-up weights from
the nodes and epsilon, bought ones from the released counts, with a receipt of a charge of exactly that price. The law:
a claim that is not true is a finding, and what no document can show is said.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from steelyard.account import Receipt
from steelyard.accounting import price
from steelyard.documents import read_document
from steelyard.errors import InvalidTask
from steelyard.labels._balance import balanced
from steelyard.labels._baselines import AddedNoise
from steelyard.labels._check import (
    NOISE_FORMAT,
    TABLE_FORMAT,
    UNREADABLE,
    CheckReport,
    check,
    listed,
    only,
    read_epsilon,
    unreadable,
    whole,
)
from steelyard.labels._choice import BIASED, METHODS
from steelyard.labels._mechanism import FiniteMechanism
from steelyard.labels._nodes import Nodes
from steelyard.labels._packing import pack, unpack
from steelyard.labels._prior import ALL, Prior, from_counts, histogram
from steelyard.labels._sampler import Sampler, sampler_of
from steelyard.privacy import MICRO, Currency, Loss, Terms, labels, written

FORMAT = "steelyard label randomizer 1"
ROOM = 1 << 15  # bytes of JSON from which a document is packed
_HUGE = 1 << 62  # a count beyond this is none
_HEAD, _LEDGER = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{32}")
_PUBLIC = "that the prior is public knowledge and owes nothing to the labels: no document can show it"
_NAMED = "that the table is the one method {} makes: of the name only the bias was looked at"
_MEANT = "that the table of losses is the loss you mean: for a flat one every mechanism is the best"
_BOUGHT = "that a ledger holds the charge of the prior, and that the counts are what it paid for: ask the ledger"


@dataclass(frozen=True)
class GroupFit:
    """What one group is given: the method used in the end, the mechanism put to use, and the prior it was made for."""

    method: str
    sampler: Sampler
    prior: Prior

    @property
    def mechanism(self) -> FiniteMechanism | AddedNoise:
        """The finite mechanism, or the noise that is added."""
        return self.sampler.mechanism


def document(groups: Mapping[str, GroupFit], column: str, epsilon: Fraction) -> dict[str, Any]:
    """Everything needed to apply and to judge a randomizer; ``epsilon`` is the whole of it, prior included."""
    parts = {
        name: {"method": each.method, "prior": each.prior.to_json(), "mechanism": each.mechanism.to_json()}
        for name, each in groups.items()
    }
    missing = next(iter(groups.values())).sampler.missing
    return {"format": FORMAT, "column": column, "epsilon": str(epsilon), "missing": missing, "groups": parts}


def write(path: str | os.PathLike[str], data: Mapping[str, Any]) -> None:
    """Write a document as compact ASCII JSON; a large one packed."""
    text = _text(data)
    if len(text) >= ROOM:
        text = _text({**data, "groups": {name: pack(part) for name, part in data["groups"].items()}})
    Path(path).write_text(text, encoding="ascii")


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a JSON document, packed or not; what is no JSON object, or says something twice, is refused."""
    data = read_document(path, "a saved randomizer")
    if not isinstance(data, dict):
        raise InvalidTask(f"{os.fspath(path)} is not a saved randomizer.")
    return data


def plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """A randomizer's document with everything in it unpacked."""
    return {**data, "groups": {name: unpack(part) for name, part in data["groups"].items()}}


def restore(data: Mapping[str, Any]) -> dict[str, GroupFit]:
    """Every group's randomizer (the only one under no name), of a document that the judge passed; others are refused."""
    if data.get("format") != FORMAT:
        raise InvalidTask(f"this is not a saved label randomizer: its format is {str(data.get('format'))[:60]!r}.")
    report = judge(data)
    if not report.passed:
        raise InvalidTask(f"the saved randomizer does not hold what it claims: {'; '.join(report.findings[:3])}.")
    return {name: _restored(part, data["missing"]) for name, part in plain(data)["groups"].items()}


def _restored(part: Mapping[str, Any], missing: float | None) -> GroupFit:
    saved = part["mechanism"]
    noisy = saved["format"] == NOISE_FORMAT
    mechanism = AddedNoise.from_json(saved) if noisy else FiniteMechanism.from_json(saved)
    return GroupFit(part["method"], sampler_of(mechanism, missing), Prior.from_json(part["prior"]))


def judge(data: Mapping[str, Any]) -> CheckReport:
    """Re-prove every claim of a saved randomizer, or of a saved bare mechanism; what cannot be proved is ``unproved``."""
    kind = data.get("format")
    if kind in (TABLE_FORMAT, NOISE_FORMAT):
        return check(data)
    if kind != FORMAT:
        return CheckReport((f"not a saved randomizer: its format is {str(kind)[:60]!r}",))
    try:
        return _judge(plain(data))
    except UNREADABLE as problem:
        return CheckReport((unreadable(problem),))


def _judge(data: Mapping[str, Any]) -> CheckReport:
    """Every group's claims, and that all groups share the range and the one purchase of a prior."""
    only(data, "format", "column", "epsilon", "missing", "groups")
    groups = data["groups"]
    reports = {name: _judge_part(part, data) for name, part in groups.items()}
    findings = [
        f"group {name[:40]}: {text}" if name else text for name, one in reports.items() for text in one.findings
    ]
    if not isinstance(data["column"], str) or not data["column"]:
        findings.append("the label column has no name")
    if findings or not groups:
        return CheckReport(tuple(findings) or ("the document has no randomizer",))
    facts = [[part["mechanism"]["inputs"], *(part["prior"][x] for x in _PURCHASE)] for part in groups.values()]
    if any(fact != facts[0] for fact in facts):
        findings.append("the groups do not share range and prior")
    proofs = [part["mechanism"].get("certificate") for part in groups.values()]
    losses = [proof["loss"] for proof in proofs if proof is not None]
    if any(loss != losses[0] for loss in losses):
        findings.append("the groups are certified for different losses, of which the report could name one only")
    if tuple(groups) != ALL and ("" in groups or any(part["method"] not in _TABLES for part in groups.values())):
        findings.append("a group has no name, or holds no randomizer that draws from a table")
    return _together(list(reports.values()), findings)


_PURCHASE = ("source", "micro", "receipt")
_TABLES = (*METHODS, "compromise")


def _together(reports: list[CheckReport], findings: list[str]) -> CheckReport:
    """What holds for all groups: the largest bias and rounding, and the largest gap if every group has one."""
    worst = max(reports, key=lambda report: report.gap or Fraction(0))
    bounds = worst if all(report.gap is not None for report in reports) else CheckReport(())
    rounding = [report.rounding for report in reports if report.rounding is not None]
    return replace(
        bounds,
        findings=tuple(findings),
        bias=max(report.bias or Fraction(0) for report in reports),
        rounding=max(rounding, default=None),
        unproved=tuple(dict.fromkeys(text for report in reports for text in report.unproved)),
    )


def _judge_part(part: Mapping[str, Any], data: Mapping[str, Any]) -> CheckReport:
    """The mechanism, its nodes as the floats that labels are, its name, its prior, and what it spends."""
    only(part, "method", "prior", "mechanism")
    report, table = check(part["mechanism"]), part["mechanism"]
    if report.findings:
        return report
    nodes = Nodes(tuple(written(y, "a label") for y in table["inputs"]))
    if not nodes.told_apart:
        return replace(report, findings=("the nodes are not different floats",))
    findings = [*_method(part["method"], table), *_prior(part, data), *_missing(data["missing"], nodes)]
    spent = Fraction(whole(part["prior"]["micro"], 0, 1 << 60, "micro"), MICRO)
    if (read_epsilon(data["epsilon"]) * MICRO).denominator != 1:
        findings.append("epsilon is not a whole number of millionths, which is what a ledger can charge")
    if read_epsilon(data["epsilon"]) != written(table["epsilon"], "epsilon") + spent:
        findings.append("epsilon is not what prior and mechanism spend together")
    return replace(report, findings=tuple(findings), unproved=_unproved(part))


def _missing(missing: Any, nodes: Nodes) -> list[str]:
    """What missing labels count as: nothing, or a JSON number in the range."""
    number = type(missing) in (int, float) and missing == float(missing)
    if missing is None or (number and nodes.floats[0] <= missing <= nodes.floats[-1]):
        return []
    return ["the value of missing labels is no number in the range"]


def _method(method: Any, table: Mapping[str, Any]) -> list[str]:
    """The name of the method promises the kind of noise, or whether there is bias and a certificate."""
    if table["format"] == NOISE_FORMAT:
        return ["the method is not the kind of noise that is added"] * (method != table["kind"])
    if method not in _TABLES:
        return ["the method is not one that is known"]
    if method not in (*BIASED, "compromise") and not table["unbiased"]:
        return [f"method {method} has no bias, and this table does"]
    if method == "balanced" and table["certificate"] and table["certificate"]["loss"]["name"] != "squared":
        return ["method balanced is one for the squared loss"]
    if method in ("unbiased", "balanced") and table["certificate"] is None:
        return [f"method {method} comes with a certificate, and there is none"]
    return []


def _unproved(part: Mapping[str, Any]) -> tuple[str, ...]:
    """What a document says about its prior and its method, and cannot show.

    A certificate says more than a method's name, and noise is what its numbers say; other tables only bear the name.
    """
    prior = {"public": (_PUBLIC,), "private": (_BOUGHT,)}.get(part["prior"]["source"], ())
    table = part["mechanism"]
    shown = table["format"] == NOISE_FORMAT or table["certificate"] is not None
    if shown and table.get("certificate") and table["certificate"]["loss"]["name"] == "table":
        return (*prior, _MEANT)
    return prior if shown else (*prior, _NAMED.format(part["method"]))


def _prior(part: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """Everything about a saved prior that can be wrong."""
    prior, table = part["prior"], part["mechanism"]
    only(prior, "source", "weights", "counts", "micro", "receipt")
    weights, findings = [written(w, "a weight of the prior") for w in listed(prior["weights"], "weights")], []
    counts = tuple(whole(c, -_HUGE, _HUGE, "a count") for c in listed(prior["counts"], "counts"))
    integers = not any("/" in w for w in prior["weights"])  # "4/2" is a whole number, and not one that is read back
    if len(weights) != len(table["inputs"]) or min(weights) < 0 or not any(weights) or not integers:
        return ["the prior is not a prior"]
    certificate = table.get("certificate")
    if certificate is not None and [written(p, "a weight") for p in certificate["prior"]] != weights:
        findings.append("the mechanism was made for another prior than the one declared")
    if prior["source"] == "private":
        if len(counts) != len(weights) or weights != list(from_counts(counts)):
            findings.append("the prior does not follow from the counts that were released")
        return findings + _receipt(prior["receipt"], whole(prior["micro"], 1, _HUGE, "the price of the prior"), data)
    if prior["source"] not in ("none", "public"):
        findings.append("the prior does not say where it came from")
    if prior["micro"] or counts or prior["receipt"] is not None:
        findings.append("a prior that was not bought carries a price")
    if prior["source"] == "none" and weights != _made_up(part, data):
        findings.append("the prior is said to be made up, and is not the one that is made up")
    return findings


def _made_up(part: Mapping[str, Any], data: Mapping[str, Any]) -> list[int]:
    """The weights of a randomizer that was told no prior."""
    inputs = part["mechanism"]["inputs"]
    if part["method"] != "balanced":
        return [1] * len(inputs)
    nodes = Nodes(tuple(written(y, "a label") for y in inputs))
    return list(balanced(nodes, written(data["epsilon"], "epsilon")).weights)


def _receipt(receipt: Any, micro: int, data: Mapping[str, Any]) -> list[str]:
    """A receipt of a charge of exactly the prior's price, in the currency of the account that paid."""
    if not isinstance(receipt, Mapping):
        return ["a prior learnt from labels has no charge"]
    only(receipt, "sequence", "head", "cost", "account", "ledger_id")
    only(receipt["cost"], "currency", "amount", "delta")
    for number, name in ((receipt["sequence"], "sequence"), *((receipt["cost"][x], x) for x in ("amount", "delta"))):
        whole(number, 0, 1 << 80, name)
    held = Receipt.from_json(receipt)
    named = isinstance(held.account, str) and held.account and _HEAD.fullmatch(held.head)
    if held.sequence < 1 or not named or not _LEDGER.fullmatch(held.ledger_id):
        return ["the receipt of the prior's charge names no entry of a ledger"]
    terms = Terms(labels(data["column"]), Loss(held.cost.currency, _HUGE))
    if held.cost.currency is Currency.NATS or held.cost != price(histogram(1, micro).event, terms):
        return ["the receipt is not one of a charge of the prior's price"]
    return []
