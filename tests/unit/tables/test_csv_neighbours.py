"""One record of a CSV file leaves the others as they are, whatever it holds and wherever it lies."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from steelyard.tables import _files as files
from steelyard.tables import read

LINE_ENDS = [b"\n", b"\r\n", b"\r"]
BUFFER = 2000
ROWS = 200_000
PLAIN = [
    b"a",
    b" ",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b'a"b',
    b"\\",
    "é".encode(),
    b"\t",
    b"k" * (BUFFER // 3),
    b"#",
    b"'",
]
QUOTED = [*PLAIN[:5], b'""', b"\n", b",", b"\r\n", b"\r", b"z,y\n", b"u7,7\n" * 30, b"k" * (BUFFER // 3), b"\\"]


def record(chance: random.Random) -> bytes:
    """Cells that are quoted whole or not at all, too few or too many of them, and odd line ends."""
    cells = []
    for _ in range(chance.choice([1, 2, 2, 2, 3, 5])):
        quoted = chance.random() < 0.4
        content = b"".join(chance.choices(QUOTED if quoted else PLAIN, k=chance.randrange(5)))
        cells.append(b'"' + content + b'"' if quoted else content)
    return b",".join(cells) + chance.choice([b"", b"", b"\r", b"\r\r", b"\n", b"\r\n", b"\n\r"])


@pytest.mark.parametrize("seed", range(3))
def test_no_record_changes_another_on_whatever_border_of_buffers_it_lies(seed: int, tmp_path: Path) -> None:
    chance, connection, path = random.Random(seed), duckdb.connect(), tmp_path / "t.csv"
    for _ in range(100):
        end, number = chance.choice(LINE_ENDS), chance.choice([5, 50, 300])
        lines = [f"u{i},{i}{'a' * chance.randrange(20)}".encode() for i in range(number)]
        odd = [*lines]
        odd.insert(chance.randrange(number + 1), record(chance))
        path.write_bytes(end.join([b"u,v", *odd, b""]))
        small = f"parallel = false, buffer_size = {BUFFER}, max_line_size = {BUFFER // 4}"
        found = connection.execute(files._csv([str(path)], {}).replace("parallel = false", small)).fetchall()
        assert not Counter(tuple(line.decode().split(",")) for line in lines) - Counter(found)


def survivors(path: Path) -> int:
    (answer,) = read(path)._engine.rows("SELECT count(*) FROM steelyard_source WHERE starts_with(u, 'u')", ["u"])
    return int(answer[0])


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Rows of 300 bytes, and a well-formed record of several lines where a second thread would begin."""
    lines = [b"u%09d,%0288d\n" % (i, i) for i in range(ROWS)]
    lines.insert(8_000_000 // 300 - 15, b'x,"' + b"a,b\n" * 2500 + b'"\n')
    (tmp_path / "large.csv").write_bytes(b"u,v\n" + b"".join(lines))
    return tmp_path / "large.csv"


def test_a_record_of_several_lines_drops_nobody_on_a_border_of_threads(large: Path) -> None:
    assert survivors(large) == ROWS


def test_the_twin_that_reads_with_several_threads_is_caught(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one: Any = files._csv
    monkeypatch.setattr(files, "_csv", lambda *given: one(*given).replace("parallel = false", "parallel = true"))
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda name, config: connect(name, config={**config, "threads": "2"}))
    assert survivors(large) < ROWS
