"""A user's own function: how it is called, and what it is known by (its version, else a digest of its compiled code).

It sees labels, so an error or a warning of it must tell nothing: it is called under one lock with warnings off, since
Python keeps them for all threads together. Known by its name alone, another function would answer from the first one's
record. What the code reads from elsewhere (globals, closures, files) is not seen, and another Python compiles
differently; a version is for both.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without warnings, one caller at a time."""
    with _alone, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _after_fork() -> None:
    global _alone
    _alone = threading.RLock()


_alone = threading.RLock()
os.register_at_fork(after_in_child=_after_fork)


def bound_to(function: Callable[..., Any], version: str | None) -> str:
    """A text that differs between functions of different code, the same in every process."""
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    if version is not None or code is None:
        return f"version {version}"
    return f"code {hashlib.sha256(_spelled(code).encode()).hexdigest()}"


def _spelled(code: CodeType) -> str:
    return repr((code.co_code.hex(), [_constant(each) for each in code.co_consts], code.co_names, code.co_varnames))


def _constant(value: Any) -> str:
    """A constant as text; a set of them has no order of its own."""
    if isinstance(value, CodeType):
        return _spelled(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
