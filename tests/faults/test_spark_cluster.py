"""A real cluster: every task is answered where the rows lie, and a worker that is lost costs nobody a second charge or a hint.

One cluster and one driver for all tests of this file, since starting Java takes longer than asking.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster import cluster
from steelyard import desk
from steelyard.tables import _engine as engine

TESTS = Path(__file__).parents[1]
# twenty-five tasks and four losses on three workers of one core each
pytestmark = pytest.mark.timeout(1000)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the driver saw."""
    folder = tmp_path_factory.mktemp("cluster")
    with cluster(folder, workers=3) as made:
        own = {"JAVA_HOME": made.java, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        own |= {"STEELYARD_HOME": str(folder / "home"), "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
        groups = ",".join(str(worker.group) for worker in made.workers)
        command = [sys.executable, "-m", "faults.cluster_asker", str(folder), made.url, groups]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **own}, timeout=900, check=False
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_every_task_is_answered_on_several_workers(report: dict[str, Any]) -> None:
    assert report["workers"] == 3
    assert {name: found["said"] for name, found in report["tasks"].items() if not found["ok"]} == {}


def test_no_rows_come_to_the_driver(report: dict[str, Any]) -> None:
    assert report["rows_fetched"] == engine.FAILED  # where they do come, the same limit ends the question
    assert report["grown_mb"] < 150


def test_executors_that_are_killed_give_one_fixed_message_and_one_charge_and_a_second_try_is_free(
    report: dict[str, Any],
) -> None:
    lost = report["executors lost"]
    assert lost["said"] == [[desk.FAILED, True]] * 2  # the first try and the second say the same
    assert (lost["values"], lost["entries"]) == ([], 1)


def test_a_worker_that_is_lost_is_made_up_for_by_the_other(report: dict[str, Any]) -> None:
    lost = report["worker lost"]
    assert lost["said"] == []
    assert len(lost["values"]) == 2
    assert len(set(lost["values"])) == 1  # the second try got the stored answer
    assert lost["entries"] == 1


def test_labels_are_drawn_by_executors_and_a_worker_that_is_lost_changes_none(report: dict[str, Any]) -> None:
    for name, lost in (("labels", 0), ("labels lost", 1)):
        assert report[name]["rows"] == 200_000
        assert report[name]["keyed"]  # every record once, with the label of its key and id
        assert (report[name]["entries"], report[name]["lost"]) == (1, lost)
