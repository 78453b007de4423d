"""PrivateSearchCV: the best of many settings of a private estimator, charged once.

A search that pays for every fit pays as often as it fits. Here candidates are drawn at random, fitted on one part of the rows and scored on another, a random
number of times, and only the best leaves: that costs three times (or twice) what one run does, however many runs there were
(docs/proofs/random_stop.md). Law: the parts, the candidates and their number are drawn without looking at a row; nothing of the
others leaves, a fit that fails counts as the worst score.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Account
from steelyard.accounting import pure_to_mu
from steelyard.bounding import Spend
from steelyard.desk import Desk, NoTable
from steelyard.errors import EngineMissing, InvalidTask, OurBug, UnitMismatch
from steelyard.interrupts import attempt
from steelyard.mechanisms import Laplace, RandomStop
from steelyard.models._estimator import Payment, features_of, honest, numbers_of
from steelyard.models._model import models_of
from steelyard.models._regression import LinearRegression, LogisticRegression
from steelyard.noise import ExactNoise, Noise
from steelyard.plan import Outcome
from steelyard.privacy import MICRO, Number, exact
from steelyard.session import named

try:
    from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
    from sklearn.model_selection import ParameterGrid
    from sklearn.utils import check_consistent_length
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

_FINE = 2**20
_OWN = ("epsilon", "delta", "account", "noise", "class_weight")
Floats = NDArray[np.float64]


def _classifies(search: Any) -> bool:
    return isinstance(search.estimator, LogisticRegression)


@dataclass(eq=False, repr=False)
class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """The best of ``param_grid`` (as scikit-learn's ``GridSearchCV`` takes it) for a private ``estimator`` of ours, charged once.

    ``runs`` is how many fits are made on average (default: four for each candidate); ``law`` of their number: "geometric" (three times the
    price of one run) or "logarithmic" (twice, and more often a single run); ``validation`` is the share of rows that scores are counted on.
    *Privacy:* pure ``epsilon`` for one row, however many fits are made, charged to ``account`` before the first, or to one in memory.
    *Accuracy:* each fit has a third (half) of epsilon and the rows that are not scored; the score is the share of right predictions, or one less the mean squared error
    in squared ranges of the label, with noise. ``best_estimator_``, ``best_params_``, ``best_score_``. How many runs were made is not told: beside the best it would tell of
    the others. It is assumed that nobody measures how long a search takes.

    >>> X, y = [[-1.0], [1.0]] * 2000, [0, 1] * 2000
    >>> search = PrivateSearchCV(LogisticRegression(classes=[0, 1]), {"ridge": [2, 100]}, epsilon=3, runs=4).fit(X, y)
    >>> search.predict([[-1.0], [1.0]]).tolist()
    [0, 1]
    """

    estimator: Any = None
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]] | None = None
    epsilon: Number = 1.0
    account: Account | None = None
    _: KW_ONLY
    runs: Number | None = None
    law: str = "geometric"
    validation: Number = 0.25
    noise: Noise | None = None

    def fit(self, X: Any, y: Any) -> PrivateSearchCV:
        """Pay, search, and keep the best model alone."""
        candidates = self._candidates()
        payment = Payment.read(self.account, self.epsilon, None, None)
        if payment.account.terms.unit.kind != "rows":
            raise UnitMismatch(
                f"a search hides rows; account {payment.account.name!r} hides {payment.account.terms.unit}."
            )
        values = features_of(self, X, reset=True)
        stop = self._stop(Spend.read(self.epsilon, None, payment.account.terms), len(candidates))
        estimator, labels = self._inner(y)
        check_consistent_length(values, labels)
        _try(estimator, candidates, stop.epsilon, values.shape[1])
        told = {"type": "search", "estimator": type(self.estimator).__name__, "candidates": len(candidates)}
        noise = ExactNoise() if self.noise is None else self.noise
        desk = Desk(NoTable("a search over arrays"), noise, payment.account, named(None), told)
        search = _Runs(estimator, candidates, stop, exact(self.validation, "validation"), values, labels)
        release = desk.answer(desk.charge(stop.event), stop.event, lambda _, noise: search.best(noise))
        return self._kept(release, candidates, payment)

    def _kept(self, release: Any, candidates: list[dict[str, Any]], payment: Payment) -> PrivateSearchCV:
        found = release.value
        self.best_index_, self.best_score_ = found["candidate"], found["score"]
        self.best_params_ = candidates[self.best_index_]
        self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_)
        if hasattr(self, "classes_"):
            self.best_estimator_.classes_ = self.classes_
        if hasattr(self, "feature_names_in_"):
            self.best_estimator_.feature_names_in_ = self.feature_names_in_
        called = payment.source(self.n_features_in_, getattr(self, "feature_names_in_", None))
        self.best_estimator_.adopt([model.called(called) for model in models_of(found["model"])], self.n_features_in_)
        self.release_, self.guarantee_, self.note_ = release, release.guarantee, payment.note
        return self

    def predict(self, X: Any) -> Any:
        """What the best model predicts."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X)

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """The chances of the classes."""
        check_is_fitted(self, "best_estimator_")
        return np.asarray(self.best_estimator_.predict_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.estimator, LinearRegression | LogisticRegression):
            own = self.estimator.__sklearn_tags__()
            tags.estimator_type, tags.target_tags = own.estimator_type, own.target_tags
            tags.regressor_tags, tags.classifier_tags = own.regressor_tags, own.classifier_tags
        return honest(tags)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the best model as JSON, as its estimator does."""
        check_is_fitted(self, "best_estimator_")
        self.best_estimator_.save(path)

    def score(self, X: Any, y: Any) -> float:
        """The best estimator's own score on rows that may be looked at."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y))

    def _candidates(self) -> list[dict[str, Any]]:
        if not isinstance(self.estimator, LinearRegression | LogisticRegression):
            raise InvalidTask(
                "a private search is over settings of steelyard's LinearRegression or LogisticRegression."
            )
        if isinstance(self.estimator, LogisticRegression) and self.estimator.classes is None:
            raise InvalidTask("declare the classes of the estimator: which of them occur is data.")
        found = [dict(each) for each in ParameterGrid(self.param_grid or {})]
        own = sorted({name for each in found for name in each if name in _OWN})
        if own:
            raise InvalidTask(f"the search itself sets {', '.join(own)}; leave it out of param_grid.")
        return found

    def _stop(self, spend: Spend, candidates: int) -> RandomStop:
        """The price of one run, and the chance to stop that makes as many runs as asked on average."""
        mean = exact(4 * candidates if self.runs is None else self.runs, "runs")
        if not 1 < mean <= 10**6:
            raise InvalidTask(
                f"runs is how many fits are made on average, above 1 and at most a million; got {self.runs!r}."
            )
        if not 0 < exact(self.validation, "validation") < 1:
            raise InvalidTask(f"validation is the share of rows to score on, between 0 and 1; got {self.validation!r}.")
        times = 2 if self.law == "logarithmic" else 3
        micro = _pure(spend) // times
        if micro < 1:
            raise InvalidTask("what this search may spend is below what one run needs.")
        return RandomStop(Fraction(micro, MICRO), _stopping(mean, self.law), self.law)

    def _inner(self, y: Any) -> tuple[Any, NDArray[Any]]:
        """The estimator that is fitted again and again, and its labels: numbers, or the places of their classes."""
        if isinstance(self.estimator, LinearRegression):
            return self.estimator, numbers_of(self, y)
        classes, places = self.estimator.coded(y)
        self.classes_ = classes
        weights = self.estimator.class_weight  # by class, where the fits below see places
        placed = (
            {place: weights.get(value, 1) for place, value in enumerate(classes.tolist())}
            if isinstance(weights, Mapping)
            else weights
        )
        return clone(self.estimator).set_params(classes=list(range(len(classes))), class_weight=placed), places


@dataclass(frozen=True)
class _Runs:
    """All runs of one search, with the rows in hand."""

    estimator: Any
    candidates: list[dict[str, Any]]
    stop: RandomStop
    validation: Fraction
    values: Floats
    labels: NDArray[Any]

    def best(self, noise: Noise) -> Outcome:
        """The best of a random number of runs: its candidate, its noisy score and its model, as JSON; not how many there were."""
        scored = noise.bits(len(self.labels)) < np.uint64(int(self.validation * 2**64))
        held = None
        for _ in range(self.stop.runs(noise)):
            place = noise.below(len(self.candidates))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # whatever a run would say, it may not be the best
                made = attempt(partial(self._run, place, scored, noise))
            if made is not None and (held is None or made[0][0] > held[0]):
                held = made[0]
        if held is None:
            raise OurBug("no candidate was fitted, though each was fitted to zeros before the charge.")
        (good, bad), place, model = held[1:]
        score = min(1.0, max(0.0, good / max(1, good + bad)))
        return Outcome({"candidate": place, "score": score, "model": model}, None)

    def _run(self, place: int, scored: NDArray[np.bool_], noise: Noise) -> tuple[int, list[int], int, Any]:
        """One run: a fit on one part, and on the other how good it is, as noisy whole numbers of good and of bad."""
        model = _ready(self.estimator, self.candidates[place], self.stop.epsilon, noise)
        model.fit(self.values[~scored], self.labels[~scored])
        good = self._good(model, self.values[scored], self.labels[scored])
        counts = [int(good.sum()), int((_FINE - good).sum())]  # a row adds _FINE to both together, whatever its label
        noised = Laplace(_FINE, _FINE / self.stop.epsilon).release(counts, noise)
        return noised[0] - noised[1], noised, place, model.release_.value.to_json()

    def _good(self, model: Any, values: Floats, labels: NDArray[Any]) -> NDArray[np.int64]:
        """How good each prediction is, from 0 to _FINE: a function of its own row and the model."""
        predicted = model.predict(values) if len(values) else np.empty(0)
        if isinstance(model, LogisticRegression):
            return np.where(predicted == labels, _FINE, 0).astype(np.int64)
        lower, upper = (float(exact(end, "y_bounds")) for end in model.y_bounds)
        with np.errstate(all="ignore"):
            shares = np.nan_to_num(((predicted - labels) / (upper - lower)) ** 2, nan=1.0, posinf=1.0)
        return np.asarray(_FINE - np.rint(np.clip(shares, 0.0, 1.0) * _FINE), dtype=np.int64)


def _try(estimator: Any, candidates: list[dict[str, Any]], epsilon: Fraction, width: int) -> None:
    """Fit every candidate to two rows of zeros, so that a setting that cannot be fitted is refused before the charge."""
    for each in candidates:
        tried = _ready(estimator, each, epsilon, None)
        classes = getattr(tried, "classes", None)
        tried.fit(
            np.zeros((2, width)),
            np.array(classes[:2] if classes else [float(exact(tried.y_bounds[0], "y_bounds"))] * 2),
        )


def _ready(estimator: Any, setting: Mapping[str, Any], epsilon: Fraction, noise: Noise | None) -> Any:
    made = clone(estimator).set_params(**setting)
    return made.set_params(epsilon=epsilon, delta=None, account=None, noise=noise)


def _pure(spend: Spend) -> int:
    """The micro-epsilon that a pure step may have at this price."""
    low, high = 0, 100 * MICRO
    while spend.gaussian and high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if pure_to_mu(Fraction(middle, MICRO)) <= spend.micro else (low, middle)
    return low if spend.gaussian else spend.micro


def _stopping(mean: Fraction, law: str) -> Fraction:
    """The chance to stop after each run that makes so many runs on average, as a fraction of a million million."""
    if law != "logarithmic":
        return 1 / mean
    low, high = 1e-12, 1 - 1e-12
    for _ in range(200):
        middle = math.sqrt(low * high)
        runs = (1 / middle - 1) / -math.log(middle)
        low, high = (middle, high) if runs > float(mean) else (low, middle)
    return Fraction(round(high * 10**12), 10**12)
