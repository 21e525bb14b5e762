"""`planner prices list`: the quotes of a snapshot, or with `--storage` its prices of storage and network."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from planner.cli.errors import Exit, UsageError
from planner.cli.options import add_snapshot_flag, amount, limit_of, listed, snapshot_of, some
from planner.ports import Document

if TYPE_CHECKING:
    from pricing.catalog import Catalog
    from pricing.model import Quote

TABLE_ROWS = 50  # what a person reads; JSON and CSV give everything


FILTERS = (
    ("region", "region", "only these regions"),
    ("instance", "instance_type", "only these instance types"),
    ("accelerator", "accelerator", "only types with these accelerators"),
    ("family", "family", "only types of these families, for example p5"),
    ("provider", "provider", "only these clouds"),
    ("purchase", "purchase_option", "only these purchase options"),
    ("term", "term", "only commitments of so many years, 1 or 3"),
    ("payment-option", "payment_option", "only commitments paid so: no_upfront, partial_upfront, all_upfront"),
    ("plan-type", "plan_type", "only Savings Plans of these types: compute, ec2_instance"),
    ("offering-class", "offering_class", "only reservations of these classes: standard, convertible"),
    ("zone", "zone", "only spot prices of these zones, by id (use1-az4) or name"),
    ("currency", "currency", "only prices in these currencies"),
)
"""Flag, parameter of the service, help."""


def add_filters(parser: ArgumentParser) -> None:
    """Add the filters of quotes."""
    for flag, _, what in FILTERS:
        parser.add_argument(
            f"--{flag}", action="append", type=some, metavar="TEXT", help=f"{what} (repeatable or comma-separated)"
        )


def filters_of(args: Namespace) -> dict[str, tuple[str, ...]]:
    """Return the filters that were given, by the parameter of the service."""
    return {field: listed(getattr(args, flag.replace("-", "_"))) for flag, field, _ in FILTERS}


def add_flags(parser: ArgumentParser) -> None:
    """Add the filters and the order."""
    add_filters(parser)
    parser.add_argument(
        "--storage",
        action="store_true",
        help="prices of storage and network instead: EBS, S3, FSx, data transfer, NAT, IPv4",
    )
    parser.add_argument(
        "--service",
        action="append",
        type=some,
        metavar="TEXT",
        help="only these services, with --storage (repeatable or comma-separated)",
    )
    parser.add_argument(
        "--max-price", metavar="NUMBER", help="only prices up to so much per hour, in USD or the one --currency"
    )
    parser.add_argument(
        "--sort",
        metavar="CHOICE",
        type=str.lower,
        help="order: price, instance, region, purchase or newest (default: provider, region, type, purchase option)",
    )
    add_snapshot_flag(parser)
    parser.add_argument(
        "--limit", metavar="N", help=f"at most so many prices (default: {TABLE_ROWS} in a table, all in json and csv)"
    )


def run(args: Namespace) -> int:
    """List what passes the filters."""
    from planner.bootstrap import open_catalog, utc_now
    from planner.cli.render import show
    from planner.services.list_prices import find_quotes, prices_document

    limit = limit_of(args.limit)
    if args.storage:
        return run_rates(args, limit)
    if args.service:
        raise UsageError("--service: goes with --storage; types of machines are chosen by --instance or --family")
    most = None if args.max_price is None else amount("--max-price", args.max_price)
    catalog = open_catalog(snapshot_of(args))
    quotes = find_quotes(catalog, sort=args.sort, max_price=most, **filters_of(args))
    rows_shown = TABLE_ROWS if limit is None else limit
    shown = quotes[: rows_shown if args.format == "table" else limit]
    document = prices_document(catalog, shown, of=quotes if args.format == "table" else shown)

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import PRICE_COLUMNS, rows_of

        return PRICE_COLUMNS, rows_of(document["prices"], PRICE_COLUMNS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.list_tables import prices_text

        marks = marks_of(catalog, shown, utc_now())
        return prices_text(answer, found=len(quotes), marks=marks, width=width, colour=colour)  # found: in all

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER


FILTERS_OF_RATES = ("region", "provider")


def run_rates(args: Namespace, limit: int | None) -> int:
    """List the prices of storage and network that pass; a filter of machines that they do not have is refused."""
    from planner.bootstrap import open_catalog
    from planner.cli.render import show
    from planner.services.list_rates import RATE_FIELDS, find_rates, rates_document

    others = [flag for flag, _, _ in FILTERS if flag not in FILTERS_OF_RATES] + ["max-price", "sort"]
    given = [f"--{flag}" for flag in others if getattr(args, flag.replace("-", "_"))]
    if given:
        raise UsageError(f"{given[0]}: does not go with --storage, which takes --region, --provider and --service")
    catalog = open_catalog(snapshot_of(args))
    rates = find_rates(
        catalog, provider=listed(args.provider), region=listed(args.region), service=listed(args.service)
    )
    shown = rates[: TABLE_ROWS if limit is None and args.format == "table" else limit]
    document = rates_document(catalog, shown, of=rates if args.format == "table" else shown)

    def rows() -> tuple[tuple[str, ...], list[list[str]]]:
        from planner.reports.flat import rows_of

        return RATE_FIELDS, rows_of(document["rates"], RATE_FIELDS)

    def table(answer: Document, *, width: int, colour: bool) -> str:
        from planner.cli.list_tables import rates_text

        return rates_text(answer, found=len(rates), width=width, colour=colour)

    show(document, args.format, rows=rows, table=table)
    return Exit.ANSWER


def marks_of(catalog: Catalog, quotes: Sequence[Quote], now: datetime) -> list[tuple[bool, bool]]:
    """Return of each quote whether it is too old for its kind, and whether a spot price stands at the on-demand cap, as `recommend` says."""
    from planner.recommend.offers import is_capped
    from planner.services.documents import age_fields, kind_of
    from pricing.discounts import as_listed
    from pricing.model import PurchaseOption
    from pricing.spot_statistics import on_demand_prices

    spot = [q for q in quotes if q.purchase_option is PurchaseOption.SPOT]
    caps = on_demand_prices(
        as_listed(q)
        for q in catalog.quotes(
            instance_types=sorted({q.instance_type for q in spot}), purchase_options=[PurchaseOption.ON_DEMAND]
        )
    )

    def capped(quote: Quote) -> bool:
        place = (quote.provider, quote.instance_type, quote.region, quote.currency)
        return quote.purchase_option is PurchaseOption.SPOT and is_capped(quote, caps.get(place))

    return [(age_fields(q.retrieved_at, now, kind_of(q))["stale"], capped(q)) for q in quotes]
