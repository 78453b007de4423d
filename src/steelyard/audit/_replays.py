"""Grey-box audits: run a task on neighbouring tables so that both release the same numbers, and compare everything else.

The window shows the integers before noise: their distance must be within what the event declares, and the noise as
wide as the event was charged for. The transcript is steered to be the same, so the number of releases, their events,
the outcome and any failure must be the same too: a difference is data that went around the noise (after Cebere et al.
2026, who replay with the same randomness). Tables come from a corpus of hostile values.
``audit`` is the one call for everything: a task is replayed, a mechanism enumerated and sampled, the rest audits itself.
Law: a check compares integers or bytes; there is no tolerance.
"""

from __future__ import annotations

import json
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from tempfile import mkdtemp
from typing import Any

from steelyard.accounting import grouped, price
from steelyard.audit._corpus import Corpus, Neighbour, Pool, floats, texts
from steelyard.audit._probes import Effort, probe
from steelyard.audit._steering import (
    INWARD,
    STEERABLE,
    Distance,
    Draw,
    SameSecret,
    SteeredNoise,
    declared_scale,
    distance,
)
from steelyard.audit._verdict import Check, Finding, Findings, Verdict
from steelyard.documents import plain
from steelyard.errors import ColumnMissing, InvalidTask, SteelyardError
from steelyard.interrupts import INTERRUPTS
from steelyard.mechanisms._observe import Observed, observing
from steelyard.plan import Task
from steelyard.privacy import Event, Loss, Terms, canonical
from steelyard.tables import read

_ROUNDS = 50
CHECKS = {
    "distance": "integers of neighbours lie within the declared sensitivity",
    "noise": "noise is as wide as the event says, and hides every number",
    "transcript": "same released numbers, same events and same outcome",
    "order": "row order and chunks change nothing",
    "event": "the declared event does not depend on rows",
    "price": "what is done costs no more than what is declared",
    "errors": "no failure depends on rows",
    "randomness": "all randomness comes from the noise source, or from the table's secret",
}


@dataclass(frozen=True)
class Trace:
    """Everything a run let the audit see."""

    declared: bytes
    seen: tuple[Observed, ...]
    draws: tuple[Draw, ...]
    written: list[list[int]]
    outcome: bytes
    failure: str | None

    @property
    def events(self) -> list[bytes]:
        """The observed events, as bytes."""
        return [canonical(seen.event.to_json()) for seen in self.seen]


class Replay:
    """One task under one account's terms, replayed over a corpus."""

    def __init__(
        self, task: Task, terms: Terms, corpus: Corpus, open_table: Callable[[Any], Any], seed: int | str
    ) -> None:
        self._task, self._terms, self._corpus, self._open, self._seed = task, terms, corpus, open_table, seed
        self._worst: Distance | None = None
        self._pairs = 0
        self._findings = Findings(CHECKS)

    def checks(self) -> tuple[Check, ...]:
        """Replay everything and say, check by check, what was seen."""
        declared: bytes | None = None
        failed: dict[str | None, str] = {}
        for name, rows in self._corpus.tables().items():
            left = self._run(Neighbour(name, rows))
            declared = declared or left.declared
            self._findings.note(self._alone(left, declared), name)
            self._findings.note(_same(left, self._run(Neighbour(name, rows)), "randomness"), name)
            failed.setdefault(left.failure, name)
            for neighbour in self._corpus.neighbours(rows):
                right = self._run(neighbour, left.written)
                where = f"{name}, {neighbour.label}"
                failed.setdefault(right.failure, where)
                self._findings.note(self._alone(right, declared), where)
                self._findings.note(self._pair(left, right, neighbour), where)
                self._pairs += 1
        self._findings.note(_failures(failed))
        if None not in failed:
            return (self._findings.check("errors"),)
        worst = f" (largest: {self._worst.share:.4g} of it, {self._pairs} pairs)" if self._worst is not None else ""
        return self._findings.checks({"distance": worst})

    def _run(self, neighbour: Neighbour, script: list[list[int]] | None = None) -> Trace:
        table = SameSecret(self._open(self._corpus.arrow(neighbour.rows, neighbour.chunks)), self._seed)
        with observing() as window:
            noise = SteeredNoise(window, self._seed, script)
            declared, outcome, failure = self._attempt(table, noise)
        return Trace(declared, tuple(window), tuple(noise.draws), noise.written, outcome, failure)

    def _attempt(self, table: Any, noise: SteeredNoise) -> tuple[bytes, bytes, str | None]:
        declared = b""
        try:
            plan = self._task.plan(table.schema, self._terms)
            declared = canonical(plan.event.to_json())
            outcome = plan.run(table, noise)
            error = None if outcome.error is None else outcome.error.to_json()
            parts = {"value": plain(outcome.value), "error": error, "point": plain(dict(outcome.point))}
            return declared, canonical(parts), None
        except INTERRUPTS:
            raise
        except BaseException as failure:  # whatever a task raises is a thing the world would see: it is the evidence
            return declared, b"", f"{type(failure).__name__}: {failure}"

    def _alone(self, trace: Trace, declared: bytes) -> Iterator[Finding]:
        """What one run shows by itself."""
        if trace.declared != declared:
            yield "event", "the declared event changed with the rows"
        if trace.failure is not None:
            return
        if not trace.seen:
            yield "noise", "the task released an outcome without passing any integer through a mechanism"
        yield from _noise_findings(trace)
        yield from self._price_findings(trace)

    def _price_findings(self, trace: Trace) -> Iterator[Finding]:
        declared = _event(trace.declared)
        promised, group = price(declared, self._terms), _group(declared)
        done = _charged([seen.event if group == 1 else grouped(seen.event, group) for seen in trace.seen])
        try:
            total = sum((price(event, self._terms) for event in done), Loss.zero(self._terms.currency))
        except SteelyardError as refusal:
            yield "price", f"the account could not pay for what was done ({refusal})"
            return
        if not total <= promised:
            yield "price", f"what was done costs {total}, declared was {promised}"

    def _pair(self, left: Trace, right: Trace, neighbour: Neighbour) -> Iterator[Finding]:
        """What two neighbouring runs with one transcript show."""
        if neighbour.same:
            yield from _same(left, right, "order")
        if left.failure is not None or right.failure is not None:
            return
        if len(left.seen) != len(right.seen):
            yield "transcript", f"{len(left.seen)} releases on one table, {len(right.seen)} on its neighbour"
        for step, (a, b) in enumerate(zip(left.seen, right.seen, strict=False)):
            if len(a.values) != len(b.values) and b"failure_atto" in left.declared:
                return  # keys found in the rows: their number may differ, covered by the charged failure
            if a.event != b.event or len(a.values) != len(b.values):
                yield "transcript", f"release {step} has another event or another length on the neighbour"
                return
            yield from self._distance(step, a, b, _group(_event(left.declared)))
            if a.event.name not in STEERABLE:
                return  # from here on the two transcripts differ lawfully
        if left.written == right.written and left.outcome != right.outcome:
            yield "transcript", "the same released numbers led to another outcome"

    def _distance(self, step: int, a: Observed, b: Observed, group: int) -> Iterator[Finding]:
        found = distance(a.event, a.values, b.values, self._terms.unit.neighbours, group)
        worst = self._worst is None or found.share > self._worst.share
        if worst:
            self._worst = found
        if found.broken and worst:
            self._findings.found["distance"].clear()  # the largest is the one worth telling
        if found.broken:
            yield "distance", f"release {step}: {found}"


def _noise_findings(trace: Trace) -> Iterator[Finding]:
    for draw in trace.draws:
        if draw.release is None:
            if not any(seen.event.name in INWARD for seen in trace.seen):
                yield "noise", f"{draw.law} noise was drawn outside a mechanism"
            continue
        event = trace.seen[draw.release].event
        wanted = declared_scale(event)
        law = "gaussian" if event.name == "gaussian" else "laplace"
        if wanted is not None and (draw.law != law or draw.scale < wanted):
            yield (
                "noise",
                f"the event says {event.name} of scale {float(wanted):.6g}, drawn was {draw.law} {float(draw.scale):.6g}",
            )
    hidden = {draw.release for draw in trace.draws}
    for number, seen in enumerate(trace.seen):
        if seen.event.name in STEERABLE and number not in hidden and seen.values:
            yield "noise", f"release {number} drew no noise"


def _same(left: Trace, right: Trace, check: str) -> Iterator[Finding]:
    what = {"order": "another order of rows", "randomness": "a second run with the same noise"}[check]
    if [seen.values for seen in left.seen] != [seen.values for seen in right.seen] or left.events != right.events:
        yield check, f"{what} changed the integers or the events"
    elif left.failure != right.failure:
        yield check, f"{what} changed the failure"


def _failures(failed: dict[str | None, str]) -> Iterator[Finding]:
    if set(failed) == {None}:
        return
    told = "; ".join(f"{text or 'no failure'} [{where}]" for text, where in list(failed.items())[:3])
    if len(failed) > 1:
        yield "errors", f"{len(failed)} different endings: {told}"
    else:
        yield "errors", f"every run failed, so nothing could be checked: {told}"


def _event(declared: bytes) -> Event:
    return Event.from_json(json.loads(declared))


def _group(declared: Event) -> int:
    """How many rows of a unit the declared event pays for: the least over its steps, one where it says nothing."""
    if declared.name == "composed":
        return min(_group(Event.from_json(part)) for part in json.loads(str(declared.parameters["events"])))
    return int(str(declared.parameters["size"])) if declared.name == "grouped" else 1


def _charged(events: list[Event]) -> list[Event]:
    """What is paid for: every event, but one for a whole row of questions and the last level of a path."""
    kept = {
        event.name if event.name in ("above_threshold", "laplace_path") else i: event for i, event in enumerate(events)
    }
    return list(kept.values())


def replay(
    task: Any, terms: Terms, corpus: Corpus, *, open_table: Callable[[Any], Any] = read, seed: int | str = 0
) -> tuple[Check, ...]:
    """Replay a task over a corpus of neighbouring tables; ``open_table`` makes a table of an Arrow table.

    *Privacy:* nothing is charged and nothing real is read; the corpus is made up. A clean replay says that these
    tables showed no flaw, not that none exists.
    """
    return Replay(task, terms, corpus, open_table, seed).checks()


def audit(
    subject: Any,
    *,
    terms: Terms | None = None,
    columns: Mapping[str, Pool] | None = None,
    samples: int = 400_000,
    share: int = 3,
    open_table: Callable[[Any], Any] | None = None,
) -> Verdict:
    """Try to break what a task, a mechanism or a holdout's metric promises.

    A task needs ``terms`` (``account.terms`` will do) and is replayed on made-up neighbouring tables; ``columns`` says
    what they hold where the default (hostile floats, and the task's own keys) does not fit. A mechanism is enumerated
    or sampled; a metric is replayed on neighbouring labels, given as ``HiddenLabels``, and so is a randomizer, as ``RandomizedLabels``. ``samples`` and ``share`` (see ``Corpus``) set the effort. *Privacy:* no real row is read and nothing is charged. A clean verdict is no proof.

    >>> from fractions import Fraction
    >>> from steelyard.mechanisms import Laplace
    >>> audit(Laplace(1, Fraction(2)), samples=20_000).ok
    True
    """
    if callable(getattr(subject, "audited", None)):
        return Verdict(_name(subject), subject.audited(share))
    if not callable(getattr(subject, "plan", None)):
        return Verdict(_name(subject), tuple(probe(subject, Effort(samples=samples))))
    if terms is None:
        raise InvalidTask("to audit a task, say on which terms it runs: audit(task, terms=account.terms).")
    reader = _reader() if open_table is None else open_table
    corpus = Corpus(terms.unit, columns or guess_columns(subject, terms, reader), share=share)
    return Verdict(_name(subject), replay(subject, terms, corpus, open_table=reader))


def guess_columns(task: Task, terms: Terms, open_table: Callable[[Any], Any]) -> dict[str, Pool]:
    """The columns a task asks for, found by offering it a table and adding whatever it misses."""
    unit = terms.unit.column
    pools: dict[str, Pool] = (
        {unit: texts() if terms.unit.kind == "users" else floats()} if unit else {"other": floats()}
    )
    keys = [key for key in getattr(task, "keys", None) or () if isinstance(key, str)]
    for _ in range(_ROUNDS):
        try:
            task.plan(open_table(Corpus(terms.unit, pools).arrow([])).schema, terms)
        except ColumnMissing as missing:
            grouped = missing.wanted == getattr(task, "by", None)
            pools[missing.wanted] = texts(*keys) if grouped else floats(*_bounds(task))
        else:
            return pools
    raise InvalidTask("the task kept asking for further columns; say what they are with columns=.")


def _bounds(task: Task) -> list[float]:
    """The task's own bounds, and just beyond them: where an off-by-one shows."""
    found = [getattr(task, name, None) for name in ("cap", "upper", "lower")]
    numbers = [float(value) for value in found if value is not None and not isinstance(value, str)]
    return [edge for number in numbers for edge in (number, number + 1, number - 1, 2 * number)]


def _reader() -> Callable[[Any], Any]:
    """Opens made-up tables by turns as they are and as Parquet files, whose statistics leave NaN out."""
    from pyarrow import parquet

    folder, numbers = mkdtemp(prefix="steelyard-audit-"), count()

    def opened(table: Any) -> Any:
        number = next(numbers)
        if number % 2:
            return read(table)
        parquet.write_table(table, f"{folder}/{number}.parquet", row_group_size=100)
        return read(f"{folder}/{number}.parquet")

    weakref.finalize(opened, shutil.rmtree, folder, ignore_errors=True)
    return opened


def _name(subject: object) -> str:
    text = repr(subject)
    return text if len(text) <= 100 else text[:97] + "…"
