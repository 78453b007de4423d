"""The client: ``sy.connect(url, token)["spend"].release(task)`` asks a steelyard server as a session asks a table.

Standard library only; tasks go out as their own JSON requests, releases and refusals come back as the same nouns.
"""

from __future__ import annotations

from steelyard.client._connect import Remote, RemoteAccount, RemoteSession, connect

__all__ = ["Remote", "RemoteAccount", "RemoteSession", "connect"]
