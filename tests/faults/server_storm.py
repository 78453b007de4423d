"""A server whose processes die all the time: web and worker as forks of a process that has imported everything, killed at random.

A program of its own: it reads a configuration and a number of kills from standard input, serves on a port that it prints, kills one of the two
processes again and again, says ``killed N`` when it is through, and goes on serving until its input ends. Whoever asks meanwhile must not
be able to tell, but by waiting.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import duckdb
import ibis
import psycopg
import pyarrow.parquet
import uvicorn

from steelyard.requests import task_from
from steelyard.server import Config, make_app
from steelyard.server._serve import _run_web, _run_worker, listen
from steelyard.server._worker import Worker

LOADED = (duckdb, ibis, psycopg, pyarrow.parquet, uvicorn, task_from, Worker, make_app)
"""What a fork need not import again."""


def fork(work: Callable[[], None]) -> int:
    """A process of its own that does some work."""
    child = os.fork()
    if child:
        return child
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work()
    finally:
        os._exit(0)


class Deaths:
    """Both processes, and who kills them."""

    def __init__(self, config: Config, listening: socket.socket) -> None:
        self._works: dict[str, Callable[[], None]] = {
            "web": lambda: _run_web(config, os.dup(listening.fileno())),
            "worker": lambda: _run_worker(config, threading.Event()),
        }
        self._children = {role: fork(work) for role, work in self._works.items()}

    def kill(self, role: str, how: int = signal.SIGKILL, again: bool = True) -> None:
        """End a process, and start it again."""
        os.kill(self._children[role], how)
        os.waitpid(self._children[role], 0)
        if again:
            self._children[role] = fork(self._works[role])

    def come_up(self, port: int) -> None:
        """Wait until the web process answers, so that on a slow machine too there is something under way to be killed."""
        ends = time.monotonic() + 10
        while time.monotonic() < ends:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            try:
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                return
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
            finally:
                connection.close()

    def watch(self) -> None:
        """Start again what ended by itself, as the parent of a real server does."""
        for role, child in self._children.items():
            if os.waitpid(child, os.WNOHANG)[0]:
                self._children[role] = fork(self._works[role])


def main() -> None:
    given = json.loads(sys.stdin.readline())
    listening = listen(Config(folder=given["config"]["folder"], port=0))
    config = replace(Config(**given["config"]), port=listening.getsockname()[1])
    storm, chance = Deaths(config, listening), random.Random()
    print(config.port, flush=True)
    sys.stdin.readline()  # when the clients are ready
    kills, deadline = 0, time.monotonic() + given["seconds"]
    while kills < given["kills"] and time.monotonic() < deadline:
        if kills % 3 == 0:
            storm.come_up(config.port)
        time.sleep(chance.expovariate(1 / given["pause"]))
        storm.kill(chance.choice(("web", "worker")))
        kills += 1
    print(f"killed {kills}", flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        storm.watch()
    for role in ("web", "worker"):
        storm.kill(role, again=False)


if __name__ == "__main__":
    main()
