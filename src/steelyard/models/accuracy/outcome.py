"""What a search found: a model, what may be said of it, and the line of steps that led there. All of it released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steelyard.models.accuracy.certificate import Array
from steelyard.models.accuracy.losses import LOSS_BITS
from steelyard.privacy import MICRO

if TYPE_CHECKING:
    from steelyard.models.accuracy.ridge_path import RidgePath


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

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        told = {"step": self.step, "mu2": self.mu2, "bound": self.bound, "passed": self.passed, "loss": self.loss}
        return told if self.paid is None else {**told, "paid": self.paid}


@dataclass(frozen=True)
class Found:
    """A model on features of length at most one and labels in [-1, 1]; ``bound`` is what is certified of it.

    ``alone`` says that no other question had measurements of this path made before; ``reach`` is what predictions are
    clipped to, ``margin`` a classifier's log-odds.
    """

    model: Array | None
    bound: float
    reason: str
    path: tuple[Stop, ...]
    spent: int
    alone: bool = True
    reach: float = 1.0
    margin: float | None = None

    @classmethod
    def of(cls, path: RidgePath, spent: int, *, alone: bool) -> Found:
        """The end of a ridge path."""
        return cls(path.model, path.bound, path.reason, tuple(path.history), spent, alone, path.reach / 2**LOSS_BITS)

    @property
    def mu2(self) -> float:
        """What was spent, as mu squared."""
        return self.spent / MICRO**2
