"""The mistakes everybody makes first: each is refused before anything is read, with what to write instead."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import steelyard as sy
from steelyard.account import check_account
from steelyard.cli import main
from steelyard.errors import ColumnMissing, EngineMissing, InvalidTask, OurBug, SteelyardError, TableError, WeakPromise
from steelyard.privacy import Loss

BOTH: Any = {0, 1}
LEDGER: Any = "b.db"  # somebody's guess at what an account is
ROWS: Any = {"user_id": [1, 1, 2], "amount": [1.0, 2.0, 3.0]}
X, Y = np.zeros((10, 2)), np.arange(10) % 2


@pytest.fixture
def account() -> Any:
    return sy.open_account(":memory:", "a", unit=sy.users("user_id"), epsilon=1)


@pytest.fixture
def session(account: Any) -> sy.Session:
    return sy.Session(sy.read(ROWS), account)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda account: sy.Session(ROWS, account), "Session(sy.read(...), account)"),
        (lambda account: sy.Session("x.csv", account), "Session(sy.read('x.csv'), account)"),  # type: ignore[arg-type]
        (lambda account: sy.Session(account, sy.read(ROWS)), "Session(table, account)"),  # type: ignore[arg-type]
        (lambda account: sy.Session(account, ROWS), "Session(sy.read(...), account)"),
        (lambda account: sy.Session(sy.read(ROWS), "budget.db"), "sy.open_account(ledger, name"),  # type: ignore[arg-type]
        (lambda account: sy.Session(sy.read(ROWS), None), "a NoneType is none"),  # type: ignore[arg-type]
    ],
)
def test_a_session_says_what_it_takes(account: Any, make: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(InvalidTask) as refusal:
        make(account)
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (sy.Sum, "Sum(..., epsilon=1)"),
        ("select sum(amount) from t", "sy.Sum('amount', epsilon=1, cap=100)"),
        ({"type": "Sum"}, "task_from"),
        (17, "a int cannot be asked for"),
        (None, "a NoneType cannot be asked for"),
    ],
)
def test_what_is_no_task_is_refused_before_a_charge(session: sy.Session, asked: Any, says: str) -> None:
    for verb in (session.release, session.plan, session.quote):
        with pytest.raises(InvalidTask) as refusal:
            verb(asked)
        assert says in str(refusal.value)
    assert session.account.spent == Loss.pure("0.000001") - Loss.pure("0.000001")


def test_a_total_is_not_opened_and_a_dialogue_not_released(session: sy.Session) -> None:
    with pytest.raises(InvalidTask, match=r"session\.release"):
        session.open(sy.Sum("amount", epsilon=1, cap=3))  # type: ignore[arg-type]


def test_a_limit_is_an_epsilon_as_tasks_take_it(session: sy.Session) -> None:
    assert session.up_to("0.1").account.remaining == Loss.pure("0.1")
    assert session.up_to(Loss.pure("0.1")).account.remaining == Loss.pure("0.1")
    with pytest.raises(InvalidTask, match="must be a finite number"):
        session.up_to("a little")
    gaussian = sy.open_account(":memory:", "g", unit=sy.users("user_id"), epsilon=3, delta="1e-6")
    task = sy.Sum("amount", epsilon=1, cap=3)
    on_it = sy.Session(sy.read(ROWS), gaussian)
    assert on_it.up_to(1).account.remaining == on_it.quote(task)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import duckdb

    monkeypatch.chdir(tmp_path)
    Path("s.csv").write_text("user_id;amount\n1;2\n")
    Path("one.csv").write_text("amount\n2\n")
    Path("spend.txt").write_text("user_id;amount\n1;2\n2;4\n")
    for name in ("a.xlsx", "a.json", "a.feather", "a.sqlite", "a.zip", "broken.db"):
        Path(name).write_text("x" * 1000)
    with duckdb.connect("sales.db") as database:
        database.execute("CREATE TABLE orders AS SELECT 1 AS user_id; CREATE VIEW late AS SELECT * FROM orders")
    return tmp_path


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("duckdb:///sales.db", "which table? The database has 'late', 'orders'."),
        ("duckdb:///sales.db::nope", "there is no table 'nope' in that database. The database has 'late', 'orders'."),
        ("duckdb:///broken.db::x", "cannot be opened as a DuckDB database"),
        ("sqlite:///broken.db::x", "cannot be opened as a SQLite database"),
        ("postgresql://ann:hush@127.0.0.1:1/db::t", "no connection to postgresql://ann:***@127.0.0.1:1/db"),
        ("postgres://ann:hush@127.0.0.1:1/db", "no connection to postgres://ann:***@127.0.0.1:1/db"),
        ("nonsense://x", "no database can be opened for the scheme 'nonsense'"),
        ("s3://bucket/x.parquet", "remote address"),
        ("a.xlsx", "pandas.read_excel"),
        ("a.json", "pandas.read_json"),
        ("a.feather", "pyarrow.feather.read_table"),
        ("a.sqlite", "sqlite:///path::table"),
        ("a.zip", "--format csv"),
        ("s.csv", "delimiter=';'"),
    ],
)
def test_a_source_that_cannot_be_read_says_what_to_do(folder: Path, source: str, says: str) -> None:
    with pytest.raises(TableError) as refusal:
        sy.read(source)
    assert says in str(refusal.value)
    assert "hush" not in str(refusal.value)
    assert refusal.value.__context__ is None or "hush" not in str(refusal.value.__context__)
    assert refusal.value.__suppress_context__ or refusal.value.__context__ is None


def test_a_backend_that_is_not_installed_is_named(folder: Path) -> None:
    with pytest.raises(EngineMissing, match=r"ibis-framework\[mysql\]"):
        sy.read("mysql://ann:hush@h/db")


def test_a_delimiter_is_told_and_a_column_may_be_alone(folder: Path) -> None:
    assert list(sy.read("s.csv", delimiter=";").columns) == ["user_id", "amount"]
    assert list(sy.read("s.csv", delimiter=",").columns) == ["user_id;amount"]
    assert list(sy.read("one.csv").columns) == ["amount"]
    for odd in (";;", "", '"', 7):
        with pytest.raises(TableError, match="one character"):
            sy.read("s.csv", delimiter=odd)


@pytest.mark.parametrize(
    "row", ["ann,17,FR", "ann,2025-01-31", "ann@example.org,FR", "ann;17;FR", "ann,-3.5e2", "ann,1:30", '"ann",".5"']
)
def test_a_row_where_names_should_stand_is_refused_and_not_quoted(folder: Path, row: str) -> None:
    Path("bare.csv").write_text(f"{row}\nbob,18,DE\n")
    with pytest.raises(TableError) as refusal:
        sy.read("bare.csv")
    assert "names=[" in str(refusal.value)
    assert "--names" in str(refusal.value)
    assert not any(cell in str(refusal.value) for cell in ("ann", "17", "FR", "example", "2025", "bob"))


def test_a_file_without_a_header_line_is_read_by_the_names_that_are_given(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bare.csv").write_text("ann,17,FR\nbob,18,DE\n")
    table = sy.read("bare.csv", names=["user_id", "amount", "land"], types={"amount": "float"})
    assert table.count_units(sy.users("user_id")) == 2
    assert table.identity != sy.read("bare.csv", names=["user_id", "amount", "country"]).identity
    Path("years.csv").write_text("user_id,2024\nann,17\n")
    assert list(sy.read("years.csv", header=True).columns) == ["user_id", "2024"]
    for odd in ([], "user_id", ["user_id", ""], [1]):
        with pytest.raises(TableError, match="list of names"):
            sy.read("bare.csv", names=odd)
    with pytest.raises(TableError, match="leave names out"):
        sy.read("bare.csv", names=["a"], header=True)
    assert main(["account", "open", "b.db", "a", "--unit", "users:user_id", "--epsilon", "2"]) == 0
    pay = ["--ledger", "b.db", "--account", "a", "--cap", "30", "--epsilon", "1"]
    assert main(["sum", "bare.csv", "amount", *pay, "--names", "user_id,amount,land"]) == 0
    assert main(["sum", "years.csv", "2024", *pay, "--header"]) == 0


def test_the_command_line_reads_such_a_file_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["account", "open", "b.db", "a", "--unit", "users:user_id", "--epsilon", "2"]) == 0
    pay = ["--ledger", "b.db", "--account", "a", "--cap", "3", "--epsilon", "0.5"]
    assert main(["sum", "s.csv", "amount", *pay]) == 2
    assert "--delimiter ';'" in capsys.readouterr().err
    assert main(["sum", "s.csv", "amount", "--delimiter", ";", "--types", "user_id:integer", *pay]) == 0
    assert main(["sum", "spend.txt", "amount", "--delimiter", ";", "--format", "csv", *pay]) == 0
    capsys.readouterr()
    assert main(["plan", "missing.json", "--epsilon", "1"]) == 2
    assert "there is no file missing.json to read a saved profile from" in capsys.readouterr().err


def test_a_column_in_other_letters_is_meant_and_one_far_off_is_not() -> None:
    assert "did you mean 'user_id'?" in str(ColumnMissing("USER_ID", ["user_id", "amount"]))
    assert "did you mean 'amount'?" in str(ColumnMissing("amout", ["amount", "cat", "country"]))
    assert "none is close" in str(ColumnMissing("price", ["cat", "country"]))
    assert "did you mean 'day_1' or 'day_2'?" in str(ColumnMissing("day_3", ["day_1", "day_2", "city"]))


@pytest.mark.parametrize(
    ("terms", "says"), [({"epsilon": 1000}, "e^1000"), ({"epsilon": 1, "delta": 0.1}, "10 in a hundred")]
)
def test_a_promise_of_next_to_nothing_is_opened_with_a_warning(terms: dict[str, Any], says: str) -> None:
    with pytest.warns(WeakPromise, match=says.replace("^", r"\^")):
        sy.open_account(":memory:", "a", unit=sy.rows(), **terms)


def test_a_usual_promise_is_opened_without_a_word(recwarn: pytest.WarningsRecorder) -> None:
    sy.open_account(":memory:", "a", unit=sy.rows(), epsilon=20)
    sy.open_account(":memory:", "b", unit=sy.rows(), epsilon=3, delta="0.01")
    assert not recwarn.list


def test_the_command_line_tells_a_warning_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["account", "open", str(tmp_path / "b.db"), "a", "--unit", "rows", "--epsilon", "1000"]) == 0
    assert capsys.readouterr().err.startswith("warning: this account promises next to nothing: epsilon 1000")


@pytest.mark.parametrize(
    "make",
    [
        lambda: sy.LogisticRegression(account=LEDGER, classes=[0, 1], x_bound=1).fit(X, Y),
        lambda: sy.LinearRegression(account=LEDGER, x_bound=1, y_bounds=(0, 1)).fit(X, Y),
        lambda: sy.PrivateScaler(epsilon=1, account=LEDGER).fit(X),
        lambda: sy.LabelRandomizer(1, 0, 1, account=LEDGER).fit(Y),
        lambda: sy.Holdout(Y, account=LEDGER),
        lambda: check_account("b.db"),
    ],
)
def test_the_name_of_a_ledger_is_no_account(make: Callable[[], Any]) -> None:
    with pytest.raises(InvalidTask, match=r"account must be an open account, and 'b\.db' is none"):
        make()


def test_classes_are_a_list_of_public_values() -> None:
    settings: dict[str, Any] = {"epsilon": 1, "x_bound": 1}
    assert sy.LogisticRegression(classes=BOTH, **settings).fit(X, Y).classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="1 of them given twice"):
        sy.LogisticRegression(classes=[0, 0], **settings).fit(X, Y)
    with pytest.raises(ValueError, match="got 1 class"):
        sy.LogisticRegression(classes=[0], **settings).fit(X, Y)
    for odd in (2, "01", b"01"):
        with pytest.raises(InvalidTask, match="classes are a list"):
            sy.LogisticRegression(classes=odd, **settings).fit(X, Y)  # type: ignore[arg-type]


def test_an_epsilon_that_was_left_out_is_asked_for() -> None:
    with pytest.raises(InvalidTask, match="epsilon= says what a fit may spend"):
        sy.LogisticRegression(epsilon=None, classes=[0, 1], x_bound=1).fit(X, Y)  # type: ignore[arg-type]


def test_a_refusal_is_short_in_a_notebook_and_a_bug_is_not(session: sy.Session) -> None:
    with pytest.raises(SteelyardError) as refusal:
        session.release(sy.Sum("amout", epsilon=1, cap=3))
    shown = refusal.value._render_traceback_()
    assert len(shown) <= 4
    assert shown[-1].startswith("ColumnMissing: there is no column 'amout'")
    assert any("session.release" in line for line in shown)
    with pytest.raises(OurBug) as bug:
        raise OurBug("oh")
    assert bug.value._render_traceback_()[0].startswith("Traceback")


def test_a_reader_who_stops_is_left_quietly(tmp_path: Path) -> None:
    code = "import sys; from steelyard.cli import main; sys.exit(main(['audit', '--list', '--json']))"
    ended = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "{code}" | head -c 1'], capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == ("{", "")


def test_a_price_is_said_once() -> None:
    account = sy.open_account(":memory:", "a", unit=sy.users("user"), epsilon=1, delta="1e-6")
    session = sy.Session(sy.read({"user": [1], "x": [1.0]}), account)
    for task in (sy.Sum("x", epsilon=1, mu=1, cap=1), sy.Mean("x", epsilon=1, mu=1, lower=0, upper=1, cap=1)):
        with pytest.raises(InvalidTask, match="epsilon or mu, not both"):
            session.quote(task)
    assert not account.spent.amount
