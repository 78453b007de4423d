"""When an answer may be seen: one, two, four, eight ... slots after its charge, and at no other moment.

The schedule is a function of the charge's public time and the set's public slot, so the moment at which an answer appears tells which of
about a dozen it was, and nothing else of how long the work took. Proof: docs/proofs/slots.md.
"""

from __future__ import annotations

import calendar
import math
import time

_LAST = 40


def moment(charged: float, slot: float, now: float) -> float:
    """The first moment of the schedule that is not before ``now``; with a slot of 0, now.

    >>> [moment(100.0, 1.0, now) for now in (100.0, 101.0, 101.1, 103.5, 104.5)]
    [101.0, 101.0, 102.0, 104.0, 108.0]
    """
    if slot <= 0:
        return now
    step = 0
    while charged + slot * 2**step < now and step < _LAST:
        step += 1
    return charged + slot * float(2**step)


def retry_after(charged: float, slot: float, now: float) -> int:
    """Whole seconds until the next moment, at least one; without a slot, none."""
    return max(1, math.ceil(moment(charged, slot, now + 1e-9) - now)) if slot > 0 else 0


def time_of(at: str) -> float:
    """The time of a ledger's entry in seconds since 1970.

    >>> time_of("1970-01-01T00:01:00Z")
    60.0
    """
    return float(calendar.timegm(time.strptime(at, "%Y-%m-%dT%H:%M:%SZ")))
