"""Which rows belong to a period: a comparison of a row's own time with two public ends.

Law: every row belongs to one period or to none, whatever the others hold. So the time is a date, or in DuckDB (``local``) a timestamp without a zone: what a zone makes of a moment
depends on a setting, which Spark's timestamps have, and a text on how it is read. A null and an infinite time lie between no two ends. The user and the time must be the table's own
columns: were a view to give the name of either to something else, two releases could count one row under two periods.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from steelyard.errors import InvalidTask, TableError
from steelyard.privacy import Unit

if TYPE_CHECKING:
    from steelyard.tables._views import View


def period_ends(unit: Unit) -> tuple[date, date]:
    """The first day of a period, and the first day after it.

    >>> from steelyard.privacy import users
    >>> period_ends(users("user", per="quarter", time="day").during("2026-Q4"))
    (datetime.date(2026, 10, 1), datetime.date(2027, 1, 1))
    """
    if unit.period is None:
        raise InvalidTask(
            f"this account counts by the {unit.per}: name one, as in Session(table, account.during('...')); each has a budget of its own."
        )
    if unit.per == "day":
        first = date.fromisoformat(unit.period)
        return first, first + timedelta(days=1)
    year, _, rest = unit.period.partition("-")
    months = {"month": 1, "quarter": 3, "year": 12}[str(unit.per)]
    start = (int(rest.removeprefix("Q")) - 1) * months if rest else 0
    after = 12 * int(year) + start + months
    return date(int(year), start + 1, 1), date(after // 12, after % 12 + 1, 1)


def period_condition(view: View, schema: Mapping[str, Any], unit: Unit, *, local: bool) -> str:
    """The condition, in words of a view, that a row is of a unit's period; refused where that is not told by the row alone."""
    first, after = period_ends(unit)
    assert unit.column is not None
    assert unit.time is not None
    for name in (unit.column, unit.time):
        if name not in schema:
            from steelyard.errors import ColumnMissing

            raise ColumnMissing(name, list(schema))
    kind = schema[unit.time]
    moment = kind.is_timestamp() and kind.timezone is None and local
    if not (kind.is_date() or moment):
        raise TableError(
            f"column {unit.time!r} holds {kind} values here; a period is told by a date (in DuckDB also by a timestamp without a time zone). "
            "Store it so: a view that makes one may not take its place."
        )
    view.relation.require_period(unit.column, unit.time)
    name = '"' + unit.time.replace('"', '""') + '"'
    day = f"cast({name} as date)" if moment else name
    return f"{day} >= date '{first.isoformat()}' and {day} < date '{after.isoformat()}'"
