"""Commands of ``steelyard fit`` and ``predict``, run in this process, for tests."""

from __future__ import annotations

import argparse
from typing import Any

from steelyard.cli import _fitting as fitting
from steelyard.requests import Reply

FEATURES = ("--features", "age:0:100", "land=FR,DE", "--label", "spend", "--lower", 0, "--upper", 400)
"""What a fit to the table of spending is told."""


def command(*words: Any) -> Reply:
    """What a command answers; an error is raised."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--plan", action="store_true")
    shared.add_argument("--json", action="store_true")
    root = argparse.ArgumentParser()
    fitting.add_commands(root.add_subparsers(), shared)
    args = root.parse_args([str(word) for word in words])
    answer: Reply = args.run(args)
    return answer
