"""What the server's database keeps: a record that was just made is the one that is read later, and a failed transaction leaves none."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.errors import InvalidTask
from steelyard.server import Config, Server


@pytest.fixture
def server(tmp_path: Path) -> Server:
    found = Server(Config(folder=tmp_path / "serve", port=1))
    found.people.add("ana")
    return found


def test_a_record_just_made_is_the_one_that_is_read(server: Server) -> None:
    dataset = server.sets.add("spend", "t" * 300, slot=60.0)
    board = server.boards.add("b", "", dataset.id, "s", "y", {"questions": [1, 2]}, open_to_all=True, slot=2.0)
    wanted = server.proposals.add(dataset.id, "spend", {"epsilon": "1"}, 1)
    job = server.jobs.charge(dataset.id, 1, "spend", "k", "{}", 5, 2000.0)
    later = Server(server.config)
    pairs = [
        (dataset, later.sets.known(dataset.id)),
        (board, later.boards.known(board.id)),
        (wanted, later.proposals.known(wanted.id)),
        (job, later.jobs.of_sequence(5)),
    ]
    assert [repr(made) for made, _ in pairs] == [
        repr(read) for _, read in pairs
    ]  # 60 and 60.0 are equal, and not the same
    assert len(dataset.title) == 200
    assert server.jobs.charge(dataset.id, 1, "spend", "k", "{}", 6, 3000.0) == job


def test_a_name_is_taken_once_and_a_failed_transaction_leaves_nothing(server: Server) -> None:
    with pytest.raises(InvalidTask), server.database.write():
        tuple(map(server.sets.add, ("ghost", "ghost")))
    assert server.sets.named("ghost") is None
    server.sets.add("ghost")
    with pytest.raises(InvalidTask, match="taken"):
        server.sets.add("ghost")
    for odd in ("ghost' OR 1=1 --", "'; DROP TABLE sets; --"):
        assert server.sets.named(odd) is None
        with pytest.raises(InvalidTask):
            server.sets.add(odd)
    assert [each.name for each in server.sets.all()] == ["ghost"]
