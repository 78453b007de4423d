"""The demo: the main job, end to end, on made-up purchases, ending in a report. ``run_tour`` leads through it.

``import steelyard.demo`` loads nothing heavy; the tour and its data do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steelyard.lazy import loading

if TYPE_CHECKING:
    from steelyard.demo._story import make_purchases as make_purchases
    from steelyard.demo._story import write_parquet as write_parquet
    from steelyard.demo._tour import run_tour

__all__ = ["run_tour"]
EPSILON = "1.5"
"""What the demo's account may spend."""
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
"""What the tour does, step by step."""
__getattr__ = loading(__name__, {"_story": ("make_purchases", "write_parquet"), "_tour": ("run_tour",)})
