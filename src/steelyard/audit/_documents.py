"""Saved label randomizers under attack: change a document somewhere, and ask whether the judge's word still holds.

Every kind of document is made once. A change puts a hostile value, a piece of another document or another shape in one
place (or in several that belong together), and the judge must refuse the result or the result must be true; what is true is
decided in ``document_truth``, which shares no line with the judge. Law: a document that passes and is not true is broken.
"""

from __future__ import annotations

import copy
import json
import math
import random
import re
import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

from steelyard.audit._document_truth import untruth, unusable
from steelyard.audit._verdict import Check, Findings

Document = dict[str, Any]
Place = tuple[Any, ...]
Judge = Callable[[Document], Any]
_NUMBER = re.compile(
    r"-?[0-9]{1,1000}(/0*[1-9][0-9]{0,999})?"
)  # texts that may be read: one with an exponent has no end

_TEXTS = [
    "", "0", "1", "-1", "2", "1/2", "1e9", "1e99999999", " 1", "1_0", "+1", "nan", "0x10", "1/0", "x", "9" * 2000,
    "٣",
]  # fmt: skip
_NUMBERS = [0, 1, -1, 2, 24, 62, 63, 64, 65, 66, 128, 2**53, 2**53 + 1, 2**64, 10**400, 0.5, -0.5, 1e308, 5e-324, -0.0]
_OTHERS: list[Any] = [
    None, True, False, [], {}, [[]], math.nan, math.inf, "none", "public", "private", "rr", "two_point", "unbiased",
]  # fmt: skip


def of_every_method(upper: int, prior: list[int], missing: int | None = None) -> dict[str, Any]:
    """Label randomizers at epsilon 1, one of each method, put to use; one may say the same to everybody, and is attacked all the same."""
    from steelyard.labels import LabelRandomizer
    from steelyard.labels._baselines import KINDS
    from steelyard.labels._choice import METHODS

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "under this prior randomized response", UserWarning)
        return {name: LabelRandomizer(1, 0, upper, name, prior, missing=missing).fit() for name in (*METHODS, *KINDS)}


@cache
def documents() -> dict[str, Document]:
    """One true document of each kind, by name; they are shared, so change copies."""
    from steelyard.labels import LabelRandomizer, pack
    from steelyard.ledger import open_account
    from steelyard.noise import TestNoise
    from steelyard.privacy import labels

    prior, y = [6, 1, 1, 1, 1], [0, 0, 1, 4, 2] * 40
    made = of_every_method(4, prior, missing=2)
    made["no_prior"] = LabelRandomizer("0.3", -2, 2, "unbiased").fit()
    made["absolute"] = LabelRandomizer(1, 0, 4, "unbiased", prior, noise_loss="absolute").fit()
    made["uneven"] = LabelRandomizer(2, 0, 9, "unbiased", nodes=[0, 1, "2.5", 9]).fit()
    made["compromise"] = LabelRandomizer(1, 0, 4, prior=prior, unbiased=False).fit(y)
    for name, more in (("bought", {}), ("bought_gaussian", {"delta": "1e-6"})):
        account = open_account(":memory:", "a", unit=labels("y"), epsilon="9", **more)
        made[name] = LabelRandomizer(2, 0, 4, "unbiased", "private", account=account, noise=TestNoise(5)).fit(y)
    grouped = LabelRandomizer(1, 0, 4, prior={"a": prior, "b": prior[::-1]}).fit(groups=["a", "b"])
    found = {name: each._document() for name, each in made.items()}
    found |= {
        "grouped": grouped._document(),
        "packed": {**found["unbiased"], "groups": {"": pack(found["unbiased"]["groups"][""])}},
        "table": made["hybrid"].mechanism_.to_json(),
    }
    held: dict[str, Document] = json.loads(json.dumps(found))
    return held


def at(data: Any, place: Place) -> Any:
    """What a document holds at a place."""
    for name in place:
        data = data[name]
    return data


def changed(name: str, rng: random.Random) -> Document:
    """A copy of a document with one change, or a few that belong together; never the document itself."""
    while True:
        data = copy.deepcopy(documents()[name])
        if rng.random() < 0.25:
            rng.choice(_TOGETHER)(data, rng)
        else:
            for _ in range(1 if rng.random() < 0.8 else 2):
                place = _place(data, rng)
                if place:
                    at(data, place[:-1])[place[-1]] = _other(at(data, place), place, rng)
                else:
                    data["more"] = "1"
        if repr(data) != repr(documents()[name]):
            return data


def _place(data: Document, rng: random.Random) -> Place:
    """A place of a field that is named, then somewhere in it: long lists do not take all the attention."""
    groups = data.get("groups")
    here: Place = ()
    if isinstance(groups, dict) and groups and rng.random() < 0.75:
        here = ("groups", rng.choice(list(groups)))
    while True:
        part = at(data, here)
        if not isinstance(part, dict | list) or not part or (here and rng.random() < 0.15):
            return here
        here = (*here, rng.choice(list(part) if isinstance(part, dict) else range(len(part))))


def _other(value: Any, place: Place, rng: random.Random) -> Any:
    """Another value for a place: near the old one, of another kind, or what the same place holds in another document."""
    kind = rng.randrange(5)
    if kind == 0:
        return copy.deepcopy(rng.choice([*_TEXTS, *_NUMBERS, *_OTHERS]))
    if kind == 1:
        donors = [found for other in documents().values() for found in [_same_place(other, place)] if found is not None]
        return copy.deepcopy(rng.choice(donors)) if donors else None
    if isinstance(value, dict):
        return _other_dict(value, rng)
    if isinstance(value, list):
        return _other_list(value, rng)
    return _near(value, rng)


def _same_place(data: Any, place: Place) -> Any:
    try:
        return at(data, place)
    except (KeyError, IndexError, TypeError):
        return None


def _other_dict(value: Document, rng: random.Random) -> Document:
    out = dict(value)
    if out and rng.random() < 0.5:
        out.pop(rng.choice(list(out)))
    else:
        out[rng.choice(["more", "gap", "variance", "certificate"])] = rng.choice(["0", None, 0])
    return out


def _other_list(value: list[Any], rng: random.Random) -> list[Any]:
    out = list(value)
    if not out:
        return [0]
    here, there = rng.randrange(len(out)), rng.randrange(len(out))
    way = rng.randrange(5)
    if way == 0:
        out.pop(here)
    elif way == 1:
        out.insert(here, copy.deepcopy(out[there]))
    elif way == 2:
        out[here], out[there] = out[there], out[here]
    elif way == 3:
        out.reverse()
    else:
        out[here] = copy.deepcopy(out[there])
    return out


def _near(value: Any, rng: random.Random) -> Any:
    """A value a little off, much off, negated, or written differently."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, float) and not math.isfinite(value):
        return 0
    if isinstance(value, float):
        return rng.choice([math.nextafter(value, math.inf), -value, value * 10, value + 1e-9, str(value), int(value)])
    if isinstance(value, int):
        return rng.choice(
            [
                value + 1,
                value - 1,
                -value,
                value * 10,
                value << 1,
                str(value),
                float(max(min(value, 1 << 900), -1 << 900)),
            ]
        )
    if not _NUMBER.fullmatch(value):
        return value[:-1] if value and rng.random() < 0.5 else value + "A"
    number, tiny = Fraction(value), Fraction(1, 10**12)
    near = rng.choice([number + 1, number - 1, number + tiny, number * (1 - tiny), -number, number * 10, number / 2])
    return rng.choice([str(near), str(near), str(near), int(near), f" {near}", f"{near}.0"])


def _parts(data: Document) -> list[Document]:
    """What each group is given, or the bare mechanism."""
    found = list(data["groups"].values()) if "groups" in data else [{"mechanism": data}]
    return [part for part in found if isinstance(part, dict)]


def _tables(data: Document) -> list[Document]:
    """The mechanisms that are tables, written out."""
    return [part["mechanism"] for part in _parts(data) if isinstance(part["mechanism"].get("columns"), list)]


def _wider_grid(data: Document, rng: random.Random) -> None:
    """Noise made for a wider range than there is: as private, and biased."""
    times = Fraction(rng.choice(["2", "10", "1/2"]))
    for noise in (part["mechanism"] for part in _parts(data) if "sensitivity" in part["mechanism"]):
        noise["sensitivity"] = int(noise["sensitivity"] * times)
        if "scale" in noise:
            noise["scale"] = str(Fraction(noise["scale"]) * times)
        if "first" in noise and rng.random() < 0.5:
            noise["first"] = max(1, int(noise["first"] * times))


def _longer_words(data: Document, rng: random.Random) -> None:
    """Rows that sum to another power of two: the same probabilities."""
    more = rng.choice([1, 2, 3, 4, 8, 64])
    for table in _tables(data):
        table["bits"] += more
        for column in table["columns"]:
            column[2] = [str(int(w) << more) for w in column[2]]


def _as_numbers(data: Document, rng: random.Random) -> None:
    for table in _tables(data):
        for column in table["columns"]:
            column[2] = [int(w) for w in column[2]]


def _borrowed_proof(data: Document, rng: random.Random) -> None:
    """The certificate and the prior of another document, and a better gap."""
    other = documents()[rng.choice(["unbiased", "balanced", "bought"])]["groups"][""]
    for part in _parts(data):
        if "prior" in part:
            part["mechanism"]["certificate"] = copy.deepcopy(other["mechanism"]["certificate"])
            part["mechanism"]["certificate"]["gap"] = rng.choice(
                ["0", "-1", "1", part["mechanism"]["certificate"]["gap"]]
            )
            if rng.random() < 0.7:
                part["prior"] = copy.deepcopy(other["prior"])


def _cheaper_prior(data: Document, rng: random.Random) -> None:
    """A private prior whose price, epsilon and receipt are changed together, or only some of them."""
    for part in _parts(data):
        prior = part.get("prior")
        if isinstance(prior, dict) and prior.get("receipt"):
            less = rng.choice([1, 100_000, prior["micro"] - 1])
            prior["micro"] -= less
            if rng.random() < 0.7:
                data["epsilon"] = str(Fraction(data["epsilon"]) - Fraction(less, 10**6))
            if rng.random() < 0.5:
                prior["receipt"]["cost"]["amount"] -= less


def _another_scale(data: Document, rng: random.Random) -> None:
    """All labels and outputs times a number: true, unless floats cannot say it."""
    times = Fraction(rng.choice(["10", "1/3", "1000000000000", "1/1000000000000000000000", "-1"]))
    move = Fraction(rng.choice(["0", "0", "1/3", "100000000000000000", "-1000000"]))
    for table in (table for table in _tables(data) if table.get("certificate") is None):
        table["inputs"] = [str(Fraction(y) * times + move) for y in table["inputs"]]
        for column in table["columns"]:
            column[0] = str(Fraction(column[0]) * times + move)
        if "missing" in data:
            data["missing"] = None


_TOGETHER = [_wider_grid, _longer_words, _as_numbers, _borrowed_proof, _cheaper_prior, _another_scale]


class DocumentFuzz:
    """One kind of saved randomizer, changed many times; ``judge`` is the shipped one unless another is to be tried."""

    def __init__(self, name: str, judge: Judge | None = None) -> None:
        self.name, self._judge = name, judge

    def __repr__(self) -> str:
        return f"DocumentFuzz({self.name!r})"

    def audited(self, share: int) -> tuple[Check, ...]:
        """A thousand changes, or one in ``share`` of them."""
        return self.examine(max(20, 1000 // share))

    def examine(self, samples: int, seed: int = 0) -> tuple[Check, ...]:
        """Change the document ``samples`` times; broken if a document passes and is not true, or the judge fails."""
        from steelyard.labels import judge as shipped

        judge = self._judge or shipped
        rng, passed, found = random.Random(f"{self.name} {seed}"), 0, list[str]()
        if not judge(documents()[self.name]).passed or untruth(documents()[self.name]):
            found.append("the document as it was made does not pass, or is not true")
        for number in range(samples):
            data = changed(self.name, rng)
            try:
                report = judge(data)
            except Exception as failure:  # a judge that fails says nothing about the document
                found.append(f"change {number}: the judge failed with {type(failure).__name__}: {failure}")
                continue
            passed += report.passed
            false = (untruth(data) or (self._judge is None and unusable(data))) if report.passed else None
            if false:
                found.append(f"change {number}: it passed, and {false}")
        findings = Findings(
            {"documents": f"{samples} changed documents: each refused, or true ({passed} passed and are)"}
        )
        findings.note(("documents", text) for text in found)
        return findings.checks({})


def saved_randomizers() -> dict[str, DocumentFuzz]:
    """Every kind of document, not made yet."""
    return {f"documents-{name.replace('_', '-')}": DocumentFuzz(name) for name in names()}


def names() -> list[str]:
    """What ``documents`` holds."""
    from steelyard.labels._baselines import KINDS
    from steelyard.labels._choice import METHODS

    others = ("no_prior", "absolute", "uneven", "compromise", "bought", "bought_gaussian", "grouped", "packed", "table")
    return [*METHODS, *KINDS, *others]
