"""Replay of holdouts on neighbouring labels: clean on every metric, and every twin is named by the right check."""

from __future__ import annotations

import re
import warnings
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from steelyard.audit import HiddenLabels, audit
from steelyard.audit._holdouts import MODES, ROWS, hidden_labels
from steelyard.audit._odd_labels import containers
from steelyard.errors import InvalidTask
from steelyard.holdout import _metrics as metrics
from steelyard.holdout import _modes as modes
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._metrics import AbsoluteError, PerExample
from steelyard.holdout._modes import HIDING
from steelyard.holdout._modes._private import NormalAnswers
from steelyard.noise import Noise

ONES = (np.ones(ROWS, dtype=np.int64),)


def differs(label: Any, said: Any) -> float:
    return float(label != said)


def subject(metric: metrics.Metric, *names: str) -> HiddenLabels:
    return HiddenLabels(metric, (1,), ONES, modes=names or ("private",))


def broken(told: HiddenLabels, share: int = 1) -> set[str]:
    return {check.name for check in told.audited(share) if not check.ok}


@pytest.mark.parametrize("name", hidden_labels())
def test_every_metric_is_clean_at_a_glance(name: str) -> None:
    verdict = audit(hidden_labels()[name], share=60)
    assert verdict.ok, verdict


@pytest.mark.slow
def test_tens_of_thousands_of_neighbouring_labels_are_clean() -> None:
    pairs = 0
    for told in hidden_labels().values():
        verdict = audit(told, share=1)
        assert verdict.ok, verdict
        found = re.search(r"(\d+) pairs", str(verdict))
        assert found is not None
        pairs += int(found.group(1))
    assert pairs >= 20_000


def test_every_metric_and_every_mode_that_hides_labels_is_replayed() -> None:
    shipped = {
        thing for thing in vars(metrics).values() if isinstance(thing, type) and "judge" in dir(thing) and
        thing.__module__ == metrics.__name__ and not getattr(thing, "_is_protocol", False)
    }  # fmt: skip
    assert shipped - set(metrics.FOR_POPULATION) == {
        type(each.metric) for each in hidden_labels().values()
    }  # those are refused
    assert {given["mode"] for given in MODES.values()} == set(HIDING)


@pytest.mark.parametrize("name", modes.MODES)
def test_a_mode_is_named_as_hiding_labels_when_its_answers_are_noisy(name: str) -> None:
    module, _, kind = modes.MODES[name].partition(".")
    made = getattr(import_module(f"{modes.__name__}._{module}"), kind)
    assert issubclass(made, modes.NoisyMode) == (name in HIDING)


def test_every_kind_of_container_is_tried() -> None:
    names = " ".join(each.name for each in containers())
    for kind in ("list", "tuple", "objects", "int64 array", "float64 array", "pandas Int64", "arrow int64", "polars"):
        assert kind in names
    assert all(len(each.make([1] * ROWS)) == ROWS for each in containers())


class OneType(PerExample):
    """Gives all rows one type, as numpy does."""

    def judge(self, labels: Any) -> Any:
        return super().judge(np.asarray([str(label) for label in labels]) if self._odd(labels) else labels)

    def _odd(self, labels: Any) -> bool:
        return any(isinstance(label, str) for label in labels)


class Refuses(PerExample):
    """Refuses labels that are no numbers."""

    def judge(self, labels: Any) -> Any:
        if any(label is None for label in labels):
            raise InvalidTask("a label is missing.")
        return super().judge(labels)


class Panic(BaseException):
    """What an engine raises that is no exception."""


class Panics(PerExample):
    """Breaks down at a label that is missing."""

    def judge(self, labels: Any) -> Any:
        if any(label is None for label in labels):
            raise Panic("a label is missing")
        return super().judge(labels)


class Warns(PerExample):
    """Says that a label is missing."""

    def judge(self, labels: Any) -> Any:
        if any(label is None for label in labels):
            warnings.warn("a label is missing", stacklevel=1)
        return super().judge(labels)


class Wide(AbsoluteError):
    """Lets one row count twice what it declares."""

    def judge(self, labels: Any) -> Any:
        held = super().judge(labels)
        total = held.total
        held.total = lambda read: 2 * total(read)
        return held


@pytest.mark.parametrize(
    ("metric", "named"),
    [
        (OneType(differs, Fraction(1)), "distance"),
        (Refuses(differs, Fraction(1)), "errors"),
        (Panics(differs, Fraction(1)), "errors"),
        (Warns(differs, Fraction(1)), "errors"),
        (Wide(Fraction(1)), "distance"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_each_broken_metric_is_caught_by_the_check_that_names_its_fault(metric: Any, named: str) -> None:
    assert named in broken(subject(metric), share=4)


def test_an_opening_that_compares_hidden_labels_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = Holdout._bound

    def sealed(holdout: Holdout, options: dict[str, Any], known: bytes | None) -> bytes:
        return bound(holdout, options, known) + str(holdout._judge.total(holdout._judge.read(ONES[0]))).encode()

    monkeypatch.setattr(Holdout, "_bound", sealed)
    assert broken(subject(PerExample(differs, Fraction(1)), "private", "classic"), share=40) == {"errors"}


def test_a_print_that_shows_labels_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Holdout, "__repr__", lambda holdout: str(holdout._judge.total(holdout._judge.read(ONES[0]))))
    assert broken(subject(PerExample(differs, Fraction(1))), share=40) == {"transcript"}


def test_an_answer_without_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(scheme: NormalAnswers, total: int, noise: Noise) -> int:
        return total

    monkeypatch.setattr(NormalAnswers, "noised", exact)
    assert "noise" in broken(subject(PerExample(differs, Fraction(1))), share=40)
