"""Searches that use a holdout: a scorer for scikit-learn's, and an objective for Optuna's.

With the scorer every fitted estimator is checked on the holdout's own rows, and the search sees what the holdout
answers and nothing else: the guess itself where it holds, the rounded score where not. A search over K candidates and F
folds asks K * F questions; right guesses make nearly all of them free. Optuna's study sees your own score: a sampler
fed with holdout scores would climb on them. After every ``batch`` trials the holdout says which of them, and the winner
before, is best.
Law: features and labels stay with the keeper. A scorer carries public facts alone, also when it is pickled, and it is a
copy of the estimator that meets the features: models chosen with their help are certified for these rows only
(docs/proofs/nats.md).
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from steelyard.errors import InvalidTask
from steelyard.holdout._answer import Answer
from steelyard.holdout._holdout import Holdout
from steelyard.holdout._intervals import read_whole
from steelyard.holdout._metrics import Metric
from steelyard.interrupts import attempt
from steelyard.privacy import Number

FAILED = (
    "the estimator failed on the holdout's features. What it said is not told, because it may tell of them: try its predict on "
    "rows of your own that have everything the holdout's may have, such as missing values and unknown categories."
)


class ClosedHoldout(BaseException):
    """A search asked a holdout that is closed.

    No ``Exception``: scikit-learn makes NaN of those (``error_score``), and the first candidate would win a search that nobody scored.
    """


@dataclass(frozen=True, eq=False)
class Scorer:
    """Call it as scikit-learn does: ``scorer(estimator, X, y)``; made by ``Holdout.scorer``, it scores there only."""

    name: str
    metric: Metric
    guess: Number | None = None
    _token: str = field(default="", repr=False)

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        """The answer's value, turned so that more is better; ``ClosedHoldout`` once the holdout refuses."""
        kept = _KEPT.get(self)
        if kept is None:
            raise InvalidTask(
                "this is a copy of a scorer, and the holdout's features and labels stayed in the process that made it. "
                "Search there: with n_jobs=1, or under joblib.parallel_backend('threading')."
            )
        guess = self.guess if self.guess is not None else self._from_fold(estimator, X, y)
        holdout, features = kept
        predicted = attempt(lambda: self._predicted(copy.deepcopy(estimator), features))
        if predicted is None:
            raise InvalidTask(FAILED)
        answer = holdout.check(predicted[0], guess=guess)
        if answer.value is None:
            raise ClosedHoldout(
                f"the holdout {self.name!r} answers no more questions, so this search cannot be scored to its end. What was answered stays "
                "valid: take the best of that, or search with your own folds and check the winner on another holdout."
            )
        return answer.value if self.metric.higher_is_better else -answer.value

    def _from_fold(self, estimator: Any, X: Any, y: Any) -> Number | None:
        """The same metric on the fold: public to whoever trains, and a good guess unless the fold was fitted."""
        if y is None:
            return None
        fold = self.metric.judge(y)
        total = fold.total(fold.read(self._predicted(estimator, X)))
        share = Fraction(total, fold.draws * (fold.scale or self.metric.scale))
        return (
            share if fold.link is None else Fraction(fold.link(Fraction(1, 2)).shown(float(share)))
        ) * self.metric.upper

    def _predicted(self, estimator: Any, X: Any) -> Any:
        """What the metric compares: classes or numbers, or a score of the second class."""
        if getattr(self.metric, "predicts", None) != "scores":
            return estimator.predict(X)
        if hasattr(estimator, "decision_function"):
            return estimator.decision_function(X)
        return estimator.predict_proba(X)[:, 1]

    def __copy__(self) -> Scorer:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Scorer:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.name, self.metric, self.guess, self._token)


_KEPT: WeakKeyDictionary[Scorer, tuple[Holdout, Any]] = WeakKeyDictionary()
_LIVE: WeakValueDictionary[str, Scorer] = WeakValueDictionary()


def kept_scorer(holdout: Holdout, features: Any, guess: Number | None) -> Scorer:
    """A scorer whose holdout and features stay here."""
    made = Scorer(holdout.name, holdout.metric, guess, secrets.token_hex(16))
    _KEPT[made], _LIVE[made._token] = (holdout, features), made
    return made


def _again(name: str, metric: Metric, guess: Number | None, token: str) -> Scorer:
    """The scorer itself in its own process; elsewhere one that cannot score."""
    return _LIVE.get(token) or Scorer(name, metric, guess, token)


class RoundObjective:
    """``function(trial)`` returns (your score, predictions for the holdout's rows); for ``study.optimize``.

    *Cost:* ln(batch + 1) nats after every ``batch`` trials; run trials one at a time.
    """

    def __init__(self, holdout: Holdout, function: Callable[[Any], tuple[float, Any]], *, batch: int = 100) -> None:
        if holdout.mode != "rounds":
            raise InvalidTask(f"this objective needs a holdout in mode='rounds'; got {holdout.mode!r}.")
        self._holdout, self._function, self._batch = holdout, function, read_whole(batch, "batch")
        self._waiting: list[tuple[int, Any]] = []
        self._winner: tuple[int, Any] | None = None

    def __call__(self, trial: Any) -> float:
        """Run one trial; what the study sees is your own score."""
        score, predictions = self._function(trial)
        self._waiting.append((int(trial.number), predictions))
        if len(self._waiting) >= self._batch:
            self._play()
        return float(score)

    def best(self) -> tuple[int, Answer]:
        """The number of the winning trial and its certified score; ends the search and closes the holdout."""
        if self._waiting:
            self._play()
        if self._winner is None:
            raise InvalidTask("no trial was run yet.")
        return self._winner[0], self._holdout.finish(self._winner[1])

    def _play(self) -> None:
        batch = ([] if self._winner is None else [self._winner]) + self._waiting
        self._winner = batch[self._holdout.best_of([predictions for _, predictions in batch])]
        self._waiting = []
