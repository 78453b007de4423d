"""AccuracyFirst: name the accuracy, get the most private model (or total) that certainly has it.

Two questions about a model, never confused: ``target_loss``, a loss on these rows that is good enough, and
``excess_loss``, how far above the best possible loss one may be. Sums and counts take ``relative_error``. The cap
``epsilon`` is a limit, not a price: what a fit spends is found out on the way and read from ``epsilon_``.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.account import Account
from steelyard.bounding import Count, Sum
from steelyard.errors import InvalidTask
from steelyard.models._fits import FitLinear, FitLogistic
from steelyard.models._model import Model, OneVsRest, shared
from steelyard.models.accuracy._chart import path_chart, relative
from steelyard.models.accuracy._goal import NULL, PARAMETERS, UNDECLARED, Certificate, Goal, Progress
from steelyard.models.accuracy._planning import like, places, whole
from steelyard.models.accuracy._reach import Reached, reach, within
from steelyard.models.accuracy._scikit import LEARNT, arrays, bases, forget, like_inner, tags_like
from steelyard.models.accuracy._telling import progress_of
from steelyard.noise import Noise, TestNoise
from steelyard.privacy import Currency, Number, Unit, rows
from steelyard.privacy import users as users_of
from steelyard.release import Release
from steelyard.session import Session
from steelyard.tables import read

NOTE = "charged to an account in memory, of this estimator's epsilon and delta, made by this fit; n is public in it"
_NOT_AN_ACCURACY = (
    "giving both classes one half has a mean log loss of 0.693, which target_loss={0:g} allows, so nothing was learnt and nothing "
    "spent. If an accuracy of {0:.0%} was meant, give target_accuracy={0:g}."
)
APART = NOTE.replace("public", "secret")
_AXES = {
    "loss": "loss",
    "excess": "excess loss",
    "error": "share of errors",
    "unexplained": "share of the variance unexplained",
}


class AccuracyFirst(*bases()):  # type: ignore[misc]
    """The most private fit of ``estimator`` that is accurate enough, with the price it turned out to have.

    ``target_loss`` is a mean squared error (``target_rmse``: its root, in the label's units; ``target_r2``: an R squared), or a classifier's mean log loss;
    ``target_accuracy`` is a classifier's share of right classes; ``penalty`` is the lambda of the mean loss
    whose best model ``excess_loss`` is measured from. *Privacy:* neighbours replace one row, or with ``users=`` one user
    and all its rows, and n is public; the account never spends more than (epsilon, delta), or with ``delta=None`` pure
    epsilon (default 1). With ``account`` a call adds ``epsilon`` at most (default: all that is left). Where users are hidden
    each of them counts once in every mean. With ``check="disjoint"`` the model is trained on half of the rows (or users) and
    looked at on the other half, neighbours add or remove one, and n is secret.
    *Accuracy:* ``certificate_`` says what holds, with ``confidence``; ``stopped_reason_`` is "target_met",
    "null_model_ok", "cap_reached", "target_impossible" (every level was tried) or "not_shown" (so too, for an excess, which
    is always within reach), and nothing is promised under the last three: after "cap_reached" all of the budget is spent, and the model is the best
    that it bought. *Cost:* ``epsilon_``, ex post, for everything stored under the key, true at whatever moment the search stopped. That is harder to
    promise than an epsilon fixed beforehand, so ``epsilon_`` may be above ``epsilon``; the account's own promise of (epsilon, delta) holds all the
    same, and ``epsilon_filter_``, what the spending means on the account's scale, is never above it. ``summary_`` says all of this in words,
    ``path_`` has the steps with losses in the label's units, and ``progress`` (see ``fit``) tells them as they are released.

    >>> from steelyard.models._regression import LinearRegression
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
        epsilon: Number | None = None,
        delta: Number | None = 1e-6,
        check: str = "auto",
        account: Account | None = None,
        *,
        target_accuracy: Number | None = None,
        target_rmse: Number | None = None,
        target_r2: Number | None = None,
        penalty: Number = 0.001,
        key: str | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.estimator, self.target_loss, self.excess_loss = estimator, target_loss, excess_loss
        self.target_accuracy, self.target_rmse, self.target_r2 = target_accuracy, target_rmse, target_r2
        self.relative_error, self.confidence, self.epsilon, self.delta = relative_error, confidence, epsilon, delta
        self.check, self.account, self.penalty, self.key, self.noise = check, account, penalty, key, noise

    def fit(self, X: Any, y: Any, progress: Progress | bool | None = None, *, users: Any = None) -> AccuracyFirst:
        """Walk the path until the model is accurate enough; ``progress`` is told each step (a ``Stop``) as it is released.

        Left out, steps are printed to standard error where that is a terminal, and in notebooks; True prints them anywhere, False
        nowhere. ``users`` says whose row each one is; their number, like that of rows without them, counts as public.
        """
        forget(self)
        wanted = self._wanted()
        values, labels = self._arrays(X, y, users, reset=True)
        return self._reach(values, labels, users, wanted, self.key, self.account, progress)

    def resume(
        self,
        X: Any,
        y: Any,
        *,
        progress: Progress | bool | None = None,
        users: Any = None,
        target_loss: Number | None = None,
        excess_loss: Number | None = None,
        target_accuracy: Number | None = None,
        target_rmse: Number | None = None,
        target_r2: Number | None = None,
    ) -> AccuracyFirst:
        """Go on along the same path to a tighter ``target_loss`` (or any other accuracy); X, y and users must be those of ``fit``.

        *Cost:* the path costs what its last level costs, exactly, as if the tighter target had been asked for at once;
        looks made before stay paid for. A classifier within ``excess_loss`` is one release, which cannot be sharpened: a
        tighter excess is drawn anew at its full price, beside what was paid before; the same or a looser one is free.
        """
        self._need("key_")
        asked = {"target_loss": target_loss, "target_rmse": target_rmse, "target_r2": target_r2}
        asked |= {"target_accuracy": target_accuracy, "excess_loss": excess_loss}
        wanted = Goal.read(asked, self.confidence, self.check)
        values, labels = self._arrays(X, y, users, reset=False)
        return self._reach(values, labels, users, wanted, self.key_, self.account_, progress)

    def plan(
        self,
        X: Any,
        y: Any,
        *,
        progress: Progress | bool | None = None,
        users: Any = None,
        n: int | None = None,
        runs: int = 3,
    ) -> dict[str, Any]:
        """What a fit would probably cost, tried on rows that are public or made up; spends nothing. ``progress`` as for ``fit``.

        ``n`` is the number of private rows (with ``users``: of users): the public ones are repeated, or cut, to as many;
        left out, it is the account's, or that of the public ones. With ``account`` its terms hold, and what it has left.
        """
        asked = self.get_params(deep=False)
        values, labels = AccuracyFirst(**asked)._arrays(X, y, users, reset=True)
        chosen, whose = places(labels, users, self.account, n)
        many, tried = len(chosen) if whose is None else int(whose.max()) + 1, []
        for run in range(whole(runs, "runs")):
            account = None if self.account is None else like(self.account, many)
            trial = AccuracyFirst(**{**asked, "account": account, "noise": TestNoise(run), "key": None})
            tried.append(trial.fit(values[chosen], labels[chosen], progress, users=whose))
        middle = sorted(tried, key=lambda fit: fit.spent_)[len(tried) // 2]
        return {
            "epsilon": middle.epsilon_,
            "epsilon_filter": middle.epsilon_filter_,
            "mu2": middle.mu2_spent_,
            "stopped_reason": middle.stopped_reason_,
            "steps": len(middle.path_),
        }

    def release(
        self,
        session: Session,
        *,
        key: str | None = None,
        progress: Progress | bool | None = None,
        ids: str | None = None,
    ) -> Release | Reached:
        """The same for a task on an open session: a ``Sum`` or ``Count`` to a relative error, a ``FitLinear`` to a loss.

        ``ids`` names the column by which ``check="disjoint"`` divides rows; without it, what a row says divides them.
        """
        forget(self)
        wanted, self.account_, session = self._wanted(), session.account, within(session, self.epsilon)
        if ids is not None and wanted.check != "disjoint":
            raise InvalidTask("ids= divides rows for check='disjoint'; leave it out.")
        task = self.estimator
        if not isinstance(task, Sum | Count | FitLinear | FitLogistic):
            raise self._no_path()
        told = progress_of(progress, session.account, key)
        found = reach(session, task, wanted, penalty=self.penalty, key=key, progress=told, ids=ids)
        if isinstance(task, FitLogistic):
            self.classes_ = np.asarray(task.classes)
        self._keep(found, wanted)
        if wanted.kind != "relative":
            return found
        self.release_ = found.release
        if found.release is None:
            raise InvalidTask(f"no total was released: {found.certificate.how}. Nothing was charged.")
        return found.release

    def predict(self, X: Any) -> NDArray[np.float64]:
        """What the model predicts."""
        self._need("model_")
        if hasattr(self, "classes_"):
            chances = self.predict_proba(X)
            return np.asarray(self.classes_[chances.argmax(axis=1)])
        return self._told(X, self.model_)

    @like_inner("predict_proba")
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The probability of each class, for a classifier."""
        self._need("model_")
        if isinstance(self.model_, OneVsRest):
            return shared(np.column_stack([self._told(X, model) for model in self.model_.models]))
        told = self._told(X, self.model_)
        return np.column_stack([1 - told, told])

    @like_inner("decision_function")
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """The log-odds of the second class, for a classifier; of more than two the logarithm of each one's chance."""
        chances = np.clip(self.predict_proba(X), 1e-300, 1)
        if chances.shape[1] > 2:
            return np.asarray(np.log(chances))
        return np.asarray(np.log(chances[:, 1]) - np.log(chances[:, 0]))

    @like_inner("score")
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R squared, or a classifier's accuracy, on these rows.

        *Privacy:* none: it reads X and y as they are. On private rows, do not publish it; the certificate may be.
        """
        from sklearn.metrics import accuracy_score, r2_score

        told = self.predict(X)
        measure = accuracy_score if hasattr(self, "classes_") else r2_score
        return float(measure(y, told, sample_weight=sample_weight))

    def _told(self, X: Any, model: Model) -> NDArray[np.float64]:
        from steelyard.models._estimator import features_of

        values = features_of(self, X, reset=False)
        columns = dict(zip(model.features.source, np.ascontiguousarray(values.T), strict=True))
        return np.asarray(model.predict(columns))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as JSON that ``steelyard predict`` reads; what is certain of it stays in ``certificate_``."""
        self._need("model_")
        self.model_.save(path)

    def chart(self) -> Any:
        """A picture of the path."""
        self._need("path_")
        pure = self.account_.terms.currency is Currency.PURE
        if self.wanted_.kind != "relative":
            return path_chart(self.path_, self.wanted_.amount, pure=pure, y_title=_AXES[self.wanted_.kind])
        path = relative(self.path_, 0.0 if self.release_ is None else float(self.release_.value))
        return path_chart(path, self.wanted_.amount, pure=pure, y_title="relative error")

    def _wanted(self) -> Goal:
        wanted = Goal.read({name: getattr(self, name) for name in PARAMETERS}, self.confidence, self.check)
        if (wanted.kind == "relative") != isinstance(self.estimator, Sum | Count):
            raise InvalidTask(
                "relative_error is for a Sum or a Count; a model takes target_loss, target_rmse, target_r2, target_accuracy or excess_loss."
                if wanted.kind == "relative"
                else "a Sum or a Count takes relative_error."
            )
        if wanted.kind != "relative":
            self._check_way()
        return wanted

    def _check_way(self) -> None:
        """Refuse settings of a fit at a fixed price, which a search would pass over in silence."""
        names = ("ridge", "cap", "public_rows", "candidates", "radius")
        given = [name for name in names if getattr(self.estimator, name, None) is not None]
        given += ["method"] if getattr(self.estimator, "method", "auto") != "auto" else []
        if given:
            raise InvalidTask(f"an accuracy has a way of fitting of its own; leave {' and '.join(given)} out.")

    def _arrays(self, X: Any, y: Any, users: Any, *, reset: bool) -> tuple[NDArray[np.float64], Any]:
        from steelyard.models._regression import LinearRegression, LogisticRegression

        if not isinstance(self.estimator, LinearRegression | LogisticRegression):
            raise self._no_path()
        return arrays(self, X, y, users, reset=reset)

    def _unit(self, n: int, users: Any) -> Unit:
        """What an account that is made for this fit hides: where units are replaced, n of them count as public."""
        if self.check == "disjoint":
            return rows() if users is None else users_of("user")
        if users is None:
            return rows(neighbours="replace", n=max(n, 1))
        return users_of("user", neighbours="replace", n=max(read({"user": users}).count_units(users_of("user")), 1))

    def _reach(
        self,
        values: NDArray[np.float64],
        labels: Any,
        users: Any,
        wanted: Goal,
        key: str | None,
        account: Account | None,
        progress: Progress | bool | None,
    ) -> AccuracyFirst:
        """Walk on an account, or on one that is made for it, and keep what was found."""
        from steelyard.models._estimator import Payment
        from steelyard.models._regression import LogisticRegression

        unit = self._unit(len(labels), users) if account is None else None
        payment = Payment.read(account, 1 if self.epsilon is None else self.epsilon, self.delta, users, unit)
        model, own = self.estimator, APART if self.check == "disjoint" else NOTE
        features = payment.features(values.shape[1], model.x_bound, model.norm, model.fit_intercept)
        self.account_, self.note_ = payment.account, own if self.account is None else payment.note
        task: FitLinear | FitLogistic
        y: NDArray[Any]
        if isinstance(model, LogisticRegression):
            if model.classes is None:
                raise InvalidTask(UNDECLARED)
            self.classes_, y = model.coded(labels)
            task = FitLogistic(features, payment.label, range(len(self.classes_)))
        else:
            task, y = FitLinear(features, payment.label, *model.y_bounds), labels
        session = payment.session(self.noise, values, y, users)
        most = None if self.account is None else self.epsilon
        told = progress_of(progress, payment.account, key)
        found = reach(within(session, most), task, wanted, penalty=self.penalty, key=key, progress=told)
        return self._keep(replace(found, model=self._called(found.model, payment)), wanted)

    def _called(self, model: Any, payment: Any) -> Any:
        """The model by the names of X's columns and of the classes: it was found by their places."""
        from steelyard.models._regression import of_classes

        if model is None:
            return None
        names = payment.source(self.n_features_in_, getattr(self, "feature_names_in_", None))
        several = model.models if isinstance(model, OneVsRest) else (model,)
        found = tuple(each.called(names) for each in several)
        if hasattr(self, "classes_"):
            found = of_classes(found, self.classes_.tolist())
        return OneVsRest(found) if isinstance(model, OneVsRest) else found[0]

    def _keep(self, found: Reached, wanted: Goal) -> AccuracyFirst:
        self.key_, self.wanted_, self.path_ = found.key, wanted, found.path
        self.certificate_: Certificate = found.certificate
        self.stopped_reason_, self.spent_, self.summary_ = found.reason, found.spent, str(found)
        gaussian = self.account_.terms.currency is Currency.GAUSSIAN
        self.mu2_spent_ = found.spent / 10**12 if gaussian else None
        self.epsilon_, self.epsilon_filter_ = found.epsilon, found.epsilon_filter
        if found.reason == NULL and wanted.kind == "loss" and wanted.amount < 1 and hasattr(self, "classes_"):
            warnings.warn(_NOT_AN_ACCURACY.format(wanted.amount), UserWarning, stacklevel=4)
        if found.model is None:
            forget(self, LEARNT)  # an earlier model answered another question
        else:
            self.model_ = found.model
            several = found.model.models if isinstance(found.model, OneVsRest) else (found.model,)
            lines = np.array([list(model.coefficients.values()) for model in several])
            one = len(several) == 1
            self.coef_ = lines[0, :-1] if one else lines[:, :-1]
            self.intercept_: Any = float(lines[0, -1]) if one else lines[:, -1]
        return self

    def _need(self, name: str) -> None:
        if hasattr(self, name):
            return
        from sklearn.exceptions import NotFittedError

        if hasattr(self, "stopped_reason_"):
            raise NotFittedError(
                f"there is no model: the last search ended with stopped_reason_ {self.stopped_reason_!r}. "
                f"{self.certificate_}"
            )
        raise NotFittedError("this AccuracyFirst has found no model yet; call fit or release first.")

    def _no_path(self) -> InvalidTask:
        given = type(self.estimator)
        name = f"{given.__module__.split('.')[0]}'s {given.__name__}"
        return InvalidTask(
            f"{name} has no path to sharpen; give steelyard's own LinearRegression or LogisticRegression, one of their tasks, a Sum "
            "or a Count. Nothing was charged."
        )

    def __sklearn_tags__(self) -> Any:
        from steelyard.models._estimator import honest

        tags = super().__sklearn_tags__()
        if self.estimator is not None and not isinstance(self.estimator, Sum | Count | FitLinear | FitLogistic):
            tags = tags_like(tags, self.estimator)
        return honest(tags)
