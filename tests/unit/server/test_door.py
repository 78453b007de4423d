"""Who is let through the door: hosts, origins, cookies, passwords, tokens; and what every response says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from browsing import SUM, Browser, Team, new_team
from steelyard.errors import InvalidTask
from steelyard.server import Config, check, read_config
from steelyard.server._limits import Buckets
from steelyard.server._secrets import check_password, hash_password

PLANS = "/api/v1/sets/spend/plans"


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Team:
    return new_team(tmp_path_factory.mktemp("team"), log=str(tmp_path_factory.mktemp("log") / "log"))


def test_a_host_that_is_not_ours_is_not_answered(team: Team) -> None:
    for host in ("evil.example:8020", "127.0.0.1:8021", "127.0.0.1", ""):
        assert Browser(team.app).get("/healthz", headers={"host": host}).status == 421
    assert Browser(team.app).get("/healthz", headers={"host": "localhost:8020"}).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 401),
        ({"sec-fetch-site": "same-site"}, 401),
        ({"sec-fetch-site": "", "origin": "https://evil.example"}, 401),
        ({"sec-fetch-site": "", "origin": "null"}, 401),
        ({"sec-fetch-site": "", "origin": "https://127.0.0.1:8020"}, 401),
        ({"sec-fetch-site": "", "origin": "http://127.0.0.1:8020.evil.example"}, 401),
        ({"sec-fetch-site": ""}, 401),
        ({"sec-fetch-site": "", "origin": "http://127.0.0.1:8020"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8020"}, 401),
    ],
)
def test_no_other_site_can_make_a_browser_spend(team: Team, headers: dict[str, str], status: int) -> None:
    ana = team.browser("ana", by="session")
    assert ana.post(PLANS, {"task": SUM}, headers=headers).status == status


def test_a_token_needs_no_page_of_ours(team: Team) -> None:
    assert team.browser("ana").post(PLANS, {"task": SUM}, headers={"sec-fetch-site": "cross-site"}).status == 200


def test_every_response_carries_its_headers(team: Team) -> None:
    for path in ("/healthz", "/nowhere", "/sign-in", "/api/v1/me"):
        seen = Browser(team.app).get(path)
        assert "default-src 'none'" in seen.headers["content-security-policy"]
        assert "'unsafe" not in seen.headers["content-security-policy"]
        assert seen.headers["x-content-type-options"] == "nosniff"
        assert seen.headers["cache-control"] == "no-store"
        assert seen.headers["referrer-policy"] == "no-referrer"


def test_a_page_tells_a_refusal_in_words(team: Team) -> None:
    seen = Browser(team.app).get("/nowhere", headers={"accept": "text/html"})
    assert seen.status == 404
    assert "<h1>Not found</h1>" in seen.text


def test_a_password_signs_in_and_a_wrong_one_does_not(team: Team) -> None:
    ben = team.browser("ben", by="session")
    assert ben.post("/api/v1/me/password", {"password": "short"}).status == 422
    assert ben.post("/api/v1/me/password", {"password": "four words and more"}).status == 200
    wrong = Browser(team.app).post("/sign-in", form={"name": "ben", "password": "four words and less"})
    nobody = Browser(team.app).post("/sign-in", form={"name": "nobody", "password": "four words and less"})
    assert (wrong.status, wrong.body) == (nobody.status, nobody.body)
    assert wrong.status == 401
    again = Browser(team.app)
    assert again.post("/sign-in", form={"name": "ben", "password": "four words and more"}).status == 303
    assert again.get("/api/v1/me").json["name"] == "ben"


def test_stored_passwords_are_salted_argon2id() -> None:
    one, other = hash_password("four words and more"), hash_password("four words and more")
    assert one != other
    assert check_password("four words and more", one)
    assert not check_password("four words and more!", one)
    assert not check_password("", "")


def test_no_secret_is_stored_as_it_is(team: Team) -> None:
    ana = team.browser("ana")
    person = team.server.people.named("ana")
    assert person is not None
    code = team.server.people.new_code(person.id)
    cookie = team.server.people.spend_code(team.server.people.new_code(person.id))
    stored = b"".join(path.read_bytes() for path in team.server.config.folder.glob("server.db*"))
    for secret in (ana.token, code, cookie):
        assert secret
        assert secret.encode() not in stored


def test_sessions_end_when_idle_when_old_and_when_somebody_is_shut_out(team: Team) -> None:
    server, clock = team.server, team.server.people._clock
    browser = team.browser("eve", by="session")
    token = team.browser("eve")
    try:
        server.people._clock = lambda: clock() + 11 * 3600
        assert browser.get("/api/v1/me").status == 200
        server.people._clock = lambda: clock() + 22 * 3600
        assert browser.get("/api/v1/me").status == 200
        server.people._clock = lambda: clock() + 40 * 3600
        assert browser.get("/api/v1/me").status == 401
        browser, statuses = team.browser("eve", by="session"), []
        for half in range(1, 16):
            server.people._clock = lambda half=half: clock() + 40 * 3600 + 43_000.0 * half  # type: ignore[misc]
            statuses.append(browser.get("/api/v1/me").status)
        assert statuses == [200] * 14 + [401]
    finally:
        server.people._clock = clock
    officer, browser = team.browser("officer", by="session"), team.browser("eve", by="session")
    assert browser.get("/api/v1/me").status == 200
    assert officer.post("/api/v1/people/eve/disable").status == 200
    assert [each.get("/api/v1/me").status for each in (browser, token)] == [401, 401]


def test_a_code_is_good_for_a_quarter_of_an_hour(team: Team) -> None:
    people = team.server.people
    person, clock = people.named("ana"), people._clock
    assert person is not None
    code = people.new_code(person.id)
    people._clock = lambda: clock() + 901
    try:
        assert people.spend_code(code) is None
    finally:
        people._clock = clock


def test_the_log_has_no_value_key_or_code(team: Team) -> None:
    ana = team.browser("ana")
    ana.post(
        "/api/v1/sets/spend/releases", {"task": {**SUM, "cap": 7_654_321}}, headers={"Idempotency-Key": "my-own-key"}
    )
    Browser(team.app).get("/enter/a-secret-code")
    text = Path(team.server.config.log).read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert {"at", "method", "person", "route", "status", "what"} <= set(lines[-1])
    assert any("sequence" in line for line in lines)
    assert not any(secret in text for secret in ("7654321", "my-own-key", "a-secret-code", "amount", ana.token))


def test_metrics_are_for_the_officer_and_count_requests(team: Team) -> None:
    Browser(team.app).get("/healthz")
    text = team.browser("officer").get("/metrics").text
    assert 'steelyard_requests_total{method="GET",route="/healthz",status="200"}' in text
    assert Browser(team.app).get("/metrics").status == 401


def test_another_address_needs_a_public_url(tmp_path: Path) -> None:
    with pytest.raises(InvalidTask, match="--public-url"):
        Config(host="0.0.0.0")
    with pytest.raises(InvalidTask, match="https"):
        Config(host="0.0.0.0", public_url="http://dp.example.org")
    config = Config(folder=tmp_path, host="0.0.0.0", public_url="https://dp.example.org")
    assert config.hosts == {"dp.example.org"}
    assert check(config)
    assert check(Config(folder=tmp_path / "new")) == []


def test_a_setting_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("port = 8021\nslots = 3\n")
    with pytest.raises(InvalidTask, match="'slots'"):
        read_config(str(tmp_path / "a.toml"))
    (tmp_path / "a.toml").write_text("port = 8021\nslot = 3.0\n")
    assert read_config(str(tmp_path / "a.toml"), port=9000).port == 9000


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    now = [0.0]
    buckets = Buckets(2.0, 3.0, clock=lambda: now[0])
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    now[0] = 0.5
    assert buckets.take("a") == 0
    assert buckets.take("a") == pytest.approx(0.5)
