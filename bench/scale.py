"""Every kind of question on many skewed rows: CPU seconds and peak memory, beside DuckDB doing the same grouping without privacy.

    python bench/scale.py [--rows 20000000] [--only sum quantile …]

The rows are generated: 138,000 users, one of whom has a twentieth of all rows, and 2,000 keys, one of which has three tenths. Every job
runs in a process of its own; shown are the CPU seconds of the work alone (after imports), the peak memory of the process, and both over
DuckDB's own for the plain grouping beside it. The file is deleted afterwards.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

FEATURES = [f"x{i}" for i in range(1, 6)]
FEW = list(range(50))

PLAIN = {
    "total": "SELECT sum(amount) FROM t",
    "by user": "SELECT sum(least(s, 1000)) FROM (SELECT user_id, sum(amount) AS s FROM t GROUP BY user_id)",
    "users by key": "SELECT k, count(DISTINCT user_id) FROM t WHERE k < 50 GROUP BY k",
    "by user and key": "SELECT k, sum(s) FROM (SELECT k, user_id, sum(amount) AS s FROM t GROUP BY k, user_id) GROUP BY k",
    "quantile": "SELECT quantile_cont(amount, 0.5) FROM t",
    "moments": "SELECT " + ", ".join(f"sum({a} * {b})" for a in FEATURES for b in [*FEATURES, "amount"]) + " FROM t",
    "by user, moments": "SELECT sum(s) FROM (SELECT user_id, "
    + " + ".join(f"sum({a} * amount)" for a in FEATURES)
    + " AS s FROM t GROUP BY user_id ORDER BY user_id)",
}


def tasks(sy: Any) -> dict[str, tuple[str, str, Callable[[], Any]]]:
    """Each job: whose presence is hidden, the plain grouping beside it, and what is asked."""
    from steelyard.models import Numeric

    features = [Numeric(name, 0, 1) for name in FEATURES]
    return {
        "sum": ("users", "by user", lambda: sy.Sum("amount", epsilon=1, lower=0, cap=1000)),
        "sum, cap chosen": ("users", "by user", lambda: sy.Sum("amount", epsilon=1, lower=0, upper=10**7)),
        "users by 50 keys": ("users", "users by key", lambda: sy.CountUsers(epsilon=1, by="k", keys=FEW, max_keys=5)),
        "quantile": ("users", "quantile", lambda: sy.Quantile("amount", epsilon=1, upper=100, cap=50)),
        "sum by found keys": ("users", "by user and key", lambda: sy.Sum("amount", epsilon=1, cap=1000, by="k", max_keys=5)),
        "count by found keys": ("users", "by user and key", lambda: sy.Count(epsilon=1, cap=100, by="k", max_keys=5)),
        "linear fit, rows": ("rows", "moments", lambda: sy.FitLinear(features, "amount", 0, 100, epsilon=1)),
        "logistic fit, rows": ("rows", "moments", lambda: sy.FitLogistic(features, "y", [0, 1], epsilon=1)),
        "linear fit, users": ("users", "by user, moments", lambda: sy.FitLinear(features, "amount", 0, 100, epsilon=1)),
        "logistic fit, users": ("users", "by user, moments", lambda: sy.FitLogistic(features, "y", [0, 1], epsilon=1)),
    }  # fmt: skip


def make(path: Path, rows: int) -> None:
    """The skewed table, written by DuckDB."""
    import duckdb

    columns = ", ".join(f"random() AS {name}" for name in FEATURES)
    duckdb.sql(
        f"COPY (SELECT CASE WHEN hash(i) % 20 = 0 THEN 0 ELSE (pow(random(), 3) * 138000)::INT END AS user_id, {columns}, "
        "(random() < 0.3 + 0.4 * random())::INT AS y, random() * 100 AS amount, "
        f"CASE WHEN random() < 0.3 THEN 0 ELSE (random() * 2000)::INT END AS k FROM range({rows}) AS t(i)) "
        f"TO '{path}' (FORMAT parquet)"
    )


def private(name: str, path: str) -> Callable[[], object]:
    """One release, ready to be made."""
    import steelyard as sy

    unit, _, task = tasks(sy)[name]
    hidden = sy.rows() if unit == "rows" else sy.users("user_id")
    account = sy.open_account(":memory:", "scale", unit=hidden, epsilon=9, delta=1e-6, additive_delta="1e-7")
    session, wanted = sy.Session(sy.read(path), account), task()
    return lambda: session.release(wanted)


def plain(name: str, path: str) -> Callable[[], object]:
    """The same grouping in DuckDB, as it comes."""
    import duckdb

    connection = duckdb.connect(config={"threads": 2})
    connection.execute(f"CREATE VIEW t AS SELECT * FROM '{path}'")
    return lambda: connection.execute(PLAIN[name]).fetchall()


def measured(kind: str, name: str, path: Path) -> tuple[float, float]:
    """CPU seconds and peak megabytes of one job in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--job", kind, name, str(path)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{kind} {name}: {done.stderr.strip()[-500:]}")
    cpu, peak = json.loads(done.stdout.splitlines()[-1])
    return cpu, peak


def run(kind: str, name: str, path: str) -> None:
    """Do one job and print what it took."""
    warnings.simplefilter("ignore")
    work = (private if kind == "private" else plain)(name, path)
    begun = time.process_time()
    work()
    print(json.dumps([time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def main() -> None:
    """Print the table."""
    import steelyard as sy

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--job", nargs=3)
    given = parser.parse_args()
    if given.job:
        run(*given.job)
        return
    with tempfile.TemporaryDirectory() as folder:
        path, beside = Path(folder) / "rows.parquet", dict[str, tuple[float, float]]()
        make(path, given.rows)
        print(f"{given.rows:,} rows{'':18}{'CPU s':>9}{'peak MB':>9}{'CPU / plain':>13}{'MB / plain':>12}")
        for name, (_, grouping, _) in tasks(sy).items():
            if given.only and name not in given.only:
                continue
            if grouping not in beside:
                beside[grouping] = measured("plain", grouping, path)
            (cpu, peak), (least, room) = measured("private", name, path), beside[grouping]
            print(f"{name:30}{cpu:9.1f}{peak:9.0f}{cpu / least:13.1f}{peak / room:12.1f}", flush=True)


if __name__ == "__main__":
    main()
