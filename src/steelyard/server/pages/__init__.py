"""Pages for people: the same nouns as the API, drawn by the server; one file for each page. Every page works without a script."""

from __future__ import annotations

from steelyard.server.pages import (
    _boards,
    _enter,
    _home,
    _manage,
    _me,
    _officer,
    _plan,
    _releases,
    _rights,
    _sets,
    _static,
)
from steelyard.server.pages._parts import show_problem

_PAGES = (_static, _enter, _home, _me, _rights, _sets, _manage, _plan, _releases, _boards, _officer)
ENDPOINTS = tuple(endpoint for each in _PAGES for endpoint in each.ENDPOINTS)
"""Every address of a page, with who may open it and what draws it."""

__all__ = ["ENDPOINTS", "show_problem"]
