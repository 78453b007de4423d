"""Who may do what: the permission table as data, and one function that reads it. Deny unless named.

A role is held in a thing: the custodian or an analyst of a set, the author of a release, a competitor on a board. An officer is one
everywhere and holds no other role, so that whoever approves a budget cannot spend it, and whoever spends cannot approve.
"""

from __future__ import annotations

from collections.abc import Mapping

ROLES = ("officer", "custodian", "analyst", "author", "reader", "competitor", "visitor", "signed in", "nobody")
"""``author`` asked for a release, ``reader`` may see it because it was published, ``visitor`` may see a board that is open to all."""

RIGHTS: Mapping[str, frozenset[str]] = {
    act: frozenset(roles)
    for act, roles in {
        "see a set": ("officer", "custodian", "analyst"),
        "make a set": ("officer",),
        "register a source": ("custodian",),
        "propose an account": ("custodian",),
        "approve an account": ("officer",),
        "see proposals": ("officer",),
        "manage members": ("custodian",),
        "see members": ("officer", "custodian"),
        "plan": ("officer", "custodian", "analyst"),
        "ask": ("analyst",),
        "see a release": ("officer", "custodian", "author", "reader"),
        "list releases": ("officer", "custodian", "analyst"),
        "publish a release": ("custodian",),
        "open a board": ("custodian",),
        "run a board": ("custodian",),
        "see a board": ("officer", "custodian", "analyst", "competitor", "visitor"),
        "submit": ("competitor",),
        "see a submission": ("officer", "custodian", "author"),
        "see spending": ("officer",),
        "verify": ("officer",),
        "export": ("officer",),
        "see acts": ("officer",),
        "see metrics": ("officer",),
        "manage people": ("officer",),
        "be oneself": ("signed in",),
        "come in": ("nobody", "signed in"),
        "look": ("nobody", "signed in"),
    }.items()
}
SEEN_BY = {"set": "see a set", "board": "see a board", "release": "see a release", "submission": "see a submission"}
"""The act that tells whether somebody knows of a thing at all; who does not is told that it is not there."""


def may(roles: frozenset[str], act: str) -> bool:
    """Whether one of these roles may do this; an act that is not in the table is nobody's."""
    return bool(roles & RIGHTS.get(act, frozenset()))


def explain(roles: frozenset[str], act: str) -> str:
    """A decision in a sentence: which roles may, which are held."""
    allowed, held = sorted(RIGHTS.get(act, frozenset())), sorted(roles)
    decision = "allowed" if may(roles, act) else "refused"
    return f"{decision}: {act!r} is for {', '.join(allowed) or 'nobody'}; held here: {', '.join(held) or 'nothing'}."
