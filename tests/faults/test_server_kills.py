"""Killing the web process and the worker at random, over HTTP: nothing is overspent, no key gets two answers, no question is stuck."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import psycopg
import pytest

import postgres
import steelyard as sy
from serving import prepare, wait
from steelyard.errors import BudgetExceeded, TableError
from steelyard.ledger import Ledger
from steelyard.release import Release
from steelyard.server import Config, Server
from steelyard.server._serve import write_config

STORM = Path(__file__).parent / "server_storm.py"
CAP, LARGE, PRICE, CLIENTS, PATIENCE, PAUSE = "2", "20", "0.02", 3, 180, 0.15
FAILED = "failed"


def faults(ledger: Ledger, told: Mapping[str, Sequence[str]], cap: str) -> list[str]:
    """What must not be, in the ledger and in what clients were told by key."""
    found = [
        f"{key} was answered in {len(set(answers))} ways" for key, answers in told.items() if len(set(answers)) > 1
    ]
    receipts = [Release.from_json(answers[0]).receipt for answers in told.values() if answers[0] != FAILED]
    report = ledger.verify(receipts=receipts)
    found += list(report.findings)
    charged = {(entry.account, entry.name): entry for entry in ledger.entries() if entry.kind == "charge"}
    answered = {entry.charge for entry in ledger.entries() if entry.kind == "answer"}
    for key, answers in told.items():
        entry = next((entry for (_, name), entry in charged.items() if name == key), None)
        if entry is None:
            found.append(f"{key} was answered without a charge")
        elif answers[0] != FAILED and Release.from_json(answers[0]).receipt.sequence != entry.sequence:
            found.append(f"{key} was answered by another charge")
        elif entry.sequence not in answered:
            found.append(f"{key} was answered by nothing that is stored")
    spent = sum(entry.amount for entry in charged.values())
    if spent > sy.Loss.pure(cap).amount or spent != ledger.account("spend").spent.amount:
        found.append(f"{spent} was spent of {cap}")
    return found + [f"{entry.name} is stuck" for entry in ledger.pending()]


class Asking(threading.Thread):
    """A client that asks, and asks again, until it is told to stop."""

    def __init__(self, name: str, url: str, token: str, stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.told: dict[str, list[str]] = defaultdict(list)
        self.refused, self.errors = 0, list[BaseException]()
        self._session, self._stop_asking = sy.connect(url, token, patience=120)["spend"], stop

    def run(self) -> None:
        chance, number = Random(), 0
        try:
            while not self._stop_asking.is_set():
                again = self.told and chance.random() < 0.4
                number += not again
                self._ask(chance.choice(list(self.told)) if again else f"{self.name} {number}")
        except BaseException as error:
            self.errors.append(error)

    def _ask(self, key: str) -> None:
        try:
            found = self._session.release(sy.Sum("amount", epsilon=PRICE, cap=10), key=key).to_json()
        except TableError:
            found = FAILED
        except BudgetExceeded:
            self.refused += 1
            time.sleep(0.02)
            return
        self.told[key].append(found)


def storm(
    config: Config, tokens: Mapping[str, str], kills: int, seconds: float, pause: float
) -> tuple[int, list[Asking]]:
    """Clients on a server whose processes are killed; how often they were, and what the clients were told."""
    given = {"config": json.loads(write_config(config)), "kills": kills, "seconds": seconds, "pause": pause}
    with subprocess.Popen(
        [sys.executable, str(STORM)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(given) + "\n")
        server.stdin.flush()
        config, stop = replace(config, port=int(server.stdout.readline())), threading.Event()
        wait(config)
        url = config.origin
        clients = [Asking(name, url, token, stop) for name, token in tokens.items()]
        for client in clients:
            client.start()
        server.stdin.write("go\n")
        server.stdin.flush()
        killed = int(server.stdout.readline().split()[1])
        stop.set()
        for client in clients:
            client.join(PATIENCE)
        assert not any(client.is_alive() for client in clients), "a question is never answered"
        ledger, deadline = Ledger(config.ledger_address), time.monotonic() + 30
        while ledger.pending() and time.monotonic() < deadline:
            time.sleep(0.05)
        server.stdin.close()
        server.wait(PATIENCE)
    return killed, clients


def withstand(config: Config, tokens: Mapping[str, str], kills: int, seconds: float, cap: str = CAP) -> None:
    """All of the kills are made, however slow the machine: fewer in the time they may take are a failure."""
    killed, clients = storm(config, tokens, kills, seconds, PAUSE)
    assert killed == kills
    assert [error for client in clients for error in client.errors] == []
    told = {key: answers for client in clients for key, answers in client.told.items()}
    assert told
    assert faults(Ledger(config.ledger_address), told, cap) == []
    states = {
        row[0] for row in Server(config).database.rows("SELECT DISTINCT state FROM jobs WHERE sequence IS NOT NULL")
    }
    assert states <= {"answered", "failed"}


NAMES = tuple(f"client{number}" for number in range(CLIENTS))


def on_postgres() -> dict[str, str]:
    """A ledger and a server's records in PostgreSQL, both empty."""
    url = postgres.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS steelyard_server CASCADE")
    return {"ledger": url, "database": url}


def test_deaths_of_web_and_worker_on_sqlite(tmp_path: Path) -> None:
    config, tokens = prepare(tmp_path, epsilon=CAP, analysts=NAMES)
    withstand(config, tokens, kills=100, seconds=300)


def test_deaths_of_web_and_worker_on_postgres(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))  # an anchor of its own: the database is used again
    config, tokens = prepare(tmp_path, epsilon=CAP, analysts=NAMES, **on_postgres())
    withstand(config, tokens, kills=100, seconds=300)


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a thousand of anything takes a while
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_thousand_deaths(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget is large enough for questions to the end, and not for all that are asked."""
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))
    where = on_postgres() if kind == "postgres" else {}
    config, tokens = prepare(tmp_path, epsilon=LARGE, analysts=NAMES, **where)
    withstand(config, tokens, kills=1000, seconds=1500, cap=LARGE)


def test_a_second_answer_and_one_without_a_charge_would_be_found(tmp_path: Path) -> None:
    account = sy.open_account(tmp_path / "ledger.db", "spend", unit=sy.rows(), epsilon=CAP)
    session = sy.Session(sy.read({"amount": [1.0, 2.0]}), account)
    task = sy.Sum("amount", epsilon=PRICE, cap=10)
    one, other = (session.release(task, key=key).to_json() for key in ("one", "other"))
    ledger = Ledger(account.location)
    assert faults(ledger, {"one": [one, one]}, CAP) == []
    assert "two ways" in faults(ledger, {"one": [one, other]}, CAP)[0].replace("2", "two")
    assert "without a charge" in faults(ledger, {"free": [one]}, CAP)[0]
    assert "another charge" in faults(ledger, {"one": [other]}, CAP)[0]
    assert "spent" in faults(ledger, {}, "0.01")[0]
    session.reserve(task, key="lost")
    assert "stuck" in faults(ledger, {}, CAP)[0]
