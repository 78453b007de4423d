"""A notebook is where many people start: a real kernel must be able to read a table and release a number."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

Run = Callable[[str], str]
_RELEASE = """
import steelyard as sy
account = sy.open_account(":memory:", "notebook", unit=sy.rows(), epsilon=1)
session = sy.Session(sy.read({"amount": [1.0, 2.0, 3.0]}), account)
print("released", type(session.release(sy.Sum("amount", epsilon=1, cap=3)).value).__name__)
"""
_HIDE_WIDGETS = "import sys; sys.modules['ipywidgets'] = None"


@pytest.fixture
def run() -> Iterator[Run]:
    """Runs code in a kernel of its own and gives what it printed."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        yield lambda code: _printed(client, code)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def _printed(client: Any, code: str) -> str:
    said: list[str] = []

    def hook(message: Any) -> None:
        content = message["content"]
        said.extend([content.get("text") or "", *content.get("traceback", [])])

    client.execute_interactive(code, output_hook=hook, timeout=120)
    return "".join(said)


def test_a_notebook_without_widgets_reads_a_table_and_releases(run: Run) -> None:
    assert "released float" in run(_HIDE_WIDGETS + _RELEASE)


def test_no_progress_bar_tells_how_many_rows_there_are(run: Run) -> None:
    asked = "print(table._engine._cursor().sql(\"SELECT current_setting('enable_progress_bar')\").fetchall())"
    assert "[(False,)]" in run("import steelyard as sy\ntable = sy.read({'a': [1]})\n" + asked)
