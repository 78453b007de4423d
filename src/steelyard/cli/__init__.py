"""The command line: parse, call, print.

Every command takes ``--json`` (one JSON document on standard output) and ``--plan`` (say what it would do and cost;
spend nothing). Exit codes: 0 done, 1 our bug, 2 invalid request or table, 3 privacy refusal, 4 ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Sequence

from steelyard import __version__
from steelyard.cli import _accounts as accounts
from steelyard.cli import _asking as asking
from steelyard.cli import _fitting as fitting
from steelyard.cli import _holdouts as holdouts
from steelyard.cli import _labelling as labelling
from steelyard.cli import _releases as releases
from steelyard.cli import _reports as reports
from steelyard.cli import _serving as serving
from steelyard.cli import _trying as trying
from steelyard.cli._files import show
from steelyard.errors import SteelyardError
from steelyard.requests import Reply

_BUG = "steelyard failed in a way it should not. Set STEELYARD_TRACEBACK=1 to see where, and please report it."


_NO_MEMORY = (
    "memory ran out; what was charged, if anything, stays charged, and a retry with the same --key costs nothing more."
)
_STOPPED = "stopped; what was charged stays charged, and a retry with the same --key costs nothing more."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    args = parser().parse_args(argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warned
            answer: Reply = args.run(args)
    except SteelyardError as error:
        return _fail(type(error).__name__, str(error), error.exit_code, as_json=args.json)
    except KeyboardInterrupt:
        return _fail("Interrupted", _STOPPED, 130, as_json=args.json)
    except MemoryError:
        return _fail("OutOfMemory", _NO_MEMORY, 2, as_json=args.json)
    except (SystemExit, GeneratorExit):
        raise
    except BaseException:  # a panic of an engine is no Exception, and its words may depend on rows
        if os.environ.get("STEELYARD_TRACEBACK"):
            raise
        return _fail("OurBug", _BUG, 1, as_json=args.json)
    show(json.dumps(answer.data, sort_keys=True) if args.json else answer.text)
    return answer.exit_code


def parser() -> argparse.ArgumentParser:
    """The whole command tree."""
    root = argparse.ArgumentParser(
        prog="steelyard",
        description="Differential privacy at the right operating point: find it, release, and write down the cost.",
        epilog="Start with: steelyard demo",
    )
    root.add_argument("--version", action="version", version=f"steelyard {__version__}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    rooms = (accounts, releases, asking, reports, labelling, fitting, holdouts, serving)
    for add in (trying.add_demo, *(room.add_commands for room in rooms), trying.add_audit):
        add(commands, _shared())
    return root


def _shared() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    shared.add_argument(
        "--plan", action="store_true", help="say what would be done and what it would cost; spend nothing"
    )
    return shared


def _warned(message: Warning | str, *where: object, **more: object) -> None:
    """A warning as one line for a person, without the place in our code."""
    show(f"warning: {message}", error=True)


def _fail(kind: str, message: str, code: int, *, as_json: bool) -> int:
    if as_json:
        show(json.dumps({"error": {"kind": kind, "message": message, "exit_code": code}}, sort_keys=True))
    else:
        show(f"{kind}: {message}", error=True)
    return code
