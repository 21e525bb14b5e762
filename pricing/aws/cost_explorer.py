"""Cost Explorer's GetCostAndUsage read into billed lines: what an account spent, by day or month and by two groups.

Each page of an answer is charged (0.01 USD). The last day is an estimate and lags by up to a day. Amounts are unblended (billed) and
amortised (effective), net of private discounts where the account has any. A Capacity Block's fee is not amortised: it stands whole on the
day of its start.

Reference: AWS Cost Explorer API, GetCostAndUsage; read 2026-11. The operation has no paginator, its token is `NextPageToken`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pricing.amounts import billed_decimal, shown
from pricing.aws import replies
from pricing.aws.paging import Page, followed
from pricing.aws.session import Aws
from pricing.bills.model import BilledAs, BilledLine, ChargeCategory
from pricing.bills.usage_types import BLOCK_FEE, Usage, usage_of
from pricing.errors import ReplyError

SOURCE = "AWS Cost Explorer"
HOME = "us-east-1"
GRANULARITIES = ("DAILY", "MONTHLY")
GROUPS = ("SERVICE", "USAGE_TYPE")
"""At most two at a time. With PURCHASE_TYPE in place of SERVICE the lines say what a Savings Plan or a reservation covered."""

BILLED = ("NetUnblendedCost", "UnblendedCost")  # the first that a reply has
EFFECTIVE = ("NetAmortizedCost", "AmortizedCost")
QUANTITY = "UsageQuantity"
METRICS = (*BILLED, *EFFECTIVE, QUANTITY)
NO_UNIT = "N/A"
NOT_AMORTISED = "Cost Explorer does not spread this fee over the block"
TAX_SERVICE = "Tax"
PURCHASES = {
    "On Demand Instances": BilledAs.ON_DEMAND,
    "Spot Instances": BilledAs.SPOT,
    "Standard Reserved Instances": BilledAs.RESERVED,
    "Convertible Reserved Instances": BilledAs.RESERVED,
    "Savings Plans": BilledAs.SAVINGS_PLAN,
}
TOLD_BY_USAGE = frozenset({BilledAs.SPOT, BilledAs.CAPACITY_BLOCK, BilledAs.RESERVED})
"""What a usage type alone says. `BoxUsage` is on demand or covered by a plan: Cost Explorer adds the two up."""


def billed_lines(
    aws: Aws, *, start: date, end: date, granularity: str = GRANULARITIES[0], groups: Sequence[str] = GROUPS
) -> tuple[BilledLine, ...]:
    """Return what was billed from `start` to before `end`, asked page by page. SourceFailed when no whole answer is to be had."""
    if end <= start:
        raise ValueError(f"the end {end} is not after the start {start}")
    pages = followed(
        aws.client("ce", HOME),
        "get_cost_and_usage",
        "ResultsByTime",
        source=SOURCE,
        token="NextPageToken",  # noqa: S106 - the name of a field
        TimePeriod={"Start": start.isoformat(), "End": end.isoformat()},
        Granularity=granularity,
        Metrics=list(METRICS),
        GroupBy=[{"Type": "DIMENSION", "Key": key} for key in groups],
    )
    return parse_cost_and_usage(pages)


def parse_cost_and_usage(pages: Iterable[Page]) -> tuple[BilledLine, ...]:
    """Return the lines of the replies in their order. A period whose groups are spread over pages is whole; a repeated group counts once."""
    found: dict[tuple[Any, ...], BilledLine] = {}
    for page in pages:
        names = [str(g.get("Key")) for g in page.get("GroupDefinitions") or ()]
        for index, given in enumerate(replies.rows_of(page, "ResultsByTime", source=SOURCE)):
            result = replies.mapping(given, source=SOURCE, where=f"result {index}")
            period = _period(result, where=f"result {index}")
            groups = replies.sequence(result.get("Groups") or (), source=SOURCE, where=f"result {index} Groups")
            total = result.get("Total")
            entries = [(g.get("Keys") or (), g.get("Metrics")) for g in groups] or [((), total)] * bool(total)
            for keys, metrics in entries:
                where = f"{period[0].date()} {' '.join(keys)}".rstrip()
                line = _line(
                    dict(zip(names, keys, strict=False)), metrics, period, result.get("Estimated"), where=where
                )
                known = found.setdefault((period, tuple(keys)), line)
                if known != line:
                    raise ReplyError(source=SOURCE, where=where, why="is given twice with unlike amounts")
    return tuple(found.values())


def _line(
    group: Mapping[str, str], metrics: Any, period: tuple[datetime, datetime], estimated: Any, *, where: str
) -> BilledLine:
    amounts = replies.mapping(metrics, source=SOURCE, where=f"{where} Metrics")
    billed, effective, quantity = (_first(amounts, names, where) for names in (BILLED, EFFECTIVE, (QUANTITY,)))
    if billed is None and effective is None:
        raise ReplyError(source=SOURCE, where=where, why=f"has none of {', '.join((*BILLED, *EFFECTIVE))}")
    currencies = {money[1] for money in (billed, effective) if money is not None}
    if len(currencies) != 1:
        raise ReplyError(source=SOURCE, where=where, why=f"is in {' and '.join(sorted(currencies))}")
    usage_type = group.get("USAGE_TYPE") or None
    usage = usage_of(usage_type)
    unit = None if quantity is None or quantity[1] == NO_UNIT else quantity[1]
    return BilledLine(
        provider="aws",
        charge_period_start=period[0],
        charge_period_end=period[1],
        billing_currency=currencies.pop(),
        billed_cost=None if billed is None else billed[0],
        effective_cost=None if effective is None else effective[0],
        consumed_quantity=None if quantity is None or unit is None else quantity[0],
        consumed_unit=unit,
        service=group.get("SERVICE") or None,
        region=group.get("REGION") or None,
        availability_zone=group.get("AZ") or None,
        instance_type=usage.instance_type or group.get("INSTANCE_TYPE") or None,
        usage_type=usage_type,
        purchase_option=option_of(usage, group.get("PURCHASE_TYPE")),
        charge_category=category_of(usage, group.get("SERVICE")),
        account=group.get("LINKED_ACCOUNT") or None,
        description=NOT_AMORTISED if usage.sort == BLOCK_FEE else None,
        estimated=estimated is True,
        source=SOURCE,
    )


def option_of(usage: Usage, purchase_type: str | None) -> BilledAs | None:
    """Return how a group was paid, where its keys tell."""
    if usage.billed_as in TOLD_BY_USAGE:
        return usage.billed_as
    return PURCHASES.get((purchase_type or "").strip())


def category_of(usage: Usage, service: str | None) -> ChargeCategory | None:
    """Return what sort of charge a group is, where its keys tell: credits and refunds are in with the service that they are of."""
    if service == TAX_SERVICE:
        return ChargeCategory.TAX
    if usage.sort == BLOCK_FEE:
        return ChargeCategory.PURCHASE
    return ChargeCategory.USAGE if usage.sort is not None else None


def _first(metrics: Mapping[str, Any], names: Sequence[str], where: str) -> tuple[Decimal, str] | None:
    """Return amount and unit of the first metric that a group has. Credits are negative."""
    for name in names:
        if name not in metrics:
            continue
        metric = replies.mapping(metrics[name], source=SOURCE, where=f"{where} {name}")
        text = replies.text(metric, "Amount", source=SOURCE, where=f"{where} {name}")
        amount = billed_decimal(text)
        if amount is None:
            raise ReplyError(source=SOURCE, where=f"{where} {name}", why=f"{shown(text)} is not an amount")
        return amount, replies.text(metric, "Unit", source=SOURCE, where=f"{where} {name}")
    return None


def _period(result: Mapping[str, Any], *, where: str) -> tuple[datetime, datetime]:
    """Return a period, whose days begin at midnight UTC and whose end is not in it."""
    period = replies.mapping(result.get("TimePeriod"), source=SOURCE, where=where)
    found = []
    for key in ("Start", "End"):
        text = replies.text(period, key, source=SOURCE, where=where)
        try:
            at = datetime.fromisoformat(text)
        except ValueError as e:
            raise ReplyError(
                source=SOURCE, where=where, why=f"{key} must be a day like 2026-11-27, not {text!r}"
            ) from e
        found.append(at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC))
    return found[0], found[1]
