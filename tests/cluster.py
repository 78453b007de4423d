"""A real Spark cluster on loopback for the tests: a master and two workers, from the jars that PySpark brings.

Each is a Java process of its own, in a process group of its own, so that a worker can be killed with its executors
as a machine that fails is lost. Nothing of it outlives the block: whatever the workers left running is killed with them.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from spark import find_java

_FLAGS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_STARTED = 60.0


@dataclass
class Worker:
    """One worker and what it started."""

    process: subprocess.Popen[bytes]

    @property
    def group(self) -> int:
        """The process group of the worker and its executors."""
        return self.process.pid

    def kill(self) -> None:
        """As if its machine were gone."""
        with suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)
        self.process.wait()


@dataclass
class Cluster:
    """Where the master listens, and the workers."""

    url: str
    java: str
    folder: Path
    workers: list[Worker]

    def start_worker(self) -> Worker:
        """One more worker, of one core and little memory; it registers by itself."""
        number = len(self.workers)
        told = ["--cores", "1", "--memory", "700m", "--host", "127.0.0.1", "--webui-port", "0"]
        told += ["--work-dir", str(self.folder / f"work-{number}"), self.url]
        made = Worker(_java(self.java, "worker.Worker", told, self.folder / f"worker-{number}.log"))
        self.workers.append(made)
        return made


@contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """A standalone cluster, ready to take an application."""
    java, log = find_java(), folder / "master.log"
    master = _java(java, "master.Master", ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"], log)
    made = Cluster("", java, folder, [])
    try:
        made.url = _waited(log, r"(spark://127\.0\.0\.1:\d+)")
        for _ in range(workers):
            made.start_worker()
        yield made
    finally:
        for worker in made.workers:
            worker.kill()
        master.kill()
        master.wait()


def _java(home: str, what: str, arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    import pyspark

    spark = Path(pyspark.__file__).parent
    command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments]
    own = {"JAVA_HOME": home, "SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1"}
    own |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": _FLAGS}
    environment = {**os.environ, **own}
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)


def _waited(log: Path, pattern: str) -> str:
    """What a log says, once it does."""
    end = time.monotonic() + _STARTED
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found.group(1)
        time.sleep(0.1)
    raise RuntimeError(f"the Spark master did not start: {log.read_text(errors='replace')[-500:]}")
