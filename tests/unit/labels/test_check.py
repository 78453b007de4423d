"""The judge: it passes what is true, and refuses every planted fault."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.errors import InvalidTask
from steelyard.labels._bounds import exponential, lower_bound
from steelyard.labels._check import check
from steelyard.labels._mechanism import FiniteMechanism, growth_below, ratio_below
from steelyard.labels.solve._unbiased import solve_unbiased

Document = dict[str, Any]
Fault = Callable[[Document, random.Random], None]


@cache
def _saved(case: int) -> str:
    epsilon, prior = [("0.3", [5, 1, 1, 0, 2, 1]), ("1", [1] * 8), ("2.5", [9, 1, 1, 1, 4, 4]), ("6", [1, 2, 3, 4])][
        case
    ]
    return json.dumps(solve_unbiased(range(len(prior)), prior, epsilon).mechanism.to_json())


def document(case: int) -> Document:
    loaded: Document = json.loads(_saved(case))
    return loaded


def uneven(doc: Document, rng: random.Random) -> list[Any]:
    """A column with two weights (not the constant filler)."""
    column: list[Any] = rng.choice([c for c in doc["columns"] if len(c[2]) > 1])
    return column


def ratio_one_unit_too_large(doc: Document, rng: random.Random) -> None:
    """Move one unit of weight from a column's low rows to its high rows, and make the rows sum again elsewhere."""
    column = uneven(doc, rng)
    low, top = sorted({int(w) for w in column[2]})
    high = math.floor(exponential(Fraction(doc["epsilon"]))[0] * low) + 1
    column[2] = [str(high if int(w) == top else low) for w in column[2]]


def row_does_not_sum(doc: Document, rng: random.Random) -> None:
    column = rng.choice(doc["columns"])
    column[2] = [str(int(w) - 1) for w in column[2]]


def one_row_does_not_sum(doc: Document, rng: random.Random) -> None:
    column = uneven(doc, rng)
    row = rng.randrange(len(column[2]))
    column[2][row] = str(int(column[2][row]) - 1)


def bias_of_a_billionth(doc: Document, rng: random.Random) -> None:
    heavy = max(doc["columns"], key=lambda c: max(int(w) for w in c[2]))
    heavy[0] = str(Fraction(heavy[0]) + Fraction(1, 10**9))


def all_outputs_moved(doc: Document, rng: random.Random) -> None:
    for column in doc["columns"]:
        column[0] = str(Fraction(column[0]) + Fraction(1, 10**12))


def false_certificate(doc: Document, rng: random.Random) -> None:
    u = doc["certificate"]["u"]
    size = max(abs(Fraction(x)) for x in u)
    i = rng.randrange(len(u))
    u[i] = str(Fraction(u[i]) + size / 100)


def flattering_gap(doc: Document, rng: random.Random) -> None:
    doc["certificate"]["gap"] = str(Fraction(doc["certificate"]["gap"]) / 2 - Fraction(1, 10**12))


def flattering_prior(doc: Document, rng: random.Random) -> None:
    prior = doc["certificate"]["prior"]
    prior[rng.randrange(len(prior))] = str(10**6)


def swapped_rows(doc: Document, rng: random.Random) -> None:
    count = len(doc["inputs"])
    i = rng.randrange(count - 1)
    for column in doc["columns"]:
        weights = [w for w, n in zip(column[2], np.diff([*column[1], count]), strict=True) for _ in range(n)]
        weights[i], weights[i + 1] = weights[i + 1], weights[i]
        column[1], column[2] = list(range(count)), weights


def smaller_epsilon_claimed(doc: Document, rng: random.Random) -> None:
    doc["epsilon"] = str(Fraction(doc["epsilon"]) * (1 - Fraction(1, 10**6)))


def moved_boundary(doc: Document, rng: random.Random) -> None:
    count = len(doc["inputs"])
    column = rng.choice([c for c in doc["columns"] if len(c[2]) > 1 and c[1][1] + 1 < (c[1][2:] or [count])[0]])
    column[1][1] += 1


def missing_column(doc: Document, rng: random.Random) -> None:
    doc["columns"].pop(rng.randrange(len(doc["columns"])))


def zero_weight(doc: Document, rng: random.Random) -> None:
    column = uneven(doc, rng)
    column[2][0] = "0"


def float_weight(doc: Document, rng: random.Random) -> None:
    column = rng.choice(doc["columns"])
    column[2][0] = float(column[2][0])


def weight_as_number(doc: Document, rng: random.Random) -> None:
    column = rng.choice(doc["columns"])
    column[2][0] = int(column[2][0])


def unreadable(doc: Document, rng: random.Random) -> None:
    del doc[rng.choice(["inputs", "columns", "epsilon", "bits", "unbiased"])]


FAULTS: list[Fault] = [
    ratio_one_unit_too_large,
    row_does_not_sum,
    one_row_does_not_sum,
    bias_of_a_billionth,
    all_outputs_moved,
    false_certificate,
    flattering_gap,
    flattering_prior,
    swapped_rows,
    smaller_epsilon_claimed,
    moved_boundary,
    missing_column,
    zero_weight,
    float_weight,
    weight_as_number,
    unreadable,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.__name__))
@pytest.mark.parametrize("case", range(4))
def test_every_planted_fault_is_refused(fault: Fault, case: int) -> None:
    rng = random.Random(case)
    for _ in range(5):
        broken = document(case)
        fault(broken, rng)
        assert json.dumps(broken) != json.dumps(document(case))
        assert not check(broken).passed


@pytest.mark.parametrize("case", range(4))
def test_the_untouched_documents_pass(case: int) -> None:
    report = check(document(case))
    assert report.passed
    assert report.bias == 0
    assert report.gap is not None
    assert 0 <= report.gap <= Fraction(1, 10**6)


def test_a_ratio_one_unit_too_large_is_named_as_such() -> None:
    broken = document(1)
    ratio_one_unit_too_large(broken, random.Random(0))
    assert any("ratio" in finding for finding in check(broken).findings)


def test_no_certificate_however_inflated_proves_more_than_the_value() -> None:
    rng, case = random.Random(5), document(2)
    base = check(case)
    assert base.value is not None
    for _ in range(60):
        broken = copy.deepcopy(case)
        for name in ("u", "slope"):
            numbers = [Fraction(x) for x in broken["certificate"][name]]
            size = max(map(abs, numbers)) * Fraction(10) ** rng.randrange(-12, 1)
            broken["certificate"][name] = [str(x + size * Fraction(rng.uniform(-1, 1))) for x in numbers]
        bound = check(broken).lower_bound
        assert bound is None or bound <= base.value


def test_the_lower_bound_is_never_above_a_fine_scan_of_the_penalty() -> None:
    """sum u + min g over a grid is at least the proved bound, and close to it: a bound that ignored g would differ."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        size, epsilon = int(rng.integers(2, 7)), Fraction(int(rng.integers(1, 40)), 10)
        y = [Fraction(int(v)) for v in np.cumsum(rng.integers(1, 5, size))]
        p, u, s = ([Fraction(int(v), 100) for v in rng.integers(low, 50, size)] for low in (1, -50, -50))
        proved = float(lower_bound(y, p, epsilon, u, s))
        z = np.linspace(-400, 400, 400_001)
        c = np.array(
            [
                float(a) * (z - float(b)) ** 2 - float(d) * (z - float(b)) - float(e)
                for a, b, d, e in zip(p, y, s, u, strict=True)
            ]
        )
        scan = float(sum(u)) + min(0.0, float(np.minimum(c, math.exp(float(epsilon)) * c).sum(0).min()))
        assert proved <= scan + 1e-9
        assert proved == pytest.approx(scan, rel=1e-3, abs=1e-3)


def test_a_certificate_whose_penalty_falls_for_ever_proves_nothing() -> None:
    broken = document(0)
    broken["certificate"]["prior"] = ["1"] + ["0"] * 5
    broken["certificate"]["slope"][3] = "1"
    report = check(broken)
    assert not report.passed or (report.lower_bound is not None and report.lower_bound <= 0)


@pytest.mark.parametrize("epsilon", [Fraction(1, 20), Fraction(1), Fraction(8), Fraction(311, 100)])
def test_the_bounds_of_the_exponential_agree_and_enclose_it(epsilon: Fraction) -> None:
    import mpmath

    with mpmath.workdps(90):
        true = Fraction(str(mpmath.nstr(mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator), 80)))
    low, high = exponential(epsilon)
    assert low < true < high
    assert high - low < Fraction(1, 2**140)
    assert growth_below(epsilon) < true < growth_below(epsilon) + Fraction(1, 2**120)
    n, d = ratio_below(epsilon)
    assert 0 < true - Fraction(n, d) < Fraction(math.ceil(true) ** 2, 2**40)


def test_a_saved_mechanism_comes_back_the_same(tmp_path: Path) -> None:
    mechanism = solve_unbiased([0, "0.5", 2], [3, 1, 1], 1).mechanism
    mechanism.save(tmp_path / "mechanism.json")
    assert FiniteMechanism.load(tmp_path / "mechanism.json") == mechanism
    with pytest.raises(InvalidTask, match="not a saved label mechanism"):
        FiniteMechanism.from_json({"format": "something else"})


def test_the_float_table_matches_the_integers() -> None:
    mechanism = FiniteMechanism.from_json(document(1))
    table = mechanism.probabilities()
    assert table.shape == (8, len(mechanism.outputs))
    assert np.allclose(table.sum(axis=1), 1)
    assert table[3, 2] == mechanism.row(3)[2] / 2**62
