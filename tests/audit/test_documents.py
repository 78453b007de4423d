"""Saved randomizers, changed anywhere: the judge refuses each or it is true, and a judge that overlooks anything is caught."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from steelyard.audit._document_truth import untruth
from steelyard.audit._documents import DocumentFuzz, changed, documents, names
from steelyard.labels._check import CheckReport
from steelyard.labels._document import judge

HEAVY = ("piecewise", "hybrid", "table")


@pytest.mark.parametrize("name", names())
def test_a_changed_document_is_refused_or_true(name: str) -> None:
    (check,) = DocumentFuzz(name).examine(8 if name in HEAVY else 25)
    assert check.ok, check.text


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_ten_thousand_changed_documents_are_refused_or_true(name: str) -> None:
    (check,) = DocumentFuzz(name).examine(500)
    assert check.ok, check.text


def overlooking(*words: str) -> Any:
    """A judge that does not mind findings with these words: each is a check left out."""

    def lenient(data: Any) -> CheckReport:
        report = judge(data)
        return replace(report, findings=tuple(f for f in report.findings if not any(word in f for word in words)))

    return lenient


OVERLOOKED = {
    "e^epsilon": ("rr", ("exceeds e^epsilon", "sums to")),
    "row sums": ("two_point", ("sums to", "biased")),
    "bias": ("two_point", ("biased",)),
    "sensitivity": ("laplace", ("sensitivity",)),
    "noise width": ("discrete_laplace", ("as wide as epsilon",)),
    "another's certificate": ("rr", ("without bias", "made for another prior")),
    "gap": ("unbiased", ("the certificate proves",)),
    "gap of another loss": ("absolute", ("the certificate proves",)),
    "receipt": ("bought", ("receipt",)),
    "price of the prior": ("bought", ("epsilon is not what",)),
    "counts": ("bought", ("does not follow", "another prior")),
    "prior": ("rr_with_prior", ("not a prior",)),
    "missing": ("rr", ("no number in the range",)),
    "fields": ("bought", ("cannot be read",)),
    "words": ("two_point", ("bits must be", "cannot be read")),
}


@pytest.mark.parametrize("what", OVERLOOKED)
def test_a_judge_that_overlooks_something_is_caught(what: str) -> None:
    name, words = OVERLOOKED[what]
    (check,) = DocumentFuzz(name, overlooking(*words)).examine(400)
    assert not check.ok


def test_changes_change_something_and_the_documents_as_made_are_true() -> None:
    assert list(documents()) == names()
    for name, data in documents().items():
        assert repr(changed(name, random.Random(1))) != repr(data)
        assert untruth(data) is None
