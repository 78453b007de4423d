"""What PySpark prints by itself: of an error that a row made, it writes the words to standard error as the error is made.

A value that cannot be cast stands in them. Whoever asks over private rows keeps the error to itself, and so must the loggers that PySpark
has for this; they are deaf to the asking thread while it asks, and to nobody else.
Law: nothing that is printed while rows are read may depend on them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_asking: Counter[int] = Counter()
_lock = threading.Lock()


@contextmanager
def quiet_spark() -> Iterator[None]:
    """Nothing of this thread's errors is printed by PySpark."""
    own = threading.get_ident()
    _deafen()
    with _lock:
        _asking[own] += 1
    try:
        yield
    finally:
        with _lock:
            _asking[own] -= 1
            if not _asking[own]:
                del _asking[own]


def _deafen() -> None:
    from pyspark.logger import PySparkLogger  # a plain logger of the name would not understand what PySpark tells it

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).addFilter(_is_told)  # one that is there is not added again


def _is_told(record: Any) -> bool:
    """Whether a record may be told: not one of a thread that asks."""
    return record.thread not in _asking
