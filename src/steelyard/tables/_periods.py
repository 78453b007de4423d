"""Which rows belong to a period: a comparison of a row's own time with two public ends.

Law: every row belongs to one period or to none, whatever the others hold. So the time is a date, or in DuckDB (``clocked``) a timestamp without a zone: what a zone makes of a moment
depends on a setting, which Spark's timestamps have, and a text on how it is read. A null and an infinite time lie between no two ends. The user and the time must be the table's own
columns: were a view to give the name of either to something else, two releases could count one row under two periods.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask, TableError
from steelyard.privacy import Unit
from steelyard.tables._kinds import quoted

if TYPE_CHECKING:
    from steelyard.tables._views import View


def period_ends(unit: Unit) -> tuple[date, date]:
    """The first day of a period, and the first day after it; of several, of the first and after the last.

    >>> from steelyard.privacy import users
    >>> period_ends(users("user", per="quarter", time="day").during("2026-Q4"))
    (datetime.date(2026, 10, 1), datetime.date(2027, 1, 1))
    """
    if unit.period is None:
        raise InvalidTask(
            f"this account counts by the {unit.per}: name one, as in Session(table, account.during('...')); each has a budget of its own."
        )
    names = unit.periods
    return _ends(unit, names[0])[0], _ends(unit, names[-1])[1]


def _ends(unit: Unit, period: str) -> tuple[date, date]:
    if unit.per == "day":
        first = date.fromisoformat(period)
        return first, first + timedelta(days=1)
    year, _, rest = period.partition("-")
    months = {"month": 1, "quarter": 3, "year": 12}[str(unit.per)]
    start = (int(rest.removeprefix("Q")) - 1) * months if rest else 0
    after = 12 * int(year) + start + months
    return date(int(year), start + 1, 1), date(after // 12, after % 12 + 1, 1)


def period_condition(view: View, schema: Mapping[str, Any], unit: Unit, *, clocked: bool) -> str:
    """The condition, in words of a view, that a row is of a unit's period; refused where that is not told by the row alone."""
    first, after = period_ends(unit)
    assert unit.column is not None
    assert unit.time is not None
    for name in (unit.column, unit.time):
        if name not in schema:
            from steelyard.errors import ColumnMissing

            raise ColumnMissing(name, list(schema))
    kind = schema[unit.time]
    moment = kind.is_timestamp() and kind.timezone is None and clocked
    if not (kind.is_date() or moment):
        raise TableError(
            f"column {unit.time!r} holds {kind} values here; a period is told by a date (in DuckDB also by a timestamp without a time zone). "
            "Store it so: a view that makes one may not take its place."
        )
    view.relation.require_period(unit.column, unit.time)
    day = f"cast({quoted(unit.time)} as date)" if moment else quoted(unit.time)
    return f"{day} >= date '{first.isoformat()}' and {day} < date '{after.isoformat()}'"


def user_in_period(schema: Mapping[str, Any], unit: Unit) -> str:
    """Whose row it is and of which of several periods, as one text: two rows have the same one where both agree, and only there.

    The place of the period among them, a colon, and the user: no two pairs give one text, since digits end at the first colon and a whole number, or a text, is
    written in one way. A row of nobody stays nobody's.
    """
    assert unit.column is not None
    assert unit.time is not None
    kind, named = schema[unit.column], unit.inside.column
    if not (kind.is_integer() or kind.is_string()):
        raise TableError(
            f"column {unit.column!r} holds {kind} values; a release over several periods tells users apart by whole numbers or text. Ask each period by itself."
        )
    if any(str(named).casefold() == name.casefold() for name in schema):
        raise TableError(
            f"the table has a column {named!r}, which a release over several periods makes for itself; call it otherwise."
        )
    day = quoted(unit.time) if schema[unit.time].is_date() else f"cast({quoted(unit.time)} as date)"
    ends = [_ends(unit, name)[1] for name in unit.periods]
    places = " ".join(f"when {day} < date '{end.isoformat()}' then '{place}:'" for place, end in enumerate(ends))
    return f"(case {places} end) || cast({quoted(unit.column)} as varchar)"
