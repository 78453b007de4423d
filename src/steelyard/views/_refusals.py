"""How a view is refused: the clause, what it mixes or why it is not known to be the same everywhere, and the nearest allowed form.

Whatever has no translation is refused (deny by default); the list here only makes the refusal of common clauses helpful.
Law: a refusal depends on the text, the schemas and the unit, never on a row.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sqlglot import expressions as exp

from steelyard.errors import ViewRefused

_MIXED = "it depends on all rows together, so that one person's presence changes other people's rows"
_TOLD: dict[str, tuple[str, str]] = {
    "limit": (f"LIMIT: {_MIXED}", "filter with WHERE, or number each unit's rows: row_number() OVER (PARTITION BY the unit ORDER BY ...)"),
    "offset": (f"OFFSET: {_MIXED}", "filter with WHERE"),
    "sample": ("a sample is drawn anew at each reading", "release of all rows; noise is added to the answer alone"),
    "qualify": ("QUALIFY is not translated", "a window in a sub-query, and WHERE around it"),
    "pivots": ("PIVOT looks at which values occur, in all rows", "CASE WHEN with values that are written down"),
    "laterals": ("LATERAL and table functions are not translated", "a JOIN of tables"),
    "windows": ("named windows are not translated", "OVER (PARTITION BY ...) written out"),
    "into": ("a view writes nothing", "SELECT alone"),
    "locks": ("a view locks nothing", "SELECT alone"),
    "spec": ("frames of rows are not translated", "the aggregate OVER (PARTITION BY the unit), or lag and lead"),
    "on": ("DISTINCT ON takes whichever row comes first", "row_number() OVER (PARTITION BY the unit ORDER BY ...) in a sub-query, and WHERE around it"),
    "method": ("NATURAL, ASOF and POSITIONAL joins are not translated", "JOIN ... USING (...)"),
    "by_name": ("by_name: columns are matched by their order", "UNION ALL with the columns in the same order"),
    "all": ("GROUP BY ALL is for the question itself", "the columns by name"),
    "columns": ("columns are not renamed in FROM", "AS in the SELECT"),
    "except_": ("except is not on the list of what a view may use", "the columns by name"),
    "replace": ("replace is not on the list of what a view may use", "the columns by name"),
    "rename": ("rename is not on the list of what a view may use", "the columns by name, with AS"),
    "recursive": ("RECURSIVE is not on the list of what a view may use", "WITH alone"),
    "when": ("a version of a table is refused", "the table as it is"),
    "db": ("tables are named as they were given to the view", "the name alone"),
    "order": ("ORDER BY inside an aggregate is not translated", "an aggregate that needs no order: sum, count, min, max, avg"),
}  # fmt: skip
_NODES: dict[str, tuple[str, str]] = {
    "Subquery": (f"a sub-query inside an expression: {_MIXED}", "JOIN a public table, or JOIN private tables USING the unit"),
    "Select": (f"a sub-query inside an expression: {_MIXED}", "JOIN a public table, or JOIN private tables USING the unit"),
    "Exists": (f"EXISTS: {_MIXED}", "JOIN private tables USING the unit, or a public table"),
    "Except": (f"EXCEPT: {_MIXED}", "WHERE with a condition on the row itself"),
    "Intersect": (f"INTERSECT: {_MIXED}", "WHERE with a condition on the row itself"),
    "Rand": ("random() differs at each reading", "nothing: noise is added to the answer alone"),
    "Uuid": ("uuid() differs at each reading", "nothing"),
    "CurrentDate": ("the clock differs at each reading", "the day written down: DATE '2026-05-31'"),
    "CurrentTimestamp": ("the clock differs at each reading", "the moment written down"),
    "CurrentTime": ("the clock differs at each reading", "the moment written down"),
    "IntDiv": ("// differs between engines", "floor(x / y)"),
    "Exp": ("exp differs between engines in its last digit", "arithmetic: + - * /, sqrt"),
    "Ln": ("ln differs between engines in its last digit", "arithmetic: + - * /, sqrt"),
    "Log": ("log differs between engines in its last digit", "arithmetic: + - * /, sqrt"),
    "Pow": ("powers differ between engines in their last digit", "x * x"),
    "ILike": ("letters are compared by a locale", "lower(x) LIKE '...' (lower knows A to Z)"),
    "RegexpLike": ("engines read regular expressions differently", "LIKE, starts_with, ends_with, contains"),
    "RegexpReplace": ("engines read regular expressions differently", "replace(x, 'a', 'b')"),
    "RegexpExtract": ("engines read regular expressions differently", "substring(x, 1, 3)"),
    "Explode": ("unnest is not translated; lists cannot be used", "one row for each entry, before the table is read"),
    "Unnest": ("unnest is not translated; lists cannot be used", "one row for each entry, before the table is read"),
    "Values": ("rows written into a view are a table of their own", "sy.public({...}) and a JOIN"),
    "Placeholder": ("a placeholder has no value here", "the value written out"),
    "Parameter": ("a parameter has no value here", "the value written out"),
    "Collate": ("text is compared by its bytes", "the column without COLLATE"),
    "ArrayAgg": ("the order in a list is not fixed", "sum, count, min, max, avg"),
    "GroupConcat": ("the order in a list is not fixed", "sum, count, min, max, avg"),
    "AnyValue": ("any_value takes whichever row comes first", "min or max"),
    "First": ("first takes whichever row comes first", "min or max"),
    "Last": ("last takes whichever row comes first", "min or max"),
    "Median": ("medians within a unit are not translated", "min, max, avg"),
    "Stddev": ("a sum of squares depends on the order of rows", "sum, count, min, max, avg"),
    "StddevSamp": ("a sum of squares depends on the order of rows", "sum, count, min, max, avg"),
    "Variance": ("a sum of squares depends on the order of rows", "sum, count, min, max, avg"),
    **dict.fromkeys(("Rollup", "Cube", "GroupingSets"), ("several groupings at once are not on the list of what a view may use", "GROUP BY columns; UNION ALL of several")),
    **dict.fromkeys(("All", "Any"), (f"ALL and ANY over a query are not on the list of what a view may use: {_MIXED}", "a value that is written down")),
    **dict.fromkeys(("Sum", "Count", "Avg", "Min", "Max"), ("an aggregate inside another, or in WHERE, is not on the list of what a view may use", "a sub-query in FROM that is grouped by the unit")),
    **dict.fromkeys(("Dot", "Bracket", "Array", "Struct", "Map", "DataType"), ("lists and structs are not on the list of what a view may use", "a column for each entry, before the table is read")),
    **dict.fromkeys(("ReadCSV", "ReadParquet", "GenerateSeries"), ("a table function is refused: a view reads the tables that it is given", "name=sy.read(...) or name=sy.public(...)")),
    "Columns": ("columns chosen by a pattern are not on the list of what a view may use", "the columns by name"),
    "Repeat": ("repeat is not on the list of what a view may use: texts may not grow", "the column itself"),
    "MD5": ("hashes are not on the list of what a view may use", "the column itself"),
    "FirstValue": ("first_value is not on the list of what a view may use", "min or max OVER (PARTITION BY the unit), or lag"),
    "LastValue": ("last_value is not on the list of what a view may use", "min or max OVER (PARTITION BY the unit), or lead"),
    "Ntile": ("ntile is not on the list of what a view may use", "row_number() or rank()"),
    "PercentRank": ("percent_rank is not on the list of what a view may use", "rank()"),
    "ArgMax": ("arg_max is not on the list of what a view may use: ties are left to the engine", "row_number() in a sub-query, and WHERE around it"),
    "ArgMin": ("arg_min is not on the list of what a view may use: ties are left to the engine", "row_number() in a sub-query, and WHERE around it"),
    "LogicalOr": ("bool_or is not on the list of what a view may use", "max(CAST(x AS BIGINT))"),
    "LogicalAnd": ("bool_and is not on the list of what a view may use", "min(CAST(x AS BIGINT))"),
    "ApproxDistinct": ("an approximate count depends on the engine", "count(DISTINCT x)"),
    "NullSafeEQ": ("IS NOT DISTINCT FROM is not on the list of what a view may use", "x = y OR (x IS NULL AND y IS NULL)"),
    "NullSafeNEQ": ("IS DISTINCT FROM is not on the list of what a view may use", "x <> y, with IS NULL where it matters"),
    "Tuple": ("a tuple is not on the list of what a view may use", "a condition on each column, joined by AND"),
    "Trunc": ("trunc is not on the list of what a view may use", "floor(x) or ceil(x)"),
    "Sign": ("sign is not on the list of what a view may use", "CASE WHEN x > 0 THEN 1 WHEN x < 0 THEN -1 ELSE 0 END"),
    "Escape": ("ESCAPE is not on the list of what a view may use", "contains, starts_with, ends_with"),
    "AtTimeZone": ("a clock's zone differs between engines", "moments without a time zone"),
    "Interval": ("only whole days are added to dates", "day + INTERVAL 3 DAY"),
    "Lateral": ("LATERAL and table functions are not translated", "a JOIN of tables"),
}  # fmt: skip
_FUNCTIONS: dict[str, tuple[str, str]] = {
    "now": ("the clock differs at each reading", "the moment written down"),
    "today": ("the clock differs at each reading", "the day written down"),
    "hash": ("hashes differ between engines", "the column itself"),
    "date_part": ("date_part is not translated", "year(x), month(x), or extract(year FROM x)"),
    "iff": ("iff is not translated", "CASE WHEN a THEN b ELSE c END"),
}  # fmt: skip
_FILES = (
    "read_",
    "glob",
    "sniff_",
    "parquet_",
    "query",
    "pragma_",
    "duckdb_",
    "current_",
    "getvariable",
    "getenv",
    "nextval",
    "pg_",
)


def refuse(clause: str, why: str, instead: str = "") -> NoReturn:
    """Refuse a clause, with the nearest allowed form."""
    end = f" Allowed instead: {instead}." if instead else ""
    raise ViewRefused(f"the view is refused at {clause}: {why}.{end}", clause=clause)


def shown(node: Any) -> str:
    """A piece of the statement, short enough to be read."""
    text = str(node.sql(dialect="duckdb")) if isinstance(node, exp.Expr) else str(node)
    return text if len(text) <= 80 else text[:77] + "..."


def refuse_node(node: Any) -> NoReturn:
    """Refuse whatever has no translation."""
    if type(node) is exp.Anonymous:
        name = str(node.this).lower()
        why, instead = _FUNCTIONS.get(name, (f"{name} is not on the list of functions that a view may use", ""))
        if name.startswith(_FILES):
            why, instead = f"{name} reads files or the state of the system", "a table that is given by name"
        refuse(shown(node), why, instead)
    kind = type(node).__name__
    why, instead = _NODES.get(kind, (f"{kind} is not on the list of what a view may use", ""))
    refuse(shown(node), why, instead)


def only(node: Any, *allowed: str) -> None:
    """Refuse a node that says more than its translation knows: every other argument must be empty."""
    for name, value in node.args.items():
        if value and name not in allowed:
            why, instead = _TOLD.get(name, (f"{name.strip('_')} is not on the list of what a view may use", ""))
            refuse(f"{name.strip('_').upper()} in {shown(node)}", why, instead)
