"""The files of a command: tables it reads with stated types, and outputs it reserves before anything is paid for.

An output is written to a new file with a name nobody can guess, in the folder of its target, and moved into place when it
is whole. So a planted link is never followed, an unwritable folder is told before a charge, and a half-written file is
never left. A file that is already there is replaced only with ``--overwrite``, and a ledger, its key or the data never.
Law: once something was paid for, its answer is told whatever happens to the file.
"""

from __future__ import annotations

import argparse
import csv
import glob
import os
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.requests import types_typed

_LEDGER_SUFFIXES = (".key", ".anchor", ".lock", ".db", "-wal", "-shm", "-journal")  # a ledger may have any name itself
_LEDGER_START = b"SQLite format 3\0"


def add_types(command: argparse.ArgumentParser) -> None:
    """The options that say how a file is read: its format, and of a CSV file the types of its columns and what separates them."""
    command.add_argument(
        "--types",
        metavar="COLUMN:TYPE,…",
        help="CSV: the types of columns (integer, float, boolean, string); those added up are float, the others text",
    )
    command.add_argument(
        "--delimiter", metavar="CHARACTER", help="CSV: what separates cells, such as ';' (default: a comma)"
    )
    command.add_argument("--names", metavar="NAME,…", help="CSV without a header line: the names of its columns")
    command.add_argument(
        "--header", action="store_true", help="CSV: the first line names the columns, though it holds a number or a day"
    )
    command.add_argument(
        "--format", choices=("parquet", "csv"), help="the format, where the file's name does not tell it"
    )


def open_table(args: argparse.Namespace, numbers: Iterable[str] = ()) -> Any:
    """The table a command names; in a CSV file, which states no types, the columns it adds up are numbers."""
    from steelyard.tables import is_csv, read

    stated = types_typed(args.types)
    given = {"format": args.format, "delimiter": {"\\t": "\t"}.get(args.delimiter, args.delimiter)}
    told: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    told |= {"names": list(next(csv.reader([args.names])))} if args.names else {}
    told |= {"header": True} if args.header else {}
    if args.format == "csv" or (args.format is None and is_csv(args.data)):
        return read(args.data, types={**dict.fromkeys(numbers, "float"), **stated}, **told)
    told |= {"types": stated} if stated else {}
    return read(args.data, **told)


def add_overwrite(command: argparse.ArgumentParser) -> None:
    """The option that lets an output replace a file."""
    command.add_argument("--overwrite", action="store_true", help="replace a file that is already there")


@dataclass(frozen=True)
class Output:
    """A file to be written: ``part`` exists already, and becomes ``path`` when it is whole."""

    path: str
    part: str
    overwrite: bool

    def write(self, save: Callable[[str], Any]) -> str | None:
        """Save to the reserved file and move it into place; what went wrong, or None."""
        try:
            save(self.part)
            os.chmod(self.part, 0o666 & ~_umask())
            self._place()
        except OSError as problem:
            self.discard()
            return f"{self.path} could not be written ({problem.strerror or type(problem).__name__})"
        return None

    def _place(self) -> None:
        if self.overwrite:
            os.replace(self.part, self.path)
            return
        os.close(os.open(self.path, os.O_CREAT | os.O_EXCL))  # fails over a file that came meanwhile
        try:
            os.replace(self.part, self.path)
        except OSError:
            os.unlink(self.path)
            raise

    def discard(self) -> None:
        """Leave nothing behind."""
        Path(self.part).unlink(missing_ok=True)


class Outputs:
    """The outputs of one command, by path; use it as a context, so that what was not written leaves nothing behind."""

    def __init__(self, args: argparse.Namespace, *paths: str | None, inputs: Sequence[str | None] = ()) -> None:
        self._overwrite = bool(getattr(args, "overwrite", False))
        self._plan = args.plan
        self._inputs = [found for each in inputs if each for found in (each, *glob.glob(each, recursive=True))]
        self._held: dict[str, Output] = {}
        self._paths = [path for path in paths if path]
        self.problems: list[str] = []

    def __enter__(self) -> Outputs:
        wanted = [] if self._plan else self._paths
        for path in wanted:
            self._check(path)
        if len({os.path.realpath(path) for path in wanted}) < len(wanted):
            raise InvalidTask(f"{' and '.join(wanted)} are one file; choose another name for one of them.")
        try:
            for path in wanted:
                self._held[path] = self._reserve(path)
        except InvalidTask:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for output in self._held.values():
            output.discard()

    def write(self, path: str, save: Callable[[str], Any]) -> None:
        """Write one output; a file that cannot be written is kept for ``problems``, since its answer was paid for."""
        problem = self._held[path].write(save)
        if problem is not None:
            self.problems.append(problem)

    def write_now(self, path: str, save: Callable[[str], Any]) -> None:
        """Write one output for which nothing was paid; a file that cannot be written is an error."""
        self.write(path, save)
        if self.problems:
            raise InvalidTask(f"{self.problems[0]}.")

    def _check(self, path: str) -> None:
        folder = Path(path).absolute().parent
        if not folder.is_dir():
            raise InvalidTask(f"there is no folder {folder} to write to.")
        if not _is_there(path):
            if path.endswith(_LEDGER_SUFFIXES):
                raise InvalidTask(f"{path} is named as a ledger's file is; choose another name.")
            return
        if not os.path.isfile(path) or os.path.islink(path):
            raise InvalidTask(f"{path} is not a plain file; choose another name.")
        if any(os.path.exists(each) and os.path.samefile(path, each) for each in self._inputs):
            raise InvalidTask(f"{path} is read by this very command; choose another name.")
        if path.endswith(_LEDGER_SUFFIXES) or _starts(path) == _LEDGER_START:
            raise InvalidTask(f"{path} belongs to a ledger or a database, which is never written over.")
        if not self._overwrite:
            raise InvalidTask(f"{path} exists; choose another name, or add --overwrite.")

    def _reserve(self, path: str) -> Output:
        try:
            held, part = tempfile.mkstemp(
                prefix=".steelyard-", suffix=Path(path).suffix, dir=Path(path).absolute().parent
            )
        except OSError as problem:
            raise InvalidTask(f"{path} cannot be written ({problem.strerror}); nothing was charged.") from None
        os.close(held)
        return Output(path, part, self._overwrite)


def check_chart(args: argparse.Namespace) -> None:
    """Refuse a chart that cannot be drawn, before anything is spent on what it shows."""
    if args.chart:
        from steelyard.charts import check_target

        check_target(args.chart)


def save_chart(args: argparse.Namespace, draw: Callable[[], Any], inputs: Sequence[str | None] = ()) -> None:
    """Draw what nothing was paid for, where a chart was asked for; a plan only looks whether it could."""
    if args.chart:
        with Outputs(args, args.chart, inputs=inputs) as files:
            if not args.plan:
                files.write_now(args.chart, draw().save)


def key_of(args: argparse.Namespace) -> str:
    """The request's key; one is made up where none was given, so that it can be told if it is needed again."""
    return args.key or secrets.token_hex(16)


def told(problems: Sequence[str], key: str) -> list[str]:
    """What to say of files that could not be written after the payment."""
    again = f"the answer above was charged and is stored; ask again with --key {key} to write it for nothing"
    return [*(f"warning: {problem}" for problem in problems), again] if problems else []


def printable(text: str) -> str:
    """A text that cannot steer a terminal: control characters are written out, except line ends and tabs."""
    kept = "\n\t"
    return "".join(c if c in kept or c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _is_there(path: str) -> bool:
    """Whether a name is taken; one that no file can have is refused."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        if path.endswith(os.sep):
            raise InvalidTask(f"{path} names a folder; give the name of a file.") from None
        return False
    except OSError as problem:
        raise InvalidTask(f"{path} cannot be written ({problem.strerror}); nothing was charged.") from None
    return True


def _starts(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(len(_LEDGER_START))
    except OSError:
        return b""


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def show(text: str, *, error: bool = False) -> None:
    """Print a text for a person; one who stops reading (``| head -1``) has read enough."""
    stream = sys.stderr if error else sys.stdout
    try:
        print(printable(text), file=stream, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # or the flush at the end would complain again


@contextmanager
def waiting(stage: str) -> Iterator[None]:
    """Say on a terminal which stage is running once it takes over two seconds; never anything about rows."""
    done = threading.Event()
    if sys.stderr.isatty():
        threading.Thread(target=_tick, args=(stage, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _tick(stage: str, done: threading.Event) -> None:
    start = time.monotonic()
    if done.wait(2):
        return
    while not done.wait(1):
        print(f"\r… {stage} ({time.monotonic() - start:.0f} s)", end="", file=sys.stderr, flush=True)
    print("\r" + " " * (len(stage) + 20) + "\r", end="", file=sys.stderr, flush=True)
