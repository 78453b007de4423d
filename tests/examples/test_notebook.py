"""A notebook is where many people start: a real kernel must be able to read a table, plan, ask, and show what was found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

Run = Callable[[str], str]
Kernel = Any
_RELEASE = """
import steelyard as sy
account = sy.open_account(":memory:", "notebook", unit=sy.rows(), epsilon=1)
session = sy.Session(sy.read({"amount": [1.0, 2.0, 3.0]}), account)
print("released", type(session.release(sy.Sum("amount", epsilon=1, cap=3)).value).__name__)
"""
_HIDE_WIDGETS = "import sys; sys.modules['ipywidgets'] = None"
_ROWS = """
import steelyard as sy
users = [user for user in range(500) for _ in range(4)]
rows = {"user": users, "amount": [float(i % 50) for i in range(2000)], "country": ["FR", "FR", "DE", "ES"] * 500}
account = sy.open_account(":memory:", "notebook", unit=sy.users("user"), epsilon=5)
table = sy.read(rows)
session = sy.Session(table, account)
task = sy.Sum("amount", epsilon=1, cap=200, by="country", keys=["FR", "DE", "ES"])
"""
_CELLS = {
    "table": ("table", "<td>amount</td><td>float</td>"),
    "session.plan(task)": ("Plan(laplace", "Nothing was spent and nothing was read."),
    "profile = session.release(sy.Profile('amount', epsilon=1, upper=10_000)).value; profile": (
        "ContributionProfile(",
        "<svg",
    ),
    "profile.plan(epsilon=1)": ("Tradeoff(", "sweet spot"),
    "total = session.release(task); total": ("Release('Sum of amount by country'", "<td>FR</td>"),
    "total.chart()": ("Chart('Sum of amount by country'", "<svg"),
    "total.to_pandas()": ("country", "<th>country</th>"),
    "asked = session.sql_plan('select country, sum(amount) as total, count(*) as n from t group by country order by total desc', epsilon=1, cap=200, keys=['FR', 'DE']); asked": (
        "Asked(total = Sum, n = Count",
        "error to expect",
    ),
    "asked.release()": ("Answers('total, n by country': 2 rows", "<td>FR</td>"),
    "account": ("Account(", "Budget of notebook"),
    "total.guarantee": ("Guarantee(", "5-differential privacy"),
}


@pytest.fixture
def run(kernel: Kernel) -> Run:
    """Runs code in a kernel of its own and gives what it printed."""
    return lambda code: _printed(kernel, code)


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    """A client of a kernel of its own."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        yield client
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


def _shown(client: Any, code: str) -> dict[str, str]:
    """What a cell shows: its last value in every form that a notebook can display, or the words of its traceback."""
    found: dict[str, str] = {}

    def hook(message: Any) -> None:
        content = message["content"]
        found.update(content.get("data", {}))
        if "traceback" in content:
            found["traceback"] = "\n".join(content["traceback"])

    client.execute_interactive(code, output_hook=hook, timeout=120)
    return found


def test_a_notebook_without_widgets_reads_a_table_and_releases(run: Run) -> None:
    assert "released float" in run(_HIDE_WIDGETS + _RELEASE)


def test_no_progress_bar_tells_how_many_rows_there_are(run: Run) -> None:
    asked = "print(table._engine._cursor().sql(\"SELECT current_setting('enable_progress_bar')\").fetchall())"
    assert "[(False,)]" in run("import steelyard as sy\ntable = sy.read({'a': [1]})\n" + asked)


def test_a_notebook_shows_a_page_for_everything_on_the_way(kernel: Kernel) -> None:
    assert "traceback" not in _shown(kernel, _HIDE_WIDGETS + _ROWS)
    for cell, (words, page) in _CELLS.items():
        shown = _shown(kernel, cell)
        assert "traceback" not in shown, shown["traceback"]
        assert words.lower() in shown["text/plain"].lower(), cell
        assert len(shown["text/plain"]) < 500, cell
        assert page in shown["text/html"], cell
    refused = _shown(kernel, "session.release(sy.Sum('amout', epsilon=1, cap=3))")["traceback"]
    assert len(refused.splitlines()) <= 4
    assert refused.endswith("The table has 'user', 'amount', 'country'.")
    assert "site-packages" not in refused
