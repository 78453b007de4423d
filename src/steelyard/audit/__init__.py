"""Tries to break our promises: exact enumeration, sampling lower bounds, neighbour replay.

An audit can prove that a promise is broken; it cannot prove that one is kept. Each check says what it looked at.
The names below are loaded when first touched, so that a command line that audits nothing pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.audit.corpus import Corpus, Pool, decimals, floats, integers, texts
    from steelyard.audit.exact import Bracket, TapeNoise, enumerated, largest_ratio
    from steelyard.audit.holdouts import HiddenLabels
    from steelyard.audit.randomized import RandomizedLabels
    from steelyard.audit.replays import audit, replay
    from steelyard.audit.sampling import Bound, Feature, certify
    from steelyard.audit.verdict import Check, Epsilon, Mu, Verdict

__all__ = [
    "Bound",
    "Bracket",
    "Check",
    "Corpus",
    "Epsilon",
    "Feature",
    "HiddenLabels",
    "Mu",
    "Pool",
    "RandomizedLabels",
    "TapeNoise",
    "Verdict",
    "audit",
    "certify",
    "decimals",
    "enumerated",
    "floats",
    "integers",
    "largest_ratio",
    "replay",
    "texts",
]
_HOMES = {
    "corpus": ("Corpus", "Pool", "decimals", "floats", "integers", "texts"),
    "exact": ("Bracket", "TapeNoise", "enumerated", "largest_ratio"),
    "holdouts": ("HiddenLabels",),
    "randomized": ("RandomizedLabels",),
    "replays": ("audit", "replay"),
    "sampling": ("Bound", "Feature", "certify"),
    "verdict": ("Check", "Epsilon", "Mu", "Verdict"),
}
__getattr__ = loading(__name__, _HOMES)
