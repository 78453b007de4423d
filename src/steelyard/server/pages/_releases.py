"""A release as a page: the value, where the truth lies, what the cap cuts off, its chart and table, guarantee, receipt, and the same as Python."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from starlette.responses import Response

import steelyard.answers as answers
from steelyard.accounting import told
from steelyard.answers import Part
from steelyard.charts import Chart, intervals
from steelyard.desk import FAILED
from steelyard.release import Release
from steelyard.requests import task_from
from steelyard.server import _looking as looking
from steelyard.server._call import Call, Endpoint
from steelyard.server._problems import not_there
from steelyard.server.pages import _questions as questions
from steelyard.server.pages._parts import at, day, go, page
from steelyard.server.pages._pictures import Picture, shown

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_LONGEST_KEY = 200


def show_release(call: Call) -> Response:
    """One release: its page, or with a suffix the answer as CSV, JSON or a picture."""
    suffix = call.params["release"].partition(".")[2]
    if suffix:
        return _download(call, suffix)
    job, dataset = call.release, call.set
    told_of = looking.look(call.server, dataset, job)
    wait = looking.wait_of(call.server, dataset, job).get("Retry-After", "")
    task = json.loads(job.request)
    answer = _answer(looking.released(call.server, dataset, job)) if told_of["state"] == "answered" else None
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
    charge = looking.desk_of(call.server, call.set, job.account, job.key, json.loads(job.request)).paid()
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
    release = looking.released(call.server, call.set, call.release)
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
    looking.publish(call)
    return go(at("releases", str(call.release.sequence)), "published")


ENDPOINTS = (
    Endpoint("GET", "/releases/{release}", show_release, "see a release"),
    Endpoint("POST", "/releases/{release}/publish", publish, "publish a release", "form", by_token=False),
)
