"""`planner serve`: the REST API under uvicorn."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit, SourceUnavailable, UsageError
from planner.cli.options import listed, some, whole_number
from planner.cli.verbs.db_current import add_database_flag

DATABASE = "PLANNER_DATABASE_URL"


def add_flags(parser: ArgumentParser) -> None:
    """Add where to listen and which database to use."""
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default 127.0.0.1: this machine only; 0.0.0.0 for every network)",
    )
    parser.add_argument("--port", default="8000", metavar="N", help="port to listen on (default 8000)")
    parser.add_argument("--workers", default="1", metavar="N", help="processes (default 1)")
    add_database_flag(parser)
    parser.add_argument(
        "--refresh-every",
        metavar="INTERVAL",
        help="refresh the prices beside the answers, for example every 30m, 6h or 1d, at least 1m (default: PLANNER_REFRESH_EVERY, else never)",
    )
    for what in ("region", "source"):
        parser.add_argument(
            f"--refresh-{what}",
            action="append",
            type=some,
            metavar="TEXT",
            help=f"refresh only these {what}s (repeatable or comma-separated; default: PLANNER_REFRESH_{what.upper()}S, else those of `planner prices refresh`)",
        )


def run(args: Namespace) -> int:
    """Serve until interrupted."""
    import os

    port, workers = whole_number("--port", args.port), whole_number("--workers", args.workers)
    if not 1 <= port <= 65535:
        raise UsageError(f"--port: {port} is not a port; 1 to 65535")
    if not 1 <= workers <= 256:
        raise UsageError(f"--workers: {workers} must be 1 to 256")
    if args.database_url:
        os.environ[DATABASE] = args.database_url  # the worker processes read it
    set_schedule(args)
    check_address(args.host, port)
    import uvicorn

    from planner.api.serving import APPLICATION, UVICORN_SETTINGS
    from planner.bootstrap import open_store

    open_store().close()  # refuses a URL that cannot be used, in one line, before anything starts
    uvicorn.run(APPLICATION, host=args.host, port=port, workers=workers if workers > 1 else None, **UVICORN_SETTINGS)
    return Exit.ANSWER


def set_schedule(args: Namespace) -> None:
    """Put the schedule into the environment, where the worker processes read it; refuse one that cannot be."""
    import os

    from planner.api.schedule import (
        EVERY_VARIABLE,
        REGIONS_VARIABLE,
        SOURCES_VARIABLE,
        check_names,
        plan_of,
        seconds_of,
    )
    from planner.cli.verbs.prices_refresh import check_shortest

    if args.refresh_every is not None:
        try:
            seconds_of(args.refresh_every)
        except ValueError as e:
            raise UsageError(f"--refresh-every: {e}") from None
        os.environ[EVERY_VARIABLE] = args.refresh_every
    for flag, variable, given in (
        ("--refresh-region", REGIONS_VARIABLE, args.refresh_region),
        ("--refresh-source", SOURCES_VARIABLE, args.refresh_source),
    ):
        if given:
            if not os.environ.get(EVERY_VARIABLE):
                raise UsageError(f"{flag}: goes with --refresh-every, which is missing")
            os.environ[variable] = ",".join(listed(given))
    try:
        plan = check_names(plan_of(os.environ))
    except ValueError as e:
        raise UsageError(str(e)) from None
    if plan is not None:
        where = EVERY_VARIABLE if args.refresh_every is None else "--refresh-every"
        check_shortest(where, os.environ[EVERY_VARIABLE], plan.every_s)


def check_address(host: str, port: int) -> None:
    """Raise, in one line, unless the address can be listened on."""
    import errno
    import socket

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror as e:
        raise UsageError(f"--host: {host!r} is not an address of this machine ({e.strerror})") from e
    except OSError as e:
        if e.errno == errno.EADDRINUSE:
            raise SourceUnavailable(
                f"--port: {port} on {host} is in use by another program; choose another, for example --port {port + 1 if port < 65535 else 8000}"
            ) from e
        if e.errno == errno.EACCES:
            raise UsageError(f"--port: {port} needs privileges; choose one from 1024 up") from e
        raise UsageError(f"--host: cannot listen on {host}:{port}: {e.strerror}") from e
