"""A story in two numbers: on pure noise a plain holdout reports a discovery, and a certified one does not."""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.holdout.attacks.voting import feature_selection
from steelyard.holdout.holdout import Holdout

_ROWS = 10_000
_FEATURES = 10_000
_CERTIFIED = 1_000


def noise_story(seed: int = 0) -> dict[str, Any]:
    """Select features on coin-flip labels with both kinds of holdout; what each reports, beside the truth of 1/2.

    The plain holdout answers ten thousand questions, the certified one the first thousand of the same, which is enough
    to see it hold. *Cost:* about two seconds.
    """
    labels = np.random.default_rng([seed, 3]).integers(0, 2, _ROWS).astype(np.int8)
    plain = feature_selection(
        lambda predictions: float(np.mean(predictions == labels)),
        n=_ROWS,
        questions=_FEATURES,
        seed=seed,
        labels=labels,
    )
    holdout = Holdout(labels == 1, tolerance=0.05)
    certified = feature_selection(holdout, n=_ROWS, questions=_CERTIFIED, seed=seed, labels=labels)
    said = "refused" if certified.reported is None else f"{certified.reported:.1%}"
    return {
        "rows": _ROWS,
        "features": _FEATURES,
        "truth": 0.5,
        "naive": plain.reported,
        "certified": certified.reported,
        "low": certified.low,
        "high": certified.high,
        "answered": certified.answered,
        "missed": certified.missed,
        "text": (
            f"Labels are coin flips. After {_FEATURES:,} questions a plain holdout reports {plain.reported:.1%} accuracy; "
            f"the certified holdout says {said} and missed the truth in {certified.missed} of {certified.certified:,} answers."
        ),
    }
