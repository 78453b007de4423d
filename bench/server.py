"""The server under load: plans, questions, replays, pages and submissions a second, beside a bare Starlette hello and datasette.

    python bench/server.py [--clients 64] [--seconds 4] [--datasette]

Clients keep their connections and ask one request after another. Beside each rate stand the time that 99 of 100 requests took less than, and the
processor time of the web process for each request, which a busy machine changes less than the rate. Memory is that of the web process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steelyard.demo import make_purchases, write_parquet
from steelyard.ledger import open_account
from steelyard.privacy import users
from steelyard.server import Config, Server
from steelyard.server._serve import Running, listen

TASK = {"task": {"type": "Sum", "column": "amount", "epsilon": "0.001", "cap": 70}}
ROWS = 10_000
HELLO = """
import socket, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
app = Starlette(routes=[Route("/", lambda request: JSONResponse({"hello": "world"}))])
settings = uvicorn.Config(app, log_level="error", access_log=False)
uvicorn.Server(settings).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
"""


@dataclass
class Load:
    """What one kind of request cost."""

    name: str
    times: list[float]
    seconds: float
    processor: float
    wrong: int

    def __str__(self) -> str:
        ordered, count = sorted(self.times) or [0.0], len(self.times) or 1
        p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        return (
            f"{self.name:<34} {count / self.seconds:9.0f} /s   p99 {1000 * p99:7.1f} ms   {1000 * self.processor / count:7.2f} ms CPU"
            f"{f'   {self.wrong} REFUSED' if self.wrong else ''}"
        )


def processor_time(process: int) -> float:
    """The processor seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: int) -> float:
    """The megabytes of a process."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Crowd:
    """Clients of one port."""

    def __init__(self, port: int, process: int, clients: int, seconds: float) -> None:
        self.port, self.process, self.clients, self.seconds = port, process, clients, seconds

    def load(self, name: str, make: Callable[[], bytes]) -> Load:
        """Ask one kind of request for a while."""
        return asyncio.run(self._all(name, make))

    async def _all(self, name: str, make: Callable[[], bytes]) -> Load:
        before, start = processor_time(self.process), time.perf_counter()
        told = await asyncio.gather(*(self._one(make, start + self.seconds) for _ in range(self.clients)))
        spent = time.perf_counter() - start
        times = [each for times, _ in told for each in times]
        return Load(name, times, spent, processor_time(self.process) - before, sum(wrong for _, wrong in told))

    async def _one(self, make: Callable[[], bytes], end: float) -> tuple[list[float], int]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        times, wrong = list[float](), 0
        while (start := time.perf_counter()) < end:
            writer.write(make())
            status, _ = await answer(reader)
            times.append(time.perf_counter() - start)
            wrong += status >= 400
        writer.close()
        return times, wrong


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One response: its status and its body."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    status, length = int(head.split(" ", 2)[1]), head.partition("content-length: ")[2].partition("\r")[0]
    if length:
        return status, await reader.readexactly(int(length))
    body = b""
    while (size := int(await reader.readline(), 16)) > 0:
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return status, body


def request(method: str, path: str, port: int, body: bytes = b"", **headers: str) -> bytes:
    """One request as it goes over the wire."""
    named = {"Host": f"127.0.0.1:{port}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body or method != "GET":
        named["Content-Length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body


@contextlib.contextmanager
def hello() -> Iterator[tuple[int, int]]:
    """A bare Starlette application: its port and its process."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    fd = listening.fileno()
    with subprocess.Popen([sys.executable, "-c", HELLO, str(fd)], pass_fds=[fd]) as process:
        yield listening.getsockname()[1], process.pid
        process.terminate()
    listening.close()


def prepare(folder: Path) -> tuple[Config, str, str]:
    """A server with one set of purchases and one board; a token and a cookie of its analyst."""
    limits: dict[str, Any] = {"plans_per_second": 1e9, "asks_per_second": 1e9, "queue": 10**9, "queue_of_one": 10**9}
    config = Config(folder=folder / "serve", port=1, roots={"data": str(folder / "data")}, slot=0.0, **limits)
    (folder / "data").mkdir()
    write_parquet(make_purchases(2000), folder / "data" / "purchases.parquet")
    (folder / "data" / "labels.csv").write_text("y\n" + "".join(f"{int(row % 5 > 0)}\n" for row in range(ROWS)))
    server = Server(config)
    person, dataset = server.people.add("ana"), server.sets.add("purchases", "Purchases")
    server.sets.set_source(dataset.id, "root", "data/purchases.parquet", {})
    open_account(config.ledger_address, "purchases", unit=users("user_id"), epsilon="40")
    own = open_account(config.ledger_address, "purchases/ana", parent="purchases", epsilon="40")
    server.sets.set_account(dataset.id, "purchases")
    server.sets.join(dataset.id, person.id, "analyst", own.name)
    settings = {"tolerance": "0.05", "questions": 1_000_000}
    board = server.boards.add("returns", "", dataset.id, "data/labels.csv", "y", settings, open_to_all=False, slot=0.0)
    server.boards.join(server.boards.add_team(board.id, "us"), person.id)
    cookie = server.people.spend_code(server.people.new_code(person.id))
    assert cookie is not None
    return config, server.people.new_token(person.id, "bench", "ask", 1), cookie


@contextlib.contextmanager
def served(config: Config) -> Iterator[Running]:
    """Both processes of a server."""
    listening = listen(replace(config, port=0))
    found, stop = Running(replace(config, port=listening.getsockname()[1]), listening), threading.Event()
    watching = threading.Thread(target=found.watch, args=(stop,))
    watching.start()
    try:
        yield found
    finally:
        stop.set()
        watching.join()
        found.stop()


def until(ready: Callable[[], Any], seconds: float = 120.0) -> float:
    """How long it takes until something is so."""
    start = time.perf_counter()
    while not ready():
        if time.perf_counter() - start > seconds:
            raise TimeoutError
        time.sleep(0.01)
    return time.perf_counter() - start


def lives(port: int) -> bool:
    """Whether a server answers."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request("GET", "/healthz", port, Connection="close"))
        return connection.recv(12) == b"HTTP/1.1 200"
    return False


def measure(folder: Path, clients: int, seconds: float) -> None:
    """Everything about our own server."""
    config, token, cookie = prepare(folder)
    server, start = Server(config), time.perf_counter()
    with served(config) as running:
        port, number = running.config.port, itertools.count()
        until(lambda: lives(port))
        print(f"{'cold start to the first page':<34} {time.perf_counter() - start:9.1f} s")
        until(lambda: server.sets.named("purchases").state == "described")  # type: ignore[union-attr]
        until(lambda: server.boards.named("returns").state == "open")  # type: ignore[union-attr]
        crowd, bearer = Crowd(port, running.web.process.pid, clients, seconds), {"Authorization": f"Bearer {token}"}
        plan, told = json.dumps(TASK).encode(), {**bearer, "Content_Type": "application/json"}
        crowd.load("warm", lambda: request("POST", "/api/v1/sets/purchases/plans", port, plan, **told))
        print(crowd.load("plans", lambda: request("POST", "/api/v1/sets/purchases/plans", port, plan, **told)))

        def ask() -> bytes:
            key = f"key {next(number)}"
            return request("POST", "/api/v1/sets/purchases/releases", port, plan, Idempotency_Key=key, **told)

        before = server.ledger.verify().entries
        print(crowd.load("questions (charged, 202)", ask))
        print(f"{'  entries on the ledger':<34} {server.ledger.verify().entries - before:9d}")
        took = until(lambda: not server.jobs.waiting(), 900)
        print(f"{'  until the last was answered':<34} {took:9.1f} s")
        first = server.jobs.of_set(1, person=None, after=0, limit=1)[0].sequence
        print(crowd.load("answers read back", lambda: request("GET", f"/api/v1/releases/{first}", port, b"", **bearer)))
        named = {"Cookie": f"{running.config.cookie}={cookie}", "Accept": "text/html"}
        print(crowd.load("home page", lambda: request("GET", "/", port, b"", **named)))
        submissions(crowd, server, port, bearer, number)
        print(f"{'memory of the web process':<34} {resident(running.web.process.pid):9.0f} MB")


def submissions(crowd: Crowd, server: Server, port: int, bearer: dict[str, str], number: Iterator[int]) -> None:
    """Predictions sent in, each another file with its own guess, until all are answered."""
    rows = "".join("1\n" for _ in range(ROWS - 1))

    def send() -> bytes:
        mine = next(number)
        path = "/api/v1/boards/returns/submissions?format=csv&guess=0.8"
        return request("PUT", path, port, f"p\n{rows}{mine % 2}\n".encode(), Idempotency_Key=f"sent {mine}", **bearer)

    start = time.perf_counter()
    found = Crowd(port, crowd.process, min(8, crowd.clients), min(2.0, crowd.seconds)).load(
        f"submissions of {ROWS:,} rows sent", send
    )
    print(found)
    until(lambda: not server.boards.waiting(), 900)
    print(f"{'  sent and answered':<34} {len(found.times) / (time.perf_counter() - start):9.0f} /s")


def datasette(folder: Path, clients: int, seconds: float) -> None:
    """A page of 50 rows of datasette, where it is installed."""
    import sqlite3

    with sqlite3.connect(folder / "rows.db") as database:
        database.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, amount REAL, country TEXT)")
        database.executemany("INSERT INTO rows VALUES (?, ?, ?)", [(row, row / 7, "FR") for row in range(50)])
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "datasette",
        str(folder / "rows.db"),
        "--port",
        str(port),
        "--setting",
        "default_page_size",
        "50",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until(lambda: _open(port))
        print(
            Crowd(port, process.pid, clients, seconds).load(
                "datasette, page of 50 rows", lambda: request("GET", "/rows/rows", port)
            )
        )
        process.terminate()


def _open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--datasette", action="store_true")
    given = parser.parse_args()
    print(f"{given.clients} clients, load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with hello() as (port, process):
        until(lambda: _open(port))
        time.sleep(1)
        print(
            Crowd(port, process, given.clients, given.seconds).load(
                "bare Starlette hello", lambda: request("GET", "/", port)
            )
        )
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), given.clients, given.seconds)
        if given.datasette:
            datasette(Path(folder), given.clients, given.seconds)


if __name__ == "__main__":
    main()
