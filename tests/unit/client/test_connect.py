"""``sy.connect``: the same tasks, releases and errors over HTTP as in a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import steelyard as sy
from serving import kill, prepare, running
from steelyard.client import RemoteSession
from steelyard.errors import BudgetExceeded, ColumnMissing, InvalidTask, KeyConflict, ServerRefused
from steelyard.server._serve import Running


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, RemoteSession]]:
    config, tokens = prepare(tmp_path_factory.mktemp("served"), epsilon="20")
    with running(config) as (found, url):
        yield found, sy.connect(url, tokens["ana"], patience=60)["spend"]


@pytest.fixture
def session(served: tuple[Running, RemoteSession]) -> RemoteSession:
    return served[1]


TOTAL = sy.Sum("amount", epsilon="1", cap=10)


def test_a_quote_costs_nothing_and_a_release_costs_it_once(session: RemoteSession) -> None:
    before = session.account.spent
    assert session.quote(TOTAL) == sy.Loss.pure("1")
    assert session.account.spent == before
    first, again = session.release(TOTAL, key="total"), session.release(TOTAL, key="total")
    assert first.to_json() == again.to_json()
    assert session.account.spent - before == sy.Loss.pure("1")
    assert first.error is not None
    assert "differential privacy" in str(first.guarantee)


def test_values_are_presented_as_a_session_presents_them(session: RemoteSession) -> None:
    by_key = session.release(sy.Count(epsilon="1", cap=3, by="country", keys=["FR", "DE"]), key="by country")
    assert set(by_key.value) == {"FR", "DE"}
    profile = session.release(sy.Profile("amount", epsilon="1", upper=100), key="profile")
    assert profile.value.plan(epsilon=1).best.cap > 0
    assert {release.title for release in session.releases()} >= {by_key.title, profile.title}


def test_refusals_are_the_same_errors(session: RemoteSession) -> None:
    with pytest.raises(BudgetExceeded) as short:
        session.release(sy.Sum("amount", epsilon="100", cap=10))
    assert short.value.wanted == sy.Loss.pure("100")
    with pytest.raises(ColumnMissing, match="did you mean 'amount'"):
        session.quote(sy.Sum("amuont", epsilon="1", cap=10))
    session.release(TOTAL, key="taken")
    with pytest.raises(KeyConflict) as conflict:
        session.release(sy.Sum("amount", epsilon="1", cap=11), key="taken")
    assert conflict.value.other_request
    with pytest.raises(InvalidTask):
        session.release(sy.Sum)
    with pytest.raises(InvalidTask, match="https"):
        sy.connect("http://dp.example.org", "token")


def test_a_stranger_is_told_nothing(served: tuple[Running, RemoteSession], session: RemoteSession) -> None:
    url = served[0].config.origin
    with pytest.raises(ServerRefused) as refused:
        sy.connect(url, "sy_wrong", patience=1)["spend"].quote(TOTAL)
    assert refused.value.status == 401
    with pytest.raises(ServerRefused) as missing:
        type(session)(session._wire, "other").quote(TOTAL)
    assert (missing.value.status, missing.value.kind) == (404, "NotFound")


def test_a_release_survives_the_death_of_both_processes(
    served: tuple[Running, RemoteSession], session: RemoteSession
) -> None:
    before = session.account.spent
    kill(served[0].web.process)
    kill(served[0].worker.process)
    assert session.release(TOTAL, key="after a death").value is not None
    assert session.account.spent - before == sy.Loss.pure("1")


def test_columns_are_waited_for_where_the_table_was_just_named(
    session: RemoteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = session._facts()
    told = iter([{**facts, "state": "new", "columns": {}}, facts])
    monkeypatch.setattr(session, "_facts", lambda: next(told))
    assert "amount" in session.schema.columns


@pytest.mark.parametrize("state", ["empty", "broken"])
def test_a_set_without_a_table_is_said_to_have_none(
    session: RemoteSession, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(session, "_facts", lambda: {"state": state, "columns": {}})
    with pytest.raises(ServerRefused, match="no table"):
        _ = session.schema


def test_a_server_that_is_not_there_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ServerRefused, match="cannot be reached"):
        sy.connect("http://127.0.0.1:9", "token", patience=0.3)["spend"].quote(TOTAL)
