"""Every figure and experiment of the five papers in one page: the claim, our picture, and whether what we find agrees.

    python bench/papers/all.py --quick [--out papers.html]     under a minute of processor time
    python bench/papers/all.py [--data FOLDER]                 the long form, about half an hour, most of it the holdout's
                                                               hundred repetitions; how long it took is on the page

The sentences are computed from the results, so they can be false. ``--only bounding models`` draws some of them;
``--pictures FOLDER`` saves each picture too. docs/papers.md says where everything else of the papers is.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from time import perf_counter, process_time

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from papers import (
    accuracy_first_figures,
    bounding_figures,
    capped_figures,
    holdout_figures,
    labels_figures,
    models_figures,
)
from papers.shown import AMIN, LEE, Check, Shown
from steelyard.charts import Report, Section, Tabular


def capped(quick: bool) -> list[Shown]:
    """Algorithm 1 by several mechanisms: noise, bias and their sum over caps, measured on released models."""
    rows, draws = (5_000, 2) if quick else (10_000, 5)
    ways = capped_figures.WAYS[: 2 if quick else 3]
    caps, charts, checks = capped_figures.CAPS, [], []
    for kind in ("linear", "logistic"):
        data = capped_figures.made(kind, rows, 1)
        for way in ways:
            found = capped_figures.curve(data, kind, way, 2.0, draws, rows)
            charts.append(capped_figures.panel(found, kind, way, f"{rows:,} rows of Pareto users, epsilon 2, pure"))
            total = found["total"]
            at = min(range(len(caps)), key=total.__getitem__)
            words = f"{kind}, {way}: {total[0]:.4f} at cap 1, least {total[at]:.4f} at {caps[at]}, {total[-1]:.4f} at {caps[-1]}"
            checks.append(Check(words, total[at] < min(total[0], total[-1])))
    claim = "a cap between the ends is best for a private model, because bias falls with the cap and noise rises."
    return [Shown(AMIN, "Algorithm 1, measured", claim, tuple(charts), tuple(checks))]


Drawer = Callable[[bool, Path | None], list[Shown]]
DRAWERS: dict[str, Drawer] = {
    "bounding": bounding_figures.figures,
    "models": lambda quick, _: models_figures.figures(quick),
    "capped": lambda quick, _: capped(quick),
    "labels": lambda quick, _: labels_figures.figures(quick),
    "holdout": lambda quick, _: [
        Shown(LEE, each.title, each.claim, (each.chart,), (Check(each.found, each.holds),))
        for each in holdout_figures.figures(quick)
    ],
    "accuracy": accuracy_first_figures.figures,
}


def page(shown: Sequence[Shown], seconds: float, quick: bool) -> Report:
    """The page: a summary, then every figure."""
    took, form = timedelta(seconds=round(seconds)), "quick" if quick else "long"
    lead = f"The {form} form, drawn in {took} of processor time. What is said under each picture is computed from it."
    rows = [(each.name, each.paper.split(":")[0], each.verdict) for each in shown]
    summary = Section("Summary", [Tabular(["figure", "paper", "what we find"], rows)])
    return Report("The papers, redrawn", [summary, *(each.section() for each in shown)], lead=lead)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer runs of everything")
    parser.add_argument("--only", nargs="+", choices=DRAWERS, default=list(DRAWERS))
    parser.add_argument("--data", type=Path, default=os.environ.get("STEELYARD_DATA"))
    parser.add_argument("--out", type=Path, default=Path("papers.html"))
    parser.add_argument("--pictures", type=Path, help="save the pictures into this folder too")
    options = parser.parse_args()
    shown, wall, began = [], perf_counter(), process_time()
    for name in options.only:
        found = DRAWERS[name](options.quick, options.data)
        for each in found:
            each.save(options.pictures)
        shown += found
        print(f"{name}: {process_time() - began:.0f} s of processor, {perf_counter() - wall:.0f} s in all", flush=True)
    print(page(shown, process_time() - began, options.quick).save(options.out))


if __name__ == "__main__":
    main()
