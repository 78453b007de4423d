"""Days and moments of a row, by the calendar's own arithmetic; a day out of range is null."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import Any

from sqlglot import expressions as exp

from steelyard.errors import InvalidTask
from steelyard.views._refusals import only, refuse, shown
from steelyard.views._texts import chained
from steelyard.views._values import Translator, Value, double, made, whole
from steelyard.views._written import written

_FIRST, _LAST = datetime.date.min, datetime.date.max


DAY_TEXT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_PARTS = {"YEAR": 1, "MONTH": 12, "DAY": 31, "QUARTER": 4, "HOUR": 23, "MINUTE": 59, "SECOND": 59, "ISODOW": 7}


def named_day(text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if re.fullmatch(DAY_TEXT.replace(r"\z", ""), text) else None
    except ValueError:
        return None


def written_day(day: datetime.date) -> Value:
    import ibis

    return Value(ibis.literal(day.isoformat()).cast("date"), "date", constant=day)


def day_of(value: Value) -> Value:
    """The day of a moment; a day is itself."""
    if value.kind == "timestamp":
        return made(value.expr.date(), "date", value)
    if value.kind == "moment":
        refuse(
            "a moment in a time zone",
            "its day and hour depend on the clock of whoever asks",
            "moments without a time zone",
        )
    if value.kind != "date":
        raise InvalidTask(f"a day is needed; got {value.kind}. Text becomes a day by CAST(x AS DATE).")
    return value


def truncated(to: Translator, node: Any) -> Value:
    """``date_trunc``: the first day of the month, quarter, year or week; always a day."""
    import ibis

    only(node, "this", "unit")
    unit, day = str(node.args["unit"].name).upper(), day_of(to.value(node.this))
    if unit == "DAY":
        return day
    year, month = day.expr.year(), day.expr.month()
    if unit == "WEEK":
        return _through_text(day.expr.truncate("W"), day)
    first: dict[str, Any] = {"MONTH": month, "QUARTER": (day.expr.quarter() - 1) * 3 + 1, "YEAR": 1}
    if unit not in first:
        refuse(shown(node), "date_trunc goes to the day, week, month, quarter or year", "date_trunc('month', x)")
    return made(ibis.date(year, first[unit], 1), "date", day, copies=3)


def _through_text(expr: Any, *parts: Value) -> Value:
    """What an engine may give as a moment at midnight, as the day that it is."""
    return made(expr.cast("string").left(10).try_cast("date"), "date", *parts)


def part(to: Translator, node: Any) -> Value:
    """``year(x)`` and its like, and ``extract``."""
    if type(node) is exp.Extract:
        only(node, "this", "expression")
        name, value = str(node.this.name).upper(), to.value(node.expression)
    else:
        only(node, "this")
        name, value = (
            {"DayOfWeekIso": "ISODOW"}.get(type(node).__name__, type(node).__name__.upper()),
            to.value(node.this),
        )
    if name not in _PARTS:
        refuse(
            shown(node), f"the part {name.lower()} is not translated", "year, quarter, month, day, isodow, hour, minute"
        )
    if name in ("HOUR", "MINUTE", "SECOND"):
        if value.kind != "timestamp":
            raise InvalidTask(f"{shown(node)} needs a moment without a time zone; got {value.kind}.")
        found = getattr(value.expr, name.lower())()
    else:
        value = day_of(value)
        found = value.expr.day_of_week.index() + 1 if name == "ISODOW" else getattr(value.expr, name.lower())()
    most = 9999 if name == "YEAR" else _PARTS[name]
    return made(found.cast("int64"), "integer", value, low=0, high=most)


def formatted(to: Translator, node: Any) -> Value:
    """``strftime`` with %Y, %m and %d alone."""
    only(node, "this", "format")
    day, pattern = day_of(to.value(node.this)), to.value(node.args["format"]).constant
    if not isinstance(pattern, str) or len(pattern) > 100 or re.search(r"%(?![Ymd])", pattern) or not pattern:
        refuse(shown(node), "strftime is translated for %Y, %m and %d", "strftime(x, '%Y-%m')")
    text = day.expr.cast("string")
    places = {"%Y": (0, 4), "%m": (5, 2), "%d": (8, 2)}
    pieces = [
        made(text.substr(*places[piece]), "string", day) if piece in places else written(to, exp.Literal.string(piece))
        for piece in re.split(r"(%[Ymd])", pattern)
        if piece
    ]
    return chained(pieces) if len(pieces) > 1 else pieces[0]


def days_later(value: Value, interval: Any, *, minus: bool) -> Value:
    import ibis

    only(interval, "this", "unit")
    count, unit = str(interval.this.name) if interval.this is not None else "", str(interval.args["unit"].name).upper()
    if value.kind != "date" or unit not in ("DAY", "DAYS") or not re.fullmatch(r"-?[0-9]{1,5}", count):
        refuse(
            f"INTERVAL {count} {unit}", "only a number of days, written down, is added to a day", "day + INTERVAL 3 DAY"
        )
    days = -int(count) if minus else int(count)
    last, first = _LAST - datetime.timedelta(max(days, 0)), _FIRST + datetime.timedelta(max(-days, 0))
    inside = value.expr.between(written_day(first).expr, written_day(last).expr)
    start = ibis.cases((inside, value.expr), else_=ibis.null("date"))
    return _through_text(start + ibis.interval(days=days), replace(value, weight=3 * value.weight))


def days_between(last: Value, first: Value) -> Value:
    found = day_number(last).expr - day_number(first).expr
    return made(found, "integer", last, first, copies=6, low=-4_000_000, high=4_000_000)


def day_number(value: Value) -> Value:
    """A number of days since a fixed day, by the calendar's own arithmetic on small integers, each quotient far from any rounding."""
    year, month, day = (getattr(value.expr, part)().cast("int64") for part in ("year", "month", "day"))
    import ibis

    late = ibis.cases((month > whole(2), whole(1)), else_=whole(0))  # years are counted from March
    years, months = year - whole(1) + late, month + whole(9) - late * whole(12)
    quarters, hundreds, cycles = (_quotient(years, by) for by in (4, 100, 400))
    spent = _quotient(months * whole(153) + whole(2), 5)
    return made(years * whole(365) + quarters - hundreds + cycles + spent + day, "integer", value, copies=9)


def _quotient(number_: Any, by: int) -> Any:
    return ((number_ - number_ % whole(by)).cast("float64") / double(by)).floor().cast("int64")


def date_diff(to: Translator, node: Any) -> Value:
    only(node, "this", "expression", "unit", "date_part_boundary")
    last, first = day_of(to.value(node.this)), day_of(to.value(node.expression))
    unit = "DAY" if node.args.get("unit") is None else str(node.args["unit"].name).upper()
    if unit == "DAY":
        return days_between(last, first)
    if unit not in ("MONTH", "YEAR"):
        refuse(shown(node), "differences are in days, months or years", "date_diff('day', a, b)")
    ends = []
    for each in (last, first):
        year, month = each.expr.year().cast("int64"), each.expr.month().cast("int64")
        ends.append(year if unit == "YEAR" else year * whole(12) + month)
    return made(ends[0] - ends[1], "integer", last, first, copies=2, low=-200_000, high=200_000)
