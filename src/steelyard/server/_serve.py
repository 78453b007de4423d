"""Starting a server: a parent that binds the address and watches two children, the web process and the worker.

The parent holds the listening socket and hands it to the web process alone, so a web process that dies loses no connection that waits,
and the worker has none. Children read their configuration from standard input, and end when that is closed: with their parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.server import _first as first
from steelyard.server._config import Config
from steelyard.server._links import link
from steelyard.server._server import Server

_SOON, _LIVES, _LONGEST_PAUSE = 0.05, 10.0, 5.0


class Child:
    """One of the two processes: started, watched, started again."""

    def __init__(self, role: str, config: Config, listening: socket.socket | None) -> None:
        self.role, self._config, self._listening = role, config, listening
        self._pause, self._since = _SOON, time.monotonic()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        fd = [] if self._listening is None else [self._listening.fileno()]
        child = subprocess.Popen(
            [sys.executable, "-m", "steelyard.server", self.role, *map(str, fd)], stdin=subprocess.PIPE, pass_fds=fd
        )
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(write_config(self._config).encode() + b"\n")
            child.stdin.flush()
        return child

    def watch(self) -> bool:
        """Start the process again if it has ended, later each time if it does not live; whether it had."""
        now = time.monotonic()
        if self.process.poll() is None:
            self._pause = _SOON if now - self._since > _LIVES else self._pause
            return False
        if now - self._since < self._pause:
            return False
        self._close()
        self._pause, self._since = min(2 * self._pause, _LONGEST_PAUSE), now
        self.process = self._start()
        return True

    def stop(self, wait: float = 15.0) -> None:
        """End the process in order, or after a while without."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(wait)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._close()

    def _close(self) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()


class Running:
    """A server that runs: the listening socket and both children."""

    def __init__(self, config: Config, listening: socket.socket) -> None:
        self.config, self._listening = config, listening
        self.worker = Child("worker", config, None)
        self.web = Child("web", config, listening)

    def watch(self, stop: threading.Event) -> None:
        """Start again what ends, until told to stop."""
        while not stop.wait(_SOON):
            for child in (self.web, self.worker):
                if child.watch():
                    stop.wait(_SOON)

    def stop(self) -> None:
        """Stop the web process, then the worker."""
        self.web.stop()
        self.worker.stop()
        self._listening.close()


def listen(config: Config) -> socket.socket:
    """The listening socket of a server."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((config.host, config.port))
    except OSError:
        made.close()
        raise InvalidTask(
            f"{config.host}:{config.port} cannot be listened on: is another server running? Try --port."
        ) from None
    made.listen(512)
    return made


def serve(config: Config, say: Callable[[str], None] = print) -> None:
    """Run a server until it is interrupted; on an empty folder, with a demo and a link that signs in once."""
    listening = listen(config)
    config = first.with_demo(replace(config, port=listening.getsockname()[1]))
    server = Server(config)
    first.begin(server)
    running = Running(config, listening)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    for name, words in ((first.PERSON, "Open"), (first.OFFICER, "As the officer, who approves budgets and verifies:")):
        person = server.people.named(name)
        if person is not None and not (config.public_url and server.people.has_entered(person.id)):
            say(f"{words} {link(server, person.id)}  (works once, 15 minutes)")
    try:
        with contextlib.suppress(KeyboardInterrupt):
            running.watch(stop)
    finally:
        running.stop()


def serve_one(role: str, config: Config) -> None:
    """Be one of the two processes alone, such as a service of its own under a user of its own."""
    if role == "worker":
        _run_worker(config, threading.Event())
    else:
        _run_web(config, listen(config).detach())


def write_config(config: Config) -> str:
    """A configuration as one line, for a child."""
    plain = {**{name: getattr(config, name) for name in config.__dataclass_fields__}, "folder": str(config.folder)}
    return json.dumps({**plain, "roots": dict(config.roots), "sources": dict(config.sources)})


def run_child(arguments: list[str]) -> None:
    """Be one of the two processes; the configuration is the first line of standard input, and its end is ours."""
    config = Config(**json.loads(sys.stdin.readline()))
    stop = threading.Event()
    threading.Thread(target=_until_orphaned, args=(stop,), daemon=True).start()
    if arguments[0] == "worker":
        _run_worker(config, stop)
    else:
        _run_web(config, int(arguments[1]))


def _until_orphaned(stop: threading.Event) -> None:
    """Wait for the parent to go; then stop in order, or after a while without."""
    sys.stdin.read()
    stop.set()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(20)
    os._exit(1)


def _run_web(config: Config, fd: int) -> None:
    import uvicorn

    from steelyard.server._routes import make_app

    app = make_app(config)
    options: dict[str, Any] = {"lifespan": "on", "log_level": "error", "access_log": False, "server_header": False}
    settings = uvicorn.Config(app, proxy_headers=False, timeout_keep_alive=30, timeout_graceful_shutdown=10, **options)
    uvicorn.Server(settings).run(sockets=[socket.socket(fileno=fd)])


def _run_worker(config: Config, stop: threading.Event) -> None:
    from steelyard.errors import LedgerLocked
    from steelyard.server._worker import Worker

    server = Server(config)
    worker = Worker(server)

    def end(*signal: object) -> None:
        """Stop after this job, or in its middle if it is one that reads rows: it told nothing, and is done again."""
        stop.set()
        if worker.busy:
            raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while not stop.is_set():
        with contextlib.suppress(LedgerLocked), server.ledger.lock("server worker"):
            worker.run(stop)
