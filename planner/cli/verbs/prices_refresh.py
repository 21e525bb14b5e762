"""`planner prices refresh`: ask the live sources and publish the next price snapshot."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.errors import Exit, UsageError
from planner.cli.options import listed, some, whole_number
from planner.ports import Document
from pricing.errors import UnknownName

if TYPE_CHECKING:
    from planner.services.refresh_prices import RefreshRequest
    from pricing.aws.session import Access
    from pricing.market import Discount
    from pricing.refresh.run import Progress

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MOST_WORKERS = 64
LARGEST_AGREEMENT = 4 * 2**20  # bytes
SHORTEST_S = 60.0
"""From one refresh to the next at least: spot prices move every few minutes, and the quotas of AWS's calls are of minutes."""


def add_flags(parser: ArgumentParser) -> None:
    """Add what to ask, as whom, and how."""
    parser.add_argument(
        "--region",
        action="append",
        type=some,
        metavar="TEXT",
        help="only these AWS regions, or all (repeatable or comma-separated; default: those that the account has enabled, without an account those of the newest snapshot)",
    )
    parser.add_argument(
        "--source",
        action="append",
        type=some,
        metavar="TEXT",
        help="only these sources, among them those that are asked only when named (repeatable or comma-separated)",
    )
    parser.add_argument("--profile", metavar="NAME", help="the AWS profile to ask as")
    parser.add_argument("--role-arn", metavar="ARN", help="the role to take on for asking")
    parser.add_argument("--external-id", metavar="TEXT", help="the external id that the role's owner asks for")
    parser.add_argument("--endpoint-url", metavar="URL", help="ask this address instead of AWS")
    parser.add_argument(
        "--discounts", metavar="FILE.toml", help="a private agreement, whose prices stand as contracted from now on"
    )
    parser.add_argument(
        "--alerts",
        metavar="FILE.toml",
        help="prices to watch, and whom to tell when they move (default: alerts.toml in the data directory, if it is there)",
    )
    parser.add_argument(
        "--accept-incomplete", action="store_true", help="take answers that are much shorter than the last ones too"
    )
    parser.add_argument("--workers", metavar="N", help="answers read at once (default 8)")
    parser.add_argument(
        "--watch",
        metavar="INTERVAL",
        help="refresh again and again, for example every 30m, 6h or 1d (at least 1m), until interrupted",
    )
    parser.add_argument("--no-store", action="store_true", help="record nothing in the database")


def run(args: Namespace) -> int:
    """Refresh once, or again and again; 4 when a source or the record failed, though the rest was published."""
    import gc

    from planner.cli.output import complain
    from planner.services.send_alerts import faults_in

    gc.enable()  # unlike commands that give one answer and end, this one reads many megabytes, and a watch for months
    interval_s = interval("--watch", args.watch) if args.watch is not None else None
    request, access, watches = _request(args), _access(args), _watches(args.alerts)
    if interval_s is not None:
        from planner.cli.watching import watch

        return watch(
            lambda: refreshed(request, access, record=not args.no_store, watches=watches), interval_s, args.format
        )
    from planner.cli.interrupted import told_how_far

    with told_how_far() as ended:
        document = refreshed(request, access, record=not args.no_store, watches=watches, also=ended.heard)
    if ended.code is not None:
        return ended.code
    for fault in faults_in(document["alerts"]):
        complain(f"alerts: {fault}")
    show_document(document, args.format)
    return Exit.ANSWER if document["complete"] else Exit.SOURCE_UNAVAILABLE


def refreshed(
    request: RefreshRequest,
    access: Access,
    *,
    record: bool,
    watches: Path | None = None,
    also: Callable[[Progress], None] = lambda _: None,
) -> Document:
    """Refresh once, with progress and failures on standard error; `also` hears of the progress too."""
    from planner.bootstrap import refresh_prices
    from planner.cli.output import complain
    from planner.cli.refresh_progress import shown_progress
    from planner.services.refresh_prices import failures_by_reason

    with shown_progress() as progress:

        def tell(state: Progress) -> None:
            also(state)
            progress(state)

        document = refresh_prices(request, access=access, record=record, watches=watches, progress=tell)
    for sources, regions, why in failures_by_reason(document):
        complain(f"{', '.join(sources)}{_in(regions)}: {why}")
    for fault in document["faults"]:
        complain(f"{fault['subject']}: {fault['detail']}")
    return document


def _in(regions: list[str]) -> str:
    return f" ({', '.join(regions)})" if regions else ""


def show_document(document: Document, form: str) -> None:
    """Write what came of a refresh."""
    from planner.cli.render import show

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import REFRESH_COLUMNS, rows_of

        answer = {name: document[name] for name in ("snapshot_id", "previous_snapshot_id", "published_at")}
        counted = [{**source, "excluded": sum(source["excluded"].values())} for source in document["sources"]]
        return REFRESH_COLUMNS, rows_of(counted, REFRESH_COLUMNS, answer)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.refresh_table import refresh_text

        return refresh_text(answer, width=width, colour=colour)

    show(document, form, rows=rows, table=table)


def _watches(file: str | None) -> Path | None:
    """Return the file of watches that was named, once it is known to be one: a refresh takes minutes and should not end with that."""
    if file is None:
        return None
    from planner.services.send_alerts import read_watches
    from pricing.errors import NotReadable, SheetError, first_of

    try:
        read_watches(Path(file))
    except NotReadable as e:
        raise UsageError(f"--alerts: {e}") from e
    except SheetError as e:
        raise UsageError(f"--alerts: {file}: {'; '.join(first_of(e.faults))}") from e
    return Path(file)


def _request(args: Namespace) -> RefreshRequest:
    from planner.services.refresh_prices import RefreshRequest

    workers = 8 if args.workers is None else whole_number("--workers", args.workers)
    if not 1 <= workers <= MOST_WORKERS:
        raise UsageError(f"--workers: {workers} must be from 1 to {MOST_WORKERS}")
    return RefreshRequest(
        regions=listed(args.region),
        sources=listed(args.source),
        discounts=None if args.discounts is None else _discounts(args.discounts),
        accept_incomplete=args.accept_incomplete,
        workers=workers,
    )


def _access(args: Namespace) -> Access:
    from pricing.aws.access import ENDPOINT_FORM, is_endpoint
    from pricing.aws.session import Access

    if args.endpoint_url is not None and not is_endpoint(args.endpoint_url):
        raise UsageError(f"--endpoint-url: {ENDPOINT_FORM}")
    check_addresses()
    if args.external_id is not None and args.role_arn is None:
        raise UsageError("--external-id: goes with --role-arn, which is missing")
    check_identity(args.profile, args.role_arn)
    return Access(
        profile=args.profile, role_arn=args.role_arn, external_id=args.external_id, endpoint_url=args.endpoint_url
    )


def check_addresses() -> None:
    """Refuse an address in the environment that is none or may hold a secret, without repeating it."""
    import os

    from pricing.aws.access import ENDPOINT_FORM, misstated_variable

    if (name := misstated_variable(os.environ)) is not None:
        raise UsageError(f"{name}: {ENDPOINT_FORM}")


def check_identity(profile: str | None, role_arn: str | None) -> None:
    """Refuse a profile that the SDK's files do not have and a role that is not written as one, before anything is asked."""
    import os

    from pricing.aws.access import ROLE_ARN, check_profile

    if role_arn is not None and not ROLE_ARN.fullmatch(role_arn):
        raise UsageError(
            f"--role-arn: {role_arn!r} is not the ARN of a role; write it as arn:aws:iam::123456789012:role/NAME"
        )
    for where, name in (("--profile", profile), ("AWS_PROFILE", os.environ.get("AWS_PROFILE") if profile is None else None)):  # fmt: skip
        if name:
            try:
                check_profile(name)
            except UnknownName as e:
                raise UsageError(f"{where}: {e}; `aws configure list-profiles` lists them") from None


def _discounts(path: str) -> tuple[Discount, ...]:
    from pricing.discounts import parse_agreement
    from pricing.errors import NotReadable
    from pricing.plain_files import read_text

    try:
        text = read_text(Path(path), most_bytes=LARGEST_AGREEMENT)
    except NotReadable as e:
        raise UsageError(f"--discounts: {e}") from e
    return parse_agreement(text, Path(path).name)


def interval(flag: str, text: str) -> float:
    """Return an interval written as 30m, 6h or 1d in seconds."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd])", text.strip().lower())
    seconds = float(found[1]) * SECONDS[found[2]] if found else 0.0
    if not 0 < seconds <= 366 * SECONDS["d"]:
        raise UsageError(f"{flag}: {text!r} is not an interval; write it as 30m, 6h or 1d")
    check_shortest(flag, text, seconds)
    return seconds


def check_shortest(flag: str, text: str, seconds: float) -> None:
    """Refuse an interval below the least."""
    if seconds < SHORTEST_S:
        raise UsageError(f"{flag}: {text!r} is too often; at least 1m")
