"""What is worked out or loaded only when it is first asked for: properties of objects, and the names of a room.

A property is kept without a lock. ``functools.cached_property`` holds, in Python 3.11, one lock for all instances of a class while it works. A fork in that
moment leaves it held in the child for ever, and whoever touches the property there waits for ever. Here two threads that come
at the same time may both work; every value kept this way is a function of its object alone, so either may stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class lazy(Generic[_T]):  # noqa: N801 - used like property
    """A method that becomes an attribute when it is first asked for."""

    def __init__(self, work: Callable[[Any], _T]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[_T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> _T: ...

    def __get__(self, instance: object | None, owner: type) -> lazy[_T] | _T:
        if instance is None:
            return self
        kept: dict[str, _T] = instance.__dict__
        return kept.setdefault(self._name, self._work(instance))


def loading(package: str, homes: Mapping[str, Sequence[str]] | Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a room whose names load when they are first used; ``homes`` has names by module, or modules by name.

    >>> loading("steelyard", {"privacy": ("Loss",)})("Loss") is loading("steelyard", {"Loss": "privacy"})("Loss")
    True
    """
    where = {name: home for home, names in homes.items() for name in names if not isinstance(names, str)}
    where |= {name: home for name, home in homes.items() if isinstance(home, str)}

    def find(name: str) -> Any:
        home = where.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home}"), name)

    return find
