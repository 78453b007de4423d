"""The API under /api/v1: the same nouns as the pages, as JSON; one file for each noun, whose lines make up the table of routes."""

from __future__ import annotations

from steelyard.server.api import _boards, _budgets, _me, _officer, _releases, _sets

ENDPOINTS = tuple(line for noun in (_me, _sets, _budgets, _releases, _boards, _officer) for line in noun.ENDPOINTS)
"""Every address of the API, with who may ask it and what answers."""

__all__ = ["ENDPOINTS"]
