"""The one loop of every accuracy-first search: read back what is stored, then pay, learn and decide until a goal is met.

What is searched for (``Question``: ridge models, classifiers, a total) makes the judge of a goal; the transcript of the key
knows what is stored and buys the next step. A goal that passed before, or a tighter one, is answered from what is stored,
for nothing and without a row, whatever has been asked since.
Law: decisions follow from released numbers alone; each step is charged before it is drawn and stored before it is used; a
search ends at a model that passed, at the end of its levels, or where its account would not pay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Protocol

from numpy.typing import NDArray

from steelyard.desk import Desk
from steelyard.errors import BudgetExceeded, InvalidTask
from steelyard.models.accuracy._family import Ending, Judge, Told
from steelyard.models.accuracy._goal import CAP, NULL, Found, Goal, Progress, left_of
from steelyard.models.accuracy._transcript import Reader, Transcript
from steelyard.privacy import Number, Terms
from steelyard.threads import one_thread


class Question(Protocol):
    """What is searched for: it reads rows in its own way, and makes the judge of a goal."""

    def reader(self, terms: Terms) -> Reader:
        """How rows are read."""

    def judge(self, goal: Goal, transcript: Transcript) -> Judge:
        """Who decides whether the goal is met, and what to pay for next."""

    def null(self, goal: Goal) -> tuple[NDArray[Any], float] | None:
        """The model that predicts nothing, and what it is good for whatever the rows; None where there is none."""


class Search:
    """A search on its account: ``reach`` a goal, as often as wanted, each time going on from what is stored."""

    def __init__(self, question: Question, desk: Desk) -> None:
        self._question, self._desk = question, desk

    def reach_loss(
        self, target: Number, confidence: Number, *, every: bool = False, progress: Progress | None = None
    ) -> Found:
        """A model whose mean loss is at most ``target``, labels in [-1, 1]."""
        return self.reach(Goal("loss", float(target), float(confidence), "every" if every else "auto"), progress)

    def reach_excess(
        self, alpha: Number, confidence: Number, *, looks: int = 2, progress: Progress | None = None
    ) -> Found:
        """A model whose penalized risk is within ``alpha`` of the best there is; without looks, by certificate alone."""
        check = "auto" if looks else "certificate"
        return self.reach(Goal("excess", float(alpha), float(confidence), check), progress)

    def reach(self, goal: Goal, progress: Progress | None = None) -> Found:
        """What answers the goal, or the best guess where nothing does.

        *Privacy:* every step is charged before it is drawn; stopping early leaves the rest unspent. *Accuracy:* the
        confidence holds for all goals asked of this key together (docs/proofs/accuracy_first_paths.md), but for an excess
        of a classifier, each draw of which has its own (docs/proofs/one_shot.md). *Cost:* nothing where predicting nothing is
        good enough whatever the rows, or where a goal that passed answers this one.
        """
        if not (goal.amount > 0 and 0 < goal.confidence < 1):
            raise InvalidTask("an accuracy is a number above zero, and a confidence lies between 0 and 1.")
        reader = self._question.reader(self._desk.terms)
        if goal.kind not in reader.kinds:
            raise InvalidTask(f"this search answers goals of kind {' or '.join(reader.kinds)}; got {goal.kind!r}.")
        transcript = Transcript(self._desk, reader)
        null = self._question.null(goal)
        if null is not None and goal.amount >= null[1]:
            return Found(null[0], null[1], NULL, (), transcript.spent)
        stored = transcript.told()
        for other in goal.answered_by(transcript.goals()):
            judge = replayed(self._question.judge(other, transcript), stored)
            if judge.verdict is not None:
                return self._found(judge, transcript, judge.verdict.reason)
        judge = replayed(self._question.judge(goal, transcript), stored)
        reason, refused = run(judge, transcript, progress)
        return self._found(judge, transcript, reason, refused)

    def _found(self, judge: Judge, transcript: Transcript, reason: str, refused: BudgetExceeded | None = None) -> Found:
        """What is handed out: with a promise where a model passed, else the best guess there is."""
        end = judge.verdict or judge.guess() or Ending(None, math.inf)
        kept, spent = transcript.told(), transcript.spent
        alone = {told.goal for told in kept} <= {judge.goal.name}
        events = tuple(told.release.event for told in kept if told.kind == "draw" and told.release is not None)
        return Found(
            end.model,
            end.bound,
            reason,
            tuple(judge.history),
            spent,
            alone,
            release=end.release,
            refused=refused,
            events=events if len(events) == len(kept) and sum(told.cost for told in kept) == spent else (),
            **end.clips,
        )


def replayed(judge: Judge, stored: Iterable[Told]) -> Judge:
    """A judge who has learnt what is stored, up to where its goal was met."""
    for told in stored:
        judge.learn(told)
        if judge.verdict is not None:
            break
    return judge


def run(judge: Judge, transcript: Transcript, progress: Progress | None) -> tuple[str, BudgetExceeded | None]:
    """Take steps until the goal is met, the levels end, or the account would not pay; why it ended."""
    with one_thread():  # matrices of some tens of columns: more threads would only wait
        return _run(judge, transcript, progress)


def _run(judge: Judge, transcript: Transcript, progress: Progress | None) -> tuple[str, BudgetExceeded | None]:
    refused: BudgetExceeded | None = None
    left, beyond = transcript.left, 0  # what steps may cost; what the account has left beyond that and would not pay
    last = False  # whether these are the last steps
    while judge.verdict is None:
        last = last or judge.scarce(left)
        step = judge.last(left) if last else judge.next()
        if step is None:
            return CAP if last else judge.end, refused
        try:
            judge.learn(step.take(transcript, judge.goal))
            if progress is not None:
                progress(judge.history[-1])
        except BudgetExceeded as more:
            if last and left_of(more) >= left:
                return CAP, refused or more
            refused, last, beyond = refused or more, True, max(transcript.left - left_of(more), 0)
        if judge.verdict is None:
            left = transcript.left - beyond
    return judge.verdict.reason, refused
