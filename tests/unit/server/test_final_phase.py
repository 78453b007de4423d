"""The final phase of a board: rows that were never asked, nothing told before the end, then one winner and one certified score."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browsing import Browser, Seen, Team, new_team

ROWS = 1000
LABELS = np.arange(ROWS) % 2
FINAL = (np.arange(ROWS) // 2) % 2


def opened(folder: Path, **settings: Any) -> Team:
    """A board with a final phase, and two teams."""
    team = new_team(folder)
    for name, labels in (("labels", LABELS), ("final", FINAL)):
        lines = [f"r{i},{each}" for i, each in enumerate(labels)]
        (folder / "data" / f"{name}.csv").write_text("row,y\n" + "\n".join(lines) + "\n")
    carl = team.browser("carl", by="session")
    given = {"tolerance": "0.1", "questions": 100, "final": "data/final.csv", **settings}
    made = carl.post(
        "/api/v1/sets/spend/boards", {"name": "returns", "source": "data/labels.csv", "label": "y", "settings": given}
    )
    assert made.status == 201, made.text
    team.worker.once()
    for name, group in (("tess", "reds"), ("tom", "blues")):
        assert carl.post("/api/v1/boards/returns/teams", {"team": group, "person": name}).status == 201
    return team


def send(browser: Browser, predictions: Any, key: str, ids: Any = None) -> Seen:
    names = range(len(predictions)) if ids is None else ids
    text = "p\n" + "".join(f"{each}\n" for each in predictions)
    if ids is not None:
        text = "row,p\n" + "".join(f"r{name},{each}\n" for name, each in zip(names, predictions, strict=True))
    path = "/api/v1/boards/returns/submissions?format=csv"
    return browser.ask("PUT", path, raw=text.encode(), headers={"Idempotency-Key": key})


def close(team: Team) -> Any:
    found = team.browser("carl", by="session").post("/api/v1/boards/returns/close").json
    team.worker.once()
    return found["state"]


def board(team: Team) -> Any:
    return team.browser("carl").get("/api/v1/boards/returns").json


def wrong(labels: Any, share: float) -> Any:
    """Labels of which this share is turned round."""
    return np.where(np.arange(len(labels)) < share * len(labels), 1 - labels, labels)


def test_the_best_of_the_last_predictions_wins_and_its_score_alone_is_told(tmp_path: Path) -> None:
    team = opened(tmp_path)
    tess, tom = team.browser("tess"), team.browser("tom")
    assert close(team) == "final"
    assert send(tess, FINAL, "perfect, and then thought better of").status == 202
    assert send(tess, wrong(FINAL, 0.3), "the one that counts").status == 202
    kept = send(tom, wrong(FINAL, 0.2), "only one")
    team.worker.once()
    told = tom.get(f"/api/v1/submissions/{kept.json['id']}").json
    assert (told["state"], told["answer"]) == ("held", {})
    assert board(team)["final"] is None
    assert board(team)["teams"] == []
    assert close(team) == "scoring"
    final = board(team)["final"]
    assert (final["team"], final["teams"]) == ("blues", 2)
    assert final["low"] <= 0.8 <= final["high"]
    assert board(team)["state"] == "closed"
    assert all(
        "value" not in each["answer"] for each in tess.get("/api/v1/boards/returns/submissions").json["submissions"]
    )
    assert send(tess, FINAL, "too late").status == 409
    assert not list((tmp_path / "serve" / "submissions").iterdir())


def test_a_decision_that_was_cut_short_is_made_again_and_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = opened(tmp_path)
    close(team)
    send(team.browser("tess"), wrong(FINAL, 0.4), "a")
    send(team.browser("tom"), wrong(FINAL, 0.1), "b")
    team.worker.once()
    decided: list[Any] = []
    keep = team.server.boards.set_state

    def cut_short(number: int, state: str, facts: Any = None) -> None:
        if state == "closed" and not decided:
            decided.append(facts["final"])
            raise KeyboardInterrupt
        keep(number, state, facts)

    monkeypatch.setattr(team.server.boards, "set_state", cut_short)
    with pytest.raises(KeyboardInterrupt):
        close(team)
    team.worker.once()
    same = {name: value for name, value in decided[0].items() if name != "visible"}
    assert same.items() <= board(team)["final"].items()


def test_a_fault_of_format_is_told_at_once_in_the_final_phase_too(tmp_path: Path) -> None:
    team = opened(tmp_path)
    close(team)
    sent = send(team.browser("tess"), FINAL[:7], "short")
    team.worker.once()
    told = team.browser("tess").get(f"/api/v1/submissions/{sent.json['id']}").json
    assert told["state"] == "refused"
    assert "7" in told["answer"]["detail"]
    assert close(team) == "scoring"
    assert "team" not in board(team)["final"]


def test_labels_that_were_asked_before_are_no_final_phase(tmp_path: Path) -> None:
    team = opened(tmp_path, final="data/labels.csv")
    assert board(team)["state"] == "broken"


def test_predictions_are_matched_by_id_in_both_phases(tmp_path: Path) -> None:
    team = opened(tmp_path, id="row")
    turned = np.arange(ROWS)[::-1]
    tess = team.browser("tess")
    sent = send(tess, LABELS[turned], "first", ids=turned)
    team.worker.once()
    assert tess.get(f"/api/v1/submissions/{sent.json['id']}").json["answer"]["value"] == 1.0
    close(team)
    send(tess, FINAL[turned], "final", ids=turned)
    send(team.browser("tom"), FINAL[turned], "final", ids=np.arange(ROWS))
    team.worker.once()
    close(team)
    assert board(team)["final"]["team"] == "reds"


def test_no_setting_of_a_board_names_a_file_of_the_server(tmp_path: Path) -> None:
    team = new_team(tmp_path)
    carl = team.browser("carl", by="session")
    for settings in ({"metric": "cost:/etc/passwd"}, {"final": "data/../../etc/passwd"}, {"final": "/etc/passwd"}):
        given = {"name": "b", "source": "data/labels.csv", "settings": settings}
        assert carl.post("/api/v1/sets/spend/boards", given).status == 422


def test_predictions_that_wait_when_the_final_phase_closes_are_compared_and_not_scored(tmp_path: Path) -> None:
    team = opened(tmp_path)
    close(team)
    sent = send(team.browser("tess"), wrong(FINAL, 0.1), "late")
    team.browser("carl", by="session").post("/api/v1/boards/returns/close")
    team.worker.once()
    assert team.browser("tess").get(sent.headers["location"]).json["answer"] == {}
    assert board(team)["final"]["team"] == "reds"
    assert board(team)["teams"] == []
    assert "final.csv" not in team.browser("tess").get("/api/v1/boards/returns").text
