"""Leaderboards: predictions go in, what the holdout says comes out, ranks are ranges, faults of format tell nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from browsing import Browser, Seen, Team, new_team
from steelyard.server._judge import Judging

ROWS = 2000
LABELS = np.arange(ROWS) % 5 > 0  # 80 % are true
ALL_TRUE, ALL_FALSE = np.ones(ROWS, dtype=int), np.zeros(ROWS, dtype=int)


@pytest.fixture
def team(tmp_path: Path) -> Team:
    found = new_team(tmp_path)
    (tmp_path / "data" / "labels.csv").write_text("y\n" + "\n".join(map(str, LABELS.astype(int))) + "\n")
    carl = found.browser("carl", by="session")
    made = carl.post(
        "/api/v1/sets/spend/boards",
        {
            "name": "returns",
            "source": "data/labels.csv",
            "label": "y",
            "settings": {"tolerance": "0.05", "questions": 1000},
        },
    )
    assert made.status == 201, made.text
    found.worker.once()
    for name, group in (("tess", "reds"), ("tom", "blues")):
        assert carl.post("/api/v1/boards/returns/teams", {"team": group, "person": name}).status == 201
    return found


def send(browser: Browser, predictions: object, key: str, more: str = "") -> Seen:
    text = "p\n" + "\n".join(map(str, predictions)) + "\n" if not isinstance(predictions, str) else predictions  # type: ignore[call-overload]
    return browser.ask(
        "PUT",
        f"/api/v1/boards/returns/submissions?format=csv{more}",
        raw=text.encode(),
        headers={"Idempotency-Key": key},
    )


def test_predictions_get_their_score_with_an_interval_and_teams_their_ranks(team: Team) -> None:
    tess, tom = team.browser("tess"), team.browser("tom")
    sent = send(tess, ALL_TRUE, "one", "&guess=0.81")
    assert sent.status == 202, sent.text
    assert send(tom, ALL_FALSE, "one").status == 202
    assert tess.get(sent.headers["location"]).json["state"] == "asked"
    team.worker.once()
    told = tess.get(sent.headers["location"]).json
    assert (told["state"], told["answer"]["kind"], told["answer"]["value"]) == ("answered", "free", 0.81)
    board = tom.get("/api/v1/boards/returns").json
    assert [(each["team"], each["rank"], each["rank_to"]) for each in board["teams"]] == [
        ("reds", 1, 1),
        ("blues", 2, 2),
    ]
    assert board["facts"]["rows"] == ROWS
    assert board["left"] < 1000
    assert not list((team.server.config.folder / "submissions").iterdir())


def test_a_retry_is_the_same_submission_and_other_predictions_under_its_key_are_refused(team: Team) -> None:
    tess = team.browser("tess")
    first, again = send(tess, ALL_TRUE, "one"), send(tess, ALL_TRUE, "one")
    assert first.json["id"] == again.json["id"]
    assert send(tess, ALL_FALSE, "one").status == 422
    team.worker.once()
    assert len(tess.get("/api/v1/boards/returns/submissions").json["submissions"]) == 1


def test_another_team_does_not_see_a_submission(team: Team) -> None:
    sent = send(team.browser("tess"), ALL_TRUE, "one")
    assert team.browser("tom").get(sent.headers["location"]).status == 404


@pytest.mark.parametrize("content", ["p\n1\n0\n", "", "p,q\n1,2\n", "p\n" + "x\n" * ROWS, "\0\1\2"])
def test_a_fault_of_format_is_told_and_nothing_is_spent(team: Team, content: str) -> None:
    tess = team.browser("tess")
    spent = team.server.account("board:returns").spent
    sent = send(tess, content, "one")
    assert sent.status == 202
    team.worker.once()
    told = tess.get(sent.headers["location"]).json
    assert told["state"] == "refused", told
    assert str(team.server.config.folder) not in told["answer"]["detail"]
    assert team.server.account("board:returns").spent == spent


def test_a_closed_board_takes_nothing_and_only_its_custodian_closes_it(team: Team) -> None:
    carl, tess = team.browser("carl", by="session"), team.browser("tess")
    assert tess.post("/api/v1/boards/returns/close").status == 403
    assert carl.post("/api/v1/boards/returns/close").status == 200
    assert send(tess, ALL_TRUE, "one").status == 409


def test_labels_of_people_need_more_than_one_person(team: Team) -> None:
    carl = team.browser("carl", by="session")
    made = {"name": "other", "source": "data/labels.csv", "label": "y"}
    for settings in (
        {"mode": "private"},
        {"mode": "classic"},
        {"epsilon": "1"},
        {"metric": "made up"},
        {"tolerance": [1]},
    ):
        assert carl.post("/api/v1/sets/spend/boards", {**made, "settings": settings}).status == 422
    assert carl.post("/api/v1/sets/spend/boards", {**made, "source": "data/../../etc/passwd.csv"}).status == 422


def test_a_submission_whose_worker_died_twice_has_failed(team: Team) -> None:
    tess = team.browser("tess")
    sent = send(tess, ALL_TRUE, "one")
    for _ in range(2):
        team.server.boards.begin(sent.json["id"])
    team.worker.once()
    told = tess.get(sent.headers["location"]).json
    assert (told["state"], told["answer"]) == ("failed", {})


def test_rows_that_a_budget_protects_are_no_labels_and_the_other_way_round(team: Team, tmp_path: Path) -> None:
    carl, asked = team.browser("carl", by="session"), "/api/v1/sets/spend/boards"
    for source in ("data/spend.parquet", "data/./spend.parquet"):
        made = carl.post(asked, {"name": "rows", "source": source, "label": "amount"})
        assert (made.status, "rows of a set" in made.json["detail"]) == (422, True)
    (tmp_path / "data" / "alias.parquet").symlink_to(tmp_path / "data" / "spend.parquet")
    assert carl.post(asked, {"name": "alias", "source": "data/alias.parquet", "label": "amount"}).status == 201
    team.worker.once()
    assert carl.get("/api/v1/boards/alias").json["state"] == "broken"
    labels = carl.post("/api/v1/sets/spend/source", {"kind": "root", "source": "data/alias.parquet"})
    assert (labels.status, "labels of a board" in labels.json["detail"]) == (422, True)


def test_labels_that_a_board_tells_of_are_no_rows_of_a_set_under_a_link_either(team: Team, tmp_path: Path) -> None:
    carl = team.browser("carl", by="session")
    (tmp_path / "data" / "alias.csv").symlink_to(tmp_path / "data" / "labels.csv")
    assert carl.post("/api/v1/sets/spend/source", {"kind": "root", "source": "data/alias.csv"}).status == 202
    team.worker.once()
    assert carl.get("/api/v1/sets/spend").json["state"] == "broken"


@pytest.mark.parametrize("address", ["{}/orders.csv", "{}/*.csv", "spark:{}"])
def test_rows_at_an_address_of_the_configuration_are_no_labels(tmp_path: Path, address: str) -> None:
    sources, spark = {"orders": address.format(tmp_path / "data")}, {"spark": "local[1]"}
    team = new_team(tmp_path, sources=sources, **(spark if address.startswith("spark") else {}))
    dataset, carl = team.server.sets.all()[0], team.browser("carl", by="session")
    team.server.sets.set_source(dataset.id, "named", "orders", {})
    (tmp_path / "data" / "orders.csv").write_text("y\n" + "\n".join(map(str, LABELS.astype(int))) + "\n")
    made = {"name": "rows", "source": "data/orders.csv", "label": "y", "settings": {"questions": 1000}}
    assert carl.post("/api/v1/sets/spend/boards", made).status == 201
    Judging(team.server).once()
    assert carl.get("/api/v1/boards/rows").json["state"] == "broken"
