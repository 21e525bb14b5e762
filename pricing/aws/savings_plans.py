"""DescribeSavingsPlansOfferingRates read into quotes: what an hour of a type costs while a Savings Plan covers it.

The rate is the whole price: a plan's upfront payment is a part of its commitment paid early, and the rate already has it spread over
the term (for a reservation it has not). It is owed for every hour of the term, used or not.

A type has look-alikes of its rate beside it: dedicated tenancy, reserved capacity that nobody uses (`UnusedBox`), other systems, and
rates of another partition's currency. What is left out is counted by reason; two rates where one must be are never decided by price.

Reference: AWS Savings Plans API, DescribeSavingsPlansOfferingRates; read 2026-11. The operation has no paginator.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from pricing.aws import replies
from pricing.aws.instance_types import ACCELERATED
from pricing.aws.paging import followed
from pricing.aws.session import Aws
from pricing.errors import NotOnePrice, ReplyError
from pricing.market import Notice, NoticeKind
from pricing.model import INSTANCE_HOUR, PurchaseOption, Quote
from pricing.money import HOURS_PER_YEAR
from pricing.source import Ask, Scope, Source, SourceReading

NAME = "savings_plans"
SOURCE = "AWS Savings Plans offering rates"
OPERATION = "describe_savings_plans_offering_rates"
MOST_RESULTS = 1000
SECONDS_PER_YEAR = HOURS_PER_YEAR * 3600
TERMS = {
    SECONDS_PER_YEAR: (1, PurchaseOption.SAVINGS_PLAN_1YR),
    3 * SECONDS_PER_YEAR: (3, PurchaseOption.SAVINGS_PLAN_3YR),
}
PLANS = {"Compute": "compute", "EC2Instance": "ec2_instance"}
"""SageMaker and Database plans cover other services."""
PAYMENTS = {"No Upfront": "no_upfront", "Partial Upfront": "partial_upfront", "All Upfront": "all_upfront"}
USAGE = re.compile(r"(?:[A-Z0-9]+-)?(?P<sort>[A-Za-z]+):(?P<type>[a-z0-9-]+\.[a-z0-9-]+)")
"""A region's prefix (us-east-1 has none), the sort of usage, the type: `EUC1-BoxUsage:g5.xlarge`."""
PLAIN_USE = (  # field or property, value, and what would match without it
    ("productType", "EC2"),  # Fargate, Lambda, SageMaker
    ("unit", INSTANCE_HOUR),  # Lambda-GB-Second, Request
    ("usage", "BoxUsage"),  # DedicatedUsage (dearer), UnusedBox (reserved capacity that stands idle), HostBoxUsage
    ("productDescription", "Linux/UNIX"),  # Windows, Red Hat, SUSE: the system's fee is in it
    ("tenancy", "shared"),
    ("operation", "RunInstances"),  # RunInstances:0002 and the codes of every other system
)
NOT_WANTED = "not a type we plan with"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRate:
    """One rate of one offering: per hour of one instance while it is covered."""

    offering_id: str
    instance_type: str
    region: str
    plan_type: str
    term_years: int
    payment_option: str
    purchase_option: PurchaseOption
    currency: str
    amount: Decimal
    rate_code: str | None = None  # the files have it; the API tells a rate by its offering alone

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        """What there must be one rate of."""
        return self.instance_type, self.region, self.plan_type, self.term_years, self.payment_option

    def __str__(self) -> str:
        return f"offering {self.offering_id} at {self.amount:f} {self.currency}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRatesReading:
    """Rates in a fixed order; those of which there are several; rows left out by reason; rows that cannot be read."""

    rates: tuple[PlanRate, ...]
    unresolved: tuple[NotOnePrice, ...]
    excluded: Mapping[str, int]
    unreadable: tuple[ReplyError, ...]


def savings_plans_source(aws: Aws) -> Source:
    """Return the source of Savings Plan rates."""
    return Source(
        name=NAME,
        regional=True,
        needs_credentials=True,
        default=True,
        what="Compute and EC2 Instance Savings Plan rates, 1 and 3 years",
        permissions=("savingsplans:DescribeSavingsPlansOfferingRates",),
        read=lambda ask: read_savings_plans(aws, ask),
    )


def read_savings_plans(aws: Aws, ask: Ask) -> SourceReading:
    """Return the Linux rates of a region, every page of them."""
    if ask.region is None:
        raise ValueError("Savings Plan rates are asked region by region")
    pages = followed(
        aws.client("savingsplans", client_region(ask.region)),
        OPERATION,
        "searchResults",
        source=SOURCE,
        on_answer=ask.on_answer,
        savingsPlanTypes=list(PLANS),
        products=["EC2"],
        serviceCodes=["AmazonEC2"],
        filters=rate_filters(ask.region),
        maxResults=MOST_RESULTS,
    )
    found = parse_offering_rates(pages, region=ask.region, instance_types=ask.instance_types)
    return SourceReading(
        source=NAME,
        scope=Scope(
            provider="aws",
            region=ask.region,
            tables=frozenset({"quotes"}),
            purchase_options=frozenset({PurchaseOption.SAVINGS_PLAN_1YR, PurchaseOption.SAVINGS_PLAN_3YR}),
        ),
        retrieved_at=ask.at,
        quotes=plan_quotes(found, retrieved_at=ask.at),
        excluded=found.excluded,
        untold=replies.untold((*found.unresolved, *found.unreadable)),
        notices=plan_notices(found),
    )


def client_region(region: str) -> str:
    """Return where the service is asked about a region: one endpoint for all of them, in China one in each."""
    return region if region.startswith("cn-") else "us-east-1"


def rate_filters(region: str) -> list[dict[str, Any]]:
    """Return the filters of one region's Linux rates; without them the answer has hundreds of thousands of rows."""
    wanted = (("region", region), ("productDescription", "Linux/UNIX"), ("tenancy", "shared"))
    return [{"name": name, "values": [value]} for name, value in wanted]


def parse_offering_rates(pages: Iterable[Any], *, region: str, instance_types: Iterable[str] = ()) -> PlanRatesReading:
    """Return the rates of plain Linux use in a region for the types that we plan with. Order and repetition change nothing."""
    known = frozenset(instance_types)
    found: dict[tuple[str, str, str, int, str], set[PlanRate]] = defaultdict(set)
    excluded: Counter[str] = Counter()
    unreadable: list[ReplyError] = []
    for page in pages:
        for index, given in enumerate(replies.rows_of(page, "searchResults", source=SOURCE)):
            try:
                rate = parse_offering_rate(given, region=region, where=f"row {index}")
            except ReplyError as e:
                e.instance_type = _type_of(given)
                unreadable.append(e)
                continue
            if isinstance(rate, str):
                excluded[rate] += 1
            elif rate.instance_type not in known and not ACCELERATED.match(rate.instance_type):
                excluded[NOT_WANTED] += 1
            elif rate in found[rate.key]:
                excluded["repeated across pages"] += 1
            else:
                found[rate.key].add(rate)
    if unreadable:
        excluded["cannot be read"] = len(unreadable)
    unresolved: list[NotOnePrice] = []
    for key, rates in sorted(found.items()):
        if len({rate.amount for rate in rates}) > 1:
            where, left = " ".join(str(part) for part in key), tuple(sorted(str(rate) for rate in rates))
            unresolved.append(NotOnePrice(source=SOURCE, where=where, left=left, excluded={}))
            unresolved[-1].instance_type = key[0]
    return PlanRatesReading(
        rates=tuple(
            min(rates, key=lambda rate: rate.offering_id)  # the same amount under two offerings: either says it
            for _, rates in sorted(found.items())
            if len({rate.amount for rate in rates}) == 1
        ),
        unresolved=tuple(unresolved),
        excluded=dict(excluded),
        unreadable=tuple(unreadable),
    )


def parse_offering_rate(reply: Any, *, region: str, where: str) -> PlanRate | str:
    """Return one row's rate, or why it is not that of plain Linux use in the region."""
    row = replies.mapping(reply, source=SOURCE, where=where)
    offering = replies.mapping(row.get("savingsPlanOffering"), source=SOURCE, where=f"{where} savingsPlanOffering")
    properties = properties_of(row, where)
    usage = USAGE.fullmatch(str(row.get("usageType") or ""))
    values = {**properties, **row, "usage": usage["sort"] if usage else None}
    for name, value in PLAIN_USE:
        if values.get(name) != value:
            return f"{name} {values.get(name) or 'missing'}"
    if properties.get("region") != region:
        return f"region {properties.get('region') or 'missing'}"
    plan, payment = PLANS.get(str(offering.get("planType"))), PAYMENTS.get(str(offering.get("paymentOption")))
    seconds = replies.whole(offering, "durationSeconds", source=SOURCE, where=where)
    if plan is None or payment is None or seconds not in TERMS:
        return f"plan {offering.get('planType')}, {offering.get('paymentOption')}, {seconds} s"
    currency = replies.text(offering, "currency", source=SOURCE, where=where)
    if currency != (billed_in := "CNY" if region.startswith("cn-") else "USD"):
        return f"currency {currency} where {billed_in} is billed"
    amount = replies.price(row.get("rate"), source=SOURCE, where=f"{where} rate")
    if amount == 0:
        return "rate of zero"
    instance_type = usage["type"] if usage else ""
    if properties.get("instanceType", instance_type) != instance_type:
        raise ReplyError(
            source=SOURCE,
            where=where,
            why=f"is for {properties['instanceType']} by its properties and for {instance_type} by its usage type",
        )
    years, option = TERMS[seconds]
    return PlanRate(
        offering_id=replies.text(offering, "offeringId", source=SOURCE, where=where),
        instance_type=instance_type,
        region=region,
        plan_type=plan,
        term_years=years,
        payment_option=payment,
        purchase_option=option,
        currency=currency,
        amount=amount,
        rate_code=row.get("rateCode") if isinstance(row.get("rateCode"), str) else None,
    )


def _type_of(given: Any) -> str | None:
    """Return the instance type that a row's usage type names, None where it names none."""
    usage = USAGE.fullmatch(str(given.get("usageType") or "")) if isinstance(given, Mapping) else None
    return usage["type"] if usage else None


def properties_of(row: Mapping[str, Any], where: str) -> dict[str, str]:
    """Return the properties of a row by name; the reply has them as a list in no order."""
    given = replies.sequence(row.get("properties") or [], source=SOURCE, where=f"{where} properties")
    named = [replies.mapping(entry, source=SOURCE, where=f"{where} properties") for entry in given]
    return {str(entry.get("name")): str(entry.get("value")) for entry in named}


def plan_quotes(reading: PlanRatesReading, *, retrieved_at: datetime) -> tuple[Quote, ...]:
    """Return the quotes of a reading: list price and effective price are the rate, no upfront is added."""
    return tuple(
        Quote(
            provider="aws",
            instance_type=rate.instance_type,
            region=rate.region,
            purchase_option=rate.purchase_option,
            plan_type=rate.plan_type,
            term_years=rate.term_years,
            payment_option=rate.payment_option,
            currency=rate.currency,
            list_unit_price=rate.amount,
            effective_unit_price=rate.amount,
            source=SOURCE,
            sku=rate.offering_id,
            rate_code=rate.rate_code,
            retrieved_at=retrieved_at,
        )
        for rate in reading.rates
    )


def plan_notices(reading: PlanRatesReading) -> tuple[Notice, ...]:
    """Return what a reading could not tell: several rates where one must be, and rows that cannot be read."""
    faults = (*reading.unresolved, *reading.unreadable)
    return tuple(Notice(kind=NoticeKind.UNRESOLVED, source=NAME, subject=e.where, detail=e.why) for e in faults)
