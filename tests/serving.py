"""A server that really runs: web and worker as processes of their own, behind a port of this machine."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from browsing import write_rows
from steelyard.ledger import open_account
from steelyard.privacy import users
from steelyard.server import Config, Server
from steelyard.server._serve import Running, listen


def prepare(
    folder: Path, *, epsilon: str = "1000", analysts: tuple[str, ...] = ("ana",), **settings: Any
) -> tuple[Config, dict[str, str]]:
    """The configuration of a server with one set, and a token for each analyst."""
    limits = {
        "plans_per_second": 1e6,
        "asks_per_second": 1e6,
        "sign_ins_per_minute": 1e6,
        "queue_of_one": 10**6,
        "queue": 10**6,
    }
    config = Config(folder=folder / "serve", port=1, roots={"data": str(folder / "data")}, **{**limits, **settings})
    write_rows(folder / "data" / "spend.parquet")
    server = Server(config)
    dataset = server.sets.add("spend", slot=config.slot)
    server.sets.set_source(dataset.id, "root", "data/spend.parquet", {})
    open_account(config.ledger_address, "spend", unit=users("user_id"), epsilon=epsilon)
    server.sets.set_account(dataset.id, "spend")
    tokens = {}
    for name in analysts:
        person = server.people.add(name)
        own = open_account(config.ledger_address, f"spend/{name}", parent="spend", epsilon=epsilon)
        server.sets.join(dataset.id, person.id, "analyst", own.name)
        tokens[name] = server.people.new_token(person.id, "test", "ask", 1)
    return config, tokens


@contextlib.contextmanager
def running(config: Config) -> Iterator[tuple[Running, str]]:
    """Both processes, watched and started again; and their address."""
    listening = listen(replace(config, port=0))
    config = replace(config, port=listening.getsockname()[1])
    stop, found = threading.Event(), Running(config, listening)
    watching = threading.Thread(target=found.watch, args=(stop,))
    watching.start()
    try:
        wait(config)
        yield found, config.origin
    finally:
        stop.set()
        watching.join()
        found.stop()


def wait(config: Config) -> None:
    """Until the set's columns are known and the web process answers."""
    server, deadline = Server(config), time.monotonic() + 60
    while time.monotonic() < deadline:
        dataset = server.sets.named("spend")
        if dataset is not None and dataset.state == "described" and _lives(config):
            return
        time.sleep(0.05)
    raise AssertionError("the server did not start")


def _lives(config: Config) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", config.port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def kill(process: Any) -> None:
    """End a process as a power cut would."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
