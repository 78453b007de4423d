"""The demo: the main job, end to end, on made-up purchases, ending in a report. ``run_tour`` leads through it.

``import steelyard.demo`` loads nothing heavy; the tour and its data do.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES: dict[str, str] = {
    "make_purchases": "_story",
    "run_tour": "_tour",
    "write_parquet": "_story",
}
__all__ = ["STEPS", "make_purchases", "run_tour", "write_parquet"]
EPSILON = "1.5"
STEPS = (
    "make up the purchases of 20,000 customers",
    f"open an account of epsilon {EPSILON} on an SQLite ledger",
    "take one private look at what customers spend, and plan from it for free",
    "release the total, the purchases by country and the usual price",
    "retry for free, and be refused when the budget is gone",
    "make every price private and train a model on the noisy ones",
    "learn which parcels come back, hiding whole customers",
    "ask for a total and a model by their accuracy, and see what they cost",
    "ask a holdout ten thousand questions about pure noise",
    "verify the ledger; put an old backup back, verify again",
    "write report.html",
)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
