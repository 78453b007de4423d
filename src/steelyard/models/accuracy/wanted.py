"""What was asked for, read once: which of the three accuracies, how sure, and how it is checked.

Exactly one of a target loss, an excess loss and a relative error is asked for; they are different questions and are
never turned into each other. Whatever makes no sense is refused here, before anything is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from steelyard.errors import InvalidTask
from steelyard.privacy import Number, exact

if TYPE_CHECKING:
    from steelyard.models.rows import Target

CHECKS = ("auto", "every", "screened", "certificate", "disjoint")
_LEAST, _MOST = Fraction(1, 10**300), 10**300  # whatever lies between is a double above zero


_NARROW, _WIDE = 1e-100, 1e100  # half the width of a label's bounds: their squares are doubles
_SHARP, _VAGUE = 1e-60, 1e60  # where labels lie in [-1, 1]: no account is near the one, and nothing loses the other


@dataclass(frozen=True)
class Wanted:
    """One question: ``kind`` is "loss", "excess" or "relative"."""

    kind: str
    amount: float
    confidence: float
    check: str = "auto"

    @classmethod
    def read(
        cls,
        target_loss: Number | None,
        excess_loss: Number | None,
        relative_error: Number | None,
        confidence: Number,
        check: str = "auto",
    ) -> Wanted:
        """Refuse anything but one positive, finite amount and a confidence between one half and one."""
        given = {"loss": target_loss, "excess": excess_loss, "relative": relative_error}
        asked = {kind: amount for kind, amount in given.items() if amount is not None}
        if len(asked) != 1:
            raise InvalidTask(
                "give exactly one of target_loss (a loss that is good enough), excess_loss (how far above the best "
                f"possible loss), or relative_error (for sums and counts); got {len(asked)}."
            )
        (kind, amount) = next(iter(asked.items()))
        name = {"loss": "target_loss", "excess": "excess_loss", "relative": "relative_error"}[kind]
        number = exact(amount, name)
        if number <= 0:
            raise InvalidTask(f"{name} must be above zero; got {amount!r}.")
        if not _LEAST <= number <= _MOST:
            raise InvalidTask(f"{name} must lie between 1e-300 and 1e300.")
        if kind == "relative" and number >= 1:
            raise InvalidTask(f"relative_error must be below 1; got {amount!r}.")
        sure = exact(confidence, "confidence")
        if not 0.5 <= sure <= 1 - 1e-9:
            raise InvalidTask(f"confidence must lie between 0.5 and 1, such as 0.9; got {confidence!r}.")
        if check not in CHECKS:
            raise InvalidTask(f"check must be one of {', '.join(CHECKS)}; got {check!r}.")
        if check == "certificate" and kind != "excess":
            raise InvalidTask("check='certificate' answers excess_loss only: a target loss must be looked at.")
        if check == "disjoint" and kind != "loss":
            raise InvalidTask(
                "check='disjoint' answers target_loss only: an excess is measured from the best model on the rows that "
                "were trained on, and rows that are kept apart know nothing of that one."
            )
        if check == "every" and kind == "excess":
            raise InvalidTask("check='every' is for target_loss; an excess is looked at twice at most.")
        return cls(kind, float(number), float(sure), check)

    def of(self, label: Target) -> float:
        """The amount where labels lie in [-1, 1]."""
        amount = self.amount / loss_unit(label)
        if amount < _SHARP:
            raise InvalidTask(
                "so small a loss is below what any budget could tell beside the bounds of this label: ask for more, or declare "
                "narrower bounds. Nothing was charged."
            )
        return min(amount, _VAGUE)


def loss_unit(label: Target) -> float:
    """One squared error of labels in [-1, 1] in the label's own units; refused where no double holds it."""
    if not _NARROW <= label.half <= _WIDE:
        raise InvalidTask(
            "a squared loss of labels within these bounds is no number: measure the label in another unit."
        )
    return label.half**2


@dataclass(frozen=True)
class Certificate:
    """What may be said of a model: the question, the bound, and how sure it is; ``str()`` is the sentence."""

    question: str
    bound: float
    confidence: float
    how: str

    @property
    def met(self) -> bool:
        """Whether anything is promised."""
        return math.isfinite(self.bound)

    def __str__(self) -> str:
        if not self.met:
            return f"Nothing is certified: {self.how}."
        return f"{self.question} is at most {self.bound:.4g}, with confidence {self.confidence:g}: {self.how}."


Goal = Wanted
