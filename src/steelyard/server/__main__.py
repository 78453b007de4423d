"""One of the two processes of a server, as its parent starts it."""

from __future__ import annotations

import sys

from steelyard.server._serve import run_child

if __name__ == "__main__":
    run_child(sys.argv[1:])
