"""What is asked for, and what came of it: a ``Goal``, the ``Stop``s of a search, what it ``Found``, and its ``Certificate``.

Exactly one of a target loss, an excess loss and a relative error is asked for; they are different questions and are
never turned into each other. Whatever makes no sense is refused here, before anything is charged. A model whose loss is
certainly at most 50 has a loss of at most 60 too: a question that passed answers every looser one (``Goal.answers``).
Law: a target never stands for an excess, nor an excess for a target; nothing here sees a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import BudgetExceeded, InvalidTask, NeighbourMismatch
from steelyard.privacy import Event, Loss, Neighbours, Number, Terms, exact

if TYPE_CHECKING:
    from steelyard.models._rows import Target
    from steelyard.release import Release

TWO_CLASSES = (
    "an excess_loss, an accuracy on an account of pure epsilon, and check='disjoint' are for two classes, such as classes=[0, 1]. Of more, ask for target_accuracy or target_loss "
    "on an account with a delta, or about one class against the others. Nothing was charged."
)
UNDECLARED = "an accuracy is certified for declared classes, such as classes=[0, 1]: which of them occur is private. Nothing was charged."
CHECKS = ("auto", "every", "screened", "certificate", "disjoint")
NULL, MET, CAP, IMPOSSIBLE = "null_model_ok", "target_met", "cap_reached", "target_impossible"
UNSHOWN = "not_shown"
"""An excess can always be reached, so a search for one that ends without has been unlucky, not asked too much."""

PARAMETERS = {
    "target_loss": "loss",
    "target_rmse": "loss",
    "target_r2": "unexplained",
    "target_accuracy": "error",
    "excess_loss": "excess",
    "relative_error": "relative",
}
"""How an accuracy may be asked for, and what kind of question that is: an accuracy is one about the share of errors, an R squared one about
the share of the labels' variance that a model leaves unexplained.
"""

SHARES = ("error", "unexplained")
"""Kinds whose amount is what is missing from one, and is told as what is not."""

_LEAST, _MOST = Fraction(1, 10**300), 10**300  # whatever lies between is a double above zero
_NARROW, _WIDE = 1e-100, 1e100  # half the width of a label's bounds: their squares are doubles
_SHARP, _VAGUE = 1e-60, 1e60  # where labels lie in [-1, 1]: no account is near the one, and nothing loses the other


@dataclass(frozen=True)
class Goal:
    """One question: ``kind`` is "loss", "error" (the share of classes that are wrong), "unexplained" (one less R squared), "excess" or "relative"; of so much,
    how surely, and how it is checked. ``rooted`` says that a loss is told as its root.
    """

    kind: str
    amount: float
    confidence: float
    check: str = "auto"
    rooted: bool = field(default=False, compare=False)

    @classmethod
    def read(cls, asked: Mapping[str, Number | None], confidence: Number, check: str = "auto") -> Goal:
        """The one accuracy that is asked for, by the name of its parameter: positive and finite, with a confidence of half at least."""
        given = {name: amount for name, amount in asked.items() if amount is not None}
        if len(given) != 1:
            raise InvalidTask(
                "give exactly one of target_loss (a loss that is good enough), target_rmse (its root) or target_r2 (for a linear model), "
                "target_accuracy (for a classifier), excess_loss (how far above the best possible loss), or relative_error (for sums "
                f"and counts); got {len(given)}."
            )
        ((name, amount),) = given.items()
        kind, number = PARAMETERS[name], _amount(name, amount)
        sure = exact(confidence, "confidence")
        if not 0.5 <= sure <= 1 - 1e-9:
            raise InvalidTask(f"confidence must lie between 0.5 and 1, such as 0.9; got {confidence!r}.")
        _check_way(kind, check)
        return cls(kind, float(number), float(sure), check, name == "target_rmse")

    @property
    def failure(self) -> float:
        """The probability with which what is promised may be false."""
        return 1 - self.confidence

    @property
    def end(self) -> str:
        """Why a search ends that has tried every level: a target may be out of reach, an excess never is."""
        return UNSHOWN if self.kind == "excess" else IMPOSSIBLE

    @property
    def every(self) -> bool:
        """Whether each model is looked at once, sharply."""
        return self.check == "every"

    @property
    def where(self) -> str:
        """Which rows a loss is about."""
        return "check rows that the model has not seen" if self.check == "disjoint" else "these rows"

    @property
    def name(self) -> str:
        """What its steps say that they were bought for."""
        return f"{self.kind} {float(self.amount)!r} {float(self.confidence)!r}{' every' if self.every else ''}"

    @classmethod
    def of(cls, name: str) -> Goal | None:
        """The goal of a name such as ``loss 0.02 0.9``; None where it is none."""
        try:
            kind, amount, confidence, *way = name.split(" ")
            return cls(kind, float(amount), float(confidence), "".join(way) or "auto") if len(way) < 2 else None
        except (ValueError, TypeError):
            return None

    def answers(self, other: Goal) -> bool:
        """Whether passing this question answers another: one that asks for no more accuracy, and no more certainty."""
        return self.kind == other.kind and self.amount <= other.amount and self.confidence >= other.confidence

    def answered_by(self, names: Iterable[str]) -> list[Goal]:
        """Those of the named questions that would answer this one if they passed: itself first, then in order."""
        found = [other for name in names if (other := Goal.of(name)) is not None and other.answers(self)]
        return sorted(found, key=lambda other: other.name != self.name)

    def within(self, label: Target) -> float:
        """The amount where labels lie in [-1, 1]."""
        amount = self.amount / loss_unit(label)
        if amount < _SHARP:
            raise InvalidTask(
                "so small a loss is below what any budget could tell beside the bounds of this label: ask for more, or declare "
                "narrower bounds. Nothing was charged."
            )
        return min(amount, _VAGUE)


def _amount(name: str, amount: Number) -> Fraction:
    """What is asked for as the amount of its kind: of a root its square, of an accuracy or an R squared what is missing from one."""
    number = exact(amount, name)
    if number <= 0:
        raise InvalidTask(f"{name} must be above zero; got {amount!r}.")
    if name in ("target_accuracy", "target_r2", "relative_error") and number >= 1:
        raise InvalidTask(f"{name} must be below 1; got {amount!r}.")
    number = {"target_rmse": number**2, "target_accuracy": 1 - number, "target_r2": 1 - number}.get(name, number)
    if not _LEAST <= number <= _MOST:
        raise InvalidTask(f"{name} must lie between 1e-300 and 1e300.")
    return number


def _check_way(kind: str, check: str) -> None:
    """Refuse a way to check that there is not, or not for this kind of question."""
    if check not in CHECKS:
        raise InvalidTask(f"check must be one of {', '.join(CHECKS)}; got {check!r}.")
    if check == "certificate" and kind != "excess":
        raise InvalidTask("check='certificate' answers excess_loss only: a target loss must be looked at.")
    if check == "disjoint" and kind == "unexplained":
        raise InvalidTask(
            "check='disjoint' has no R squared: how much the labels of the rows that are kept apart vary is not known; ask for target_rmse."
        )
    if check == "disjoint" and kind not in ("loss", "error"):
        raise InvalidTask(
            "check='disjoint' answers target_loss and its like only: an excess is measured from the best model on the rows that "
            "were trained on, and rows that are kept apart know nothing of that one."
        )
    if check == "every" and kind == "excess":
        raise InvalidTask("check='every' is for target_loss; an excess is looked at twice at most.")


def share_of(rank: int) -> float:
    """The share of its failure probability that the question, or watch, of this rank under a key has; all make one."""
    return 0.9 * 0.1**rank


@dataclass(frozen=True)
class Stop:
    """One line of a path's history: what the path had cost (looks: what the look cost), and what it said.

    ``loss`` is the noisy loss of the model looked at, averaged over its looks, where a look told one. ``paid`` is what
    the account had paid for all stored steps by then, as mu squared, where the steps' own costs do not say so.
    """

    step: str
    mu2: float
    bound: float | None = None
    passed: bool | None = None
    loss: float | None = None
    paid: float | None = None

    def scaled(self, unit: float) -> Stop:
        """The same with its losses in the label's own units, of which one loss has so many."""
        bound, loss = (None if each is None else each * unit for each in (self.bound, self.loss))
        return replace(self, bound=bound, loss=loss)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        told = {"step": self.step, "mu2": self.mu2, "bound": self.bound, "passed": self.passed, "loss": self.loss}
        return told if self.paid is None else {**told, "paid": self.paid}


Progress = Callable[[Stop], None]


@dataclass(frozen=True)
class Found:
    """A model on features of length at most one and labels in [-1, 1]; ``bound`` is what is certified of it.

    ``alone`` says that no other question had measurements of this path made before; ``reach`` is what predictions are
    clipped to, ``margin`` a classifier's log-odds; ``release`` is the stored answer, where it says more than the model;
    ``refused`` is what the account would not pay for, if that ended the search; ``events`` are all that the key has ever
    released, where each stands for itself.
    """

    model: NDArray[np.float64] | None
    bound: float
    reason: str
    path: tuple[Stop, ...]
    spent: int
    alone: bool = True
    reach: float = 1.0
    margin: float | None = None
    release: Release | None = None
    refused: BudgetExceeded | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Certificate:
    """What may be said of a model: the question, the bound, and how sure it is; ``str()`` is the sentence.

    ``error`` says that the bound is on what is missing from one (an accuracy, an R squared), which is told as what is not.
    """

    question: str
    bound: float
    confidence: float
    how: str
    error: bool = False

    @property
    def met(self) -> bool:
        """Whether anything is promised."""
        return math.isfinite(self.bound)

    def __str__(self) -> str:
        if not self.met:
            return f"Nothing is certified: {self.how}."
        said = f"at least {1 - self.bound:.4g}" if self.error else f"at most {self.bound:.4g}"
        return f"{self.question} is {said}, with confidence {self.confidence:g}: {self.how}."


def loss_unit(label: Target) -> float:
    """One squared error of labels in [-1, 1] in the label's own units; refused where no double holds it."""
    if not _NARROW <= label.half <= _WIDE:
        raise InvalidTask(
            "a squared loss of labels within these bounds is no number: measure the label in another unit."
        )
    return label.half**2


def public_n(terms: Terms) -> int:
    """The n of an account that replaces rows or users, taken at its word; any other account hides it and is refused.

    No row is counted to see whether it is true: another account may hide how many rows the same table has. Sensitivities
    do not rest on it. A false n makes every mean a total over n (docs/proofs/accuracy_first_paths.md).
    """
    unit = terms.unit
    if unit.kind not in ("rows", "users") or unit.neighbours is not Neighbours.REPLACE or unit.n is None:
        how = f"users({unit.column!r}, " if unit.kind == "users" else "rows("
        raise NeighbourMismatch(
            "an accuracy is about the mean over n rows, or n users, so n must be public: open the account with "
            f"unit={how}neighbours='replace', n=...). This one hides {unit}."
        )
    return unit.n


def left_of(refused: BudgetExceeded) -> int:
    """What a refused step would have found left, in the ledger's smallest units; a public number."""
    return refused.remaining.amount if isinstance(refused.remaining, Loss) else 0
