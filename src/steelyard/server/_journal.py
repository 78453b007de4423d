"""The log and the counters: who did what with which outcome, and never a value, a key, a text of a request or a duration.

One JSON object a line. Counters are told in the text format of Prometheus; none of them depends on a row.
"""

from __future__ import annotations

import json
import os
import threading
import time
import weakref
from collections import Counter
from typing import Any

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class Journal:
    """Lines of what happened, and counts of them."""

    def __init__(self, path: str = "") -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600) if path else 2
        if path:
            weakref.finalize(self, os.close, self._file)
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, int]] = Counter()
        self._quiet = path == ""

    def request(self, method: str, route: str, status: int, person: int | None, **more: Any) -> None:
        """A request and how it ended; ``route`` is its pattern, not its address."""
        method = method if method in METHODS else "other"  # anybody may send any word
        with self._lock:
            self._counts[method, route, status] += 1
        if not self._quiet or status >= 500:
            self.write("request", method=method, route=route, status=status, person=person, **more)

    def write(self, what: str, **told: Any) -> None:
        """One line."""
        line = json.dumps(
            {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "what": what, **told}, sort_keys=True
        )
        os.write(self._file, f"{line}\n".encode())

    def metrics(self) -> str:
        """The counts as Prometheus reads them."""
        lines = ["# TYPE steelyard_requests_total counter"]
        with self._lock:
            counts = sorted(self._counts.items())
        for (method, route, status), count in counts:
            lines.append(f'steelyard_requests_total{{method="{method}",route="{route}",status="{status}"}} {count}')
        return "\n".join(lines) + "\n"
