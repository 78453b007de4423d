"""A web process that gives up its rights before it serves: a program of its own, for tests.

It loads all that planning and charging need, over a team of its own, becomes another user, says whether it may still read the data, and serves.
(The interpreter itself may lie where that user cannot read it, so it is not enough to start as that user.)
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import uvicorn.lifespan.on
import uvicorn.loops.auto
import uvicorn.protocols.http.auto
import uvicorn.protocols.websockets.auto

from browsing import SUM, new_team
from steelyard.server import Config
from steelyard.server._serve import _run_web

LOADED = (uvicorn.lifespan.on, uvicorn.loops.auto, uvicorn.protocols.http.auto, uvicorn.protocols.websockets.auto)


def main() -> None:
    fd, user = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        ana = new_team(Path(folder)).browser("ana")
        assert ana.post("/api/v1/sets/spend/plans", {"task": SUM}).status == 200
        assert ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "k"}).status == 202
    if user:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    config = Config(**json.loads(sys.stdin.readline()))
    print(
        os.access(config.roots["data"], os.R_OK),
        os.access(Path(config.roots["data"], "spend.parquet"), os.R_OK),
        flush=True,
    )
    _run_web(config, fd)


if __name__ == "__main__":
    main()
