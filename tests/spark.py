"""One small local Spark for the tests: finds Java 17 or 21, else installs one, else says which package is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VERSIONS = ("17", "21")
ROOTS = ("/usr/lib/jvm", "/opt", "/opt/java", "/Library/Java/JavaVirtualMachines", str(Path.home() / ".jdk"))


def find_java() -> str:
    """The home of a Java that PySpark 4.0 supports."""
    for home in _candidates():
        if _version(home) in VERSIONS:
            return home
    return _install()


def _candidates() -> Iterator[str]:
    if "JAVA_HOME" in os.environ:
        yield os.environ["JAVA_HOME"]
    for root in ROOTS:
        for pattern in ("*/bin/java", "*/Contents/Home/bin/java"):
            yield from (str(found.parent.parent) for found in sorted(Path(root).glob(pattern)))


def _version(home: str) -> str | None:
    try:
        told = subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    found = re.search(r'version "(\d+)', told.stderr)
    return found.group(1) if found else None


def _install() -> str:
    import jdk

    try:
        return str(jdk.install("17", jre=True))
    except (OSError, jdk.JdkError) as failure:
        raise RuntimeError(
            "the Spark tests need Java 17 or 21 and none was found or could be downloaded; "
            "install one, for example: apt-get install openjdk-17-jre-headless"
        ) from failure


@contextmanager
def local_spark() -> Iterator[Any]:
    """A two-core session with little memory, no web page and two shuffle partitions."""
    os.environ["JAVA_HOME"] = find_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("steelyard-tests")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
