"""The transcript of a key: every step that is stored under it, what each cost, and how another is bought.

Three kinds of entries, and nothing else, stand under a search's key; their names are a storage format and are made here alone.
``step k`` has one answer: a count, a level, a look, a draw. ``path k`` is a Laplace path: one entry whose level rises before
each answer, every one refining the last. ``watch k`` is an AboveThreshold: its holder's name, then one answer for each question.
A number is taken once. A step that was charged and never drawn keeps its price for ever: whoever asks for that very step gets it
drawn, whoever wants another takes the next number, and the first is wasted; so it is with a step that failed, which answers
nothing, for good. What a search has cost is read from the ledger when it ends, so it is the same whoever bought the steps.
Law: a stored step counts for ever; one that was charged and never stored released nothing and does not count
(docs/proofs/odometers.md). A step that another question took meanwhile is refused. Charge or raise, then read, then compare,
then draw, then store (docs/proofs/accuracy_first_paths.md, disjoint_check.md).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from steelyard.account import Charge
from steelyard.accounting import disjoint, paid_apart, price
from steelyard.desk import Desk
from steelyard.errors import KeyConflict, TableError
from steelyard.mechanisms import LaplacePath
from steelyard.models.accuracy._family import PARTS, TRAIN, Rise, Step, Told, packed, unpacked
from steelyard.models.accuracy._goal import Goal
from steelyard.noise import Noise
from steelyard.plan import Outcome
from steelyard.privacy import MICRO, Event, Neighbours, canonical
from steelyard.release import Release
from steelyard.tables import Table

STEP, PATH, WATCH = "step", "path", "watch"
TRIES = 4
_NAME = re.compile(r"(step|path|watch) (\d+)")  # other keys may begin like this one
_OTHER = (
    "this key already names another request: another setting was given then (model, features, label, penalty or check). Repeat "
    "that one to go on along its path, or choose a new key."
)
MEANWHILE = (
    "another question was asked of this path at the same time and took its next step. Nothing is lost: ask again, and both go "
    "on from what is stored."
)


class Reader(Protocol):
    """How the rows of a table come into the hands of a step that is paid for; read once a call."""

    divided: bool
    """Whether they are divided into a part that trains and one that checks."""

    kinds: tuple[str, ...]
    """The kinds of goals that something is proved about where rows are read so."""

    snapshot: str
    """What binds all steps of a key to the rows of the first, under a seal; empty where nothing does."""

    def rows(self, table: Table, part: str, seal: Callable[[bytes], bytes]) -> Any:
        """The rows of a part, as steps read them."""

    def settle(self, table: Table, seal: Callable[[bytes], bytes]) -> None:
        """Fail, in words that nobody is told, where a step may have read other rows than those the key is bound to."""


@dataclass(frozen=True)
class Kept:
    """A watch that is stored: for which goal, for how much, and what it answered of which model.

    ``index`` says which watch under the key it was, and so how much failure probability it had.
    """

    index: int
    goal: str
    micro: int
    told: tuple[Told, ...]


class Transcript:
    """What is stored under a desk's key, read once; ``buy`` and ``rise`` add to it.

    ``dearer`` says that of two parts the dearer one is paid for, not both.
    """

    def __init__(self, desk: Desk, reader: Reader) -> None:
        self.desk, self._reader = desk, reader
        self._snapshot = ""
        self.dearer = reader.divided and desk.terms.unit.neighbours is Neighbours.ADD_REMOVE
        self._numbered: dict[int, Told] = {}
        self._charge: Charge | None = None
        self._path: list[Release] = []
        kept, left = desk.standing()
        self._left: int | None = left.amount
        names = _names(desk, _own(kept))
        for number in _numbers(names, STEP):
            if (release := self._stored(number)) is not None:
                self._keep(number, release)
        for _, self._charge, self._path in _entries(desk, names, PATH):
            break
        self.watches = [_watch(number, answers) for number, _, answers in _entries(desk, names, WATCH)]

    @property
    def spent(self) -> int:
        """What all that is stored under the key has cost by now, whoever asked for it, in the ledger's smallest units."""
        return sum(costs_of(self.desk).values())

    @property
    def left(self) -> int:
        """What the account had left after the last step that was taken here, in the same units."""
        if self._left is None:
            self._left = self.desk.remaining.amount
        return self._left

    def reread(self) -> None:
        """Before something is paid for that does not tell what it leaves."""
        self._left = None

    def told(self) -> list[Told]:
        """All that is stored, in the order in which a search took it."""
        steps = [told for _, told in sorted(self._numbered.items())]
        if not self.watches:
            return [*steps, *self._levels()]
        levels, watched = [*(told for told in steps if told.kind == "level"), *self._levels()], 0
        found = [told for told in steps if told.kind != "level"]
        for each in self.watches:
            for told in each.told:
                here = int(told.facts["level"])
                found, watched = [*found, *levels[watched:here], told], max(watched, here)
        return [*found, *levels[watched:]]

    def rows(self, table: Table, part: str) -> Any:
        """The rows of a part, in the hands of a step that is paid for."""
        return self._reader.rows(table, part, self.desk.seal)

    def _levels(self) -> list[Told]:
        pairs = zip([None, *self._path], self._path, strict=False)
        return [_level(release, before) for before, release in pairs]

    def goals(self) -> list[str]:
        """The names of the goals that steps were bought for, in order."""
        return list(dict.fromkeys(told.goal for told in self.told() if told.goal))

    def rank(self, goal: Goal) -> int:
        """How many other goals had a step before this one's first."""
        goals = self.goals()
        return goals.index(goal.name) if goal.name in goals else len(goals)

    def buy(self, step: Step, goal: Goal) -> Told:
        """Charge a step, compute it, store it, and read it back; one that another goal took meanwhile is refused."""
        self.reread()
        first = max(self._numbered, default=-1) + 1
        for number in range(first, first + TRIES):
            compute = lambda table, noise: self._outcome(step, goal, table, noise)  # noqa: E731
            event = self._priced(step, number) if self.dearer else step.event
            try:
                release, left = self.desk.serve(event, compute, f"{STEP} {number}")
            except KeyConflict:  # taken: by an answer, or by a charge that was abandoned
                if self._stored(number) is not None:
                    break
                if number == first + TRIES - 1:
                    raise
                continue
            if not _same(release, event, step, goal):
                break
            self._left = left.amount
            return self._keep(number, release)
        raise KeyConflict(MEANWHILE)

    def _priced(self, step: Step, number: int) -> Event:
        """The event of a step where the dearer part is paid for, with what both parts had cost before it and after.

        A step counts from the state after the one that is stored just before it, or from nothing.
        """
        before = self._numbered.get(number - 1)
        if before is None:
            return disjoint(step.event, step.part, dict.fromkeys(PARTS, 0))
        assert before.release is not None
        return disjoint(step.event, step.part, paid_apart(before.release.event)[1])

    def _outcome(self, step: Step, goal: Goal, table: Table, noise: Noise) -> Outcome:
        rows, snapshot = self.rows(table, step.part), self._reader.snapshot
        facts = {"kind": step.kind, "goal": goal.name, **step.facts}
        if snapshot:
            if self._snapshot and not hmac.compare_digest(snapshot, self._snapshot):
                raise TableError("the rows changed under their division")  # told to nobody: it fails like any other
            facts["snapshot"] = snapshot
        if self._reader.divided:  # what a step adds to its own part is not what is charged
            facts |= {"part": step.part, "cost": price(step.event, self.desk.terms).amount}
        found = step.compute(rows, noise)
        self._reader.settle(table, self.desk.seal)
        made = Outcome(packed(found), None) if step.tell is None else step.tell(found)
        return Outcome(made.value, made.error, {**facts, **made.point})

    def _stored(self, number: int) -> Release | None:
        """The stored answer of a step; a failure answers nothing."""
        with suppress(TableError):
            return self.desk.find(f"{STEP} {number}")
        return None

    def _keep(self, number: int, release: Release) -> Told:
        self._snapshot = self._snapshot or str(release.point.get("snapshot", ""))
        paid = None
        if self._reader.divided:
            before = max((told.paid or 0 for told in self._numbered.values()), default=0)
            paid = before + release.guarantee.spent.amount
        value = release.value
        values = unpacked(value) if isinstance(value, str | list) else []
        cost = int(release.point.get("cost", release.guarantee.spent.amount))
        self._numbered[number] = Told(str(release.point["kind"]), cost, values, release.point, release, paid)
        return self._numbered[number]

    def rise(self, step: Rise, goal: Goal) -> Told:
        """Raise the path's entry (or buy one), draw, store, and read back; a path that failed costs nothing more."""
        path = self._laplace(step)
        self.reread()
        if self._charge is None:
            self._charge = self._begun(path.event)
            if self._charge.answers.keys() - {0}:
                raise KeyConflict(MEANWHILE)
        elif len(self._path) not in self._charge.answers:
            self._charge.raise_to(price(path.event, self.desk.terms), path.event)
        compute = lambda table, noise: self._refined(step, goal, path, table, noise)  # noqa: E731
        release = self.desk.answer(self._charge, path.event, compute, step=len(self._path))
        self._path.append(release)
        if int(release.point["micro"]) != step.micro:
            raise KeyConflict(MEANWHILE)
        return _level(release, self._path[-2] if len(self._path) > 1 else None)

    def _begun(self, event: Event) -> Charge:
        for number in range(TRIES):
            with suppress(KeyConflict):
                return self.desk.charge(event, f"{PATH} {number}")
        raise KeyConflict(MEANWHILE)

    def _laplace(self, step: Rise) -> LaplacePath:
        levels = [int(release.point["micro"]) for release in self._path[-1:]] + [step.micro]
        scales = tuple(Fraction(step.sensitivity * MICRO, level) for level in levels)
        return LaplacePath(step.sensitivity, scales, step.neighbours)

    def _refined(self, step: Rise, goal: Goal, path: LaplacePath, table: Table, noise: Noise) -> Outcome:
        """One more release of the very integers that the first was made from: they are compared under a seal."""
        values = [int(value) for value in step.values(self.rows(table, TRAIN))]
        sealed = self.desk.seal(f"integers {values}".encode()).hex()
        if self._path and not hmac.compare_digest(sealed, str(self._path[0].point.get("integers", ""))):
            raise TableError("the rows changed under a Laplace path")  # told to nobody: the step fails like any other
        if self._path:
            noised = path.refine(values, [int(value) for value in step.measured(self._path[-1])], 1, noise)
        else:
            noised = path.release(values, noise)
        made = step.tell(noised)
        facts = {"goal": goal.name, "micro": step.micro, "integers": sealed, **made.point}
        return Outcome(made.value, made.error, facts)


def costs_of(desk: Desk) -> dict[str, int]:
    """What each entry that is stored under the desk's key has cost by now, by its name."""
    return {name: cost for name, (_, cost) in _own(desk.answered()).items()}


def entries(desk: Desk, kind: str) -> list[list[Release]]:
    """The stored answers of every entry of a kind, in the order of their numbers."""
    names = _names(desk, _own(desk.answered()))
    return [answers for _, _, answers in _entries(desk, names, kind)]


def _own(answered: Mapping[str, tuple[bool, int]]) -> dict[str, tuple[bool, int]]:
    """The entries of a search; other keys may begin like its own."""
    return {name: found for name, found in answered.items() if found[0] or _NAME.fullmatch(name)}


def _names(desk: Desk, kept: Mapping[str, tuple[bool, int]]) -> list[str]:
    """The names under the key, refused where another model, or another way to check it, has steps; nothing is charged."""
    other = next((name for name, (own, _) in kept.items() if not own), None)
    if other is None:
        return list(kept)
    try:
        desk.find(other)
    except KeyConflict as conflict:
        if not conflict.other_request:  # the same one, of another table, which is named there
            raise
    raise KeyConflict(_OTHER, other_request=True)


def _numbers(names: list[str], kind: str) -> list[int]:
    found = (_NAME.fullmatch(name) for name in names)
    return sorted(int(match[2]) for match in found if match is not None and match[1] == kind)


def _entries(desk: Desk, names: list[str], kind: str) -> Iterator[tuple[int, Charge, list[Release]]]:
    """Entries with many answers, by their numbers, each with its answers; one whose first answer failed is none."""
    for number in _numbers(names, kind):
        with suppress(TableError):
            first, charge = desk.find(f"{kind} {number}"), desk.paid(f"{kind} {number}")
            if first is not None and charge is not None:
                yield number, charge, _answers(desk, charge, first.event)


def _answers(desk: Desk, charge: Charge, event: Event) -> list[Release]:
    """Every stored answer of an entry, in the order of its steps, up to the first that failed."""
    found: list[Release] = []
    with suppress(TableError):  # a stored failure
        for step in sorted(charge.answers):
            found.append(desk.answer(charge, event, _unreachable, step=step))
    return found


def _unreachable(table: Table, noise: Noise) -> Outcome:
    raise TableError("a stored answer is read, not computed")


def _level(release: Release, before: Release | None) -> Told:
    """A release of a Laplace path as a level: it costs by how much the entry rose."""
    cost = int(release.point["micro"]) - (0 if before is None else int(before.point["micro"]))
    values = unpacked(release.value) if isinstance(release.value, str | list) else []
    return Told("level", cost, values, release.point, release)


def _watch(index: int, answers: list[Release]) -> Kept:
    start, *questions = answers
    goal, micro = str(start.point["goal"]), int(start.point["micro"])
    first = Told("watch", micro, [], {"goal": goal, "level": int(start.point["levels"]), "index": index})
    told = (Told("question", 0, [int(each.value)], {"goal": goal, **each.point}) for each in questions)
    return Kept(index, goal, micro, (first, *told))


def _same(release: Release, event: Event, step: Step, goal: Goal) -> bool:
    """Whether a stored step is the one that was asked for: one that another goal took meanwhile is an answer to that one.

    A measurement may be anybody's; a look is at one model, for one goal.
    """
    wanted = {**step.facts, "goal": goal.name} if step.kind in ("look", "draw") else dict(step.facts)
    told = all(release.point.get(name) == value for name, value in wanted.items())
    return told and canonical(release.event.to_json()) == canonical(event.to_json())
