"""DescribeSavingsPlans read into the plans that an account owns: what is committed per hour, and what of it is paid when.

Reference: AWS Savings Plans API, DescribeSavingsPlans; read 2026-11. The operation has no paginator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from pricing.aws import replies
from pricing.aws.paging import followed
from pricing.aws.savings_plans import MOST_RESULTS, PAYMENTS, PLANS, SECONDS_PER_YEAR
from pricing.aws.session import Aws
from pricing.errors import ReplyError

SOURCE = "AWS Savings Plans of the account"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedPlan:
    """One plan: the commitment is owed for every hour of the term; upfront and hourly payments together make it."""

    plan_id: str
    offering_id: str
    state: str
    plan_type: str  # "compute" | "ec2_instance", or AWS's own word for plans of other services
    region: str | None  # EC2 Instance plans only
    family: str | None  # likewise
    term_years: int
    payment_option: str
    currency: str
    commitment_per_hour: Decimal
    upfront: Decimal | None
    recurring_per_hour: Decimal | None
    starts_at: datetime
    ends_at: datetime


def owned_plans(aws: Aws) -> tuple[OwnedPlan, ...]:
    """Return the account's active plans."""
    client = aws.client("savingsplans", "us-east-1")
    pages = followed(client, "describe_savings_plans", "savingsPlans", source=SOURCE, states=["active"], maxResults=MOST_RESULTS)  # fmt: skip
    return parse_owned_plans(pages)


def parse_owned_plans(pages: Iterable[Any]) -> tuple[OwnedPlan, ...]:
    """Return every plan of the replies, by their start. One that cannot be read is an error: a commitment must not be lost."""
    found: dict[str, OwnedPlan] = {}
    for page in pages:
        for index, row in enumerate(replies.rows_of(page, "savingsPlans", source=SOURCE)):
            plan = parse_owned_plan(row, where=f"plan {index}")
            found[plan.plan_id] = plan
    return tuple(sorted(found.values(), key=lambda plan: (plan.starts_at, plan.plan_id)))


def parse_owned_plan(reply: Any, *, where: str) -> OwnedPlan:
    """Return one plan; amounts are texts, per hour of the whole plan but for the upfront."""
    row = replies.mapping(reply, source=SOURCE, where=where)

    def text(key: str) -> str:
        return replies.text(row, key, source=SOURCE, where=where)

    def amount(key: str) -> Decimal | None:
        value = row.get(key)
        return None if value is None else replies.price(value, source=SOURCE, where=f"{where} {key}")

    seconds = replies.whole(row, "termDurationInSeconds", source=SOURCE, where=where)
    if seconds == 0 or seconds % SECONDS_PER_YEAR:
        raise ReplyError(source=SOURCE, where=where, why=f"lasts {seconds} s, which is no whole number of years")
    if (payment := PAYMENTS.get(text("paymentOption"))) is None:
        raise ReplyError(source=SOURCE, where=where, why=f"paymentOption {row['paymentOption']!r} is not known")
    return OwnedPlan(
        plan_id=text("savingsPlanId"),
        offering_id=text("offeringId"),
        state=text("state"),
        plan_type=PLANS.get(text("savingsPlanType"), text("savingsPlanType")),
        region=row.get("region") or None,
        family=row.get("ec2InstanceFamily") or None,
        term_years=seconds // SECONDS_PER_YEAR,
        payment_option=payment,
        currency=text("currency"),
        commitment_per_hour=replies.price(row.get("commitment"), source=SOURCE, where=f"{where} commitment"),
        upfront=amount("upfrontPaymentAmount"),
        recurring_per_hour=amount("recurringPaymentAmount"),
        starts_at=replies.instant(row.get("start"), source=SOURCE, where=f"{where} start"),
        ends_at=replies.instant(row.get("end"), source=SOURCE, where=f"{where} end"),
    )
