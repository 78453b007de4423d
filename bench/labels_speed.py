"""Labels randomized per CPU second on one core, in memory and from Parquet to Parquet, secure words included.

python bench/labels_speed.py             10 million in memory, 2 million streamed
python bench/labels_speed.py --full      10 million in memory, 100 million streamed
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from steelyard.labels._files import randomize_parquet
from steelyard.labels._randomizer import LabelRandomizer

SIZE = 10_000_000


def fitted(method: str) -> LabelRandomizer:
    """A randomizer of 401 integer labels, its table built."""
    made = LabelRandomizer(2, 0, 400, method, prior=[900] + [1] * 400, missing=0).fit()
    _ = made.sampler_.table
    return made


def in_memory() -> None:
    """Integer and continuous labels, a small and a large table."""
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 401, SIZE).astype(np.float64)
    for method in ("two_point", "unbiased"):
        for kind, y in (("integer", whole), ("continuous", whole * 0.99)):
            made = fitted(method)
            started = time.process_time()
            made.transform(y)
            spent = time.process_time() - started
            outputs = len(made.mechanism_.outputs)
            print(f"{method:10} {outputs:4} outputs, {kind:10} {spent:5.2f} CPU s for {SIZE:,}: {SIZE / spent:,.0f}/s")


def streamed(size: int) -> None:
    """Parquet to Parquet, with the growth of the peak memory."""
    made = fitted("unbiased")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.parquet"), Path(folder, "out.parquet")
        schema = pa.schema([("x", pa.float32()), ("y", pa.float64())])
        rng = np.random.default_rng(0)
        with pq.ParquetWriter(source, schema) as writer:
            for _ in range(size // 500_000):
                columns = [rng.random(500_000, dtype=np.float32), rng.integers(0, 401, 500_000).astype(float)]
                writer.write_batch(pa.record_batch([pa.array(c) for c in columns], schema=schema))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        started = time.process_time()
        randomize_parquet(made, source, target, "y")
        spent = time.process_time() - started
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"Parquet to Parquet: {spent:.2f} CPU s for {size:,}; peak memory grew by {grown:.0f} MB")


def main() -> None:
    """Run both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="stream 100 million labels")
    full = parser.parse_args().full
    fitted("two_point").transform(np.zeros(1000))  # what the first of a process loads is no part of drawing
    streamed(100_000_000 if full else 2_000_000)
    in_memory()


if __name__ == "__main__":
    main()
