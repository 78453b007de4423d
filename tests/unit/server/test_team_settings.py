"""A team's settings: ledger and records on PostgreSQL, rows on Spark, all by one TOML file."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

import postgres
import steelyard as sy
from browsing import SUM, Team, write_rows
from spark import local_spark
from steelyard.errors import InvalidTask
from steelyard.server import Server, Worker, make_app
from steelyard.server._config import read_config

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")


def settings(folder: Path, url: str) -> str:
    return f"""
    folder = "{folder / "serve"}"
    ledger = "{url}"
    database = "{url}"
    spark = "local[2]"
    [sources]
    spend = "spark:{folder / "data" / "spend.parquet"}"
    """


def test_postgres_and_spark_by_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a while: PostgreSQL and a Java machine have to start."""
    monkeypatch.setenv("STEELYARD_HOME", str(tmp_path / "home"))  # an anchor of its own: the database is used again
    url = postgres.new_database()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS steelyard_server CASCADE")
    (tmp_path / "steelyard.toml").write_text(settings(tmp_path, url))
    write_rows(tmp_path / "data" / "spend.parquet")
    server = Server(read_config(str(tmp_path / "steelyard.toml")))
    sy.open_account(url, "purchases", unit=sy.rows(), epsilon=1)  # the first start makes the ledger with its demo
    people = {name: server.people.add(name, officer=name == "olga") for name in ("olga", "carl", "ana")}
    server.sets.join(server.sets.add("spend").id, people["carl"].id, "custodian")
    team = Team(server, Worker(server), make_app(server))
    carl, olga, ana = (team.browser(name, by="session") for name in ("carl", "olga", "ana"))
    with local_spark():
        assert carl.post("/api/v1/sets/spend/source", {"kind": "named", "source": "spend"}).status == 202
        team.worker.once()
        told = carl.get("/api/v1/sets/spend").json
        assert (told["state"], told["columns"]["amount"]) == ("described", "float")
        asked = carl.post("/api/v1/sets/spend/account", {"unit": "users:user_id", "epsilon": "1"})
        assert olga.post(f"/api/v1/approvals/{asked.json['id']}", {"approve": True}).status == 200
        member = {"person": "ana", "role": "analyst", "epsilon": "1"}
        assert carl.post("/api/v1/sets/spend/members", member).status == 201
        charged = ana.post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "k"})
        assert charged.status == 202
        team.worker.once()
    found = ana.get(f"/api/v1/releases/{charged.json['id']}").json
    assert found["state"] == "answered"
    assert server.account("spend").spent == sy.Loss.pure("0.25")
    assert olga.post("/api/v1/officer/verify", {"receipts": [found["release"]["receipt"]]}).json["ok"]
    for path in ("/api/v1/sets/%00", "/api/v1/sets/a\0b", "/api/v1/rights?act=ask&person=%00"):
        assert olga.get(path).status in (404, 422)
    assert carl.post("/api/v1/sets/spend/members", {"person": "\0", "role": "custodian"}).status == 422


def test_a_source_on_spark_needs_to_know_which(tmp_path: Path) -> None:
    (tmp_path / "steelyard.toml").write_text('[sources]\nx = "spark:shop.x"\n')
    with pytest.raises(InvalidTask, match="needs the setting spark"):
        read_config(str(tmp_path / "steelyard.toml"))
