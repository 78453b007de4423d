"""One figure redrawn: what was said of it, our pictures, and whether what we find agrees."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from steelyard.charts import Chart, Code, Section

AMIN = "Amin, Kulesza, Muñoz Medina, Vassilvitskii: Bounding User Contributions (2019)"
BADANIDIYURU = "Badanidiyuru et al.: Optimal Unbiased Randomizers for Regression with Label Differential Privacy (2023)"
LEE = "Lee: Differential Privacy for Adaptive Queries (notes on Dwork et al. 2015)"
NEEL = "Neel, Waggoner, Ligett, Wu, Roth: Accuracy First (2017)"


@dataclass(frozen=True)
class Check:
    """A statement with its numbers, and whether they bear it out."""

    words: str
    holds: bool


@dataclass(frozen=True)
class Shown:
    """A figure of a paper: its name there, the claim in our words, the pictures, and what was checked of it."""

    paper: str
    name: str
    claim: str
    charts: tuple[Chart, ...]
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> str:
        """One word for all checks."""
        held = sum(check.holds for check in self.checks)
        return "agrees" if held == len(self.checks) else "agrees in part" if held else "does not agree"

    def save(self, folder: Path | None) -> None:
        """Print what was found, and draw into a folder if one is given."""
        for check in self.checks:
            print(f"{self.name}: {'yes' if check.holds else 'NO'}: {check.words}", flush=True)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for chart in self.charts:
                name = re.sub(r"[^a-z0-9]+", "_", chart.title.lower()).strip("_")
                print(chart.save(folder / f"{name}.svg"))

    def section(self) -> Section:
        """The figure as a section of a page."""
        found = "\n".join(f"{'yes' if check.holds else 'NO '}  {check.words}" for check in self.checks)
        claim = f"Claimed: {self.claim}"
        return Section(f"{self.name}: {self.verdict}", [self.paper, claim, *self.charts, Code(found, "What was found")])
