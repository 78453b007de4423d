"""Where tables may lie: below a named root, as regular files, and nowhere that a person could type an address."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from browsing import Team, new_team
from steelyard.errors import InvalidTask, TableError
from steelyard.server import Config
from steelyard.server._sources import check_source, locate


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "deep" / "a.csv").write_text("x\n1\n")
    (tmp_path / "secret.csv").write_text("x\n1\n")
    os.symlink(tmp_path / "secret.csv", tmp_path / "data" / "link.csv")
    os.mkfifo(tmp_path / "data" / "pipe.csv")
    return Config(
        folder=tmp_path / "serve", roots={"data": str(tmp_path / "data")}, sources={"orders": "duckdb:///x.db::orders"}
    )


@pytest.mark.parametrize(
    "source",
    [
        "data/../secret.csv", "data//etc/passwd.csv", "other/a.csv", "data/", "data/a.txt", "a.csv", "/etc/passwd", "data/deep\\..\\a.csv",
        "postgres://x/y::z", "data/a.csv\n", "", "data/~root/a.csv\0",
    ],
)  # fmt: skip
def test_what_cannot_be_a_source_is_refused_from_its_text(config: Config, source: str) -> None:
    with pytest.raises(InvalidTask):
        check_source(config, "root", source)
    with pytest.raises(InvalidTask):
        check_source(config, "upload", source)
    with pytest.raises(InvalidTask):
        check_source(config, "named", source)


def test_a_file_below_its_root_is_found_and_a_name_is_looked_up(config: Config) -> None:
    assert locate(config, "root", "data/deep/a.csv").endswith("/data/deep/a.csv")
    assert locate(config, "named", "orders") == "duckdb:///x.db::orders"


@pytest.mark.parametrize("source", ["data/link.csv", "data/pipe.csv", "data/deep/none.csv", "data/*.csv"])
def test_links_out_pipes_globs_and_nothing_are_refused_alike(config: Config, source: str) -> None:
    with pytest.raises(TableError, match="inside one of the folders"):
        locate(config, "root", source)


def test_an_uploaded_file_becomes_the_sets_source_and_no_name_of_it_is_kept(tmp_path: Path) -> None:
    team: Team = new_team(tmp_path)
    carl = team.browser("carl", by="session")
    rows = Path(team.server.config.roots["data"], "spend.parquet").read_bytes()
    assert carl.ask("PUT", "/api/v1/sets/spend/upload?format=exe", raw=rows).status == 422
    assert carl.ask("PUT", "/api/v1/sets/spend/upload?format=parquet", raw=rows).status == 202
    assert not list((team.server.config.folder / "incoming").iterdir())
    team.worker.once()
    assert carl.get("/api/v1/sets/spend").json["state"] == "described"
    (kept,) = (team.server.config.folder / "uploads").iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    assert carl.ask("PUT", "/api/v1/sets/spend/upload?format=csv", raw=b"\0\1").status == 202
    team.worker.once()
    assert carl.get("/api/v1/sets/spend").json["state"] in ("broken", "described")


def test_an_upload_that_is_too_long_leaves_nothing_behind(tmp_path: Path) -> None:
    team = new_team(tmp_path, largest_upload=100)
    carl = team.browser("carl", by="session")
    assert carl.ask("PUT", "/api/v1/sets/spend/upload", raw=b"x" * 101).status == 413
    assert carl.ask("PUT", "/api/v1/sets/spend/upload", raw=b"x" * 101, headers={"content-length": "5"}).status == 413
    assert not list((team.server.config.folder / "incoming").iterdir())
