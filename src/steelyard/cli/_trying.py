"""``steelyard demo|audit``: see the whole path on made-up data; try to break every promise that is shipped."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import PrivacyError
from steelyard.privacy import whole_number
from steelyard.requests import Reply

if TYPE_CHECKING:
    from steelyard.audit import Verdict

_NOTE = "No violation found is not a proof: see docs/audit.md for what these checks can and cannot show."


def add_demo(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``demo``."""
    demo = commands.add_parser("demo", parents=[shared], help="the whole path on made-up data, ending in a report")
    demo.add_argument("--folder", default="steelyard-demo", help="where its files go (default: steelyard-demo)")
    demo.set_defaults(run=_demo)


def add_audit(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``audit``."""
    audit = commands.add_parser("audit", parents=[shared], help="try to break every mechanism and task that is shipped")
    audit.add_argument(
        "names", nargs="*", metavar="NAME", help="what to audit, such as laplace or sum (default: everything)"
    )
    audit.add_argument(
        "--samples", type=whole_number, metavar="N", help="samples a side where an audit samples (default 400000)"
    )
    audit.add_argument("--quick", action="store_true", help="fewer tables and samples: seconds instead of a minute")
    audit.add_argument(
        "--jobs", type=whole_number, default=min(2, os.cpu_count() or 1), help="processes to use (default 2)"
    )
    audit.add_argument("--list", action="store_true", help="say what can be audited, and stop")
    audit.set_defaults(run=_audit)


def _demo(args: argparse.Namespace) -> Reply:
    from steelyard.demo import STEPS, run_tour

    if args.plan:
        steps = [f"{number}. {step}" for number, step in enumerate(STEPS, 1)]
        return Reply("\n".join(["would, spending nothing of yours:", *steps]), {"steps": list(STEPS)})
    found = run_tour(Path(args.folder), quiet=args.json)
    return Reply(f"\nAll of it, with pictures: {found['report']}", found)


def _audit(args: argparse.Namespace) -> Reply:
    from steelyard import audit

    names = audit.select(args.names)
    if args.list or args.plan:
        about = {name: repr(item.subject) for name, item in audit.registry().items() if name in names}
        text = "\n".join(f"{name:26} {what[:90]}" for name, what in about.items())
        return Reply(text, {"plan": about})
    verdicts = audit.run(args.names, samples=args.samples, quick=args.quick, jobs=args.jobs, finished=_progress)
    return _answer(verdicts)


def _progress(verdict: Verdict) -> None:
    if sys.stderr.isatty():
        print(f"{'ok' if verdict.ok else 'BROKEN':6}  {verdict.subject}", file=sys.stderr, flush=True)


def _answer(verdicts: list[Verdict]) -> Reply:
    broken = [verdict for verdict in verdicts if not verdict.ok]
    checks = sum(len(verdict.checks) for verdict in verdicts)
    head = f"{len(verdicts)} audited, {checks} checks, " + (
        f"{len(broken)} BROKEN: {', '.join(v.subject for v in broken)}" if broken else f"no violation found.\n{_NOTE}"
    )
    text = "\n".join([*map(str, verdicts), "", head])
    data = {"ok": not broken, "checks": checks, "verdicts": [verdict.to_json() for verdict in verdicts]}
    return Reply(text, data, PrivacyError.exit_code if broken else 0)
