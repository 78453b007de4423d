"""The demo's holdout: ten thousand questions about pure noise, put to a plain holdout and to a certified one.

The labels are coin flips, so no model can be right more than half the time. An analyst who keeps the features that did
well on both training set and holdout believes otherwise, unless the holdout counts how often it was asked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from steelyard.audit.attacks import Attacked, feature_selection
from steelyard.charts import Code, Figure, Figures, Section, Tabular
from steelyard.demo._story import Story
from steelyard.holdout import Holdout

ROWS = 10_000
QUESTIONS = 10_000
TOLERANCE = 0.06


def tell(story: Story) -> Section:
    """Select features with both kinds of holdout, and tell what each reports."""
    labels = np.random.default_rng([1, 3]).integers(0, 2, ROWS).astype(np.int8)
    with Holdout(labels == 1, tolerance=TOLERANCE, name="demo holdout", ledger=story.ledger) as holdout:
        ours = feature_selection(holdout, n=ROWS, questions=QUESTIONS, seed=1, labels=labels)
    plain = feature_selection(
        lambda predictions: float(np.mean(predictions == labels)), n=ROWS, questions=QUESTIONS, seed=1, labels=labels
    )
    said = _said(ours)
    story.facts["holdout"] = {"plain": plain.reported, "ours": ours.reported, "low": ours.low, "high": ours.high}
    story.facts["holdout"] |= {"answered": ours.answered, "missed": ours.missed}
    story.say(f"     a plain holdout reports {plain.reported:.1%} on coin flips; the certified one says {said}")
    return _section(plain, ours, str(holdout))


def _said(ours: Attacked) -> str:
    if ours.reported is None or ours.low is None or ours.high is None:
        return f"no more after {ours.answered:,} answers"
    return f"{ours.reported:.1%}, between {ours.low:.1%} and {ours.high:.1%}"


def _section(plain: Attacked, ours: Attacked, state: str) -> Section:
    words = (
        f"{ROWS:,} labels were drawn by coin. An analyst asked about {QUESTIONS:,} features, kept those that did well "
        "on training set and holdout alike, and let them vote. The features are noise, so the vote is right half the time "
        "on anything but the rows it was chosen by."
    )
    figures = Figures(
        [
            Figure(f"{plain.reported:.1%}", "a plain holdout says"),
            Figure("refused" if ours.reported is None else f"{ours.reported:.1%}", "the certified holdout says"),
            Figure("50.0%", "the truth"),
        ]
    )
    rows: list[tuple[Any, ...]] = [
        ("questions answered", f"{plain.answered:,}", f"{ours.answered:,}"),
        ("last answer", f"{plain.reported:.1%}", _said(ours)),
        ("answers whose interval missed the truth", "no intervals", f"{ours.missed:,}"),
    ]
    last = (
        "A right guess is answered by the guess, and says next to nothing; a surprise is paid for on the ledger. All "
        "intervals together hold with 95% confidence, whatever is asked next. Once the account is empty, the holdout refuses."
    )
    table = Tabular(("", "plain", "certified"), rows)
    return Section("A holdout asked ten thousand times", [words, figures, table, last, Code(state, "Its account now")])
