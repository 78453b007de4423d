"""One call that audits anything: a task by replay, a mechanism by enumeration and sampling, the rest as it says itself."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Mapping
from itertools import count
from tempfile import mkdtemp
from typing import Any

from steelyard.audit.corpus import Corpus, Pool, floats, texts
from steelyard.audit.probes import Effort, probe
from steelyard.audit.replays import replay
from steelyard.audit.verdict import Verdict
from steelyard.errors import ColumnMissing, InvalidTask
from steelyard.privacy import Terms
from steelyard.session import Task

_ROUNDS = 50


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

    from steelyard.tables import read

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
