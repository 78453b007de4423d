"""The first start: where a folder holds nothing yet, made-up purchases, one set with an account, one board, and two people.

One person is custodian and analyst of the set, and on a team of the board; the other is the officer, because whoever approves budgets
cannot spend them. The operator who starts a server on an empty folder opens the demo's account himself.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

from steelyard.ledger import open_account
from steelyard.privacy import users
from steelyard.server._config import Config
from steelyard.server._server import Server

SET, BOARD, PERSON, OFFICER, TEAM = "purchases", "returns", "you", "officer", "you"
EPSILON, OWN = "5", "3"
CUSTOMERS, PARCELS = 2_000, 4_000


def with_demo(config: Config) -> Config:
    """The configuration with the folder of made-up data among its roots."""
    return replace(config, roots={**config.roots, "demo": str(config.folder / "data")})


def begin(server: Server) -> None:
    """Make what a first look needs, unless somebody is known already."""
    if server.people.everybody():
        return
    os.umask(0o077)
    folder = server.config.folder / "data"
    folder.mkdir(mode=0o700, exist_ok=True)
    _write_purchases(folder / "purchases.parquet")
    _write_parcels(folder)
    server.people.add(OFFICER, officer=True)
    person, dataset = server.people.add(PERSON), server.sets.add(SET, "Purchases (made up)", slot=server.config.slot)
    server.sets.set_source(dataset.id, "root", "demo/purchases.parquet", {})
    root = open_account(server.config.ledger_address, SET, unit=users("user_id"), epsilon=EPSILON)
    own = open_account(server.config.ledger_address, f"{SET}/{PERSON}", parent=root.name, epsilon=OWN)
    server.sets.set_account(dataset.id, root.name)
    server.sets.join(dataset.id, person.id, "custodian")
    server.sets.join(dataset.id, person.id, "analyst", own.name)
    board = server.boards.add(
        BOARD, "Which parcels come back (made up)", dataset.id, "demo/returned.csv", "returned",
        {"mode": "certified", "tolerance": "0.05", "questions": 1000}, open_to_all=False, slot=server.config.slot,
    )  # fmt: skip
    server.boards.join(server.boards.add_team(board.id, TEAM), person.id)


def _write_purchases(path: Path) -> None:
    from steelyard.demo import make_purchases, write_parquet

    if not path.exists():
        write_parquet(make_purchases(CUSTOMERS), path)


def _write_parcels(folder: Path) -> None:
    """Parcels for the board: what is known of each, for competitors, and whether it came back, for nobody."""
    draw = random.Random(2026)
    amounts = [round(draw.lognormvariate(2.9, 0.8), 2) for _ in range(PARCELS)]
    returned = [int(draw.random() < min(0.9, 0.1 + amount / 100)) for amount in amounts]
    (folder / "parcels.csv").write_text("amount\n" + "".join(f"{amount}\n" for amount in amounts))
    (folder / "returned.csv").write_text("returned\n" + "".join(f"{each}\n" for each in returned))
