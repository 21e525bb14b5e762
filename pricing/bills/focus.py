"""Rows of a FOCUS export (1.0 to 1.2, any provider) as billed lines.

A purchase that pays for later use has EffectiveCost 0 there, and the use that it covers carries its share: a row that breaks this would be
counted twice and is refused.

Reference: FOCUS specification 1.2 (June 2025) and the column dictionary of AWS Data Exports; read 2026-11.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pricing.bills.cells import Row
from pricing.bills.model import CORRECTION, UNUSED, USED, BilledAs, BilledLine, ChargeCategory
from pricing.bills.usage_types import BLOCK_FEE, Usage, billed_as, committed_as, usage_of

COSTS = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
NEEDED = (*COSTS, "BillingCurrency", "ChargeCategory", "ChargePeriodStart", "ChargePeriodEnd")
PROVIDER_COLUMNS = ("ProviderName", "ServiceProviderName")  # 1.3 renames it
PROVIDERS = {
    "aws": "aws",
    "amazon web services": "aws",
    "microsoft": "azure",
    "microsoft azure": "azure",
    "azure": "azure",
    "google cloud": "gcp",
    "google cloud platform": "gcp",
    "oracle": "oci",
    "oracle cloud infrastructure": "oci",
}
READ = (
    *NEEDED, *PROVIDER_COLUMNS, "AvailabilityZone", "BillingAccountId", "ChargeClass", "ChargeDescription", "CommitmentDiscountId",
    "CommitmentDiscountStatus", "CommitmentDiscountType", "ConsumedQuantity", "ConsumedUnit", "InvoiceId", "PricingCategory", "PricingQuantity",
    "PricingUnit", "RegionId", "ResourceId", "ServiceName", "ServiceSubcategory", "SkuMeter", "SkuPriceDetails", "SubAccountId", "Tags",
    "x_Operation", "x_UsageType",
)  # fmt: skip
"""Every column that is read; a Parquet file gives up only these."""

MACHINES = "Virtual Machines"


def version_of(header: Collection[str]) -> str | None:
    """Return the FOCUS version whose columns a header has, None where it is no FOCUS export."""
    if not {"ChargePeriodStart", "ChargeCategory"} <= set(header):
        return None
    if {"InvoiceId", "PricingCurrency", "BillingAccountType"} & set(header):
        return "FOCUS 1.2"
    return "FOCUS 1.1" if {"SkuMeter", "ServiceSubcategory"} & set(header) else "FOCUS 1.0"


def missing(header: Collection[str]) -> list[str]:
    """Return the columns that an export must have and this one lacks."""
    lacking = [column for column in NEEDED if column not in header]
    return lacking if any(c in header for c in PROVIDER_COLUMNS) else [*lacking, PROVIDER_COLUMNS[0]]


def lines_of(row: Row, source: str) -> Iterator[BilledLine]:
    """Yield the one line of a row."""
    start, end = row.period("ChargePeriodStart", "ChargePeriodEnd")
    category = row.member("ChargeCategory", ChargeCategory)
    charge_class, status = row.text("ChargeClass"), row.text("CommitmentDiscountStatus")
    if charge_class not in (None, CORRECTION):
        raise row.wrong("ChargeClass", f"must be empty or {CORRECTION}, not {charge_class!r}")
    if status not in (None, USED, UNUSED):
        raise row.wrong("CommitmentDiscountStatus", f"must be {USED}, {UNUSED} or empty, not {status!r}")
    usage_type = row.first("SkuMeter", "x_UsageType")
    usage = usage_of(usage_type)
    commitment = row.text("CommitmentDiscountId")
    effective = row.must_amount("EffectiveCost")
    for_later = commitment is not None or usage.sort == BLOCK_FEE
    if category is ChargeCategory.PURCHASE and for_later and effective != 0 and charge_class is None:
        why = f"a purchase for later use has 0 here, as that use carries it; {effective:f} would be counted twice"
        raise row.wrong("EffectiveCost", why)
    yield BilledLine(
        provider=provider_of(row),
        charge_period_start=start,
        charge_period_end=end,
        billing_currency=row.currency("BillingCurrency"),
        billed_cost=row.must_amount("BilledCost"),
        effective_cost=effective,
        list_cost=row.must_amount("ListCost"),
        contracted_cost=row.must_amount("ContractedCost"),
        pricing_quantity=row.amount("PricingQuantity"),
        pricing_unit=row.text("PricingUnit"),
        consumed_quantity=row.amount("ConsumedQuantity"),
        consumed_unit=row.text("ConsumedUnit"),
        service=row.text("ServiceName"),
        region=row.text("RegionId"),
        availability_zone=row.text("AvailabilityZone"),
        instance_type=usage.instance_type or row.mapping("SkuPriceDetails").get("InstanceType"),
        usage_type=usage_type,
        purchase_option=option_of(row, usage, commitment, category),
        charge_category=category,
        charge_class=charge_class,
        commitment_id=commitment,
        commitment_status=status,
        resource_id=row.text("ResourceId"),
        account=row.first("SubAccountId", "BillingAccountId"),
        billing_account=row.text("BillingAccountId"),
        tags=row.mapping("Tags"),
        description=row.text("ChargeDescription"),
        estimated="InvoiceId" in row.cells and row.text("InvoiceId") is None,
        source=source,
    )


def provider_of(row: Row) -> str:
    """Return the provider as the price tables spell it."""
    name = row.first(*PROVIDER_COLUMNS)
    if name is None:
        raise row.wrong(PROVIDER_COLUMNS[0], "must not be empty")
    return PROVIDERS.get(name.casefold(), name.casefold())


def option_of(row: Row, usage: Usage, commitment: str | None, category: ChargeCategory) -> BilledAs | None:
    """Return how it was paid, where the row tells: by the usage type, else by the pricing category of a virtual machine."""
    if category not in (ChargeCategory.USAGE, ChargeCategory.PURCHASE):
        return None
    pricing = row.text("PricingCategory")
    covered = row.first("CommitmentDiscountType") or commitment
    if pricing == "Committed" or commitment is not None:
        told = committed_as(covered or "") or (committed_as(commitment) if commitment else None)
        return told if told is not None else billed_as(usage, operation=row.text("x_Operation"), commitment=None)
    if usage.sort is not None:
        return billed_as(usage, operation=row.text("x_Operation"), commitment=None)
    if row.text("ServiceSubcategory") == MACHINES and category is ChargeCategory.USAGE:
        return {"Standard": BilledAs.ON_DEMAND, "Dynamic": BilledAs.SPOT}.get(pricing or "")
    return None
