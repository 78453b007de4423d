"""Settings for every test: no deadline per example, and chance that repeats itself.

The machines that run these tests are shared, so nothing has a deadline. A test of chance draws words fixed by its own
name: it passes or fails for good, and not once in ten thousand runs. The noise's own tests, the faults and the slow
studies draw from the operating system as everybody does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from itertools import count

import pytest
from hypothesis import HealthCheck, settings

from browser import Browser
from chromium import find_browser
from steelyard.noise._stream import Stream, current

settings.register_profile(
    "steelyard", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("steelyard")

_FRESH = ("tests/unit/noise/", "tests/faults/", "tests/conformance/test_noise")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long studies may take as long as they take."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture(autouse=True)
def chance_that_repeats_itself(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Key the secure noise of this process by the test's name."""
    name = request.node.nodeid
    if name.startswith(_FRESH) or request.node.get_closest_marker("slow"):
        yield
        return
    keys = count()
    monkeypatch.setattr(Stream, "_key", lambda stream: sha256(f"{name} {next(keys)}".encode()).digest())
    current().reset()
    yield
    current().reset()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A real browser, started once for each process of the tests."""
    started = Browser(find_browser())
    yield started
    started.close()
