"""What tests of ``steelyard fit`` and ``predict`` share: a table of people and what they spend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def spend(tmp_path: Path) -> Path:
    """Twenty thousand rows of ten thousand people; what each spends follows age and land."""
    random = np.random.default_rng(0)
    n = 20_000
    age, land = random.uniform(0, 100, n), random.choice(["FR", "DE", "IT"], n)
    label = 50 + 2 * age + 30 * (land == "FR") + random.normal(size=n) * 10
    path = tmp_path / "spend.parquet"
    pd.DataFrame({"age": age, "land": land, "spend": label, "who": np.arange(n) // 2}).to_parquet(path)
    return path
