"""The web process cannot see the data: it plans and charges as a user who may not read it, and the server's records may be lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import steelyard as sy
from browsing import SUM, new_team
from serving import prepare
from steelyard.server import Config, Server, make_app
from steelyard.server._serve import listen, write_config
from steelyard.server._worker import Worker
from steelyard.tables import PaperTable

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others may enter, unlike those of the tests."""
    made = Path(tempfile.mkdtemp(prefix="apart-"))
    made.chmod(0o755)
    yield made
    (made / "data").chmod(0o700)
    shutil.rmtree(made)


def shut(config: Config) -> int:
    """Take the right to read the data from the web process; as whom it must run: nobody where we are root, else as we, who may not read it either."""
    data = Path(config.roots["data"])
    if os.geteuid() != 0:
        data.chmod(0)
        return 0
    data.chmod(0o700)
    for path in (config.folder, *config.folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    return NOBODY


def test_the_web_process_plans_and_charges_without_the_right_to_read_the_data(folder: Path) -> None:
    config, tokens = prepare(folder)
    Worker(Server(config)).once()
    user, listening = shut(config), listen(replace(config, port=0))
    config = replace(config, port=listening.getsockname()[1])
    command = [sys.executable, str(Path(__file__).parents[2] / "dropping.py"), str(listening.fileno()), str(user)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[listening.fileno()], text=True
    ) as web:
        assert web.stdin is not None
        assert web.stdout is not None
        web.stdin.write(write_config(config) + "\n")
        web.stdin.flush()
        try:
            assert web.stdout.readline().split() == ["False", "False"]
            wire = sy.connect(config.origin, tokens["ana"], patience=60)._wire
            assert wire.ask("POST", "/api/v1/sets/spend/plans", {"task": SUM}).data["cost"]["amount"] == 250_000
            asked = wire.ask("POST", "/api/v1/sets/spend/releases", {"task": SUM}, key="total")
            assert asked.data["state"] == "charged"
        finally:
            web.kill()
    listening.close()
    Path(config.roots["data"]).chmod(0o700)
    assert Server(config).account("spend").spent == sy.Loss.pure("0.25")
    assert Worker(Server(config)).once()
    assert Server(config).ledger.pending() == []


def test_the_web_process_loads_no_engine(tmp_path: Path) -> None:
    """Whatever plans and charges do, nothing that could read a file of rows is imported for it."""
    code = (
        "import sys; from pathlib import Path; from browsing import Browser, SUM; from steelyard.server import Config, make_app, Server\n"
        "server = Server(Config(folder=Path(sys.argv[1]) / 'serve', port=1)); app = make_app(server); app.server.config.__dict__['port'] = 8020\n"
        "ana = Browser(app, sys.argv[2])\n"
        "assert ana.post('/api/v1/sets/spend/plans', {'task': SUM}).status == 200\n"
        "assert ana.post('/api/v1/sets/spend/releases', {'task': SUM}, headers={'Idempotency-Key': 'k'}).status == 202\n"
        "print(sorted({'duckdb', 'pyspark', 'pyarrow', 'ibis'} & set(sys.modules)))"
    )
    config, tokens = prepare(tmp_path)
    Worker(Server(config)).once()
    paths = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), tokens["ana"]],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.stdout.strip() == "[]", done.stderr


def test_a_table_on_paper_is_never_read() -> None:
    paper = PaperTable({"amount": "float"}, name="spend")
    for read in (
        lambda: paper.batches(["amount"]),
        lambda: paper.count_units(sy.rows()),
        lambda: paper.engine,
        lambda: paper.where("amount > 0"),
    ):
        with pytest.raises(sy.errors.TableError, match="on paper"):
            read()


def test_records_that_are_lost_lose_no_answer_that_was_paid_for(tmp_path: Path) -> None:
    """The ledger says what was asked: once the set and the person are known again, the worker answers it, and a retry finds it."""
    team = new_team(tmp_path)
    asked = team.browser("ana").post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "total"})
    assert asked.status == 202
    for path in team.server.config.folder.glob("server.db*"):
        path.unlink()
    server = Server(replace(team.server.config))
    ana, dataset = server.people.add("ana"), server.sets.add("spend")
    server.sets.set_source(dataset.id, "root", "data/spend.parquet", {})
    server.sets.join(dataset.id, ana.id, "analyst", "spend/ana")
    worker = Worker(server)
    worker.once()
    worker.recover()
    worker.once()
    assert server.ledger.pending() == []
    team.server, team.app = server, make_app(server)
    again = team.browser("ana").post("/api/v1/sets/spend/releases", {"task": SUM}, headers={"Idempotency-Key": "total"})
    assert (again.status, again.json["id"]) == (200, asked.json["id"])
    assert server.account("spend").spent == sy.Loss.pure("0.25")
