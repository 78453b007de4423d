"""A scorer for scikit-learn's searches: every fitted estimator is checked on the holdout's own rows.

The search sees what the holdout answers and nothing else: the guess itself where it holds, the rounded score where not.
A search over K candidates and F folds asks K * F questions; right guesses make nearly all of them free.
"""

from __future__ import annotations

from typing import Any

from steelyard.errors import BudgetExceeded
from steelyard.holdout.holdout import Holdout
from steelyard.privacy import Number, exact


class Scorer:
    """Call it as scikit-learn does: ``scorer(estimator, X, y)``. Made by ``Holdout.scorer``."""

    def __init__(self, holdout: Holdout, features: Any, guess: Number | None) -> None:
        self._holdout, self._features, self._guess = holdout, features, guess

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        """The answer's value, turned so that more is better; BudgetExceeded once the holdout refuses."""
        guess = self._guess if self._guess is not None else self._from_fold(estimator, X, y)
        answer = self._holdout.check(estimator.predict(self._features), guess=guess)
        if answer.value is None:
            raise BudgetExceeded(f"the holdout {self._holdout.name!r} answers no more questions.")
        return answer.value if self._holdout.frame.higher_is_better else -answer.value

    def _from_fold(self, estimator: Any, X: Any, y: Any) -> Number | None:
        """The same metric on the fold: public to whoever trains, and a good guess unless the fold was fitted."""
        if y is None:
            return None
        metric = self._holdout.metric
        fold = metric.judge(y)
        total = fold.total(fold.read(estimator.predict(X)))
        return exact(total, "the fold's score") * metric.upper / (fold.rows * metric.scale)

    def __repr__(self) -> str:
        return f"{self._holdout!r}.scorer(...)"
