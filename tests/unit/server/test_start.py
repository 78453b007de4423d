"""``steelyard serve``: it starts with nothing, prints links that sign in, and its processes come back."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from browsing import SUM, Browser, new_team
from steelyard.cli import main
from steelyard.ledger import open_account
from steelyard.privacy import users
from steelyard.server import Config, Server, make_app
from steelyard.server import _first as first
from steelyard.server._serve import Child
from steelyard.server._worker import Worker

RUN = "import sys; from steelyard.cli import main; sys.exit(main(sys.argv[1:]))"


def test_the_first_start_makes_a_set_a_board_and_two_people_once(tmp_path: Path) -> None:
    config = first.with_demo(Config(folder=tmp_path / "serve"))
    server = Server(config)
    for _ in range(2):
        first.begin(server)
    worker = Worker(server)
    worker.once()
    assert (tmp_path / "serve").stat().st_mode & 0o077 == 0
    person, app = server.people.named(first.PERSON), make_app(server)
    assert person is not None
    browser = Browser(app, server.people.new_token(person.id, "test", "ask", 1))
    asked = browser.post(f"/api/v1/sets/{first.SET}/releases", {"task": SUM}, headers={"Idempotency-Key": "a"})
    assert asked.status == 202
    worker.once()
    assert browser.get(asked.headers["location"]).json["state"] == "answered"
    assert server.account(first.SET).spent.amount == 250_000
    assert browser.get(f"/api/v1/boards/{first.BOARD}").json["facts"]["rows"] == first.PARCELS
    assert {each["name"]: each["officer"] for each in server.people.everybody()} == {"officer": True, "you": False}


def test_the_command_prints_a_link_that_works_and_stops_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-c", RUN, "serve", "--folder", str(tmp_path / "serve"), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as serving:
        try:
            assert serving.stdout is not None
            link = re.search(r"Open (http://\S+)/enter/(\S+)", serving.stdout.readline())
            assert link is not None
            cookie = _enter(link[1], link[2])
            assert cookie.startswith("__Host-steelyard-")
        finally:
            serving.send_signal(signal.SIGTERM)
            assert serving.wait(60) == 0


def _enter(origin: str, code: str) -> str:
    connection = http.client.HTTPConnection(origin.removeprefix("http://"), timeout=60)
    headers = {"Origin": origin, "Content-Type": "application/x-www-form-urlencoded", "Content-Length": "0"}
    try:
        connection.request("POST", f"/enter/{code}", b"", headers)
        return connection.getresponse().headers["Set-Cookie"]
    finally:
        connection.close()


def test_a_link_is_made_for_a_known_person_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "serve")
    server = Server(Config(folder=tmp_path / "serve"))
    server.people.add("ana")
    open_account(server.config.ledger_address, "spend", unit=users("user_id"), epsilon="1")
    assert main(["serve", "link", "ana", "--folder", folder]) == 0
    assert [(entry.name, entry.detail) for entry in server.ledger.notes()] == [("made a link on the server", "ana")]
    assert capsys.readouterr().out.startswith("http://127.0.0.1:8020/enter/")
    assert main(["serve", "link", "eve", "--folder", folder]) == 2
    assert main(["serve", "check", "--folder", folder]) == 0
    assert main(["serve", "--folder", folder, "--plan"]) == 0
    assert main(["serve", "--host", "0.0.0.0", "--folder", folder]) == 2


def test_a_process_that_does_not_live_is_started_again_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now, starts = [0.0], list[float]()

    class Dead:
        stdin = None

        def poll(self) -> int:
            return 1

    def start(child: Child) -> Any:
        starts.append(now[0])
        return Dead()

    monkeypatch.setattr(Child, "_start", start)
    monkeypatch.setattr("steelyard.server._serve.time.monotonic", lambda: now[0])
    child = Child("web", Config(), None)
    for tick in range(4000):
        now[0] = tick * 0.01
        child.watch()
    gaps = [after - before for before, after in pairwise(starts)]
    assert gaps == sorted(gaps)
    assert gaps[0] < 0.1
    assert gaps[-1] == pytest.approx(5.0, abs=0.02)


def test_a_worker_that_is_stopped_in_a_job_has_told_nothing_and_the_job_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = new_team(tmp_path)
    ana = team.browser("ana")
    asked = ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "a"})
    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(team.worker, "_table", _stopped)
            with pytest.raises(SystemExit):
                team.worker.once()
    assert not team.worker.busy
    team.worker.once()
    assert ana.get(asked.headers["location"]).json["state"] == "answered"


def _stopped(dataset: object) -> Any:
    raise SystemExit(0)


def test_a_worker_rests_and_stops(tmp_path: Path) -> None:
    team, stop = new_team(tmp_path), threading.Event()
    working = threading.Thread(target=team.worker.run, args=(stop,))
    working.start()
    asked = team.browser("ana").post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "a"})
    deadline = time.monotonic() + 60
    while (
        time.monotonic() < deadline and team.browser("ana").get(asked.headers["location"]).json["state"] != "answered"
    ):
        time.sleep(0.05)
    stop.set()
    working.join()
    assert team.browser("ana").get(asked.headers["location"]).json["state"] == "answered"
