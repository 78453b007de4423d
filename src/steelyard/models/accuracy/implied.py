"""What a passed question answers besides itself: whatever asks for no more accuracy, and no more certainty.

A model whose loss is certainly at most 50 has a loss of at most 60 too. So a looser question about a path that passed a
tighter one is answered by the same model, for nothing; no further event can fail, and the confidence is the tighter
question's, which is no lower.
Law: a target never stands for an excess, nor an excess for a target.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """A question as the name of its stored steps tells it: a "loss" or an "excess" of so much, how surely, how checked."""

    kind: str
    amount: float
    confidence: float
    how: str = ""

    @property
    def name(self) -> str:
        """What its steps are stored under."""
        return " ".join([self.kind, repr(self.amount), *([self.how] if self.how else []), repr(self.confidence)])

    @classmethod
    def of(cls, name: str) -> Asked | None:
        """The question of a name such as ``loss 0.02 False 0.9``; None where it is none."""
        try:
            kind, amount, *how, confidence = name.split(" ")
            return cls(kind, float(amount), float(confidence), " ".join(how))
        except ValueError:
            return None

    def answers(self, other: Asked) -> bool:
        """Whether passing this question answers another."""
        return self.kind == other.kind and self.amount <= other.amount and self.confidence >= other.confidence


def answering(asked: Asked, names: Iterable[str]) -> list[Asked]:
    """Those of the named questions that would answer this one if they passed: itself first, then in order."""
    found = [other for name in names if (other := Asked.of(name)) is not None and other.answers(asked)]
    return sorted(found, key=lambda other: other.name != asked.name)
