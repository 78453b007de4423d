"""A real Spark Connect server on loopback for the tests: one Java process, from the jars that PySpark brings.

It has a process group of its own, so that it can be killed with its Python workers, and nothing of it outlives the block. Whoever
asks it does so from yet another process: a client of Connect and a classic session do not get on in one.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from spark import SETTINGS, find_java

_FLAGS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_STARTED = 120.0
_MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True)
class ConnectServer:
    """Where the server listens, and the process group that it and its workers are."""

    url: str
    group: int


@contextmanager
def connect_server(folder: Path) -> Iterator[ConnectServer]:
    """A server with one core, whose workers have the Python and the modules of this process."""
    log, port = folder / "connect.log", _free_port()
    process = _started(folder, log, port)
    try:
        _wait(process, log, port)
        yield ConnectServer(f"sc://127.0.0.1:{port}", process.pid)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def _started(folder: Path, log: Path, port: int) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    own = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port)}
    own |= {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
    own |= {key: value for key, value in SETTINGS.items() if key != "spark.driver.memory"}
    own |= {"spark.driver.bindAddress": "127.0.0.1"}
    own |= {"spark.driver.extraJavaOptions": _FLAGS, "spark.log.level": "ERROR"}
    own |= {"spark.sql.codegen.wholeStage": "false"}  # compiling Java for so few rows takes longer than reading them
    own |= {"spark.sql.adaptive.enabled": "false"}
    told = [word for key, value in own.items() for word in ("--conf", f"{key}={value}")]
    command = [str(home / "bin" / "spark-submit"), "--master", "local[1]", "--driver-memory", "700m"]
    command += ["--class", _MAIN, *told, "spark-internal"]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"JAVA_HOME": find_java(), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=folder, start_new_session=True)


def _wait(process: subprocess.Popen[bytes], log: Path, port: int) -> None:
    """Until somebody listens."""
    end = time.monotonic() + _STARTED
    while time.monotonic() < end and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the Spark Connect server did not start: {log.read_text(errors='replace')[-2000:]}")
