"""Bills written by hand: a header, the cells that a test is about, everything else as an export of AWS has it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

FOCUS_ROW: Mapping[str, str] = {
    "BilledCost": "1.006",
    "EffectiveCost": "1.006",
    "ListCost": "1.006",
    "ContractedCost": "1.006",
    "BillingAccountId": "123456789012",
    "SubAccountId": "210987654321",
    "BillingCurrency": "USD",
    "ChargeCategory": "Usage",
    "ChargeClass": "",
    "ChargeDescription": "$1.006 per On Demand Linux g5.xlarge Instance Hour",
    "ChargePeriodStart": "2026-11-27T14:00:00Z",
    "ChargePeriodEnd": "2026-11-27T15:00:00Z",
    "CommitmentDiscountId": "",
    "CommitmentDiscountStatus": "",
    "CommitmentDiscountType": "",
    "ConsumedQuantity": "1",
    "ConsumedUnit": "Hours",
    "InvoiceId": "EUINV26-1",
    "PricingCategory": "Standard",
    "PricingQuantity": "1",
    "PricingUnit": "Hours",
    "ProviderName": "AWS",
    "RegionId": "us-east-1",
    "ResourceId": "i-0a1b",
    "ServiceName": "Amazon Elastic Compute Cloud",
    "SkuMeter": "BoxUsage:g5.xlarge",
    "Tags": '{"team": "ml"}',
    "x_Operation": "RunInstances",
}
PLAN = "arn:aws:savingsplans::123456789012:savingsplan/06ea8e25"
RESERVATION = "arn:aws:ec2:us-east-1:123456789012:reserved-instances/f2b1"
CUR_ROW: Mapping[str, str] = {
    "bill_invoice_id": "1234",
    "bill_payer_account_id": "123456789012",
    "line_item_usage_account_id": "210987654321",
    "line_item_line_item_type": "Usage",
    "line_item_usage_start_date": "2026-11-27T14:00:00.000Z",
    "line_item_usage_end_date": "2026-11-27T15:00:00.000Z",
    "line_item_product_code": "AmazonEC2",
    "line_item_usage_type": "USW2-BoxUsage:g5.xlarge",
    "line_item_operation": "RunInstances",
    "line_item_availability_zone": "us-west-2a",
    "line_item_resource_id": "i-0a1b",
    "line_item_usage_amount": "1.0",
    "line_item_currency_code": "USD",
    "line_item_unblended_cost": "1.006",
    "line_item_line_item_description": "$1.006 per On Demand Linux g5.xlarge Instance Hour",
    "pricing_public_on_demand_cost": "1.006",
    "pricing_unit": "Hrs",
    "product": '{"region": "us-west-2"}',
    "product_region_code": "us-west-2",
    "product_instance_type": "g5.xlarge",
    "resource_tags": '{"user_team": "ml"}',
}


def text_of(rows: Iterable[Mapping[str, str]]) -> str:
    """Return rows as CSV under the header of the first."""
    listed = list(rows)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(listed[0]), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return out.getvalue()


def written(folder: Path, *rows: Mapping[str, str], name: str = "bill.csv") -> Path:
    """Write rows to a file and return its path."""
    path = folder / name
    path.write_text(text_of(rows), encoding="utf-8")
    return path
