"""What an audit found: one line per check, and whether a promise was broken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """One question that was asked, and its answer in words."""

    name: str
    ok: bool
    text: str

    def __str__(self) -> str:
        return f"{'ok    ' if self.ok else 'BROKEN'}  {self.name}: {self.text}"


@dataclass(frozen=True)
class Verdict:
    """Everything that was asked about one subject.

    ``ok`` means that no check found a broken promise. It is not a proof: a check by sampling sees only what its
    samples can show, and a replay only the tables it tried.
    """

    subject: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """No promise was seen to break (and at least one check was made)."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def findings(self) -> tuple[str, ...]:
        """What broke, in words."""
        return tuple(f"{check.name}: {check.text}" for check in self.checks if not check.ok)

    def __str__(self) -> str:
        head = f"{self.subject}: " + ("no violation found" if self.ok else "BROKEN")
        return "\n".join([head, *(f"  {check}" for check in self.checks)])

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary."""
        checks = [{"name": c.name, "ok": c.ok, "text": c.text} for c in self.checks]
        return {"subject": self.subject, "ok": self.ok, "checks": checks}
