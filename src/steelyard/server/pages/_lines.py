"""What other pages say of an answer or a board: a line of a list, a few words, a card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import steelyard.answers as answers
from steelyard.answers import Part
from steelyard.bounding import ContributionProfile
from steelyard.documents import decode
from steelyard.release import Release
from steelyard.server import _boards as boards
from steelyard.server import _looking as looking
from steelyard.server._call import Call
from steelyard.server._private import is_private
from steelyard.server._problems import Problem, not_there
from steelyard.server._store import Board, Job
from steelyard.server.pages._parts import at, day

_LISTED = 50
STATES = {
    "proposed": "waits for an officer",
    "declined": "not opened: an officer declined its budget",
    "new": "being opened",
    "open": "open",
    "final": "2 of 2: final",
    "scoring": "being decided",
    "closed": "closed",
    "broken": "the labels cannot be opened",
}


def listed(call: Call, jobs: list[Job]) -> list[dict[str, str]]:
    """Jobs as a list on a page."""
    return [_line(call, job) for job in jobs]


def _line(call: Call, job: Job) -> dict[str, str]:
    task, state = json.loads(job.request), job.state if looking.is_visible(call.server, job) else "charged"
    person = call.server.people.known(job.person)
    by = "" if job.person == call.who.id or person is None else f"{person.name}, "
    tag, colour = {"charged": ("being computed", ""), "failed": ("no answer", "orange")}.get(
        state, ("published", "green") if job.published else ("", "")
    )
    said = "" if state != "answered" else said_of(call, job.sequence or 0)
    return {
        "href": at("releases", str(job.sequence)), "title": Part(task, None).title, "said": said, "tag": tag, "colour": colour,
        "about": f"{by}{day(job.charged)}, entry {job.sequence:,}",
    }  # fmt: skip


def said_of(call: Call, sequence: int) -> str:
    """An answer in a few words."""
    job = call.server.jobs.of_sequence(sequence)
    dataset = None if job is None else call.server.sets.known(job.dataset)
    if job is None or dataset is None:
        raise not_there()
    try:
        release = looking.released(call.server, dataset, job)
    except Problem:
        return ""
    many, cells = answers.size(release.parts), answers.first(release.parts, 4)
    if many == 1:
        return str(cells[0])
    return " · ".join(f"{cell.label} {cell}" for cell in cells) if many == len(cells) else f"{many:,} numbers"


def mine(call: Call, *, published: bool) -> list[Job]:
    """The newest jobs of a set that this person may see: published ones, or the others."""
    every = call.may("see members")
    person = None if every else call.who.id
    return call.server.jobs.newest(call.set.id, person=person, published=published, limit=_LISTED)


def looks_of(call: Call, column: str) -> Iterator[tuple[Job, str, Any]]:
    """The looks for a cap that this person may see, each with its words and its profile."""
    for job in (*mine(call, published=True), *mine(call, published=False)):
        task = json.loads(job.request)
        if task.get("type") != "Profile" or task.get("column") != (column or task.get("column")):
            continue
        try:
            release = looking.released(call.server, call.set, job)
        except Problem:
            continue
        yield job, f"{task['column']}: entry {job.sequence}, {day(job.charged)}", _profile(release)


def _profile(release: Release) -> Any:
    """The profile of a look, as a task takes it."""

    value = release.value
    return value if hasattr(value, "histogram") else decode(ContributionProfile, value, "profile")


def card(call: Call, board: Board) -> dict[str, str]:
    """A board in a few words, with one's own rank."""
    team = call.server.boards.team_of(board.id, call.who.id)
    rank = ""
    if team is not None:
        rank = next(
            (rank_of(each) for each in boards.table(call.server, board)["teams"] if each["team"] == team[1]), ""
        )
    left = board.facts.get("left")
    what = "answers" if is_private(board) else "surprises"
    about = f"{STATES[board.state]}{'' if left is None else f'; {left:,} {what} at the start'}"
    return {"href": at("boards", board.name), "title": board.title or board.name, "about": about, "rank": rank}


def rank_of(each: dict[str, Any]) -> str:
    """A team's rank, or the range of it."""
    return str(each["rank"]) if each["rank"] == each["rank_to"] else f"{each['rank']}–{each['rank_to']}"
