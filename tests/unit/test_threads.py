"""One thread inside, and as many as before once all have left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits  # type: ignore[import-untyped, unused-ignore]

from steelyard.threads import one_thread


def _now() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()}


def _set(threads: int) -> None:
    """Set by a thread that is gone: one that lives might be the only one whose limits count."""
    setter = threading.Thread(target=threadpool_limits, args=(threads, "blas"))
    setter.start()
    setter.join()


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    assert np.eye(2) @ np.eye(2) is not None  # its library is loaded
    before = max(_now())
    _set(2)
    yield
    _set(before)


def _overlapping(limit: Callable[[], AbstractContextManager[object]]) -> list[set[int]]:
    """How many threads there are while two are inside, and after first the one and then the other has left."""
    entered, left = threading.Event(), threading.Event()

    def second() -> None:
        with limit():
            entered.set()
            assert left.wait(10)

    with limit():
        other = threading.Thread(target=second)
        other.start()
        assert entered.wait(10)
        seen = [_now()]
    left.set()
    other.join()
    return [*seen, _now()]


def test_two_that_overlap_leave_as_many_threads_as_they_found() -> None:
    assert _overlapping(one_thread) == [{1}, {2}]


def test_limits_that_each_put_back_what_they_found_leave_one_thread() -> None:
    """The broken twin."""
    assert _overlapping(lambda: threadpool_limits(1, user_api="blas")) == [{1}, {1}]


def test_a_failure_inside_puts_back_too() -> None:
    def fails() -> None:
        with one_thread(), one_thread():
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fails()
    assert _now() == {2}
