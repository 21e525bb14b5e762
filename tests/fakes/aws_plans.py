"""Savings Plans, quotas, the bill and the spot advisor of the small world, as their services answer them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from .aws_products import code_of
from .aws_world import MACHINES, REGIONS, World

Row = dict[str, Any]
YEAR_S = 31_536_000
PAYMENTS = ("No Upfront", "Partial Upfront", "All Upfront")
SHARES = {
    # (plan, years) -> share of on-demand by payment option, all invented
    ("Compute", 1): ("0.72", "0.70", "0.69"),
    ("Compute", 3): ("0.52", "0.50", "0.49"),
    ("EC2Instance", 1): ("0.62", "0.60", "0.59"),
    ("EC2Instance", 3): ("0.42", "0.40", "0.39"),
}
WITHOUT_INSTANCE_PLAN = ("p6-b200", "p6-b300")
"""New accelerators lack EC2 Instance plans at first."""


def offering_id(plan: str, years: int, payment: str, family: str = "") -> str:
    """Return an invented id like those of AWS."""
    return str(UUID(bytes=code_of(plan, years, payment, family).encode()))


def offerings(world: World) -> list[Row]:
    found = []
    for plan, years in SHARES:
        families = {""}
        if plan == "EC2Instance":
            families = {name.partition(".")[0] for name, _ in world.edition.on_demand} - set(WITHOUT_INSTANCE_PLAN)
        found += [
            {
                "offeringId": offering_id(plan, years, payment, family),
                "productTypes": ["EC2", "Fargate", "Lambda"] if plan == "Compute" else ["EC2"],
                "planType": plan,
                "description": f"{years} year {payment} {plan} Savings Plan",
                "paymentOption": payment,
                "durationSeconds": years * YEAR_S,
                "currency": "USD",
                "serviceCode": "ComputeSavingsPlans",
                "usageType": f"{plan}SP:{years}yr{payment.replace(' ', '')}",
                "operation": "",
                "properties": [{"name": "instanceFamily", "value": family}] if family else [],
            }
            for family in sorted(families)
            for payment in PAYMENTS
        ]
    return found


def rates(world: World) -> list[Row]:
    """Return every rate; beside the one of plain use, rows that look like it."""
    found: list[Row] = []
    for (name, region), price in sorted(world.edition.on_demand.items()):
        machine, prefix = MACHINES[name], REGIONS[region][1]
        if region.startswith("cn-") or machine.kind == "media":
            continue
        for (plan, years), shares in SHARES.items():
            if plan == "EC2Instance" and machine.family in WITHOUT_INSTANCE_PLAN:
                continue
            for payment, share in zip(PAYMENTS, shares, strict=True):
                own = "DedicatedUsage" if machine.metal else "BoxUsage"
                sorts = [
                    (own, "RunInstances", "Linux/UNIX", "dedicated" if machine.metal else "shared", Decimal(1)),
                    # another system, at its own price
                    (own, "RunInstances:0002", "Windows", "shared", Decimal("1.5")),
                    # an unused reservation of capacity, at the rate of plain use
                    ("UnusedBox", "RunInstances", "Linux/UNIX", "shared", Decimal(1)),
                    # a machine of one's own
                    ("DedicatedUsage", "RunInstances", "Linux/UNIX", "dedicated", Decimal("1.06")),
                ][: 1 if machine.metal else 4]
                for kind, operation, system, tenancy, factor in sorts:
                    properties = {
                        "region": region,
                        "instanceType": name,
                        "instanceFamily": machine.family,
                        "productDescription": system,
                        "tenancy": tenancy,
                    }
                    keys = sorted(properties, key=lambda k: code_of(k, name, years, payment))  # in no order
                    found.append(
                        {
                            "savingsPlanOffering": _offering(plan, years, payment, machine.family),
                            "rate": f"{price * Decimal(share) * factor:.6f}".rstrip("0"),
                            "unit": "Hrs",
                            "productType": "EC2",
                            "serviceCode": "AmazonEC2",
                            "usageType": f"{prefix}{kind}:{name}",
                            "operation": operation,
                            "properties": [{"name": k, "value": properties[k]} for k in keys],
                        }
                    )
    plain = next(r for r in found if r["usageType"] == "BoxUsage:g5.xlarge")
    # the same machine in another currency
    found.append(plain | {"savingsPlanOffering": plain["savingsPlanOffering"] | {"currency": "CNY"}, "rate": "5.2"})
    # a rate of another service and unit
    found.append(
        plain
        | {"rate": "0.0000138", "unit": "Lambda-GB-Second", "productType": "Lambda", "serviceCode": "AWSLambda",
           "usageType": "Lambda-GB-Second", "operation": "", "properties": [{"name": "region", "value": "us-east-1"}]}
    )  # fmt: skip
    return sorted(found, key=lambda r: code_of(r["usageType"], r["operation"], *r["savingsPlanOffering"].values()))


def _offering(plan: str, years: int, payment: str, family: str) -> Row:
    return {
        "offeringId": offering_id(plan, years, payment, family if plan == "EC2Instance" else ""),
        "paymentOption": payment,
        "planType": plan,
        "durationSeconds": years * YEAR_S,
        "currency": "USD",
        "planDescription": f"{years} year {payment} {plan} Savings Plan",
    }


def chosen_offerings(world: World, asked: Row) -> list[Row]:
    """Return the offerings that a request asks for."""
    return [
        row
        for row in offerings(world)
        if _in(asked.get("planTypes"), row["planType"])
        and _in(asked.get("paymentOptions"), row["paymentOption"])
        and _in(asked.get("durations"), row["durationSeconds"])
        and _in(asked.get("currencies"), row["currency"])
        and _in(asked.get("offeringIds"), row["offeringId"])
        and (asked.get("productType") is None or asked["productType"] in row["productTypes"])
        and _properties(asked, row)
    ]


def chosen_rates(listed: list[Row], asked: Row) -> list[Row]:
    """Return those of the listed rates that a request asks for."""
    return [
        row
        for row in listed
        if _in(asked.get("savingsPlanTypes"), row["savingsPlanOffering"]["planType"])
        and _in(asked.get("savingsPlanPaymentOptions"), row["savingsPlanOffering"]["paymentOption"])
        and _in(asked.get("savingsPlanOfferingIds"), row["savingsPlanOffering"]["offeringId"])
        and _in(asked.get("products"), row["productType"])
        and _in(asked.get("serviceCodes"), row["serviceCode"])
        and _in(asked.get("usageTypes"), row["usageType"])
        and _in(asked.get("operations"), row["operation"])
        and _properties(asked, row)
    ]


def _in(wanted: list[Any] | None, value: Any) -> bool:
    return not wanted or value in wanted


def _properties(asked: Row, row: Row) -> bool:
    had = {p["name"]: p["value"] for p in row["properties"]}
    return all(had.get(f["name"]) in f["values"] for f in asked.get("filters") or [])


QUOTAS = {
    "L-417A185B": "Running On-Demand P instances",
    "L-7212CCBC": "All P4, P3 and P2 Spot Instance Requests",  # P5 and later have their own
    "L-C4BD4855": "All P5 Spot Instance Requests",
    "L-DB2E81BA": "Running On-Demand G and VT instances",
    "L-3819A6DF": "All G and VT Spot Instance Requests",
    "L-2C3B7624": "Running On-Demand Trn instances",
    "L-6B0D517C": "All Trn Spot Instance Requests",
    "L-1945791B": "Running On-Demand Inf instances",
    "L-B5D1601B": "All Inf Spot Instance Requests",
    "L-6E869C2A": "Running On-Demand DL instances",
    "L-85EED4F7": "All DL Spot Instance Requests",
    "L-1216C47A": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
}
DEFAULTS = {"L-1216C47A": 5.0, "L-34B43A08": 5.0}
"""Every other default is 0."""


def quota(region: str, code: str, value: float) -> Row:
    """Return one quota in vCPUs."""
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{region}:123456789012:ec2/{code}",
        "QuotaCode": code,
        "QuotaName": QUOTAS[code],
        "Value": value,
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def applied_quotas(world: World, region: str) -> list[Row]:
    """Return the quotas that ever had a value of their own."""
    return [quota(region, code, world.quotas[code]) for code in QUOTAS if code in world.quotas]


def default_quotas(region: str) -> list[Row]:
    """Return the defaults of every account."""
    return [quota(region, code, DEFAULTS.get(code, 0.0)) for code in QUOTAS]


def cost_and_usage(world: World, asked: Row) -> list[Row]:
    """Return the bill by day: GPU hours on demand and on spot, volumes; the last day is an estimate."""
    start, end = asked["TimePeriod"]["Start"][:10], asked["TimePeriod"]["End"][:10]
    metrics = asked.get("Metrics") or ["UnblendedCost"]
    found = []
    first = (world.now - timedelta(days=400)).date()
    for number in range(401):
        day = first + timedelta(days=number)
        if not start <= day.isoformat() < end:  # the end is exclusive
            continue
        lines = {"BoxUsage:g5.xlarge": ("24.144", "24"), "SpotUsage:g5.xlarge": ("4.8", "12"), "EBS:VolumeUsage.gp3": ("0.2630136986", "3.2876712329")}  # fmt: skip

        def amounts(costs: list[tuple[str, str]]) -> Row:
            usd = str(sum((Decimal(usd) for usd, _ in costs), Decimal(0)))
            used = str(sum((Decimal(used) for _, used in costs), Decimal(0)))
            return {m: {"Amount": used, "Unit": "N/A"} if m == "UsageQuantity" else {"Amount": usd, "Unit": "USD"} for m in metrics}  # fmt: skip

        grouped = asked.get("GroupBy")
        found.append(
            {
                "TimePeriod": {"Start": day.isoformat(), "End": (day + timedelta(days=1)).isoformat()},
                "Total": {} if grouped else amounts(list(lines.values())),
                "Groups": [{"Keys": [usage], "Metrics": amounts([cost])} for usage, cost in lines.items()] if grouped else [],
                "Estimated": day == world.now.date(),
            }
        )  # fmt: skip
    return found


ADVISOR_RANGES = [
    {"index": 0, "label": "<5%", "dots": 0, "max": 5},
    {"index": 1, "label": "5-10%", "dots": 1, "max": 11},
    {"index": 2, "label": "10-15%", "dots": 2, "max": 16},
    {"index": 3, "label": "15-20%", "dots": 3, "max": 22},
    {"index": 4, "label": ">20%", "dots": 4, "max": 100},
]
ADVISOR_BANDS = {
    "g4dn.xlarge": 0,
    "g5.xlarge": 2,
    "g5.2xlarge": 1,
    "g6.xlarge": 1,
    "g6e.xlarge": 3,
    "p4d.24xlarge": 4,
    "p5.48xlarge": 4,
}
"""Index of the interruption rate, from 0, invented. Types that are missing here are missing there too."""


def spot_advisor(world: World) -> Row:
    """Return the public file of interruption bands."""
    listed: Row = {}
    for region in ("us-east-1", "us-west-2"):
        rows = {
            name: {"s": 60 - 10 * band, "r": band}
            for name, band in ADVISOR_BANDS.items()
            if (name, region) in world.edition.on_demand
        }
        listed[region] = {"Linux": rows, "Windows": {name: row | {"r": 0} for name, row in rows.items()}}
    described = {m.name: {"cores": m.vcpus, "ram_gb": float(m.memory_gib), "emr": m.name[0] == "p"} for m in MACHINES.values()}  # fmt: skip
    return {"global_rate": "<10%", "instance_types": described, "ranges": ADVISOR_RANGES, "spot_advisor": listed}
