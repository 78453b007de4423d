"""What a search would probably cost, tried on public rows and on an account of the same terms that nobody has to keep.

The trial's account lives in memory, counts in the same currency, hides the same unit, and has no more left
than the real one; the noise of the trials is that of tests.
Law: nothing is charged to the account that is planned for, and no private row is read.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Account
from steelyard.desk import Desk, NoTable
from steelyard.errors import InvalidTask
from steelyard.ledger import open_account
from steelyard.noise import ExactNoise
from steelyard.privacy import Currency, Event

Ints = NDArray[np.int64]


def places(labels: Sequence[Any], users: Any, account: Account | None, n: int | None) -> tuple[Ints, Ints | None]:
    """Which public rows stand for the private ones, and whose each is; as many as an account says that there are."""
    if not len(labels):
        raise InvalidTask("a plan is tried on public or made-up rows: give at least one.")
    public = None if account is None else account.terms.unit.n
    asked = public if n is None else whole(n, "n")
    if public is not None and asked != public:
        assert account is not None
        raise InvalidTask(f"account {account.name!r} speaks of n = {public:,}; got n = {asked:,}. Leave n out.")
    return repeated(len(labels) if users is None else users, asked)


def whole(value: Any, name: str) -> int:
    """A whole number above zero."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise InvalidTask(f"{name} must be a whole number above zero; got {value!r}.")
    return number


def like(account: Account, n: int) -> Account:
    """An account in memory on the same terms, for n public units where units are replaced, with as much left."""
    terms = account.terms
    unit = terms.unit if terms.unit.n is None else replace(terms.unit, n=n)
    given: dict[str, Any] = {"epsilon": terms.epsilon}
    if terms.epsilon is None:
        given = {"mu": f"{math.isqrt(terms.cap.amount)}e-6"}
    if terms.currency is Currency.GAUSSIAN and terms.delta:
        given["delta"] = terms.delta
        given |= {"additive_delta": terms.cap.additive_delta} if terms.cap.delta else {}
    made, spent = open_account(":memory:", account.name, unit=unit, **given), terms.cap - account.remaining
    if spent.amount or spent.delta:
        Desk(NoTable(), ExactNoise(), made, "a plan", {}).charge(Event("spent before"), loss=spent)
    return made


def repeated(given: Any, n: int | None) -> tuple[Ints, Ints | None]:
    """Which public rows make up n private ones, or n users; and then whose each is. As many as given where n is None.

    ``given`` is the number of public rows, or whose each of them is; then users are repeated with all their rows.

    >>> repeated(3, 5)[0].tolist()
    [0, 1, 2, 0, 1]
    >>> [part.tolist() for part in repeated(["a", "b", "a"], 3)]
    [[0, 2, 1, 0, 2], [0, 0, 1, 2, 2]]
    """
    if isinstance(given, int):
        return np.resize(np.arange(given), given if n is None else n), None
    _, codes = np.unique(np.asarray(given), return_inverse=True)
    order, sizes = np.argsort(codes, kind="stable"), np.bincount(codes)
    chosen = np.resize(np.arange(len(sizes)), len(sizes) if n is None else n)
    counts = sizes[chosen]
    whose = np.repeat(np.arange(len(chosen)), counts)
    starts = np.concatenate([[0], np.cumsum(sizes)])[chosen] - np.concatenate([[0], np.cumsum(counts)[:-1]])
    return order[starts[whose] + np.arange(len(whose))], whose
