"""Where a saved prior says it came from: what follows from the document is re-derived, and what does not is said.

Weights made up must be those that the nodes and epsilon give; bought ones must follow from the released counts, and the
receipt must be one of a charge of exactly that price. That a ledger holds the charge, that the counts are the ones it paid
for, and that public weights owe nothing to labels, no document can show. The law: what was not proved is never claimed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from steelyard.account import Receipt
from steelyard.accounting.prices import price
from steelyard.privacy import Currency, Loss, Terms, labels, written

from .check import listed, only, whole
from .continuous import Nodes
from .prior import from_counts, histogram

_HUGE = 1 << 62  # a count beyond this is none
_HEAD, _LEDGER = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{32}")
_PUBLIC = "that the prior is public knowledge and owes nothing to the labels: no document can show it"
_NAMED = "that the table is the one method {} makes: of the name only the bias was looked at"
_BOUGHT = "that a ledger holds the charge of the prior, and that the counts are what it paid for: ask the ledger"


def unproved(data: Mapping[str, Any]) -> tuple[str, ...]:
    """What a document says about its prior and its method, and cannot show.

    A certificate says more than a method's name, and noise is what its numbers say; other tables only bear the name.
    """
    prior = {"public": (_PUBLIC,), "private": (_BOUGHT,)}.get(data["prior"]["source"], ())
    shown = "kind" in data["mechanism"] or data["mechanism"]["certificate"] is not None
    return prior if shown else (*prior, _NAMED.format(data["method"]))


def judge_prior(prior: Mapping[str, Any], data: Mapping[str, Any]) -> list[str]:
    """Everything about a saved prior that can be wrong; ``data`` is the document it is part of."""
    only(prior, "source", "weights", "counts", "micro", "receipt")
    table = data["mechanism"]
    weights, findings = [written(w, "a weight of the prior") for w in listed(prior["weights"], "weights")], []
    counts = tuple(whole(c, -_HUGE, _HUGE, "a count") for c in listed(prior["counts"], "counts"))
    if len(weights) != len(table["inputs"]) or min(weights) < 0 or not any(weights) or not _integers(weights):
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
    if prior["source"] == "none" and weights != _made_up(data):
        findings.append("the prior is said to be made up, and is not the one that is made up")
    return findings


def _integers(weights: list[Fraction]) -> bool:
    return all(w.denominator == 1 for w in weights)


def _made_up(data: Mapping[str, Any]) -> list[int]:
    """The weights of a randomizer that was told no prior."""
    inputs = data["mechanism"]["inputs"]
    if data["method"] != "balanced":
        return [1] * len(inputs)
    from .choice import balanced

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
