"""Rows of an AWS Cost and Usage Report 2.0 as billed lines, brought to FOCUS's way of counting.

A CUR books a covered hour at its on-demand cost and takes it back in a second row (`SavingsPlanNegation`); here the covered hour is billed
at 0 and the second row is left out. The row of a plan's or reservation's fee holds both what is paid and what of it was not used; it becomes
two lines, the purchase (effective 0) and the unused part (billed 0). Where an account has negotiated rates, the `net` columns hold what
is really paid and go before the others.

Reference: AWS Data Exports, table dictionary of CUR 2.0, and AWS's amortised-cost query of the CUR Query Library; read 2026-11.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from decimal import Decimal

from pricing.bills.cells import Row
from pricing.bills.model import UNUSED, USED, BilledLine, ChargeCategory
from pricing.bills.usage_types import BLOCK_FEE, billed_as, usage_of

FORMAT = "CUR 2.0"
SORT, COST, NET_COST = "line_item_line_item_type", "line_item_unblended_cost", "line_item_net_unblended_cost"
START, END = "line_item_usage_start_date", "line_item_usage_end_date"
NEEDED = (SORT, COST, START, END, "line_item_currency_code", "line_item_usage_type", "line_item_product_code")
PLAN_ARN, RESERVATION_ARN = "savings_plan_savings_plan_a_r_n", "reservation_reservation_a_r_n"
PLAN_COSTS = ("savings_plan_net_savings_plan_effective_cost", "savings_plan_savings_plan_effective_cost")
RESERVED_COSTS = ("reservation_net_effective_cost", "reservation_effective_cost")
COMMITTED, COMMITMENT_USED = "savings_plan_total_commitment_to_date", "savings_plan_used_commitment"
UNUSED_FEE = ("reservation_net_unused_recurring_fee", "reservation_unused_recurring_fee")
UNUSED_UPFRONT = (
    "reservation_net_unused_amortized_upfront_fee_for_billing_period",
    "reservation_unused_amortized_upfront_fee_for_billing_period",
)
CATEGORIES = {
    "Usage": ChargeCategory.USAGE,
    "DiscountedUsage": ChargeCategory.USAGE,
    "SavingsPlanCoveredUsage": ChargeCategory.USAGE,
    "Fee": ChargeCategory.PURCHASE,
    "RIFee": ChargeCategory.PURCHASE,
    "SavingsPlanUpfrontFee": ChargeCategory.PURCHASE,
    "SavingsPlanRecurringFee": ChargeCategory.PURCHASE,
    "Tax": ChargeCategory.TAX,
    "Credit": ChargeCategory.CREDIT,
    "Refund": ChargeCategory.ADJUSTMENT,
    "EdpDiscount": ChargeCategory.ADJUSTMENT,
    "PrivateRateDiscount": ChargeCategory.ADJUSTMENT,
    "BundledDiscount": ChargeCategory.ADJUSTMENT,
    "DistributorDiscount": ChargeCategory.ADJUSTMENT,
    "SppDiscount": ChargeCategory.ADJUSTMENT,
    "Discount": ChargeCategory.ADJUSTMENT,
}
NEGATION = "SavingsPlanNegation"
NEGATED = f"{NEGATION}: the hour that it takes back is billed at 0 already"
PLAN, RESERVATION = "savings plan", "reservation"
ZERO = Decimal(0)
READ = (
    *NEEDED, NET_COST, PLAN_ARN, RESERVATION_ARN, *PLAN_COSTS, *RESERVED_COSTS, COMMITTED, COMMITMENT_USED, *UNUSED_FEE, *UNUSED_UPFRONT,
    "bill_invoice_id", "bill_payer_account_id", "line_item_availability_zone", "line_item_line_item_description", "line_item_operation",
    "line_item_resource_id", "line_item_usage_account_id", "line_item_usage_amount", "pricing_public_on_demand_cost", "pricing_unit", "product",
    "product_instance_type", "product_region", "product_region_code", "resource_tags", "tags",
)  # fmt: skip
"""Every column that is read; a Parquet file gives up only these."""


def version_of(header: Collection[str]) -> str | None:
    """Return "CUR 2.0" for a header of one, None for any other."""
    return FORMAT if {SORT, COST} <= set(header) else None


def missing(header: Collection[str]) -> list[str]:
    """Return the columns that a report must have and this one lacks."""
    return [column for column in NEEDED if column not in header]


def lines_of(row: Row, source: str) -> Iterator[BilledLine]:
    """Yield the lines of a row: usually one, two for a fee that was not used up, none for a negation."""
    sort = row.must(SORT)
    if sort == NEGATION:
        return
    if (category := CATEGORIES.get(sort)) is None:
        raise row.wrong(SORT, f"unknown: {sort!r}; known are {', '.join(CATEGORIES)}, {NEGATION}")
    start, end = row.period(START, END)
    usage_type = row.text("line_item_usage_type")
    usage = usage_of(usage_type)
    plan, reservation = row.text(PLAN_ARN), row.text(RESERVATION_ARN)
    if ":capacity-reservation/" in (reservation or ""):  # capacity that is held, no price that is agreed
        reservation = None
    commitment, kind = plan or reservation, PLAN if plan else RESERVATION if reservation else None
    billed = _net(row, NET_COST, COST)
    if billed is None:
        raise row.wrong(COST, "must not be empty")
    effective = effective_of(row, sort, billed, for_later=commitment is not None or usage.sort == BLOCK_FEE)
    product = row.mapping("product")
    amount, unit = row.amount("line_item_usage_amount"), row.text("pricing_unit")
    covered = sort in ("DiscountedUsage", "SavingsPlanCoveredUsage")
    line = BilledLine(
        provider="aws",
        charge_period_start=start,
        charge_period_end=end,
        billing_currency=row.currency("line_item_currency_code"),
        billed_cost=ZERO if sort == "SavingsPlanCoveredUsage" else billed,
        effective_cost=effective,
        list_cost=row.amount("pricing_public_on_demand_cost"),
        pricing_quantity=amount,
        pricing_unit=unit,
        consumed_quantity=amount if category is ChargeCategory.USAGE else None,
        consumed_unit=unit if category is ChargeCategory.USAGE else None,
        service=row.text("line_item_product_code"),
        region=row.first("product_region_code", "product_region")
        or product.get("region_code")
        or product.get("region"),
        availability_zone=row.text("line_item_availability_zone"),
        instance_type=usage.instance_type or row.text("product_instance_type") or product.get("instance_type"),
        usage_type=usage_type,
        purchase_option=billed_as(usage, operation=row.text("line_item_operation"), commitment=kind)
        if category in (ChargeCategory.USAGE, ChargeCategory.PURCHASE)
        else None,
        charge_category=category,
        commitment_id=commitment,
        commitment_status=USED if covered else None,
        resource_id=row.text("line_item_resource_id"),
        account=row.first("line_item_usage_account_id", "bill_payer_account_id"),
        billing_account=row.text("bill_payer_account_id"),
        tags=row.mapping("resource_tags") or row.mapping("tags"),
        description=row.text("line_item_line_item_description"),
        estimated="bill_invoice_id" in row.cells and row.text("bill_invoice_id") is None,
        source=source,
    )
    yield line
    unused = unused_of(row, sort)
    if unused:
        yield replace(
            line,
            billed_cost=ZERO,
            effective_cost=unused,
            list_cost=ZERO,
            pricing_quantity=None,
            pricing_unit=None,
            charge_category=ChargeCategory.USAGE,
            commitment_status=UNUSED,
            description="unused commitment",
        )


def effective_of(row: Row, sort: str, billed: Decimal, *, for_later: bool) -> Decimal:
    """Return what a row costs once payments for later use are spread over that use."""
    if sort in ("SavingsPlanCoveredUsage", "DiscountedUsage"):
        columns = PLAN_COSTS if sort == "SavingsPlanCoveredUsage" else RESERVED_COSTS
        found = _net(row, *columns)
        if found is None:
            raise row.wrong(columns[-1], f"must not be empty for {sort}")
        return found
    if sort in ("SavingsPlanRecurringFee", "SavingsPlanUpfrontFee", "RIFee") or (sort == "Fee" and for_later):
        return ZERO
    return billed


def unused_of(row: Row, sort: str) -> Decimal:
    """Return what of a commitment's fee in this row paid for nothing."""
    if sort == "SavingsPlanRecurringFee":
        return (row.amount(COMMITTED) or ZERO) - (row.amount(COMMITMENT_USED) or ZERO)
    if sort == "RIFee":
        return (_net(row, *UNUSED_FEE) or ZERO) + (_net(row, *UNUSED_UPFRONT) or ZERO)
    return ZERO


def _net(row: Row, net: str, gross: str) -> Decimal | None:
    """Return a cost with negotiated discounts, or the plain one where there are none."""
    found = row.amount(net)
    return row.amount(gross) if found is None else found
