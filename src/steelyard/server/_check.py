"""``steelyard serve check``: what is unsafe about a configuration, from public facts."""

from __future__ import annotations

import stat
from pathlib import Path

from steelyard.server._config import LOCAL, Config


def check(config: Config) -> list[str]:
    """What should be changed before people rely on this server; empty where nothing was found."""
    found = []
    if config.folder.exists() and stat.S_IMODE(config.folder.stat().st_mode) & 0o077:
        found.append(f"{config.folder} can be read by others: chmod 700 it.")
    if config.host not in LOCAL and config.slot == 0:
        found.append("slot is 0: the time of an answer tells how long the work took. Set slot = 1 for a team.")
    if config.host not in LOCAL and not config.trusted_proxy:
        found.append("no trusted_proxy: all people behind the proxy share one address, and so one limit on sign-ins.")
    found += [
        f"the root {name!r} is no folder: {path}" for name, path in config.roots.items() if not Path(path).is_dir()
    ]
    return found
