"""Trying something that has rows in its hands: it gives a value, or fails without a word, or somebody interrupts it.

A failure may depend on rows, so nothing of it may be told (law 4), be it an exception or a panic of an engine that is none. An
interrupt comes from outside, from whoever stops the program: it is no answer and no failure. It is raised anew, bare, so that
neither its traceback nor its context holds what the interrupted code held. Proof: docs/proofs/session.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
INTERRUPTS = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends a program from outside, and is no error of the work."""


def attempt(action: Callable[[], _T]) -> tuple[_T] | None:
    """What an action gives, as a tuple of one; None if it failed, in whatever way; an interrupt is raised, bare.

    >>> attempt(lambda: 1), attempt(lambda: 1 // 0)
    ((1,), None)
    """
    try:
        return (action(),)
    except BaseException as error:
        interrupt = _interrupt(error)
    if interrupt is not None:
        try:
            raise interrupt  # outside any handler, so that not even __context__ holds a word
        finally:
            del interrupt  # else this frame and its traceback hold each other, and with them whatever the callers hold
    return None


def _interrupt(error: BaseException | None) -> BaseException | None:
    """The interrupt that an error is, or was made of; as new."""
    while error is not None:
        if isinstance(error, SystemExit):
            return SystemExit(error.code if isinstance(error.code, int) else 1)
        if isinstance(error, KeyboardInterrupt) or _of_an_engine(error):
            return KeyboardInterrupt()
        if isinstance(error, GeneratorExit):
            return GeneratorExit()
        if wrapped := _wrapped(error):
            return wrapped
        error = error.__cause__  # never the context: that may be an interrupt which the caller is dealing with
    return None


def _of_an_engine(error: BaseException) -> bool:
    """Whether an engine, which takes signals while it works, says in its own words that one came."""
    if type(error) is RuntimeError:
        return error.args == ("Query interrupted",)
    return (type(error).__module__.partition(".")[0].lstrip("_"), type(error).__name__) in _CANCELLED


def _wrapped(error: BaseException) -> BaseException | None:
    """The interrupt that came while DuckDB asked a registered object for its columns; of it, DuckDB keeps the name alone."""
    if (type(error).__module__.lstrip("_"), type(error).__name__) != ("duckdb", "InvalidInputException"):
        return None
    found = _ASKING.fullmatch(str(error))
    return None if found is None else SystemExit(1) if found[1] == "SystemExit" else KeyboardInterrupt()


_ASKING = re.compile(
    r"Invalid Input Error: [a-z ]+ the (?:object|source) registered as '[^']*'[A-Za-z ]* failed: (KeyboardInterrupt|SystemExit): ?\d*\s*"
)
_CANCELLED = {("duckdb", "InterruptException"), ("pyarrow", "ArrowCancelled")}
