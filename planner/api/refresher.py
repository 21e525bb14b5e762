"""One refresh of the prices in a process of its own, as the schedule starts it: what came of it is one JSON document on standard output.

`{"document": …}` is that of `planner prices refresh`; `{"failed": line, "busy": bool}` says why there is none. It runs at a lower
priority than the answers. Whatever ends it, the snapshot before is intact and the next refresh goes on from what was read.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys

NICER = 10


def main(arguments: list[str] | None = None) -> int:
    """Refresh once and return 0; 1 where nothing came of it."""
    parser = argparse.ArgumentParser(description="one refresh, for the schedule of `planner serve`")
    parser.add_argument("--region", action="append", default=[])
    parser.add_argument("--source", action="append", default=[])
    given = parser.parse_args(arguments)
    with contextlib.suppress(OSError):
        os.nice(NICER)

    from planner.bootstrap import refresh_prices  # noqa: PLC0415 - the priority first
    from planner.services.refresh_prices import RefreshRequest  # noqa: PLC0415
    from pricing.aws.session import Access  # noqa: PLC0415
    from pricing.errors import PricingError  # noqa: PLC0415
    from pricing.refresh.errors import RefreshBusy  # noqa: PLC0415

    try:
        document = refresh_prices(
            RefreshRequest(regions=tuple(given.region), sources=tuple(given.source)), access=Access()
        )
    except PricingError as e:
        _say({"failed": " ".join(str(e).split()), "busy": isinstance(e, RefreshBusy)})
        return 1
    _say({"document": document})
    return 0


def _say(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
