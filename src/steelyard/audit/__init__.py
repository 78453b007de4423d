"""Tries to break our promises: exact enumeration, sampling lower bounds, neighbour replay.

An audit can prove that a promise is broken; it cannot prove that one is kept. Each check says what it looked at.
The names below are loaded when first touched, so that a command line that audits nothing pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.audit._holdouts import HiddenLabels
    from steelyard.audit._randomized import RandomizedLabels
    from steelyard.audit._replays import audit, replay
    from steelyard.audit._sampling import certify
    from steelyard.audit._suite import registry as registry
    from steelyard.audit._suite import run
    from steelyard.audit._suite import select as select
    from steelyard.audit._verdict import Epsilon, Verdict

__all__ = ["Epsilon", "HiddenLabels", "RandomizedLabels", "Verdict", "audit", "certify", "replay", "run"]
_HOMES = {
    "_holdouts": ("HiddenLabels",),
    "_randomized": ("RandomizedLabels",),
    "_replays": ("audit", "replay"),
    "_sampling": ("certify",),
    "_suite": ("registry", "run", "select"),
    "_verdict": ("Epsilon", "Verdict"),
}
__getattr__ = loading(__name__, _HOMES)
