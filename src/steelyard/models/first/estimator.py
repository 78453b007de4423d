"""AccuracyFirst: name the accuracy, get the most private model (or total) that certainly has it.

Two questions about a model, never confused: ``target_loss``, a loss on these rows that is good enough, and
``excess_loss``, how far above the best possible loss one may be. Sums and counts take ``relative_error``. The cap
``epsilon`` is a limit, not a price: what a fit spends is found out on the way and read from ``epsilon_``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.bounding import Count, Sum
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.ledger import Account, open_account
from steelyard.models.first.charts import path_chart
from steelyard.models.first.public_rows import repeated
from steelyard.models.first.reach import Progress, Reached, epsilons, reach_linear, reach_logistic
from steelyard.models.first.totals import TotalSearch
from steelyard.models.first.wanted import Certificate, Wanted
from steelyard.models.linear import FitLinear
from steelyard.models.logistic import FitLogistic
from steelyard.models.rows import Target
from steelyard.noise import Noise, TestNoise
from steelyard.privacy import Currency, Number, rows
from steelyard.privacy import users as users_of
from steelyard.release import Release
from steelyard.session import Session, named
from steelyard.tables import read


def _bases() -> tuple[Any, ...]:
    """What makes it a scikit-learn estimator, where that is installed; tasks on a session do without."""
    try:
        from sklearn.base import BaseEstimator, MetaEstimatorMixin
    except ImportError:
        return (object,)
    return MetaEstimatorMixin, BaseEstimator


NOTE = "charged to an account in memory, of this estimator's epsilon and delta, made by this fit; n is public in it"
APART = NOTE.replace("public", "secret")


class AccuracyFirst(*_bases()):  # type: ignore[misc]
    """The most private fit of ``estimator`` that is accurate enough, with the price it turned out to have.

    ``target_loss`` is a mean squared error, or a classifier's mean log loss; ``penalty`` is the lambda of the mean loss
    whose best model ``excess_loss`` is measured from. *Privacy:* neighbours replace one row, or with ``users=`` one user
    and all its rows, and n is public; the account never spends more than (epsilon, delta), or with ``delta=None`` pure
    epsilon. Where users are hidden each of them counts once in every mean. With ``check="disjoint"`` the model is trained
    on half of the rows (or users) and looked at on the other half, neighbours add or remove one, and n is secret.
    *Accuracy:* ``certificate_`` says what holds, with ``confidence``; ``stopped_reason_`` is "target_met",
    "null_model_ok", "cap_reached" or "target_impossible", and nothing is promised under the last two. *Cost:*
    ``epsilon_``, ex post, for everything released.

    >>> from steelyard.models.linear_regression import LinearRegression
    >>> X = np.linspace(-1, 1, 20_000)[:, None]
    >>> first = AccuracyFirst(LinearRegression(x_bound=1), target_loss=0.05, epsilon=5).fit(X, X[:, 0])
    >>> first.stopped_reason_, first.epsilon_ < 0.5
    ('target_met', True)
    """

    def __init__(
        self,
        estimator: Any = None,
        target_loss: Number | None = None,
        excess_loss: Number | None = None,
        relative_error: Number | None = None,
        confidence: Number = 0.9,
        epsilon: Number = 1.0,
        delta: Number | None = 1e-6,
        check: str = "auto",
        account: Account | None = None,
        *,
        penalty: Number = 0.001,
        key: str | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.estimator, self.target_loss, self.excess_loss = estimator, target_loss, excess_loss
        self.relative_error, self.confidence, self.epsilon, self.delta = relative_error, confidence, epsilon, delta
        self.check, self.account, self.penalty, self.key, self.noise = check, account, penalty, key, noise

    def fit(self, X: Any, y: Any, progress: Progress | None = None, *, users: Any = None) -> AccuracyFirst:
        """Walk the path until the model is accurate enough; ``progress`` is told each step as it is released.

        ``users`` says whose row each one is; their number, like that of rows without them, counts as public.
        """
        wanted = self._wanted()
        key = named(self.key)
        return self._keep(self._reach(X, y, users, wanted, key, self._account(y, users), progress), wanted, key)

    def resume(
        self,
        X: Any,
        y: Any,
        *,
        users: Any = None,
        target_loss: Number | None = None,
        excess_loss: Number | None = None,
    ) -> AccuracyFirst:
        """Go on along the same path to a tighter target; X, y and users must be those of ``fit``.

        *Cost:* the path costs what its last level costs, exactly, as if the tighter target had been asked for at once;
        looks made before stay paid for.
        """
        self._need("key_")
        wanted = Wanted.read(target_loss, excess_loss, None, self.confidence, self.check)
        return self._keep(self._reach(X, y, users, wanted, self.key_, self.account_, None), wanted, self.key_)

    def plan(self, X: Any, y: Any, *, users: Any = None, n: int | None = None, runs: int = 3) -> dict[str, Any]:
        """What a fit would probably cost, tried on rows that are public or made up; spends nothing.

        ``n`` is the number of private rows (with ``users``: of users): the public ones are repeated, or cut, to as many.
        """
        places, whose = repeated(len(y) if users is None else users, n)
        public, labels = np.asarray(X, float)[places], np.asarray(y)[places]
        tried = []
        for run in range(runs):
            trial = AccuracyFirst(
                **{**self.get_params(deep=False), "account": None, "noise": TestNoise(run), "key": None}
            )
            tried.append(trial.fit(public, labels, users=whose))
        middle = sorted(tried, key=lambda fit: fit.epsilon_)[len(tried) // 2]
        return {
            "epsilon": middle.epsilon_,
            "epsilon_filter": middle.epsilon_filter_,
            "mu2": middle.mu2_spent_,
            "stopped_reason": middle.stopped_reason_,
            "steps": len(middle.path_),
        }

    def release(
        self, session: Session, *, key: str | None = None, progress: Progress | None = None, ids: str | None = None
    ) -> Release | Reached:
        """The same for a task on an open session: a ``Sum`` or ``Count`` to a relative error, a ``FitLinear`` to a loss.

        ``ids`` names the column by which ``check="disjoint"`` divides rows; without it, what a row says divides them.
        """
        wanted, self.account_ = self._wanted(), session.account
        if ids is not None and wanted.check != "disjoint":
            raise InvalidTask("ids= divides rows for check='disjoint'; leave it out.")
        if isinstance(self.estimator, Sum | Count):
            return self._total(session, wanted, key, progress)
        if isinstance(self.estimator, FitLinear):
            task = self.estimator
            found = reach_linear(
                session, task.features, task.target, wanted, penalty=self.penalty, key=key, progress=progress, ids=ids
            )
            self.scale_ = task.target.half**2
            self._keep(found, wanted, key or "")
            return found
        if isinstance(self.estimator, FitLogistic):
            fit = self.estimator
            found = reach_logistic(
                session,
                fit.features,
                fit.label,
                fit.classes,
                wanted,
                penalty=self.penalty,
                key=key,
                progress=progress,
                ids=ids,
            )
            self.scale_ = 1.0
            self._keep(found, wanted, key or "")
            return found
        raise self._no_path()

    def predict(self, X: Any) -> NDArray[np.float64]:
        """What the model predicts."""
        self._need("model_")
        told = self._told(X)
        return np.asarray(told if self.model_.kind == "linear" else self.classes_[(told > 0.5).astype(int)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, for a classifier."""
        self._need("model_")
        if self.model_.kind == "linear":
            raise AttributeError("a linear model has no probabilities.")
        told = self._told(X)
        return np.column_stack([1 - told, told])

    def _told(self, X: Any) -> NDArray[np.float64]:
        from steelyard.models.estimator import features_of

        values = features_of(self, X, reset=False)
        columns = dict(zip(self.model_.features.source, np.ascontiguousarray(values.T), strict=True))
        return np.asarray(self.model_.predict(columns))

    def chart(self) -> Any:
        """A picture of the path."""
        self._need("path_")
        return path_chart(self.path_, self.wanted_.amount, scale=self.scale_)

    def _wanted(self) -> Wanted:
        wanted = Wanted.read(self.target_loss, self.excess_loss, self.relative_error, self.confidence, self.check)
        if (wanted.kind == "relative") != isinstance(self.estimator, Sum | Count):
            raise InvalidTask(
                "relative_error is for a Sum or a Count; a model takes target_loss or excess_loss."
                if wanted.kind == "relative"
                else "a Sum or a Count takes relative_error."
            )
        return wanted

    def _account(self, y: Any, users: Any) -> Account:
        if self.account is not None:
            return self.account
        unit, given = rows(neighbours="replace", n=max(len(y), 1)), {} if self.delta is None else {"delta": self.delta}
        if self.check == "disjoint":
            unit = rows() if users is None else users_of("user")
        elif users is not None:
            unit = users_of("user", neighbours="replace", n=max(read({"user": users}).count_units(users_of("user")), 1))
        return open_account(":memory:", "model", unit=unit, epsilon=self.epsilon, **given)

    def _reach(
        self, X: Any, y: Any, users: Any, wanted: Wanted, key: str, account: Account, progress: Progress | None
    ) -> Reached:
        from steelyard.models.estimator import Payment, features_of, labels_of, numbers_of
        from steelyard.models.linear_regression import LinearRegression
        from steelyard.models.logistic_regression import LogisticRegression

        if not isinstance(self.estimator, LinearRegression | LogisticRegression):
            raise self._no_path()
        unit = account.terms.unit
        if (unit.kind == "users") != (users is not None):
            how = "give users=, one entry for each row" if users is None else "leave users= out, or use one for users"
            raise UnitMismatch(f"account {account.name!r} hides {unit}: {how}.")
        own = APART if self.check == "disjoint" else NOTE
        note = own if self.account is None else f"charged to account {account.name!r}"
        payment, model = Payment(account, note), self.estimator
        values = features_of(self, X, reset=True)
        features = payment.features(values.shape[1], model.x_bound, model.norm, model.fit_intercept)
        self.account_, self.note_, self.scale_ = account, note, 1.0
        if isinstance(model, LogisticRegression):
            codes = self._codes(labels_of(self, y))
            session = payment.session(payment.table(values, codes, users), self.noise)
            return reach_logistic(
                session, features, payment.label, (0, 1), wanted, penalty=self.penalty, key=key, progress=progress
            )
        label = Target(payment.label, *model.y_bounds)
        self.scale_ = label.half**2
        session = payment.session(payment.table(values, numbers_of(self, y), users), self.noise)
        return reach_linear(session, features, label, wanted, penalty=self.penalty, key=key, progress=progress)

    def _codes(self, labels: Any) -> NDArray[np.int64]:
        """The two declared classes as 0 and 1, anything else as -1, which counts for nothing."""
        classes = getattr(self.estimator, "classes", None)
        if classes is None or len(classes) != 2:
            raise InvalidTask("give the classifier its two public classes, such as classes=[0, 1].")
        self.classes_ = np.asarray(classes)
        found = np.full(len(labels), -1, dtype=np.int64)
        for code, value in enumerate(classes):
            found[np.asarray(labels) == value] = code
        return found

    @property
    def _gaussian(self) -> bool:
        return self.account_.terms.currency is Currency.GAUSSIAN

    def _keep(self, found: Reached, wanted: Wanted, key: str) -> AccuracyFirst:
        self.key_, self.wanted_, self.path_ = key, wanted, found.path
        self.certificate_: Certificate = found.certificate
        self.stopped_reason_, self.spent_ = found.reason, found.spent
        self.mu2_spent_ = found.spent / 10**12 if self._gaussian else None
        self.epsilon_, self.epsilon_filter_ = found.epsilon, found.epsilon_filter
        if found.model is not None:
            self.model_ = found.model
            *weights, self.intercept_ = found.model.coefficients.values()
            self.coef_ = np.array(weights)
        return self

    def _total(self, session: Session, wanted: Wanted, key: str | None, progress: Progress | None) -> Release:
        walk = session.open(TotalSearch(self.estimator), key=key)
        total = walk.reach(wanted.amount, wanted.confidence, progress=progress)
        self.path_, self.stopped_reason_, self.spent_ = total.path, total.reason, total.spent
        self.account_, self.wanted_, self.scale_ = session.account, wanted, 1.0
        self.mu2_spent_ = total.spent / 10**12 if self._gaussian else None
        self.epsilon_, self.epsilon_filter_ = epsilons(session.account.terms, total.spent)
        met = total.reason == "target_met"
        self.certificate_ = Certificate(
            "the noise, relative to the capped total,",
            wanted.amount if met else float("inf"),
            wanted.confidence,
            "the last interval is that narrow; what the cap cuts off comes on top"
            if met
            else "the account's cap was reached first",
        )
        if total.release is None:
            raise InvalidTask("the account has too little left for even the first step of this path.")
        return total.release

    def _need(self, name: str) -> None:
        if not hasattr(self, name):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this AccuracyFirst has found no model yet; call fit or release first.")

    def _no_path(self) -> InvalidTask:
        return InvalidTask(
            f"{type(self.estimator).__name__} has no path to sharpen; give a LinearRegression, a LogisticRegression, "
            "one of their tasks, a Sum or a Count."
        )

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import get_tags

        from steelyard.models.estimator import honest

        tags = super().__sklearn_tags__()
        if self.estimator is not None and not isinstance(self.estimator, Sum | Count | FitLinear | FitLogistic):
            tags.input_tags = get_tags(self.estimator).input_tags
            tags.estimator_type = get_tags(self.estimator).estimator_type
            tags.regressor_tags = get_tags(self.estimator).regressor_tags
        return honest(tags)
