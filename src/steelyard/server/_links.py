"""Links that sign somebody in once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.server._server import Server


def link(server: Server, person: int) -> str:
    """A link that signs a person in once, within fifteen minutes."""
    return f"{server.config.origin}/enter/{server.people.new_code(person)}"
