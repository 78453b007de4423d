"""One thread for the libraries of linear algebra while small matrices are worked with: more would only wait for each other.

How many threads such a library takes belongs to the process. A limit puts back what it found, so of two that overlap the second
would find the first one's, and leave it for good. Here one at a time limits; who comes meanwhile changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_limiting = threading.Lock()  # never waited for, so a fork that leaves it held stops nobody


@contextmanager
def one_thread() -> Iterator[None]:
    """Libraries that are loaded take one thread inside.

    >>> import numpy
    >>> from threadpoolctl import threadpool_info
    >>> with one_thread(), one_thread():
    ...     {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
    {1}
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    if not _limiting.acquire(blocking=False):
        yield
        return
    try:
        with threadpool_limits(1, user_api="blas"):
            yield
    finally:
        _limiting.release()
