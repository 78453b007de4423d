"""``steelyard labels fit|apply|verify|chart``: make a label randomizer, use it on a file, judge it, look at it."""

from __future__ import annotations

import argparse
from fractions import Fraction
from typing import Any

from steelyard.cli._files import Outputs, add_overwrite, waiting
from steelyard.documents import read_document
from steelyard.errors import InvalidTask, UnitMismatch
from steelyard.privacy import whole_number
from steelyard.requests import Reply, columns


def add_commands(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add ``labels`` and its four verbs."""
    verbs = commands.add_parser("labels", help="make labels private one by one, without bias").add_subparsers(
        metavar="VERB", required=True
    )
    _add_fit(verbs, shared)
    apply = verbs.add_parser("apply", parents=[shared], help="copy a Parquet or CSV file with its labels made private")
    apply.add_argument("randomizer", help="a randomizer saved by labels fit")
    apply.add_argument("data", help="a Parquet or CSV file")
    apply.add_argument("out", help="the Parquet or CSV file to write; it must not exist")
    apply.add_argument("--column", help="the label column (default: the one it was fitted for)")
    apply.add_argument("--ids", metavar="COLUMN", help="record ids: each record is drawn once, whatever the file")
    apply.add_argument(
        "--groups", metavar="COLUMN", help="the column of public groups, where it was fitted with groups"
    )
    apply.add_argument("--key", help="with --ids: the name of the collection of records, one charge for all of it")
    apply.add_argument(
        "--spark",
        metavar="MASTER",
        help="let the executors of this cluster do it: a folder of Parquet files in and out",
    )
    _paid(apply, required=True)
    apply.set_defaults(run=_apply)
    verify = verbs.add_parser(
        "verify", parents=[shared], help="re-prove every claim of a saved randomizer; exit 0 or 2"
    )
    verify.add_argument("randomizer", help="a saved randomizer or mechanism")
    verify.add_argument("--ledger", help="the ledger that must hold the charge of a private prior")
    verify.set_defaults(run=_verify)
    chart = verbs.add_parser("chart", parents=[shared], help="draw a saved randomizer")
    chart.add_argument("randomizer")
    chart.add_argument("out", help=".svg, .png or .html")
    chart.add_argument("--group", help="which group's mechanism to draw, where there are groups")
    chart.add_argument("--errors", action="store_true", help="bias and deviation by label instead of probabilities")
    add_overwrite(chart)
    chart.set_defaults(run=_chart)


def _add_fit(verbs: Any, shared: argparse.ArgumentParser) -> None:
    fit = verbs.add_parser("fit", parents=[shared], help="make a randomizer and save it")
    fit.add_argument("data", help="a Parquet or CSV file; its rows are read for a private prior only")
    fit.add_argument("column", help="the label column")
    fit.add_argument("--epsilon", required=True, help="what prior and labels may spend together")
    fit.add_argument("--lower", required=True, help="the public least label; lower ones count as this")
    fit.add_argument("--upper", required=True, help="the public largest label; larger ones count as this")
    fit.add_argument("--missing", help="the public value that labels which are no number count as (default: lower)")
    fit.add_argument("--nodes", type=whole_number, help="how many labels to tell apart (default: integers, else 257)")
    fit.add_argument("--method", default="auto", help="auto (default), unbiased, two_point, rr_on_bins, …")
    fit.add_argument(
        "--allow-bias",
        action="store_true",
        help="let auto trade bias for variance under the prior, by the number of rows",
    )
    fit.add_argument("--loss", default="squared", help="the loss a model is trained with (default squared)")
    fit.add_argument(
        "--noise-loss",
        help="what method unbiased makes least between noisy and true labels: squared (default) or absolute",
    )
    fit.add_argument("--outputs", nargs=2, metavar=("LOW", "HIGH"), help="with --noise-loss: the range of noisy labels")
    fit.add_argument("--prior", default="none", help="none (default), private, or a JSON file of public weights")
    fit.add_argument(
        "--groups", metavar="COLUMN", help="public groups, each with a mechanism of its own, for one epsilon"
    )
    fit.add_argument("--key", help="a name for the purchase of the prior, so that a retry is free")
    fit.add_argument("--out", required=True, metavar="FILE", help="where to save the randomizer")
    _paid(fit, required=False)
    fit.set_defaults(run=_fit)


def _paid(command: argparse.ArgumentParser, *, required: bool) -> None:
    command.add_argument("--ledger", required=required, help="the ledger that holds the account")
    command.add_argument("--account", required=required, help="the account that pays")


def _account(args: argparse.Namespace) -> Any:
    from steelyard.ledger import Ledger

    if (args.ledger is None) != (args.account is None):
        raise InvalidTask("--ledger and --account go together.")
    return None if args.ledger is None else Ledger(args.ledger).account(args.account)


def _fit(args: argparse.Namespace) -> Reply:
    from steelyard.labels import LabelFile, LabelRandomizer

    account, file = _account(args), LabelFile(args.data, args.column, groups=args.groups)
    if args.prior == "private" and account is None:
        raise InvalidTask("a private prior is paid for: give --ledger and --account.")
    missing = args.lower if args.missing is None else args.missing
    made = LabelRandomizer(
        args.epsilon, args.lower, args.upper, args.method, _prior(args.prior), args.loss, account,
        nodes=args.nodes, missing=missing, column=args.column, unbiased=not args.allow_bias,
        noise_loss=args.noise_loss, outputs=args.outputs,
    )  # fmt: skip
    known = file.known_groups()
    planned = made.plan(file.rows, len(known))
    spends = {name: loss.to_json() for name, loss in planned.items()}
    told = [("prior", str(planned["prior"])), ("labels", f"{planned['labels']}, when they are randomized")]
    if args.plan:
        return Reply("would spend\n" + columns(told), {"plan": spends})
    with Outputs(args, args.out, inputs=(args.data, args.ledger, args.prior)) as files:
        with waiting("making the mechanism"):
            nodes, missing_value = made.grid()
            count, of = lambda: file.counts(nodes, missing_value, known), f"column {args.column!r} of {args.data!r}"
            made.fit_counts(count, file.rows, key=args.key, groups=known, of=of)
        files.write(args.out, made.save)
    answer = _described(made, told, {"spends": spends, "saved": args.out})
    if not files.problems:
        return answer
    again = "what the prior cost stays charged; with --key it can be asked for again for nothing"
    return Reply("\n".join([answer.text, f"warning: {files.problems[0]}; {again}"]), answer.data, exit_code=2)


def _prior(text: str) -> Any:
    if text in ("none", "private"):
        return None if text == "none" else text
    return read_document(text, "none, private or a JSON file of weights")


def _described(made: Any, told: list[tuple[str, str]], data: dict[str, Any]) -> Reply:
    parts = [made] if made.groups_ is None else list(made.groups_.values())
    tables = [made.mechanism_] if made.groups_ is None else [part.mechanism for part in parts]
    methods = [made.method_] if made.groups_ is None else sorted({part.method for part in parts})
    bias = max(abs(b) for table in tables for b in table.bias())
    worst = max(float(max(table.errors())) for table in tables) ** 0.5
    lines = [
        *([("groups", str(len(made.groups_)))] if made.groups_ is not None else []),
        ("method", ", ".join(methods)),
        ("labels", f"{len(tables[0].inputs)} in, {', '.join(sorted({_out(table) for table in tables}))} out"),
        ("bias", "none, exactly" if bias == 0 else f"up to {float(bias):.4g}"),
        ("worst error", f"{worst:.6g} for one label (root mean square)"),
    ]
    source = made.prior_.source if made.groups_ is None else parts[0].prior.source
    facts = {"method": ", ".join(methods), "bias": float(bias), "worst_error": worst, "prior": source}
    if made.groups_ is not None:
        facts["groups"] = list(made.groups_)
    return Reply(columns([*lines, *((f"{name} spends", text) for name, text in told)]), {**facts, **data})


def _out(mechanism: Any) -> str:
    outputs = getattr(mechanism, "outputs", None)
    return "endlessly many" if outputs is None else str(len(outputs))


def _apply(args: argparse.Namespace) -> Reply:
    from steelyard.labels import LabelRandomizer, read

    account = _account(args)
    with waiting("checking the randomizer"):
        made = LabelRandomizer.load(args.randomizer, account=account)
    column = args.column or read(args.randomizer)["column"]
    if account.terms.unit.column != column:
        raise UnitMismatch(f"the account hides {account.terms.unit}; the labels to randomize are {column!r}.")
    cost = made.price()
    if args.plan:
        enough = cost <= account.remaining
        text = columns([("would spend", str(cost)), ("left now", str(account.remaining)), ("enough", str(enough))])
        return Reply(text, {"cost": cost.to_json(), "enough": enough})
    with waiting("randomizing"):
        rows = _randomized(made, args, column)
    data = {"rows": rows, "out": args.out, "guarantee": made.guarantee_.to_json()}
    return Reply(f"{rows:,} labels randomized into {args.out}\n{made.guarantee_}", data)


def _randomized(made: Any, args: argparse.Namespace, column: str) -> int:
    """Copy the records with noisy labels, here or by the executors of a cluster; how many there are."""
    if args.spark is None:
        from steelyard.labels import randomize_parquet

        return int(randomize_parquet(made, args.data, args.out, column, ids=args.ids, groups=args.groups, key=args.key))
    from steelyard.labels import randomize_spark
    from steelyard.tables import spark_frame

    if args.key is not None:
        raise InvalidTask(
            "--key names a collection that is kept on one machine; with --spark every call is a charge of its own."
        )
    place = args.data if "/" in args.data else f"./{args.data}"
    return int(
        randomize_spark(made, spark_frame(args.spark, place), args.out, column, ids=args.ids, groups=args.groups)
    )


def _verify(args: argparse.Namespace) -> Reply:
    from steelyard.labels import judge, read

    data = read(args.randomizer)
    with waiting("checking in exact arithmetic"):
        report = judge(data)
    findings = [*report.findings, *(_charge(data, args.ledger) if args.ledger and report.passed else [])]
    gap = None if report.gap is None else float(report.gap)
    open_ = list(report.unproved)
    facts = {"passed": not findings, "findings": findings, "bias": _text(report.bias), "gap": gap, "unproved": open_,
             "loss": report.loss}  # fmt: skip
    if findings:
        return Reply("\n".join(["does NOT hold:", *findings]), facts, exit_code=2)
    bias = "bias exactly zero" if not report.bias else f"bias up to {float(report.bias):.4g}, as declared"
    held = "privacy, row sums" if report.rounding is not None else "privacy, the widths of grid and noise"
    if report.rounding is None:
        bias += " before outputs become floats"
    elif report.rounding:
        bias += f" (and up to {float(report.rounding):.1g} where outputs become floats)"
    told = (
        "no optimality is claimed"
        if gap is None
        else f"{report.loss} error proved within {gap:.2g} of the least possible"
    )
    if report.ends is not None:
        told += f" with outputs from {float(report.ends[0]):g} to {float(report.ends[1]):g}"
    lines = [f"holds: {held}; {bias}; {told}.", *(f"not proved here: {text}." for text in open_)]
    if args.ledger:
        lines.append(f"the receipt is one of {args.ledger}; that its counts are the prior's was not looked at.")
    return Reply("\n".join(lines), facts)


def _charge(data: dict[str, Any], ledger: str) -> list[str]:
    from steelyard.account import Receipt
    from steelyard.ledger import Ledger

    receipt = next((part["prior"]["receipt"] for part in data.get("groups", {}).values()), None)
    if receipt is None:
        return ["there is no charge to look for: the prior was not bought"]
    return list(Ledger(ledger).verify(receipts=[Receipt.from_json(receipt)]).findings)


def _text(bias: Fraction | None) -> str | None:
    return None if bias is None else str(bias)


def _chart(args: argparse.Namespace) -> Reply:
    from steelyard.labels import draw_errors, draw_mechanism, read, restore

    named = restore(read(args.randomizer))
    wanted = args.group if args.group is not None else ""
    if wanted not in named:
        raise InvalidTask(f"--group is one of {', '.join(named)}; got {args.group!r}.")
    drawn = (draw_errors if args.errors else draw_mechanism)(named[wanted].mechanism, named[wanted].method)
    with Outputs(args, args.out, inputs=(args.randomizer,)) as files:
        if not args.plan:
            files.write_now(args.out, drawn.save)
    return Reply(f"{'would draw' if args.plan else 'drawn'}: {args.out}", {"out": args.out})
