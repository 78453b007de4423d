"""A property that is worked out once: as an attribute afterwards, and never behind a lock that a fork could leave held."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import steelyard
from steelyard.lazy import lazy


class Slow:
    """Something whose value another thread is working on."""

    def __init__(self) -> None:
        self.inside, self.go_on, self.times = threading.Event(), threading.Event(), 0

    @lazy
    def value(self) -> int:
        """What takes long."""
        self.times += 1
        self.inside.set()
        self.go_on.wait(10)
        return 7


def test_a_value_is_worked_out_once() -> None:
    slow = Slow()
    slow.go_on.set()
    assert (slow.value, slow.value, slow.times) == (7, 7, 1)
    assert Slow.value.__doc__ == "What takes long."


def test_a_fork_while_a_thread_works_does_not_hang_the_child() -> None:
    slow = Slow()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.inside.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        other = Slow()
        other.go_on.set()
        os._exit(0 if other.value == 7 else 1)
    slow.go_on.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_room_keeps_a_property_behind_a_lock() -> None:
    root = Path(steelyard.__file__).parent
    found = [file.name for file in root.rglob("*.py") if "import cached_property" in file.read_text()]
    assert found == []
