"""The transcript of a key: every step that is stored under it, whoever bought it, and what all of them cost together.

What a search says that it has cost is read here and nowhere else: from the ledger, when the search ends. So it is the same
for every family, split, goal and currency, after a target that cost nothing, and where two askers at once bought one step
under two names.
Law: a stored step counts for ever; a step that was charged and never stored released nothing and does not count
(docs/proofs/odometers.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from steelyard.desk import Desk
from steelyard.errors import KeyConflict

_STEP = re.compile(r"(label|path|[a-z]+ \d+)( again \d+)?")  # how steps are named: other keys may begin like this one
_OTHER = (
    "this key already names another request: another setting was given then (model, features, label, penalty or check). Repeat "
    "that one to go on along its path, or choose a new key."
)


@dataclass(frozen=True)
class Transcript:
    """What each stored step of a key cost, in the ledger's smallest units, by its name."""

    costs: Mapping[str, int]
    own: bool = True
    """Whether all of them are steps of one request."""

    @classmethod
    def of(cls, desk: Desk) -> Transcript:
        """All that is stored under the desk's key by now."""
        kept = _kept(desk)
        return cls({step: cost for step, (_, cost) in kept.items()}, all(own for own, _ in kept.values()))

    @classmethod
    def begun(cls, desk: Desk) -> None:
        """Refuse a key under which another model, or another way to check it, has steps; nothing is charged."""
        other = next((step for step, (own, _) in _kept(desk).items() if not own), None)
        if other is None:
            return
        try:
            desk.find(other)
        except KeyConflict as conflict:
            if not conflict.other_request:  # the same one, of another table, which is named there
                raise
        raise KeyConflict(_OTHER, other_request=True)

    @property
    def spent(self) -> int:
        """What all of them cost together."""
        return sum(self.costs.values())

    def numbers(self, kind: str) -> list[int]:
        """Which steps of a kind are stored, such as "watch": some may have been charged and never drawn."""
        found = (step.split(" ")[:2] for step in self.costs if step.startswith(f"{kind} "))
        return sorted({int(number) for _, number in found})


def _kept(desk: Desk) -> dict[str, tuple[bool, int]]:
    return {step: (own, cost) for step, (own, cost) in desk.answered().items() if own or _STEP.fullmatch(step)}
