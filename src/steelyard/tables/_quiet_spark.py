"""What PySpark prints by itself: of an error that a row made, it writes the words to standard error as the error is made.

A value that cannot be cast stands in them. Whoever asks over private rows keeps the error to itself, and so must the loggers that PySpark
has for this, and those of its wires, whose every message may quote an error or a plan; they are deaf to the asking thread while it asks, and
to nobody else. What Spark's own Java logs is out of reach here: it is set by whoever starts it.
Law: nothing that is printed here while rows are read may depend on them.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_ERRORS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Made at the first error, unless they are there."""
_WIRES = ("pyspark.sql.connect.logging", "py4j.clientserver", "py4j.java_gateway")
"""Made as PySpark is loaded."""
_asking: Counter[int] = Counter()
_lock = threading.Lock()


@contextmanager
def quiet_spark() -> Iterator[None]:
    """Nothing of this thread's errors is printed by PySpark."""
    own = threading.get_ident()
    with _lock:
        _deafen()
        _asking[own] += 1
    try:
        yield
    finally:
        with _lock:
            _asking[own] -= 1
            if not _asking[own]:
                del _asking[own]


def _deafen() -> None:
    there = logging.Logger.manager.loggerDict
    for name in _ERRORS:
        if not isinstance(there.get(name), logging.Logger):
            _make(name)
    for name in (*_ERRORS, *_WIRES):
        if isinstance(logger := there.get(name), logging.Logger):
            logger.addFilter(_is_told)  # one that is there is not added again


def _make(name: str) -> None:
    """Make a logger as PySpark makes it: a plain one of the name would not understand what PySpark tells it.

    Not oftener than must be: while PySpark makes one, whoever makes another gets one of its kind.
    """
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger(name)


def _is_told(record: object) -> bool:
    """Whether a record may be told: not one of a thread that asks. A record need not say its thread, which is this very one."""
    return threading.get_ident() not in _asking
