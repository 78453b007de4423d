"""How much one person or address may ask for: token buckets, looked at before any work is done.

A bucket holds at most its burst and fills at its rate. Buckets live in memory: a restart forgets them, which favours nobody.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_MOST = 10_000


class Buckets:
    """Buckets of one rate, by whose they are."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._levels: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, whose: str) -> float:
        """Take one; 0 if there was one, else the seconds until there will be."""
        now = self._clock()
        with self._lock:
            level, seen = self._levels.get(whose, (self._burst, now))
            level = min(self._burst, level + (now - seen) * self._rate)
            if level >= 1:
                self._levels[whose] = level - 1, now
                self._forget_full(now)
                return 0.0
            self._levels[whose] = level, now
        return (1 - level) / self._rate

    def _forget_full(self, now: float) -> None:
        """Drop buckets that have filled up again, once there are many."""
        if len(self._levels) > _MOST:
            full = self._burst / self._rate
            self._levels = {who: kept for who, kept in self._levels.items() if now - kept[1] < full}
