"""A broken twin of the holdout's counter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.holdout._questions import Counter


class Thrifty(Counter):
    """Gives a surprise that was charged and not stored to the next question, and thinks that this is all."""

    def _owes(self) -> bool:
        return not self._unclaimed and super()._owes()

    def pay(self, name: str, content: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if not self._unclaimed:
            return super().pay(name, content)
        held = self._record.claim(self._unclaimed[0], {"question": name, **content})
        self._settle()
        self._lock.clear()
        return held
