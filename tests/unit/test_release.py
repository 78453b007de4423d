"""A release is read back from the bytes that were stored, once, and says exactly what they say."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.account import Charge
from steelyard.ledger import open_account
from steelyard.mechanisms import Laplace
from steelyard.plan import Error, Outcome
from steelyard.privacy import Loss, canonical, rows
from steelyard.release import Release, promise, sealed_payload

EVENT = Laplace(1, Fraction(4)).event
TASK = {"task": "probe", "cap": "1/3"}
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def charge() -> Charge:
    account = open_account(":memory:", "read back", unit=rows(), epsilon=1)
    return account.charge(Loss.pure("0.25"), key="one", request=b"probe", event=EVENT)


def sealed(charge: Charge, outcome: Outcome) -> bytes:
    terms = open_account(":memory:", "terms", unit=rows(), epsilon=1).terms
    return sealed_payload(
        vars(outcome) | {"error": outcome.error and outcome.error.to_json()},
        promise(terms, charge.level, EVENT, secure=True),
        EVENT,
        TASK,
    )


@given(value=values, noise=st.floats(0, 1e9), point=st.dictionaries(st.text(), numbers, max_size=3))
def test_what_is_delivered_is_the_stored_document_with_its_receipt(
    charge: Charge, value: Any, noise: float, point: dict[str, Any]
) -> None:
    stored = sealed(charge, Outcome(value, Error(noise, 2 * noise), point))
    release = Release.delivered(stored, charge.receipt)
    document = json.dumps({**json.loads(stored), "receipt": charge.receipt.to_json()})
    assert release == Release.from_json(document)
    assert canonical({k: v for k, v in json.loads(release.to_json()).items() if k not in ("value", "receipt")}) == (
        canonical({k: v for k, v in json.loads(stored).items() if k != "value"})
    )
    assert release.receipt == charge.receipt


@given(value=values, place=st.integers(0, 5000), mark=st.characters(max_codepoint=0x2FF))
def test_what_is_stored_is_one_canonical_document_however_long_its_text(
    charge: Charge, value: Any, place: int, mark: str
) -> None:
    text = "x" * 5000
    for held in (value, text, text[:place] + mark + text[place:], [text, mark]):
        stored = sealed(charge, Outcome(held, None, {"zebra": 1}))
        assert stored == canonical(json.loads(stored))
        assert json.loads(stored)["value"] == held


def test_every_mark_that_json_escapes_is_escaped_in_a_long_text(charge: Charge) -> None:
    for number in range(256):
        text = "x" * 5000 + chr(number)
        stored = sealed(charge, Outcome(text, None))
        assert stored == canonical({**json.loads(stored), "value": text})


def test_a_value_is_presented_and_nothing_else_is(charge: Charge) -> None:
    stored = sealed(charge, Outcome([1, 2], None, {"cap": 7}))
    release = Release.delivered(stored, charge.receipt, present=sum)
    assert (release.value, release.error, release.point, release.task) == (3, None, {"cap": 7}, TASK)


def test_bytes_that_lack_a_part_are_refused(charge: Charge) -> None:
    parts = json.loads(sealed(charge, Outcome(1, None)))
    for name in parts:
        with pytest.raises(KeyError):
            Release.delivered(canonical({k: v for k, v in parts.items() if k != name}), charge.receipt)


def test_an_estimate_of_what_the_cap_cuts_off_says_what_it_does_not_count() -> None:
    session = sy.Session(
        sy.read({"user": [f"u{i}" for i in range(500)], "v": [1.0] * 495 + [90_000.0] * 5}),
        sy.open_account(":memory:", "a", unit=sy.users("user"), epsilon=10),
    )
    release = session.release(sy.Sum("v", epsilon=10, upper=10))
    assert release.value < 10_000 < sum([90_000] * 5)
    assert "totals above upper not counted" in str(release.error)
    assert "about" not in str(release.error)
    assert "at least 0" not in str(release.error)
    assert (
        "of totals held at upper, which some reach or pass" in release.told[0]
    )  # the truth of all totals lies far above
