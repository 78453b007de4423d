"""Spark Connect: a real server in a process of its own, and a client without any Java that asks it all it can be asked.

The client is another process (``connect_asker``), since classic Spark and Connect do not get on in one; it tells what happened once, and
every test looks at that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.connect_asker import ASKED, SECRET, TOLD, fits
from conformance.test_questions import asked, kinds_of
from connect import connect_server
from steelyard import desk
from steelyard.tables import _spark_connect as connect
from steelyard.tables._engine import FAILED

TESTS = Path(__file__).parents[1]
REFUSED = ["TableError", connect.UNABLE, True]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client saw."""
    folder = tmp_path_factory.mktemp("connect")
    own = {"SPARK_CONNECT_LOG_LEVEL": "ERROR"}  # who turns its log on reads in it why a question failed
    own |= {"STEELYARD_HOME": str(folder / "home"), "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    with connect_server(folder) as made:
        command = [sys.executable, "-m", "conformance.connect_asker", str(folder), made.url, str(made.group)]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**inherited, **own}, timeout=500, check=False
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return {**json.loads(done.stdout.splitlines()[-1]), "printed": done.stdout + done.stderr}


def test_a_session_is_tried_before_its_first_table_and_one_that_fails_answers_nothing(report: dict[str, Any]) -> None:
    told = report["trials"]
    assert (told["before"], told["after"]) == (False, True)
    assert told["broken"][0] == "TableError"
    assert "does not compute what the guarantees rest on" in told["broken"][1]
    assert told["forgotten"], "that one session failed is no word on others, nor that another passed on this one"


def test_every_aggregate_over_a_view_is_answered_from_duckdbs_integers(report: dict[str, Any]) -> None:
    assert kinds_of(ASKED.values()) == asked()
    assert {name: found["same"] for name, found in report["questions"].items()} == dict.fromkeys(ASKED, True)
    assert not any(found["zeros"] for found in report["questions"].values()), "nothing but zeros agrees with everything"


def test_models_are_fitted_by_the_servers_workers_as_duckdb_fits_them(report: dict[str, Any]) -> None:
    found = report["models"]
    assert {name for name, each in found.items() if not (each["near"] and each["integers"])} == set()
    assert set(found) == set(fits())
    for each in found.values():
        here, there = each["charges"]
        assert here == there > 0
        assert each["size"] > 0.1


def test_rows_laid_aside_are_read_once_and_let_go_of(report: dict[str, Any]) -> None:
    told = report["kept"]
    assert len(set(told["rows"])) == 1
    assert len(set(told["read"])) == 1, "the first pass reads, and no later one"
    assert (told["cached"], told["let go"]) == (True, True)
    assert told["drew"] == ["TableError", FAILED, True], "rows that are drawn anew for a later pass are other rows"


def test_a_fit_that_the_workers_cannot_run_is_refused_before_a_charge(report: dict[str, Any]) -> None:
    told = report["refusals"]
    for name in ("fit without Python", "reserved without Python", "search without Python", "answered without Python"):
        assert told[name] == REFUSED
    assert told["answered later"] == told["reserved before"], "what was paid for and could not be run is not lost"
    assert told["entries before"] == 0
    assert told["entries after"] == 3, "a count needs no Python there, and a fit is answered once there is some"


def test_labels_over_the_wire_are_refused_with_what_to_do_and_nothing_is_charged(report: dict[str, Any]) -> None:
    told = report["refusals"]
    assert "use a session of the cluster's own" in told["labels"][1]
    for name in ("transform", "transform column"):
        assert told[name][0] == "InvalidTask"
        assert "drawn anew, for one charge" in told[name][1]
    assert told["labels spent"] == "epsilon 0"


def test_what_is_no_batch_of_known_columns_is_refused_in_fixed_words(report: dict[str, Any]) -> None:
    told = report["refusals"]
    assert told["missing column"] == told["missing file"] == ["TableError", connect.UNTOLD, True]
    assert "never ends" in told["stream"][1]
    assert "is not a table" in told["column"][1]
    assert "finds no table at nowhere" in told["no table"][1]
    assert told["by its place"] == ["x"]


def test_plain_files_and_frames_in_memory_are_stored_and_queries_are_not(report: dict[str, Any]) -> None:
    told = report["files"]
    assert {name: told[name]["stored"] for name in ("held", "parquet", "filtered", "computed")} == {
        "held": True, "parquet": True, "filtered": False, "computed": False,
    }  # fmt: skip
    for name in ("held", "parquet", "filtered", "computed", "renamed"):
        assert told[name]["warned"] != told[name]["stored"]
    assert not told["renamed"]["stored"], "which of its columns folders name cannot be told"
    assert (told["sum"], told["braces"]) == ([10, 10], 2)


def test_what_folders_name_and_what_one_row_makes_unreadable_cannot_be_asked_for(report: dict[str, Any]) -> None:
    told = report["files"]
    for name in ("parquet", "filtered", "cached"):
        assert told[name]["kinds"] == {"user": "integer", "x": "float", "t": "other", "la nd": "other"}
    assert told["as text"] == ["string", "other"]  # the second was guessed before the setting changed
    assert told["strict"] == [connect.STRICT] * 2


def test_what_rows_tell_of_columns_is_asked_once_for_files_and_never_for_a_frame(report: dict[str, Any]) -> None:
    told = report["guessed"]
    for kind in ("csv", "json"):
        assert told[kind] == [{"user": "integer", "x": "float"}, True, 6], (
            "one row decides nothing after the table was read"
        )
    assert set(map(tuple, told["named"].values())) == {("TableError", connect.NAMED, True)}
    assert told["pivot with values"] == ["user", "1", "2"]


def test_no_cell_is_printed_though_pyspark_prints_its_errors(report: dict[str, Any]) -> None:
    assert report["quiet"]["said"] == [["TableError", desk.FAILED, True]] * 2
    assert SECRET not in report["printed"]
    assert "GRPC Error received" in report["printed"], "PySpark has no log of its wire any more"
    assert TOLD in report["printed"], "PySpark prints nothing any more: what keeps it quiet can go"


def test_the_catalogue_is_left_alone_and_no_java_was_started_here(report: dict[str, Any]) -> None:
    assert (report["catalogue"], report["java"]) == ([], False)


def test_a_server_that_is_killed_gives_one_fixed_message_and_one_charge_and_a_second_try_is_free(
    report: dict[str, Any],
) -> None:
    told = report["lost"]
    assert told["killed"]
    assert told["said"] == [["TableError", desk.FAILED, True]] * 2
    assert told["entries"] == [1, 1]
    assert told["spent"][0] == told["spent"][1] != "mu 0"
    assert told["stored answer"][0] == told["stored answer"][1], "what was stored is delivered without a server"
    assert told["read again"] == ["TableError", connect.UNTOLD, True]
