"""What leaves: a value, the promise that covers it, its error split into noise and bias, and its receipt.

A ``Release`` is what the session hands to the world after a task's outcome was stored and read back: plain numbers, that hold no
row, no table and nothing that could fetch one (law 4: nothing leaves but a ``Release``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import steelyard.answers as answers
from steelyard.account import Receipt
from steelyard.accounting import told
from steelyard.documents import plain
from steelyard.plan import Error
from steelyard.privacy import Currency, Event, Loss, Status, Terms, Unit, canonical, decimal_text

if TYPE_CHECKING:
    from steelyard.charts import Chart

__all__ = ["Guarantee", "Release"]

_LONG = 4096
_ESCAPED = (*map(chr, range(32)), '"', "\\", "\x7f")
_AS_GIVEN = " of the table as given, not checked: the query that made it may mix people"


@dataclass(frozen=True, repr=False)
class Guarantee:
    """A promise fit to publish; ``str()`` is the sentence.

    ``spent`` is this release's own exact cost; ``epsilon`` and ``delta`` are what the whole account promises as a
    filter, or (``kind="ex-post"``) what this transcript has cost so far. ``stored`` is False where the table was a
    query that nobody checked: the promise is then for the table as given. ``status`` and ``stored`` are this release's own: what the
    account promises is as sure as the least sure step charged to it.
    """

    unit: Unit
    spent: Loss
    epsilon: str | None
    delta: str
    kind: str = "filter"
    status: Status = Status.PROVED
    stored: bool = True

    def __str__(self) -> str:
        if self.status is Status.TEST_NOISE:
            return "TEST NOISE: NO GUARANTEE. This release was drawn from a predictable source and protects nobody."
        if self.spent.currency is Currency.NATS:
            return f"Validity of {self.unit}: this answer cost {self.spent}; it is not a privacy guarantee."
        how = "the whole account" if self.kind == "filter" else "everything released so far on this path, ex post,"
        bound = f"({self.epsilon}, {self.delta})" if self.delta != "0" else f"{self.epsilon}"
        return (
            f"{bound}-differential privacy for {how}, of which this release spent {self._spent}. "
            f"Hidden: {self.unit}. Status of this release: {self.status}{'' if self.stored else _AS_GIVEN}."
        )

    @property
    def _spent(self) -> str:
        terms = Terms(self.unit, Loss.zero(self.spent.currency), None, Fraction(self.delta))
        return told(self.spent, terms, cost=True)

    def __repr__(self) -> str:
        return f"Guarantee({str(self)!r})"

    def _repr_html_(self) -> str:
        from steelyard.charts import fragment

        return fragment("Guarantee", str(self))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary; ``Guarantee.from_json`` reads it back."""
        return {
            "unit": self.unit.to_json(),
            "spent": self.spent.to_json(),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "kind": self.kind,
            "status": str(self.status),
            "stored": self.stored,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Guarantee:
        """Read back what ``to_json`` wrote."""
        unit, spent = Unit.from_json(data["unit"]), Loss.from_json(data["spent"])
        status, stored = Status(data["status"]), bool(data["stored"])
        return cls(unit, spent, data["epsilon"], data["delta"], data["kind"], status, stored)


@dataclass(frozen=True, repr=False)
class Release:
    """A value that may be published, with everything a reader needs to judge it.

    ``point`` is the operating point that was used (the cap, the grid, the scale); ``event`` is what was done, for
    accountants; ``task`` is the request it answers. ``stored_on`` is None for a new answer; for one that was given before and is
    returned again, the day of its charge: the rows may have changed since, the answer has not.
    """

    value: Any
    error: Error | None
    guarantee: Guarantee
    point: Mapping[str, Any]
    event: Event
    task: Mapping[str, Any]
    receipt: Receipt
    stored_on: str | None = field(default=None, compare=False)

    def interval(self, confidence: float = 0.95) -> tuple[Any, Any]:
        """Where the truth lies, noise and what the cap cuts off together: two numbers, or two dictionaries by key.

        *Status:* ``error.status``: calibrated where a bias was modelled. ``(None, None)`` where nothing is known of it; the noise
        alone is ``error.interval``.
        """
        if self.error is not None and self.error.ends and confidence == self.error.confidence:
            return answers.shaped(self.value, [low for low, _ in self.error.ends]), answers.shaped(
                self.value, [high for _, high in self.error.ends]
            )
        ends = None if self.error is None else self.error.span(confidence)
        if ends is None or not isinstance(self.value, int | float | dict):
            return None, None
        return _moved(self.value, ends[0]), _moved(self.value, ends[1])

    @property
    def low(self) -> Any:
        """The lower end of the 95 % interval."""
        return self.interval()[0]

    @property
    def high(self) -> Any:
        """The upper end of the 95 % interval."""
        return self.interval()[1]

    @property
    def estimate(self) -> Any:
        """The one number nearest to the truth: ``value`` with what the cap is believed to have cut off added back; None where nothing is known of it.

        *Privacy:* post-processing of the look that chose the cap, free. *Status:* calibrated. By key it is not known under which key
        something was cut off, and there is none.
        """
        more = None if self.error is None else self.error.correction
        if more is None or not isinstance(self.value, int | float):
            return None
        return self.value + (round(more) if isinstance(self.value, int) else more)

    @property
    def parts(self) -> list[answers.Part]:
        """The values that were asked for together, each with its own request and error; mostly one."""
        tasks, told = self.task.get("tasks"), self.point.get("parts")
        if self.task.get("type") == "ReportPlan" and isinstance(told, list):
            return self._numbers(self.task["numbers"], told)
        if self.task.get("type") != "Together" or not isinstance(tasks, list) or not isinstance(told, list):
            return [answers.Part(self.task, self.value, self.error, self.point.get("tops", ()))]
        errors = [None if each.get("error") is None else Error(**each["error"]) for each in told]
        return [answers.Part(*each) for each in zip(tasks, self.value, errors, strict=True)]

    def _numbers(self, wishes: Sequence[Any], told: Sequence[Any]) -> list[answers.Part]:
        """The numbers of a report, each called what the report calls it."""
        values = dict(self.value.items() if isinstance(self.value, Mapping) else self.value)
        errors = {each["name"]: None if each["error"] is None else Error(**each["error"]) for each in told}
        return [
            answers.Part({**wish["task"], "called": wish["name"]}, values[wish["name"]], errors[wish["name"]])
            for wish in wishes
        ]

    @property
    def title(self) -> str:
        """What of what by what, such as "Sum of amount by country"."""
        if self.task.get("type") == "ReportPlan":
            return f"Report of {len(self.parts)} numbers"
        return "; ".join(dict.fromkeys(part.title for part in self.parts))

    @property
    def table(self) -> Any:
        """The answer as an Arrow table: one row for each key, quantile, range or bin.

        Columns: the keys under their own names, ``value``, ``noise`` (its half width at 95 %), ``bias``, ``low`` and ``high``; null where
        nothing is known. Values asked for together follow each other, and ``answer`` says which is which.
        """
        return answers.table(self.parts)

    def to_pandas(self) -> Any:
        """``table`` as a pandas data frame."""
        return answers.frame(self.table, "pandas")

    def to_polars(self) -> Any:
        """``table`` as a Polars data frame."""
        return answers.frame(self.table, "polars")

    def chart(self) -> Chart:
        """The answer as bars with whiskers for the noise, which end at public bounds; of a model, its coefficients."""
        return answers.chart(self.parts, self.title, self._said, str(self.guarantee))

    @property
    def _said(self) -> str:
        """The error in a line under a picture; of several numbers that each have their own, that they have."""
        errors = self._errors
        return "; ".join(errors) if len(errors) < 3 else "noise in 95% of draws, each number's own"

    @property
    def _errors(self) -> list[str]:
        return list(dict.fromkeys(str(part.error) for part in self.parts if part.error is not None))

    def __str__(self) -> str:
        lines = [answers.text(self.parts), *self.told, str(self.guarantee), *([self.again] if self.again else [])]
        return "\n".join(lines)

    def __repr__(self) -> str:
        several = answers.size(self.parts)
        shown = str(answers.first(self.parts, 1)[0]) if several == 1 else f"{several:,} numbers"
        spent = f"{self.guarantee.spent}{', ' + self.again if self.again else ''}"
        return f"Release({self.title!r}: {shown}; {spent})"

    def _repr_html_(self) -> str:
        from steelyard.charts import Tabular, fragment

        picture = [self.chart()] if answers.size(self.parts) > 1 else []
        said = [*self.told, str(self.guarantee), *([self.again] if self.again else [])]
        if picture:  # which says its errors and the guarantee itself
            said = [words for words in said if words not in (*self._errors, str(self.guarantee))]
        return fragment(self.title, Tabular(*answers.rows(self.parts)), *picture, *said)

    @property
    def told(self) -> list[str]:
        """The error in sentences: where the truth lies, its parts, and what cannot be known."""
        error = self.error
        if error is None:
            known = [part for part in self.parts if part.error is not None]
            return [f"{part.of}: {said}" for part in known for said in (part.error, *part.error.more)]
        low, high = self.interval(error.confidence) if isinstance(self.value, int | float) else (None, None)
        return error.truth(low, high)

    @property
    def again(self) -> str:
        """That this is an earlier answer and of which day, in words; empty for a new one."""
        return "" if self.stored_on is None else f"stored on {self.stored_on}, returned again"

    def to_json(self) -> str:
        """The release as one JSON document; ``Release.from_json`` reads it back."""
        parts = {
            "value": plain(self.value),
            "error": None if self.error is None else self.error.to_json(),
            "guarantee": self.guarantee.to_json(),
            "point": dict(self.point),
            "event": self.event.to_json(),
            "task": dict(self.task),
            "receipt": self.receipt.to_json(),
        }
        return json.dumps(parts, sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Release:
        """Read back what ``to_json`` wrote (the value comes back as plain JSON)."""
        data = json.loads(text)
        return cls._read(data, Receipt.from_json(data["receipt"]))

    @classmethod
    def delivered(
        cls, stored: bytes, receipt: Receipt, day: str | None = None, present: Callable[[Any], Any] | None = None
    ) -> Release:
        """The release as read back from the ledger's store: what law 1 lets out; ``day`` if it was given before."""
        data = json.loads(stored)
        return cls._read(data, receipt, day, present)

    @classmethod
    def _read(
        cls,
        data: Mapping[str, Any],
        receipt: Receipt,
        day: str | None = None,
        present: Callable[[Any], Any] | None = None,
    ) -> Release:
        guarantee, event, told = Guarantee.from_json(data["guarantee"]), Event.from_json(data["event"]), data["error"]
        value, error = data["value"], None if told is None else Error(**told)
        value = value if present is None else present(value)
        return cls(value, error, guarantee, data["point"], event, data["task"], receipt, day)


def _moved(value: Any, by: float) -> Any:
    return {key: each + by for key, each in value.items()} if isinstance(value, dict) else value + by


def sealed_payload(outcome: Mapping[str, Any], promise: Guarantee, event: Event, task: Mapping[str, Any]) -> bytes:
    """The bytes that are stored for a charge: everything of a release but its receipt, as canonical JSON."""
    parts = {**outcome, "guarantee": promise.to_json(), "event": event.to_json(), "task": dict(task)}
    value = _text(parts.pop("value"))
    return b'%b,"value":%b}' % (canonical(parts)[:-1], value)  # the last name in their order


def _text(value: Any) -> bytes:
    """Canonical JSON; a long text with nothing to escape is copied as it is, which is what escaping would give."""
    if type(value) is str and len(value) > _LONG and value.isascii() and not any(mark in value for mark in _ESCAPED):
        return b'"%b"' % value.encode()
    return canonical(value)


def promise(terms: Terms, cost: Loss, event: Event, *, secure: bool, stored: bool = True) -> Guarantee:
    """What may be said of a step that cost ``cost`` on an account with these terms; ``stored`` as ``Table`` says it."""
    status = event.status if secure else Status.TEST_NOISE
    epsilon = None if terms.epsilon is None else decimal_text(terms.epsilon)
    return Guarantee(terms.unit, cost, epsilon, decimal_text(terms.delta), "filter", status, stored)
