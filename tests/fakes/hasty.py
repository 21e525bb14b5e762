"""`planner` that takes intervals of seconds, for tests that wait for several refreshes: `python hasty.py serve --refresh-every 3s`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run a command with the least interval lifted."""
    from planner.cli.main import main as command
    from planner.cli.verbs import prices_refresh

    prices_refresh.SHORTEST_S = 1.0
    return command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
