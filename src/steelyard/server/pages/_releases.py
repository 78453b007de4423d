"""A release as a page: the value, where the truth lies, what the cap cuts off, its chart and table, guarantee, receipt, and the same as Python."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

import steelyard.answers as answers
from steelyard.accounting import told
from steelyard.answers import Part
from steelyard.charts import Chart, intervals
from steelyard.desk import FAILED
from steelyard.documents import request_of
from steelyard.release import Release
from steelyard.requests import task_from
from steelyard.server import _asking as asking
from steelyard.server._call import Call, Endpoint
from steelyard.server._problems import Problem, not_there
from steelyard.server.api import _releases as releases_api
from steelyard.server.pages import _questions as questions
from steelyard.server.pages._parts import at, go, page
from steelyard.server.pages._pictures import Picture, shown
from steelyard.server.store import Job

_LISTED = 50
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_LONGEST_KEY = 200


def show_release(call: Call) -> Response:
    """One release: its page, or with a suffix the answer as CSV, JSON or a picture."""
    suffix = call.params["release"].partition(".")[2]
    if suffix:
        return _download(call, suffix)
    job, dataset = call.release, call.set
    told_of = asking.look(call.server, dataset, job)
    wait = asking.wait_of(call.server, dataset, job).get("Retry-After", "")
    task = json.loads(job.request)
    answer = _answer(asking.released(call.server, dataset, job)) if told_of["state"] == "answered" else None
    person = call.server.people.known(job.person)
    lead = f"Asked by {'you' if job.person == call.who.id else person.name if person else 'somebody'} on {day(job.charged)}"
    return page(
        call, "release.html", Part(task, None).title, name=Part(task, None).title, lead=lead,
        trail=(("/", "Home"), (at("sets", dataset.name), dataset.title or dataset.name)),
        state=told_of["state"], look=wait, here_href=at("releases", str(job.sequence)), href=at("releases", str(job.sequence)),
        failed=f"{FAILED[:1].upper()}{FAILED[1:]}", answer=answer, publish=_publishing(call, told_of["state"]), receipt=_receipt(call),
        python=questions.as_python(task_from(job.request), dataset.name, job.key, call.server.config.origin),
    )  # fmt: skip


def _answer(release: Release) -> dict[str, Any]:
    """What the page says of an answer."""
    parts = release.parts
    one = answers.first(parts, 1) if answers.size(parts) == 1 else []
    value = answers.number(one[0].value, one[0].noise) if one else ""
    width = (
        f"± {answers.number(one[0].noise, one[0].noise)} in 95% of draws" if one and one[0].noise is not None else ""
    )
    blind = release.error.blind_spot if release.error else ""
    return {
        "value": value, "width": width, "blind": blind,
        "told": [f"{words[:1].upper()}{words[1:]}." for words in release.told if words != blind],
        "guarantee": str(release.guarantee), "again": "", "charts": [_picture(release)],
    }  # fmt: skip


def _picture(release: Release) -> Picture:
    """All numbers as bars; one alone as its interval, which a bar from zero would hide."""
    header, rows, rest = answers.rows(release.parts)
    cells = answers.first(release.parts, 2)
    if len(cells) == 1:
        return shown(_interval(release, cells[0]), header, rows, "The numbers as a table")
    caption = "The numbers as a table" + (f" ({rest.replace('release.table', 'the CSV file')})" if rest else "")
    return shown(release.chart(), header, rows, caption)


def _interval(release: Release, cell: answers.Cell) -> Chart:
    half = cell.noise or 0.0
    known = cell.low is not None and cell.high is not None
    low, high = (cell.low, cell.high) if known else (cell.value - half, cell.value + half)
    title = "Where the truth lies" if known else "How far the noise may have moved it"
    of = release.error.of if release.error else ""
    told_of = (f"Of {of}." if of else "") if known else "What the cap cuts off is not in this."
    return intervals([cell.label], [cell.value], [low], [high], title=title, subtitle=told_of, confidence="its 95%")


def _publishing(call: Call, state: str) -> dict[str, str] | None:
    job = call.release
    if state != "answered":
        return None
    if job.published:
        return {
            "title": "Published",
            "told": "Everybody in the set may read this answer, and asking for it again is free.",
            "action": "",
        }
    if not call.may("publish a release"):
        return None
    return {
        "title": "Publish", "told": "Show this answer to everybody in the set. It costs nothing: it is already paid for.",
        "action": at("releases", str(job.sequence), "publish"),
    }  # fmt: skip


def _receipt(call: Call) -> dict[str, Any]:
    job = call.release
    charge = asking.desk_of(call.server, call.set, job.account, job.key, json.loads(job.request)).paid()
    if charge is None:
        raise not_there()
    receipt, terms = charge.receipt, call.server.account(job.account).terms
    pairs = [
        ("entry", f"{receipt.sequence:,}"), ("account", receipt.account), ("cost", told(receipt.cost, terms, cost=True)),
        ("chain", f"{receipt.head[:24]}…"), ("ledger", receipt.ledger_id), ("key", job.key),
    ]  # fmt: skip
    text = json.dumps(receipt.to_json(), indent=1)
    return {"pairs": pairs, "text": text, "href": f"{at('releases', str(job.sequence))}.receipt.json"}


def _download(call: Call, suffix: str) -> Response:
    name = f"release-{call.release.sequence}.{suffix}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if suffix == "receipt.json":
        return Response(_receipt(call)["text"] + "\n", 200, headers, "application/json")
    if suffix not in ("csv", "json", "svg"):
        raise not_there()
    release = asking.released(call.server, call.set, call.release)
    if suffix == "svg":
        return Response(release.chart().svg(), 200, {"Content-Security-Policy": _SVG_POLICY}, "image/svg+xml")
    if suffix == "json":
        return Response(release.to_json(), 200, headers, "application/json")
    return Response(_csv(release), 200, headers, "text/csv; charset=utf-8")


_SVG_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def _csv(release: Release) -> str:
    """The table of an answer; a text that a spreadsheet would take for a formula gets a quote."""
    table, file = release.table, io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_cell, table.column_names))
    writer.writerows([_cell(value) for value in row.values()] for row in table.to_pylist())
    return file.getvalue()


def _cell(value: Any) -> Any:
    r"""A value of a CSV file.

    >>> [_cell(each) for each in ("=1+1", "\n=1", "\uff1dA1", "FR", -1.5)]
    ["'=1+1", "'\n=1", "'＝A1", 'FR', -1.5]
    """
    if not isinstance(value, str):
        return value
    cut = value[:_LONGEST_KEY]
    return f"'{cut}" if cut.startswith(_FORMULA) else cut


def publish(call: Call) -> Response:
    """Show an answer to everybody in the set."""
    releases_api.publish(call)
    return go(at("releases", str(call.release.sequence)), "published")


def listed(call: Call, jobs: list[Job]) -> list[dict[str, str]]:
    """Jobs as a list on a page."""
    return [_line(call, job) for job in jobs]


def _line(call: Call, job: Job) -> dict[str, str]:
    task, state = json.loads(job.request), job.state if asking.is_visible(call.server, job) else "charged"
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
        release = asking.released(call.server, dataset, job)
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
            release = asking.released(call.server, call.set, job)
        except Problem:
            continue
        yield job, f"{task['column']}: entry {job.sequence}, {day(job.charged)}", present(release)


def present(release: Release) -> Any:
    """The profile of a look, as a task takes it."""
    from steelyard.bounding import ContributionProfile
    from steelyard.documents import decode

    value = release.value
    return value if hasattr(value, "histogram") else decode(ContributionProfile, value, "profile")


def day(at_second: float | None) -> str:
    """A moment as people say it, in universal time."""
    return "" if at_second is None else time.strftime("%d %B %Y, %H:%M UTC", time.gmtime(at_second)).lstrip("0")


def task_words(task: Any) -> str:
    """A task in a few words."""
    return Part(request_of(task), None).title


ENDPOINTS = (
    Endpoint("GET", "/releases/{release}", show_release, "see a release"),
    Endpoint("POST", "/releases/{release}/publish", publish, "publish a release", "form", by_token=False),
)
