"""`planner serve`: the REST API under uvicorn."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from planner.cli.errors import Exit, SourceUnavailable, UsageError
from planner.cli.options import whole_number
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
    check_address(args.host, port)
    import uvicorn

    from planner.api.serving import APPLICATION, UVICORN_SETTINGS
    from planner.bootstrap import open_store

    open_store().close()  # refuses a URL that cannot be used, in one line, before anything starts
    uvicorn.run(APPLICATION, host=args.host, port=port, workers=workers if workers > 1 else None, **UVICORN_SETTINGS)
    return Exit.ANSWER


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
