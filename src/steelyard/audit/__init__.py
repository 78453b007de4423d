"""Tries to break our promises: exact enumeration, sampling lower bounds, neighbour replay.

An audit can prove that a promise is broken; it cannot prove that one is kept. Each check says what it looked at.
The names below are loaded when first touched, so that a command line that audits nothing pays nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

_HOMES = {
    "Bound": "sampling",
    "Bracket": "exact",
    "Check": "verdict",
    "Corpus": "corpus",
    "Epsilon": "verdict",
    "Feature": "sampling",
    "HiddenLabels": "holdouts",
    "Mu": "verdict",
    "Pool": "corpus",
    "RandomizedLabels": "randomized",
    "TapeNoise": "exact",
    "Verdict": "verdict",
    "audit": "replays",
    "certify": "sampling",
    "decimals": "corpus",
    "enumerated": "exact",
    "floats": "corpus",
    "integers": "corpus",
    "largest_ratio": "exact",
    "replay": "replays",
    "texts": "corpus",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'steelyard.audit' has no attribute {name!r}")
    return getattr(importlib.import_module(f"steelyard.audit.{_HOMES[name]}"), name)


if TYPE_CHECKING:
    from steelyard.audit.corpus import Corpus as Corpus
    from steelyard.audit.corpus import Pool as Pool
    from steelyard.audit.corpus import decimals as decimals
    from steelyard.audit.corpus import floats as floats
    from steelyard.audit.corpus import integers as integers
    from steelyard.audit.corpus import texts as texts
    from steelyard.audit.exact import Bracket as Bracket
    from steelyard.audit.exact import TapeNoise as TapeNoise
    from steelyard.audit.exact import enumerated as enumerated
    from steelyard.audit.exact import largest_ratio as largest_ratio
    from steelyard.audit.holdouts import HiddenLabels as HiddenLabels
    from steelyard.audit.randomized import RandomizedLabels as RandomizedLabels
    from steelyard.audit.replays import audit as audit
    from steelyard.audit.replays import replay as replay
    from steelyard.audit.sampling import Bound as Bound
    from steelyard.audit.sampling import Feature as Feature
    from steelyard.audit.sampling import certify as certify
    from steelyard.audit.verdict import Check as Check
    from steelyard.audit.verdict import Epsilon as Epsilon
    from steelyard.audit.verdict import Mu as Mu
    from steelyard.audit.verdict import Verdict as Verdict
