"""``steelyard plan``: what a saved profile says about caps, for nothing."""

from __future__ import annotations

import argparse
from typing import Any

from steelyard.cli.answer import Answer, columns
from steelyard.cli.files import Outputs, add_overwrite
from steelyard.release import figure


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``plan``."""
    plan = commands.add_parser("plan", parents=[shared], help="the best cap for an epsilon, from a saved profile; free")
    plan.add_argument("profile", help="a profile saved by steelyard profile --out")
    plan.add_argument("--epsilon", help="what the release will spend")
    plan.add_argument("--delta", help="with it the release is Gaussian")
    plan.add_argument("--mu", help="the same as mu")
    plan.add_argument("--chart", metavar="FILE", help="draw the trade-off: .svg, .png or .html")
    add_overwrite(plan)
    plan.set_defaults(run=_plan)


def _plan(args: argparse.Namespace) -> Answer:
    from steelyard.bounding import ContributionProfile
    from steelyard.charts import check_target

    curve = ContributionProfile.load(args.profile).plan(args.epsilon, mu=args.mu, delta=args.delta)
    best = curve.best
    if args.chart:
        check_target(args.chart)
        with Outputs(args, args.chart, inputs=[args.profile]) as files:
            if not args.plan:
                files.write_now(args.chart, curve.chart(f"Predicted from {args.profile}").save)
    lines = [
        ("best cap", figure(best.cap)),
        ("expected noise", figure(best.noise)),
        ("expected bias", figure(best.bias)),
        ("expected error", figure(best.error)),
    ]
    data = {"best": {"cap": best.cap, "noise": best.noise, "bias": best.bias, "error": best.error}}
    return Answer(columns(lines), {**data, "curve": curve.to_json()})
