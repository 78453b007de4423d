"""LabelPrivateClassifier: classes learnt from labels that were made private one by one; its probabilities are public.

Labels become vectors whose mean is the true class (a random set of classes each), and a loss that is affine in the vector learns
from them what it would learn from true labels. A classifier that wants classes gets randomized response, and its
probabilities are put right by the inverse of the channel. In stages, a model of earlier records is the prior of later ones.
The law: charge, then draw, then store, then deliver; each label is drawn once. docs/proofs/label_classes.md.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Account
from steelyard.errors import EngineMissing, InvalidTask
from steelyard.labels._classes import ClassSampler, check_size, simplex
from steelyard.labels._estimators import check_loss, rehearse
from steelyard.labels._mechanism import read_epsilon
from steelyard.labels._multinomial import MultinomialRegression
from steelyard.labels._records import Collection, Pass, check_once, digests
from steelyard.labels._till import Till
from steelyard.labels._top import TopSampler, top_event
from steelyard.noise import Noise
from steelyard.privacy import MICRO, Loss
from steelyard.tables import check_kinds, codes, entries_of, in_order, is_untyped

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone, is_classifier
    from sklearn.utils import _safe_indexing, check_consistent_length, get_tags
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d
except ImportError:
    raise EngineMissing("scikit-learn is not installed.", install="pip install 'steelyard[sklearn]'") from None

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
METHODS = ("auto", "rr", "rr_with_prior")
OBSERVED = (
    "classes= was left out, so the labels that occur in y are taken as public knowledge; that is not private if a class "
    "may be rare. Declare classes=[...] to be safe."
)
_NO_CLASS = (
    "some labels are none of the classes. Say which class they count as with missing=, declare all classes, or leave those "
    "records out; nothing was charged."
)
_KEPT = (
    "steelyard: the labels were randomized and paid for before the estimator failed, and are kept in noisy_; train any other "
    "model on them for nothing."
)


class LabelPrivateClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Learns classes from labels made private one by one; features are taken as public.

    ``classes`` are the public values of the label (``classes_`` holds them in order); ``missing`` is the class that any other
    label counts as (default: refused). ``estimator`` is None (a ``MultinomialRegression``), a regressor that takes one column
    of labels for each class, or a classifier, which gets noisy classes and whose probabilities are put right. ``method``
    is "auto", "rr" (noisy classes even where vectors would do) or "rr_with_prior" (``prior``: public weights of the classes,
    or one row of them for each record). ``stages`` above 1 trains on a part of the records first, and answers for the others
    among the classes that the model of the part holds likely.

    *Privacy:* epsilon for a change of one label, charged to ``account`` or to one in memory of exactly epsilon; each fit is
    charged anew. With ``key`` a fit that is tried again gets the stored labels; with ``ids`` each record is drawn once.
    *Accuracy:* the model of the true labels in the limit. The noisy labels stay in ``noisy_``, also when the estimator fails.

    >>> X, y = [[0.0], [1.0], [2.0]] * 2000, ["low", "mid", "high"] * 2000
    >>> model = LabelPrivateClassifier(epsilon=3, classes=["low", "mid", "high"]).fit(X, y)
    >>> model.classes_.tolist(), model.predict([[0.0], [2.0]]).tolist(), str(model.guarantee_.spent)
    (['high', 'low', 'mid'], ['low', 'high'], 'epsilon 3')
    """

    def __init__(
        self,
        estimator: Any = None,
        epsilon: Any = 1.0,
        classes: Any = None,
        method: str = "auto",
        prior: Any = None,
        account: Account | None = None,
        *,
        stages: int = 1,
        missing: Any = None,
        column: str | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.estimator, self.epsilon, self.classes, self.method = estimator, epsilon, classes, method
        self.prior, self.account, self.stages, self.missing = prior, account, stages, missing
        self.column, self.noise = column, noise

    def fit(
        self, X: Any, y: Any, *, ids: Any = None, key: str | None = None, **fit_params: Any
    ) -> LabelPrivateClassifier:
        """Randomize the labels once, then train on them."""
        estimator = MultinomialRegression() if self.estimator is None else self.estimator
        wants_classes = is_classifier(estimator)
        level = Fraction(Loss.pure(read_epsilon(self.epsilon)).amount, MICRO)
        self._check(wants_classes, ids)
        classes, places = self._coded(y)
        check_consistent_length(X, places)
        prior = self._priors(len(places), len(classes))
        names = None if ids is None else digests(ids)
        if names is not None:
            check_consistent_length(X, names)
        check_once(names)
        self._rehearse(estimator, X, len(classes), len(places), wants_classes, fit_params)
        till = Till(self.account, self.noise, int(level * MICRO), self.column)
        self.classes_ = classes
        if self.stages > 1 or prior is not None:
            kept = self._staged(till, level, X, places, prior, wants_classes, estimator, key, fit_params)
        else:
            sampler = ClassSampler.of(len(classes), level, chosen=1 if self._told(wants_classes) else None)
            self._drawn(till, sampler, places, names, key, wants_classes)
            kept = None
        self.account_, self.note_ = till.account, till.note
        self._train(estimator, X, kept, fit_params)
        return self

    def _check(self, wants_classes: bool, ids: Any) -> None:
        """Refuse settings that do not go together."""
        if self.method not in METHODS:
            raise InvalidTask(f"method is one of {', '.join(METHODS)}; got {self.method!r}.")
        if isinstance(self.stages, bool) or not isinstance(self.stages, int | np.integer) or not 1 <= self.stages <= 20:
            raise InvalidTask(f"stages must be a whole number from 1 to 20; got {self.stages!r}.")
        if (self.prior is not None) != (self.method == "rr_with_prior" and self.stages == 1):
            raise InvalidTask(
                "method='rr_with_prior' needs prior= (or stages=, whose prior is a model), and only it takes one."
            )
        if ids is not None and (self.stages > 1 or self.prior is not None):
            raise InvalidTask("ids= name records that are drawn alike; with a prior for each record, use key= instead.")
        if self.estimator is not None and not wants_classes:
            check_loss(self.estimator, biased=False)

    def _told(self, wants_classes: bool) -> bool:
        """Whether noisy labels are classes rather than sets of them."""
        return wants_classes or self.method == "rr"

    def _coded(self, y: Any) -> tuple[NDArray[Any], Ints]:
        """The classes in order, and each label's place among them."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if self.classes is None:
            labels = _column(np.asarray(y) if isinstance(y, list | tuple) else y)
            check_array(labels, ensure_2d=False, dtype=None, ensure_min_samples=0, input_name="y")
            check_classification_targets(labels)
            warnings.warn(OBSERVED, UserWarning, stacklevel=3)
            classes = np.unique(labels)
        else:
            labels, classes = _column(y), in_order(self.classes)
        if len(np.unique(classes)) != len(classes) or len(classes) < 2:
            twice = f"{len(classes) - len(np.unique(classes))} of them given twice" if len(classes) > 1 else "1 class"
            raise ValueError(f"a classifier needs at least two classes, each once; got {twice}.")
        check_size(len(classes))
        check_kinds(y, classes.tolist())
        places = codes(labels, classes.tolist())
        if self.missing is None and np.any(places < 0):
            raise InvalidTask(_NO_CLASS)
        if self.missing is None:
            return classes, places
        if self.missing not in classes.tolist():
            raise InvalidTask(f"missing must be one of the classes; got {self.missing!r}.")
        return classes, np.where(places < 0, classes.tolist().index(self.missing), places)

    def _priors(self, records: int, size: int) -> Floats | None:
        """One row of weights for each record, adding up to one; None without a prior."""
        if self.prior is None:
            return None
        given = np.asarray(self.prior, dtype=np.float64)
        if given.shape not in ((size,), (records, size)) or not np.all(np.isfinite(given)) or np.any(given < 0):
            raise InvalidTask(
                f"prior= is {size} weights, or a row of them for each of {records} records, none below zero."
            )
        if np.any(given.sum(axis=-1) <= 0):
            raise InvalidTask("a prior has no mass: every weight of it is zero.")
        weights = given / given.sum(axis=-1, keepdims=True)
        return np.broadcast_to(weights, (records, size)) if given.ndim == 1 else weights

    def _rehearse(
        self, estimator: Any, X: Any, size: int, records: int, wants_classes: bool, fit_params: dict[str, Any]
    ) -> None:
        """Ask the estimator whether it takes such labels, with made-up ones."""
        turn = np.arange(records) % size
        if wants_classes:
            rehearse(estimator, X, turn, fit_params)  # what a classifier is given is a place, not a name
        else:
            wild = np.eye(size)[turn] * 9 - 3
            rehearse(estimator, X, wild, fit_params)

    def _drawn(
        self, till: Till, sampler: ClassSampler, places: Ints, names: Any, key: str | None, wants_classes: bool
    ) -> None:
        """Pay, draw, keep."""
        sampler.prepare()
        request = {"mechanism": sampler.digest, "size": len(places)}
        paid: Pass | Collection
        if names is not None:
            paid = Collection(
                till.desk("records", "all" if key is None else key, {"mechanism": sampler.digest}), sampler
            )
        else:
            paid = Pass(till.desk("pass", key, request), sampler, len(places), keep=key is not None)
        self.guarantee_, self.sampler_ = till.spent(sampler.event), sampler
        vectors = paid.noisy(places.astype(np.float64), names)
        self.noisy_: NDArray[Any] = vectors.argmax(axis=1) if wants_classes else vectors
        self._channel = sampler.ends if wants_classes else None

    def _staged(
        self, till: Till, level: Fraction, X: Any, places: Ints, prior: Floats | None, wants_classes: bool, estimator: Any,
        key: str | None, fit_params: dict[str, Any],
    ) -> Any:  # fmt: skip
        """Parts of the records one after another, all under one charge; later parts have the earlier ones' model as prior.

        Returns the records that were asked anything: one whose likely classes are one class answers nothing.
        """
        size, records = len(self.classes_), len(places)
        whole = ClassSampler.of(size, level, chosen=1 if self._told(wants_classes) else None)
        request = {"stages": int(self.stages), "classes": size, "size": records, "epsilon": str(level)}
        desk = till.desk("stages", key, {**request, "method": self.method, "vectors": not wants_classes})
        event = top_event(level)
        charge = desk.charge(event)
        self.guarantee_, self._channel, self.sampler_ = till.spent(event), None, whole
        self.noisy_ = np.zeros(records, dtype=np.int64) if wants_classes else np.zeros((records, size))
        asked = np.zeros(records, dtype=np.bool_)
        for stage in range(self.stages):
            here = np.arange(stage, records, self.stages)
            if prior is None and stage == 0:
                make: Any = lambda noise, here=here: whole.draw(places[here], noise).tobytes()  # noqa: E731
                held = np.frombuffer(desk.draw(charge, make, step=stage), whole.code)
                vectors, kept = whole.at(held), np.ones(len(here), dtype=np.bool_)
                told = vectors.argmax(axis=1)
            else:
                given = prior[here] if prior is not None else self._beliefs(estimator, X, asked, here, fit_params)
                top = TopSampler.of(given, level, 1 if self.method == "rr_with_prior" else 2)
                make = lambda noise, here=here, top=top: top.draw(places[here], noise).astype("<u2").tobytes()  # noqa: E731
                told = np.frombuffer(desk.draw(charge, make, step=stage), "<u2").astype(np.int64)
                vectors, kept = top.vectors(told), (top.tops > 1) | wants_classes
                self._constant(top)
            self.noisy_[here] = told if wants_classes else vectors
            asked[here] = kept
        return asked

    def _constant(self, top: TopSampler) -> None:
        if np.all(top.tops == 1):
            warnings.warn(
                "under this prior randomized response tells most often the truth by always saying the likeliest class, so the noisy "
                "labels say nothing. Use method='auto', which needs no prior.",
                UserWarning,
                stacklevel=4,
            )

    def _beliefs(self, estimator: Any, X: Any, asked: Any, here: Ints, fit_params: dict[str, Any]) -> Floats:
        """What a model of the parts so far holds likely for the next one."""
        known = np.flatnonzero(asked)
        made = clone(estimator).fit(
            _safe_indexing(X, known), self.noisy_[known], **_some(fit_params, known, len(asked))
        )
        return np.maximum(self._likely(made, _safe_indexing(X, here)), 1e-6)

    def _train(self, estimator: Any, X: Any, asked: Any, fit_params: dict[str, Any]) -> None:
        whole = asked is None or bool(np.all(asked)) or not np.any(asked)
        known = np.arange(len(self.noisy_)) if whole else np.flatnonzero(asked)
        try:
            self.estimator_ = clone(estimator).fit(
                X if whole else _safe_indexing(X, known),
                self.noisy_[known],
                **_some(fit_params, known, len(self.noisy_)),
            )
        except Exception as problem:
            problem.add_note(_KEPT)
            raise
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))

    def _likely(self, made: Any, X: Any) -> Floats:
        """The probabilities of all classes by a trained model, put right where it was trained on noisy classes."""
        size = len(self.classes_)
        if not is_classifier(made):
            found = np.asarray(made.predict(X), dtype=np.float64)
            return found if isinstance(made, MultinomialRegression) else simplex(found.reshape(-1, size))
        told = np.zeros((len(made.predict(X)), size))
        if hasattr(made, "predict_proba"):
            told[:, np.asarray(made.classes_, dtype=np.int64)] = made.predict_proba(X)
        else:
            told[np.arange(len(told)), np.asarray(made.predict(X), dtype=np.int64)] = 1.0
        if self._channel is None:
            return told
        low, high = (float(end) for end in self._channel)
        return simplex(low + (high - low) * told)

    def predict_proba(self, X: Any) -> Floats:
        """One column for each class, in the order of ``classes_``; nothing is randomized here."""
        check_is_fitted(self, "estimator_")
        return self._likely(self.estimator_, X)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        places = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[places])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = MultinomialRegression() if self.estimator is None else self.estimator
        tags.input_tags = get_tags(inner).input_tags
        tags.non_deterministic = True
        tags.classifier_tags.poor_score = True
        return tags


def _column(y: Any) -> NDArray[Any]:
    """Labels as one column of whatever kind; one without a type stays as its entries are."""
    if is_untyped(y) or (isinstance(y, np.ma.MaskedArray) and y.ndim == 1):
        return entries_of(y)
    if type(y).__module__.partition(".")[0] in ("pyarrow", "polars") or hasattr(
        getattr(y, "dtype", None), "categories"
    ):
        return entries_of(y)
    if hasattr(y, "dtype") and not isinstance(y.dtype, np.dtype):
        return entries_of(y)  # a nullable or Arrow-backed column of pandas
    given = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, ensure_min_samples=0, input_name="y")
    return np.asarray(column_or_1d(given, warn=True))


def _some(fit_params: dict[str, Any], rows: Ints, records: int) -> dict[str, Any]:
    """Parameters of fit for some of the records only."""
    if len(rows) == records:
        return fit_params
    return {
        name: _safe_indexing(value, rows)
        if hasattr(value, "__len__") and len(value) == records and not isinstance(value, str)
        else value
        for name, value in fit_params.items()
    }
