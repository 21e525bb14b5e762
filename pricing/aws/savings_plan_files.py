"""The public Savings Plan files: region index, a region's file, its rates. The same rates as by the API, without credentials.

`products` is a list of plans, with the payment in their attributes; `terms.savingsPlan` is a list too, one entry a plan, with the length
and tens of thousands of rates. Rates name usage type and operation, not system and tenancy: `BoxUsage` is shared tenancy and the operation
`RunInstances` alone is Linux. Rates of wanted types are put in the form of the API's rows and chosen by the same function.

Reference: AWS Price List bulk API, reading the Savings Plan price list file; read 2026-11.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pricing.aws import json_stream, replies
from pricing.aws.downloads import fetch_document, fetch_file, http_client, opened
from pricing.aws.instance_types import NOT_WANTED, is_wanted
from pricing.aws.offer import MOST_ERRORS
from pricing.aws.price_list_files import SERVICE, address, downloads, no_such_region, offer_entry, partition
from pricing.aws.savings_plans import SECONDS_PER_YEAR, USAGE, parse_offering_rates, plan_quotes
from pricing.aws.session import Aws
from pricing.errors import NotOnePrice, ReplyError, SourceFailed
from pricing.market import Notice, NoticeKind
from pricing.model import PurchaseOption, Quote
from pricing.source import ANY_TYPE, Ask, Scope, Source, SourceReading

if TYPE_CHECKING:
    import httpx

NAME = "savings_plan_files"
SOURCE = "AWS Savings Plan price list files"
PLANS = {"ComputeSavingsPlans": "Compute", "EC2InstanceSavingsPlans": "EC2Instance"}
"""Product family, and the plan type as the API writes it."""
LINUX = "RunInstances"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFileReading:
    """The quotes of a file; rates of which there are several; rates left out by reason; entries that cannot be read; publication."""

    quotes: tuple[Quote, ...]
    unresolved: tuple[NotOnePrice, ...]
    excluded: Mapping[str, int]
    unreadable: tuple[ReplyError, ...]
    published: str | None


def savings_plan_files_source(aws: Aws, *, directory: Path | None = None) -> Source:
    """Return the source of Savings Plan rates by public files, kept in `directory`/downloads (None: only while read)."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=False,
        default=False,
        what="Compute and EC2 Instance Savings Plan rates (public files; some 100 MB a region, kept on disk)",
        read=lambda ask: read_savings_plan_files(aws, ask, directory=directory),
    )


def read_savings_plan_files(
    aws: Aws, ask: Ask, *, directory: Path | None = None, sleep: Callable[[float], None] | None = None
) -> SourceReading:
    """Return the Linux rates of a region. SourceFailed where the file cannot be had and read whole."""
    if ask.region is None:
        raise ValueError("Savings Plan files are asked region by region")
    waits: dict[str, Any] = {} if sleep is None else {"sleep": sleep}
    with downloads(directory) as folder, http_client(SOURCE) as client:
        url = _file_url(client, aws, ask.region, waits)
        into = folder / f"SavingsPlans-{ask.region}.json"
        file = fetch_file(client, url, into, source=SOURCE, on_part=ask.on_answer, **waits)
        try:
            with opened(file.path, source=SOURCE) as content:
                found = parse_savings_plan_file(
                    content, region=ask.region, instance_types=ask.instance_types, at=ask.at, retrieved_at=ask.at
                )
        except ReplyError as e:
            file.discard()
            raise SourceFailed(source=SOURCE, why=f"{url} cannot be read: {e.where}: {e.why}") from e
    if not found.quotes:
        raise SourceFailed(source=SOURCE, why=f"no rate of a type we plan with in {ask.region}")
    faults = (*found.unresolved, *found.unreadable)
    options = {PurchaseOption.SAVINGS_PLAN_1YR, PurchaseOption.SAVINGS_PLAN_3YR}
    return SourceReading(
        source=NAME,
        scope=Scope(
            provider="aws", region=ask.region, tables=frozenset({"quotes"}), purchase_options=frozenset(options)
        ),
        retrieved_at=ask.at,
        published=found.published,
        quotes=found.quotes,
        excluded={reason: count for reason, count in sorted(found.excluded.items()) if count},
        untold=replies.untold(faults) | ({ANY_TYPE} if len(found.unreadable) >= MOST_ERRORS else set()),
        notices=tuple(Notice(kind=NoticeKind.UNRESOLVED, source=NAME, subject=e.where, detail=e.why) for e in faults),
    )


def parse_savings_plan_file(
    file: BinaryIO, *, region: str, instance_types: Iterable[str], at: datetime, retrieved_at: datetime
) -> PlanFileReading:
    """Return the rates of plain Linux use in a region, as in effect `at`. The rate is the whole price of a covered hour: no upfront is added."""
    collected = _Collected(frozenset(instance_types), at)
    for path, value in json_stream.values_of(file, _entered, source=SOURCE):
        collected.take(path, value)
    if not collected.plans or not collected.terms:
        missing = "products" if not collected.plans else "terms"
        raise ReplyError(source=SOURCE, where="document", why=f"has no {missing}: this is no Savings Plan file")
    rows = collected.rows()
    found = parse_offering_rates([{"searchResults": rows}], region=region, instance_types=collected.known)
    since = {row["savingsPlanOffering"]["offeringId"]: row["since"] and row["since"].date() for row in rows}
    source = f"{SOURCE}, published {collected.published}" if collected.published else SOURCE
    return PlanFileReading(
        quotes=tuple(
            replace(quote, source=source, effective_from=since.get(quote.sku))
            for quote in plan_quotes(found, retrieved_at=retrieved_at)
        ),
        unresolved=found.unresolved,
        excluded=dict(collected.excluded + Counter(found.excluded)),
        unreadable=(*collected.unreadable, *found.unreadable),
        published=collected.published,
    )


def _entered(path: json_stream.Path) -> bool:
    """Enter the document, its lists, each plan's entry and the list of its rates."""
    return len(path) < 2 or (path[0] == "terms" and (len(path) < 4 or (len(path) == 4 and path[3] == "rates")))


class _Collected:
    """What is kept of a file while it is read; plans may stand behind their rates."""

    def __init__(self, known: frozenset[str], at: datetime) -> None:
        self.known, self._at = known, at
        self.plans: dict[str, Mapping[str, Any]] = {}
        self.terms: dict[object, dict[str, Any]] = {}
        self.excluded: Counter[str] = Counter()
        self.unreadable: list[ReplyError] = []
        self.published: str | None = None
        self._rates: list[tuple[object, Mapping[str, Any]]] = []

    def take(self, path: json_stream.Path, value: Any) -> None:
        """Keep what is needed of one value."""
        try:
            if path[:1] == ("products",) and len(path) == 2:
                plan = replies.mapping(value, source=SOURCE, where=f"product {path[1]}")
                self.plans[replies.text(plan, "sku", source=SOURCE, where=f"product {path[1]}")] = plan
            elif path[:2] == ("terms", "savingsPlan") and len(path) == 5:
                self._take_rate(path, value)
            elif path[:2] == ("terms", "savingsPlan") and len(path) == 4:
                self.terms.setdefault(path[2], {})[str(path[3])] = value
            elif path == ("publicationDate",):
                self.published = value if isinstance(value, str) else None
        except ReplyError as e:
            self._cannot_read(e)

    def _take_rate(self, path: json_stream.Path, value: Any) -> None:
        where = f"plan {path[2]} rate {path[4]}"
        rate = replies.mapping(value, source=SOURCE, where=where)
        usage = USAGE.fullmatch(str(rate.get("discountedUsageType") or ""))
        if rate.get("discountedServiceCode", SERVICE) != SERVICE:
            self.excluded[f"serviceCode {rate['discountedServiceCode']}"] += 1
        elif usage is None or usage["sort"] != "BoxUsage":
            self.excluded[f"usage {usage['sort'] if usage else 'of no instance'}"] += 1
        elif rate.get("discountedOperation") != LINUX:
            self.excluded[f"operation {rate.get('discountedOperation') or 'missing'}"] += 1
        elif not is_wanted(usage["type"], self.known):
            self.excluded[NOT_WANTED] += 1
        else:
            self._rates.append((path[2], rate))

    def rows(self) -> list[dict[str, Any]]:
        """Return the kept rates as the API's rows, with the time since when each holds."""
        rows = []
        for position, rate in self._rates:
            try:
                row = self._row(self.terms.get(position, {}), rate, where=f"plan {position}")
                if row["since"] is not None and row["since"] > self._at:
                    self.excluded["starts in the future"] += 1
                else:
                    rows.append(row)
            except ReplyError as e:
                usage = USAGE.fullmatch(str(rate.get("discountedUsageType") or ""))
                e.instance_type = usage["type"] if usage else None
                self._cannot_read(e)
        return rows

    def _cannot_read(self, error: ReplyError) -> None:
        self.excluded["cannot be read"] += 1
        if len(self.unreadable) < MOST_ERRORS:
            self.unreadable.append(error)

    def _row(self, term: Mapping[str, Any], rate: Mapping[str, Any], *, where: str) -> dict[str, Any]:
        sku = replies.text(term, "sku", source=SOURCE, where=where)
        plan = self.plans.get(sku)
        if plan is None:
            raise ReplyError(source=SOURCE, where=where, why=f"its plan {sku} is not among the products")
        attributes = replies.mapping(plan.get("attributes"), source=SOURCE, where=f"plan {sku}")
        length = replies.mapping(term.get("leaseContractLength"), source=SOURCE, where=f"plan {sku}")
        years = replies.whole(length, "duration", source=SOURCE, where=f"plan {sku} leaseContractLength")
        if length.get("unit") != "year":
            raise ReplyError(
                source=SOURCE, where=f"plan {sku}", why=f"its length is in {length.get('unit')!r}, not in years"
            )
        price = replies.mapping(rate.get("discountedRate"), source=SOURCE, where=f"plan {sku} rate")
        discounted = replies.text(rate, "discountedSku", source=SOURCE, where=f"plan {sku} rate")
        family = str(plan.get("productFamily"))
        starts = term.get("effectiveDate")
        return {
            "savingsPlanOffering": {
                "offeringId": f"{sku}.{discounted}",
                "paymentOption": attributes.get("purchaseOption"),
                "planType": PLANS.get(family, family),
                "durationSeconds": years * SECONDS_PER_YEAR,
                "currency": price.get("currency"),
            },
            "rate": price.get("price"),
            "rateCode": rate.get("rateCode"),
            "unit": rate.get("unit"),
            "productType": "EC2",
            "usageType": rate.get("discountedUsageType"),
            "operation": rate.get("discountedOperation"),
            "properties": [
                {"name": "region", "value": rate.get("discountedRegionCode")},
                {"name": "instanceType", "value": rate.get("discountedInstanceType")},
                {"name": "productDescription", "value": "Linux/UNIX"},
                {"name": "tenancy", "value": "shared"},
            ],
            "since": None
            if starts is None
            else replies.instant(starts, source=SOURCE, where=f"plan {sku} effectiveDate"),
        }


def _file_url(client: httpx.Client, aws: Aws, region: str, waits: Mapping[str, Any]) -> str:
    """Return the address of a region's file, by way of the index that the offer index names."""
    entry = offer_entry(client, aws, region, **waits)
    usual = f"/savingsPlan/v1.0/{partition(region)}/AWSComputeSavingsPlan/current/region_index.json"
    stated = entry.get("currentSavingsPlanIndexUrl")
    index, _ = fetch_document(
        client, address(aws, region, stated if isinstance(stated, str) and stated else usual), source=SOURCE, **waits
    )
    try:
        rows = [
            replies.mapping(row, source=SOURCE, where="region index")
            for row in replies.rows_of(index, "regions", source=SOURCE)
        ]
        by_region = {str(row.get("regionCode")): row for row in rows}
        if region not in by_region:
            raise no_such_region(region, by_region)
        return address(aws, region, replies.text(by_region[region], "versionUrl", source=SOURCE, where=region))
    except ReplyError as e:
        raise SourceFailed(source=SOURCE, why=f"{e.where}: {e.why}") from e
