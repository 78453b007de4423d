"""Leaderboards: ranks that are ranges where intervals overlap, what a team sent in, and what is left to be told."""

from __future__ import annotations

import secrets
from typing import Any

from starlette.responses import Response

from steelyard.charts import at_error, intervals
from steelyard.server import _boards as boards
from steelyard.server._call import Call, Endpoint
from steelyard.server._private import is_private
from steelyard.server._store import Board, Submission
from steelyard.server.api import _boards as boards_api
from steelyard.server.pages._budgets import amount
from steelyard.server.pages._forms import filled, format_of, through, tried
from steelyard.server.pages._lines import STATES, card, rank_of
from steelyard.server.pages._parts import at, day, go, page
from steelyard.server.pages._pictures import Picture, shown

_KINDS = {
    "free": "certified; the guess was right",
    "paid": "certified; a surprise",
    "refused": "not told: nothing is left to tell",
}
_NOISY = "with noise, so that no label shows"
_RULES = (
    "Every interval on this board holds, all of them together, however often the board is asked and whoever asks.",
    "Where intervals overlap nobody knows who is better, so a rank is a range.",
    "A right guess is told almost for nothing; a surprise uses up one of those that are left.",
    "Every submission counts, failed ones too, and a failed one is told nothing but what is wrong with its format.",
    "The budget belongs to the board: second identities gain nothing.",
)  # fmt: skip
_HIDING = (
    *_RULES[:2],
    "Every score is told with noise, and paid for before the labels are read: whose label is which cannot be told from all answers together.",
    "How many answers there are was fixed at the start. The same predictions again are told again, and use up none.",
    "The budget belongs to the board, was approved by somebody who does not run it, and never grows: second identities gain nothing.",
)  # fmt: skip


def show_boards(call: Call) -> Response:
    """Every board that one may see."""
    who, store = call.who, call.server.boards
    found = store.all() if who.officer else store.of(who.id)
    return page(call, "boards.html", "Leaderboards", here="/boards", boards=[card(call, each) for each in found])


def show_board(call: Call, *, problem: str = "") -> Response:
    """The table of teams, and the form to send predictions in."""
    board, server = call.board, call.server
    found, title = boards.table(server, board), board.title or board.name
    team = None if call.person is None else server.boards.team_of(board.id, call.person.id)
    sent = [] if team is None else server.boards.submissions(board.id, team=team[0])
    dataset = server.sets.known(board.dataset)
    trail = [("/boards", "Leaderboards")] if call.person is not None else []
    hides = is_private(board)
    certified, final = board.facts.get("mode", "certified") == "certified", board.state == "final"
    rows = board.facts.get("final_rows" if final else "rows", 0)
    return page(
        call, "board.html", title, status=422 if problem else 200, name=title, lead=_lead(board, dataset), trail=trail,
        may_submit=call.may("submit") and board.state in ("open", "final"), may_run=call.may("run a board"), run_href=at("boards", board.name, "teams"),
        facts=_facts(call, board, found), problem=problem, table_title="Where the teams stand", nobody="Nobody has submitted yet." if board.state in ("new", "open") else "Nobody submitted while the board was open.", table_told=_told(found["teams"]),
        metric=str(board.facts.get("metric", "score")), ranks=[_row(board, each, team, sent) for each in found["teams"]], charts=_charts(board, found["teams"]),
        submit_told=_FINAL if final else _PRIVATE if hides else _SUBMIT if certified else _LADDER, href=at("boards", board.name), key=secrets.token_urlsafe(9),
        file_hint=_file_hint(board, rows), winner=_winner(found["final"], team),
        takes_guess=certified and not final, guess_hint="from your own validation; a right guess is free", mine=None if team is None else _sent(call, sent),
        rules=_HIDING if hides else _RULES if certified else _RULES[:2],
    )  # fmt: skip


_SUBMIT = "Say what you expect: if your own validation is right, the board confirms it for next to nothing."
_FINAL = "The final phase has rows of its own, which were never asked. The last predictions of your team count, and nothing is told before the end."
_PRIVATE = "Every answer uses up one of those that are left, so send in what you have validated yourself."
_LADDER = "Only a new record is told, so you may send in as many as you like."


def _lead(board: Board, dataset: Any) -> str:
    of = "" if dataset is None else f"On {dataset.title or dataset.name}. "
    return {
        "proposed": f"{of}Its labels are hidden under a budget of their own, which an officer has to approve.",
        "declined": f"{of}An officer declined its budget: it will not be opened.",
        "new": "The worker is opening it; load this page again in a moment.", "broken": "The worker could not open its labels.",
        "closed": f"{of}Closed: these ranks are final.", "scoring": f"{of}The final phase is being decided; load this page again in a moment.",
    }.get(board.state, of.strip())  # fmt: skip


def _file_hint(board: Board, rows: int) -> str:
    column = board.settings.get("id")
    order = (
        "one for each row, in the order of the rows"
        if column is None
        else f"beside the column {column}, by which they are matched"
    )
    return f"CSV or Parquet with {rows:,} predictions, {order}"


def _winner(final: dict[str, Any] | None, team: tuple[int, str] | None) -> dict[str, str] | None:
    """Who won the final phase, in words."""
    if final is None:
        return None
    if "team" not in final:
        return {
            "title": "The final phase",
            "value": "",
            "width": "",
            "told": "Nobody sent predictions for the final phase.",
        }
    value, width = _score(final)
    many = f"best of {final['teams']} teams" if final["teams"] > 1 else "only team"
    you = " (you)" if team is not None and team[1] == final["team"] else ""
    return {
        "title": f"Winner: {final['team']}{you}", "value": value, "width": width,
        "told": f"The {many} on rows that were never asked before. This one score was told, and nothing about the others.",
    }  # fmt: skip


def _facts(call: Call, board: Board, found: dict[str, Any]) -> list[tuple[str, str]]:
    left = found["left"]
    first = board.state == "open" and board.settings.get("final")
    known = [
        ("phase", "1 of 2: open" if first else STATES[board.state]),
        ("rows", f"{board.facts['rows']:,}" if "rows" in board.facts else ""),
    ]
    known += [
        ("answers left" if is_private(board) else "surprises left", "" if left is None else f"{left:,}"),
        ("measured by", str(board.facts.get("metric", ""))),
    ]
    known += [("confidence", str(board.settings.get("confidence", "0.95"))), ("privacy", _privacy(call, board))]
    return [(what, words) for what, words in known if words]


def _privacy(call: Call, board: Board) -> str:
    """What a private board's budget promises, from its terms, which are public."""
    if "account" not in board.facts:
        return ""
    terms = call.server.account(str(board.facts["account"])).terms
    return f"{amount(terms.cap, terms)}, δ {float(terms.delta):g}"


def _told(teams: list[dict[str, Any]]) -> str:
    if not teams:
        return ""
    first = sum(each["rank"] == 1 for each in teams)
    return (
        "Nobody's lead is certain yet: the first place is a tie of " + f"{first} teams."
        if first > 1
        else "The first place is certain."
    )


def _row(board: Board, each: dict[str, Any], team: tuple[int, str] | None, sent: list[Submission]) -> dict[str, Any]:
    mine = team is not None and each["team"] == team[1]
    best = next((made for made in sent if mine and made.answer.get("value") == each["value"]), None)
    width = max(each["high"] - each["low"], 1e-6)
    return {
        "rank": rank_of(each), "team": each["team"], "mine": mine, "score": at_error(each["value"], width / 2),
        "between": f"{at_error(each['low'], width / 2)} to {at_error(each['high'], width / 2)}", "kind": _kind(board, each["kind"]),
        "id": f"#{best.id}" if best else f"{each['submissions']:,} sent", "href": at("submissions", str(best.id)) if best else "",
    }  # fmt: skip


def _charts(board: Board, teams: list[dict[str, Any]]) -> list[Picture]:
    if not teams:
        return []
    lists = [[each[name] for each in teams] for name in ("team", "value", "low", "high")]
    sure = f"{float(board.settings.get('confidence', 0.95)):.0%}"
    return [
        shown(
            intervals(
                *lists,
                title="Scores and where the truth lies",
                x_title=str(board.facts.get("metric", "")),
                confidence=f"its {sure}",
            )
        )
    ]


def _sent(call: Call, sent: list[Submission]) -> list[dict[str, str]]:
    return [_line(call, made) for made in reversed(sent[-50:])]


def _line(call: Call, made: Submission) -> dict[str, str]:
    state = made.state if boards.is_told(call.server, made) else "asked"
    tag, colour = {
        "held": ("kept for the end", "blue"),
        "asked": ("being checked", ""),
        "refused": ("not scored", "orange"),
        "failed": ("not scored", "orange"),
    }.get(state, ("", ""))
    said = _score(made.answer)[0] if state == "answered" else ""
    guess = f", guessed {made.guess}" if made.guess else ""
    return {
        "href": at("submissions", str(made.id)), "title": f"Submission {made.id}", "said": said, "tag": tag, "colour": colour,
        "about": f"{day(made.asked)}{guess}",
    }  # fmt: skip


def _score(answer: dict[str, Any]) -> tuple[str, str]:
    """The score and where the truth lies, or that it was not told."""
    value, low, high = (answer.get(name) for name in ("value", "low", "high"))
    if value is None or low is None or high is None:
        return "not told", ""
    width = max(high - low, 1e-6) / 2
    return at_error(value, width), f"between {at_error(low, width)} and {at_error(high, width)}"


def show_submission(call: Call) -> Response:
    """One submission."""
    board, made = call.board, call.submission
    found = boards.look(call.server, board, made)
    value, width = _score(made.answer) if found["state"] == "answered" else ("", "")
    person = call.server.people.known(made.person)
    pairs = [
        ("sent in", day(made.asked)), ("by", person.name if person else ""), ("name", made.key), ("your own score", made.guess or "none given"),
        ("sha256 of the file", made.digest),
    ]  # fmt: skip
    title = board.title or board.name
    detail = str(made.answer.get("detail", "")) if found["state"] == "refused" else ""
    return page(
        call, "submission.html", f"Submission {made.id}", name=f"Submission {made.id}", lead=f"To {title}",
        trail=(("/boards", "Leaderboards"), (at("boards", board.name), title)), look=boards.wait_of(call.server, board, made).get("Retry-After", ""),
        state="failed" if found["state"] == "refused" else found["state"], here_href=at("submissions", str(made.id)),
        failed=detail[:1].upper() + detail[1:] or "Nothing more is told, because the reason could depend on the labels.",
        answer={"title": str(board.facts.get("metric", "score")), "value": value, "width": width, "told": _kind_told(board, made.answer)}, pairs=pairs,
    )  # fmt: skip


def _kind(board: Board, kind: str) -> str:
    return _NOISY if kind == "paid" and is_private(board) else _KINDS.get(kind, kind)


def _kind_told(board: Board, answer: dict[str, Any]) -> str:
    kind, left = _kind(board, str(answer.get("kind", ""))), answer.get("left")
    what = "answer" if is_private(board) else "surprise"
    tail = "" if left is None else f" {left:,} {what}{' is' if left == 1 else 's are'} left on this board."
    return f"{kind[:1].upper()}{kind[1:]}.{tail}"


def submit(call: Call) -> Response:
    """Take predictions in, under the name that was given or one of the form's own."""
    key = filled(call, "name") or call.form.get("key", "")
    guess, server = call.form.get("guess", "").strip(), call.server
    made, problem = tried(
        lambda: boards.submit(server, call.board, call.who, key, call.file, call.file_digest, guess, format_of(call))
    )
    return show_board(call, problem=problem) if problem else go(at("submissions", str(made.id)))


def show_teams(call: Call, *, problem: str = "", invited: dict[str, str] | None = None) -> Response:
    """The teams, who is on them, and the end of the phase."""
    board, title = call.board, call.board.title or call.board.name
    return page(
        call, "teams.html", f"Manage {title}", status=422 if problem else 200, name=title, problem=problem, invited=invited,
        trail=(("/boards", "Leaderboards"), (at("boards", board.name), title)), href=at("boards", board.name), teams=call.server.boards.teams(board.id),
        open=board.state in ("open", "final"), ending=_ending(board), promise=str(board.facts.get("promise", "")), form={"team": call.form.get("team", "")},
    )  # fmt: skip


def _ending(board: Board) -> str:
    """What closing the phase does."""
    if board.state == "final":
        return "Closing compares the last predictions of every team once, and tells the winner and one certified score."
    if board.settings.get("final"):
        return "Closing ends it for good and begins the final phase, on rows that were never asked."
    return "Closing ends it for good: no more predictions are taken, and the ranks are final."


def join(call: Call) -> Response:
    """Put somebody on a team; a new person gets a link."""
    name = call.form.get("person", "").strip()
    given = {"team": call.form.get("team", "").strip(), "person": name}
    made, problem = tried(lambda: through(call, boards_api.join, **given))
    if problem:
        return show_teams(call, problem=problem)
    return (
        show_teams(call, invited={"name": name, "link": made["link"]})
        if made["link"]
        else go(at("boards", call.board.name, "teams"), "team")
    )


def close(call: Call) -> Response:
    """Take no more predictions."""
    boards_api.close(call)
    return go(at("boards", call.board.name), "phase")


def show_new_board(call: Call, *, problem: str = "") -> Response:
    """The form of a new board."""
    form = {name: call.form.get(name, default) for name, default in _NEW.items()}
    roots = [(name, name) for name in call.server.config.roots]
    title = call.set.title or call.set.name
    return page(
        call, "new_board.html", "Open a leaderboard", status=422 if problem else 200, problem=problem, form=form, roots=roots,
        trail=(("/", "Home"), (at("sets", call.set.name), title)), action=at("sets", call.set.name, "boards"),
        modes=(("certified", "certified: guesses are confirmed, surprises are counted"), ("ladder", "ladder: only records are told"), ("private", "private: labels of people, told with noise")),
        metrics=(("accuracy", "accuracy"), ("auc", "area under the curve"), ("balanced_accuracy", "balanced accuracy"), ("f1", "F1")),
    )  # fmt: skip


_NEW = {
    "name": "", "title": "", "root": "", "path": "", "label": "", "id": "", "final": "", "mode": "certified", "metric": "accuracy",
    "tolerance": "0.05", "confidence": "0.95", "rows": "", "classes": "", "questions": "", "epsilon": "", "separate": "",
}  # fmt: skip


def make_board(call: Call) -> Response:
    """Open a board over labels of the set."""
    form = call.form
    settings = {
        name: filled(call, name)
        for name in (
            "mode",
            "metric",
            "tolerance",
            "confidence",
            "questions",
            "steps",
            "id",
            "rows",
            "classes",
            "epsilon",
            "separate",
        )
    }
    settings["final"] = f"{form.get('root', '')}/{form['final'].strip()}" if filled(call, "final") else None
    given = {
        "name": form.get("name", "").strip(), "source": f"{form.get('root', '')}/{form.get('path', '').strip()}", "title": filled(call, "title"),
        "label": filled(call, "label"), "settings": {name: value for name, value in settings.items() if value is not None},
        "open_to_all": form.get("open") == "yes",
    }  # fmt: skip
    made, problem = tried(lambda: through(call, boards_api.make, **given))
    return show_new_board(call, problem=problem) if problem else go(at("boards", made["name"]))


ENDPOINTS = (
    Endpoint("GET", "/boards", show_boards, "be oneself"),
    Endpoint("GET", "/boards/{board}", show_board, "see a board"),
    Endpoint(
        "POST", "/boards/{board}/submissions", submit, "submit", "file", bucket="ask", by_token=False, spends=True
    ),
    Endpoint("GET", "/submissions/{submission}", show_submission, "see a submission"),
    Endpoint("GET", "/boards/{board}/teams", show_teams, "run a board", by_token=False),
    Endpoint("POST", "/boards/{board}/teams", join, "run a board", "form", by_token=False),
    Endpoint("POST", "/boards/{board}/close", close, "run a board", "form", by_token=False),
    Endpoint("GET", "/sets/{set}/boards/new", show_new_board, "open a board", by_token=False),
    Endpoint("POST", "/sets/{set}/boards", make_board, "open a board", "form", by_token=False),
)
