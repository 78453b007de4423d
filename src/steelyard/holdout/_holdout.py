"""Holdout: hidden labels, one budget, and as many questions as it can answer truthfully.

The labels stay inside; predictions go in, an ``Answer`` comes out. Whoever asks, however they choose the next question,
all intervals hold together with the confidence that was asked for, because each way of answering (``mode``) counts what
could have been learnt so far. One durable account keeps that count for every process that opens the same holdout.
Law: the account is charged before an answer is seen, and a refusal is for good.
"""

from __future__ import annotations

import atexit
import contextlib
import hmac
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from types import TracebackType
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.poly1305 import Poly1305

from steelyard.account import check_account
from steelyard.documents import plain
from steelyard.errors import InvalidTask, LedgerError, UnitMismatch
from steelyard.holdout._answer import Answer
from steelyard.holdout._intervals import read_confidence
from steelyard.holdout._metrics import FOR_POPULATION, Judge, Metric, find_metric, refuse_fractions, settled
from steelyard.holdout._modes import HIDING, Frame, Query, make_mode
from steelyard.holdout._record import Record
from steelyard.holdout._rows import Places, digest, one_by_one
from steelyard.ledger import Account, open_account
from steelyard.privacy import Number, canonical, decimal_text, exact, positive

TRUTH = "of the population, if predictors were made without these rows' features"
ROWS_TRUTH = "; else the mean over these rows"


class Holdout:
    """A validation set that stays valid however often it is asked.

    ``account`` is an account in nats (or ``ledger`` a place to open one); without either the budget lives in memory and
    dies with the process. ``classes`` declares what labels and predictions may be; where privacy is promised it must be
    given, and a label outside counts as the first. Labels have one budget on a ledger, under one name; where they are
    hidden, ``separate`` states that no row is in another holdout of as many rows there. ``ids`` are public names of the rows:
    predictions that come with ids are put into their order. Further options belong to the mode (``questions=``, ``between=`` …).
    *Accuracy:* every interval ever given holds, all at once, with probability ``confidence`` over the draw of the rows:
    for the population, if predictors were made without these rows' features; else for the mean over these rows alone.
    It is assumed that nobody measures how long an answer takes, and that the ledger's files are not put back to an
    older state. A check that ends in an error or with the process counts as a surprise, since both could tell one.
    *Privacy:* none; answers are exact up to rounding. Use mode="private" for labels of people.

    >>> labels = np.arange(10_000) % 5 > 0                    # 80% are true
    >>> holdout = Holdout(labels, tolerance=0.05)
    >>> print(holdout.check(np.ones(10_000, dtype=bool), guess=0.81))
    0.81, between 0.76 and 0.86 (free)
    >>> print(holdout.check(np.zeros(10_000, dtype=bool), guess=0.5))
    0.2, between 0.186222 and 0.214134 (paid)
    """

    def __init__(
        self,
        labels: Any,
        tolerance: Number = 0.05,
        confidence: Number = 0.95,
        mode: str = "certified",
        metric: str | Metric = "accuracy",
        account: Account | None = None,
        name: str | None = None,
        *,
        classes: Sequence[Any] | None = None,
        ledger: str | os.PathLike[str] | None = None,
        separate: bool = False,
        ids: Any = None,
        **options: Any,
    ) -> None:
        self.metric = find_metric(metric, classes)
        rows, hidden = one_by_one(labels).copy(), mode in HIDING
        if not hidden:
            refuse_fractions(rows, self.metric)
        self._made = (rows, tolerance, confidence, mode, self.metric, account, name, ids, options)
        self._places = None if ids is None else Places(ids, len(rows))
        self._judge = self.metric.judge(settled(rows, self.metric, mode) if hidden else rows)
        self.name = _name(name, account)
        self.frame = _frame(self.name, self._judge, self.metric, tolerance, confidence)
        self.mode, self._mode = mode, make_mode(mode, self.frame, options)
        self.account = self._open(account, ledger)
        known = None if hidden else digest(rows)
        self._record = Record(self.account, self.name, self._bound(options, known), self._mode)
        seal = {} if known is None else {"labels": self._record.seal("labels", known)}
        declared = {"separate": "declared"} if separate else {}
        self._record.open({**self._settings(options), **seal, **declared})
        self._tag, self._seal = self._record.secret("predictions"), self._record.secret("questions")
        self._lock = threading.RLock()
        _entered.add(self)

    @property
    def rows(self) -> int:
        """How many labels there are; public."""
        return self._judge.rows

    def check(self, predictions: Any, guess: Number | None = None, *, ids: Any = None) -> Answer:
        """Ask how good predictions are, with a guess of the score if there is one.

        ``ids`` say whose each prediction is; a mapping from ids to predictions says both.

        *Accuracy:* the truth lies between ``low`` and ``high``, for all answers together at the holdout's confidence.
        *Cost:* next to nothing if the guess is right; a surprise (or no guess) costs nats. The same predictions and
        guess again cost nothing. A refusal is for good.
        """
        with self._lock:
            return self._mode.check(self._query(self._ordered(predictions, ids), guess), self._record)

    def require(self, predictions: Any, *, ids: Any = None) -> None:
        """Refuse predictions whose number, kind or ids do not fit; nothing is asked, and no label is looked at."""
        with self._lock:
            self._query(self._ordered(predictions, ids), None)

    def best_of(self, batch: Sequence[Any], *, ids: Sequence[Any] | None = None) -> int:
        """In mode "rounds": which of these predictions is best, and nothing else about them; ``ids`` are a list for each."""
        named = [None] * len(batch) if ids is None else list(ids)
        if len(named) != len(batch):
            raise InvalidTask(f"there are {len(named)} lists of ids for {len(batch)} of predictions.")
        with self._lock:
            queries = [self._query(self._ordered(*each), None) for each in zip(batch, named, strict=True)]
            return self._mode.best_of(queries, self._record)

    def finish(self, predictions: Any, *, ids: Any = None) -> Answer:
        """In mode "rounds": the score of what you chose in the end, with its interval; it closes the holdout."""
        with self._lock:
            return self._mode.finish(self._query(self._ordered(predictions, ids), None), self._record)

    def _ordered(self, predictions: Any, ids: Any) -> Any:
        """Predictions in the order of the labels."""
        if ids is None and isinstance(predictions, Mapping):
            predictions, ids = list(predictions.values()), list(predictions)
        if ids is None:
            return predictions
        if self._places is None:
            raise InvalidTask("this holdout was opened without ids, so it cannot tell whose predictions these are.")
        return self._places.ordered(predictions, ids)

    def forecast(self) -> int:
        """How many surprises are left, from public facts alone."""
        with self._lock:
            return self._mode.forecast(self._record)

    def scorer(self, features: Any, guess: Number | None = None) -> Any:
        """A scorer for scikit-learn searches: each fitted estimator is checked on ``features``, the holdout's rows.

        Without a ``guess`` the estimator's own score on the fold is the guess. *Accuracy:* the interval is for the
        population if no predictor was made with these features, so keep them here: the scorer shows the search neither
        them nor the labels, and a pickled copy cannot score. A search that has the features otherwise (pseudo-labels,
        scaling, distilling) is told the truth about these rows, not about others. ``predict`` must treat each row by
        itself.
        """
        from steelyard.holdout._scorers import kept_scorer

        return kept_scorer(self, features, guess)

    def flush(self) -> None:
        """Store which questions were answered free, so that other processes know them too."""
        with self._lock:
            if self._mode.counter is not None:
                self._mode.counter.flush()

    def __enter__(self) -> Holdout:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave()

    def _leave(self) -> None:
        """Flush, and say on the ledger that nothing is pending here."""
        with self._lock:
            if self._mode.counter is not None:
                self._mode.counter.close()

    def __str__(self) -> str:
        where = "durable" if self.account.durable else "in memory, for this process only"
        with self._lock:
            promise, told = self._mode.promise(self._record), self._mode.describe(self._record)
        lines = [
            ("holdout", f"{self.name!r}, {self.rows:,} rows, {self.metric}"),
            ("promise", promise),
            ("truth", TRUTH + ("; no promise else" if isinstance(self.metric, FOR_POPULATION) else ROWS_TRUTH)),
            ("mode", self.mode),
            ("account", f"{self.account.name!r}, {where}"),
            *told,
        ]
        return "\n".join(f"{what:<10} {text}" for what, text in lines)

    def __repr__(self) -> str:
        return f"Holdout({self.name!r}, rows={self.rows}, mode={self.mode!r}, metric={str(self.metric)!r})"

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        facts = [
            ("rows", f"{self.rows:,}"), ("mode", self.mode), ("metric", str(self.metric)), ("spent", str(self.account.spent)),
            ("left", str(self.account.remaining)), ("surprises left", f"{self.forecast():,}"),
        ]  # fmt: skip
        return fragment(
            f"Holdout {self.name}", Tabular(("", ""), facts), "Labels stay inside; `check(predictions, guess)` asks."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        labels, tolerance, confidence, mode, metric, _, name, ids, options = self._made
        return _again, ((labels, tolerance, confidence, mode, metric, self.account, name), {**options, "ids": ids})

    def _open(self, account: Account | None, ledger: str | os.PathLike[str] | None) -> Account:
        if account is not None and ledger is not None:
            raise InvalidTask("give an account or a ledger to open one on, not both.")
        if account is not None:
            if not isinstance(account, Account):
                raise InvalidTask(
                    f"a holdout is kept by an account on a ledger, as open_account gives it; got {type(account).__name__}."
                )
            self._mode.admit(account.terms)
            return account
        terms = self._mode.terms()
        tried = open_account(":memory:", self.name, **terms)
        self._mode.admit(tried.terms)
        return tried if ledger is None else open_account(ledger, self.name, **terms)

    def _settings(self, options: dict[str, Any]) -> dict[str, int | str | list[int]]:
        """Every public setting, for the ledger: whoever opens this holdout again can look them up."""
        frame, classes = self.frame, getattr(self.metric, "classes", None)
        return {
            "holdout": self.name,
            "rows": self.rows,
            "mode": self.mode,
            "metric": str(self.metric),
            "tolerance": str(frame.tolerance * frame.upper),
            "confidence": str(frame.confidence),
            **({} if classes is None else {"classes": _as_json(classes)}),
            **{f"option {key}": _as_json(value) for key, value in options.items() if key != "source"},
        }

    def _bound(self, options: dict[str, Any], known: bytes | None) -> bytes:
        """What the record is bound to: every setting, and the labels unless they are hidden."""
        frame, function = self.frame, getattr(self.metric, "known_by", str)()
        settings = [self.mode, str(self.metric), function, frame.rows, str(frame.tolerance), str(frame.confidence)]
        spelled = sorted((key, _spelled(value)) for key, value in options.items() if key != "source")
        return canonical([*settings, spelled]) + (known or b"")

    def _query(self, predictions: Any, guess: Number | None) -> Query:
        read = self._judge.read(predictions)
        share, spelled = (None, b"no guess") if guess is None else _share(guess, self.frame.upper)
        content = np.ascontiguousarray(self._judge.content(read))
        return Query(self._called(content, spelled), share, lambda: self._judge.total(read))

    def _called(self, content: Any, guess: bytes) -> str:
        """A name for a question that nobody can forge or read back: a keyed digest of a keyed fingerprint."""
        tag = Poly1305.generate_tag(self._tag, content.reshape(-1).view(np.uint8).data)
        message = tag + guess + b" of " + content.dtype.str.encode() + str(content.shape).encode()
        return hmac.digest(self._seal, message, "sha256").hex()


@lru_cache(maxsize=4096, typed=True)
def _share(guess: Number, upper: Fraction) -> tuple[Fraction, bytes]:
    """A guess as a share of the metric's range, and spelled out."""
    share = exact(guess, "guess") / upper
    if not 0 <= share <= 1:
        raise InvalidTask(f"a guess of the score is between 0 and {decimal_text(upper, 6)}; got {guess!r}.")
    return share, str(share).encode()


def _as_json(value: Any) -> str:
    """A setting as text that is read back without running anything."""
    return canonical(plain(value, typed=True)).decode()


def _spelled(option: Any) -> str:
    """An option's value, the same however a number was typed."""
    if isinstance(option, tuple | list):
        return "[" + ", ".join(_spelled(each) for each in option) + "]"
    try:
        return str(exact(option, "option"))
    except InvalidTask:
        return repr(option)


_entered: weakref.WeakSet[Holdout] = weakref.WeakSet()


@atexit.register
def _leave_all() -> None:
    """Leave holdouts in order when the process ends; what cannot be said then costs a surprise after a power cut."""
    for holdout in list(_entered):
        with contextlib.suppress(LedgerError, OSError, RuntimeError):
            if holdout.account.durable:
                holdout._leave()


def _after_fork() -> None:
    """A lock that another thread held in the parent is never given back in the child."""
    for holdout in list(_entered):
        holdout._lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def _again(arguments: tuple[Any, ...], options: dict[str, Any]) -> Holdout:
    return Holdout(*arguments, **options)


def _name(name: str | None, account: Account | None) -> str:
    if account is not None:
        check_account(account)
    kept = None if account is None or account.terms.unit.kind != "holdout" else account.terms.unit.column
    if name is None:
        return kept or "holdout"
    if kept is not None and kept != name:
        raise UnitMismatch(f"the account is for the holdout {kept!r}, not for {name!r}.")
    return name


def _frame(name: str, judge: Judge, metric: Metric, tolerance: Number, confidence: Number) -> Frame:
    upper, sure = metric.upper, read_confidence(confidence)
    width = positive(tolerance, "tolerance") / upper
    if width >= 1:
        raise InvalidTask(f"a tolerance of {tolerance!r} allows any score: it must be below {decimal_text(upper, 6)}.")
    link = None if judge.link is None else judge.link(1 - sure)
    return Frame(name, judge.draws, judge.scale or metric.scale, upper, width, sure, metric.higher_is_better, link)
