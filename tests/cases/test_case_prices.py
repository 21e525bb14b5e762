"""Which row of a price reply is the price of a machine, and what is no price at all."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from case_machines import aws_type, model, tables

from planner.recommend.model import Offer, Rejection
from planner.recommend.offers import Terms, offer_or_rejection
from planner.recommend.request import RecommendRequest
from planner.services.recommend import recommend
from pricing.aws.currency import ExchangeRate, in_usd
from pricing.aws.price_list import on_demand_quote
from pricing.aws.price_list_query import region_filters
from pricing.aws.regions import location_names
from pricing.aws.spot_history import parse_spot_history, spot_quotes
from pricing.catalog import Catalog
from pricing.contents import SnapshotContents
from pricing.errors import CurrencyError, NotOnePrice
from pricing.model import Accelerator, AcceleratorKind, InstanceType, PurchaseOption, Quote
from pricing.snapshot import open_snapshot, write_snapshot

DAY = datetime(2026, 7, 20, 12, tzinfo=UTC)

# sku, system, tenancy, software, capacity, operation, use, USD per hour. Only S007 is a plain Linux machine in use by whoever pays.
G5_ROWS = """
S001  Linux    Shared     NA       AllocatedCapacityReservation  RunInstances       Reservation     0.0000000000
S002  Linux    Shared     NA       UnusedCapacityReservation     RunInstances       UnusedBox       1.0060000000
S003  Linux    Dedicated  NA       Used                          RunInstances       DedicatedUsage  1.1066000000
S004  Windows  Shared     NA       Used                          RunInstances:0002  BoxUsage        1.1900000000
S005  Linux    Shared     SQL_Web  Used                          RunInstances:0200  BoxUsage        1.0740000000
S006  RHEL     Shared     NA       Used                          RunInstances:0010  BoxUsage        1.0636000000
S007  Linux    Shared     NA       Used                          RunInstances       BoxUsage        1.0060000000
S008  Linux    Host       NA       Used                          RunInstances       HostBoxUsage    0.0000000000
"""


def document(line: str, *, region: str = "us-east-1", location: str = "US East (N. Virginia)", currency: str = "USD") -> str:  # fmt: skip
    sku, system, tenancy, software, capacity, operation, use, price = line.split()
    attributes = {
        "servicecode": "AmazonEC2", "instanceType": "g5.xlarge", "location": location, "locationType": "AWS Region", "regionCode": region,
        "operatingSystem": system, "tenancy": tenancy, "preInstalledSw": software.replace("_", " "), "licenseModel": "No License required",
        "capacitystatus": capacity, "operation": operation, "usagetype": f"{use}:g5.xlarge",
    }  # fmt: skip
    term = f"{sku}.JRTCKXETXF"
    rate = {f"{term}.6YS6EN2CT7": {"unit": "Hrs", "pricePerUnit": {currency: price}}}
    return json.dumps(
        {
            "product": {"productFamily": "Compute Instance", "sku": sku, "attributes": attributes},
            "serviceCode": "AmazonEC2",
            "terms": {"OnDemand": {term: {"sku": sku, "offerTermCode": "JRTCKXETXF", "priceDimensions": rate}}},
        }
    )


def on_demand(documents: list[str], region: str = "us-east-1") -> Quote:
    return on_demand_quote(documents, instance_type="g5.xlarge", region=region, at=DAY, retrieved_at=DAY)


def offer(quotes: list[Quote], option: PurchaseOption, region: str) -> Offer | Rejection:
    quoted = frozenset(q.purchase_option for q in quotes)
    return offer_or_rejection(
        aws_type("g5.xlarge"), region, option, quotes, quoted=quoted, terms=Terms(), elsewhere=frozenset()
    )


def test_price_rows() -> None:
    # Reservations held for someone cost nothing or are paid by nobody running; hosts are paid as hosts; other systems carry their fee.
    documents = [document(line) for line in G5_ROWS.strip().splitlines()]
    rotations = [documents[i:] + documents[:i] for i in range(len(documents))]
    for order in (*rotations, documents[::-1], *itertools.islice(itertools.permutations(documents), 0, 40320, 1009)):
        quote = on_demand(list(order))
        assert (quote.effective_unit_price, quote.currency, quote.sku) == (Decimal("1.006"), "USD", "S007")
    with pytest.raises(NotOnePrice, match="no price is left"):
        on_demand([d for d in documents if "S007" not in d])


def test_price_cny() -> None:
    # The China partition's list is in yuan: 9.51 read as dollars would be nine times the price of us-east-1.
    line = "C1 Linux Shared NA Used RunInstances CNN1-BoxUsage 9.5138900000"
    quote = on_demand(
        [document(line, region="cn-north-1", location="China (Beijing)", currency="CNY")], region="cn-north-1"
    )
    assert (quote.effective_unit_price, quote.currency) == (Decimal("9.51389"), "CNY")
    with pytest.raises(CurrencyError):
        _ = quote.usd_per_hour
    refused = offer([quote], PurchaseOption.ON_DEMAND, "cn-north-1")
    assert isinstance(refused, Rejection)
    assert (refused.reason, "9.51389 CNY" in refused.detail) == ("no_price", True)
    rate = ExchangeRate(currency="CNY", per_usd=Decimal("7.1"), source="stated by the user", as_of=date(2026, 7, 20))
    assert float(in_usd(quote, rate).usd_per_hour.amount) == pytest.approx(1.33998, rel=1e-4)  # 9.51389 / 7.1


@pytest.mark.parametrize(
    ("region", "spellings"),
    [
        ("eu-west-1", {"EU (Ireland)", "Europe (Ireland)"}),
        ("eu-central-1", {"EU (Frankfurt)", "Europe (Frankfurt)"}),
        ("eu-south-1", {"EU (Milan)", "Europe (Milan)"}),
        ("us-east-1", {"US East (N. Virginia)"}),
        ("ap-northeast-1", {"Asia Pacific (Tokyo)"}),
    ],
)
def test_price_eu_name(region: str, spellings: set[str]) -> None:
    # Names differ between the price list and the SDK: prices are asked for by region code, and where only a name exists all are tried.
    assert set(location_names(region)) == spellings
    assert {"Type": "TERM_MATCH", "Field": "regionCode", "Value": region} in region_filters(region)
    with pytest.raises(NotOnePrice, match="does not say that it is not offered"):
        on_demand([], region=region)


def spot_quote(name: str, usd: str, option: PurchaseOption) -> Quote:
    return Quote(
        provider="aws", instance_type=name, region="us-east-1", availability_zone_id="use1-az1" if option is PurchaseOption.SPOT else None,
        purchase_option=option, effective_unit_price=Decimal(usd), source="case", retrieved_at=DAY,
    )  # fmt: skip


@pytest.fixture
def holes(tmp_path: Path) -> Iterator[Catalog]:
    """Four types: a spot price of zero, a real one, none, and a cheap one of a machine without a GPU."""
    cpu = Accelerator(
        name="Xeon of the case", vendor="Intel", architecture="Skylake", kind=AcceleratorKind.CPU, form_factor=None, release_year=2017, memory_gib=None,
        memory_visible_gib=None, memory_bandwidth_gb_s=128.0, peak_tflops={"fp32": 1.7}, cores=18, source="case",
    )  # fmt: skip
    c5d = InstanceType(
        provider="aws", instance_type="c5d.18xlarge", family="c5d", vcpus=72, memory_gib=144.0, cpu_arch="x86_64", accelerator=cpu.name,
        accelerator_kind=AcceleratorKind.CPU, device_count=1, device_fraction=2.0, source="case",
    )  # fmt: skip
    prices: dict[str, tuple[str | None, str]] = {
        "g6.xlarge": ("0", "0.8048"),
        "g5.xlarge": ("0.35", "1.006"),
        "g6e.xlarge": (None, "1.861"),
        "c5d.18xlarge": ("0.0067", "3.456"),
    }
    quotes = [spot_quote(name, usd, PurchaseOption.ON_DEMAND) for name, (_, usd) in prices.items()]
    quotes += [spot_quote(name, usd, PurchaseOption.SPOT) for name, (usd, _) in prices.items() if usd is not None]
    contents = SnapshotContents(
        accelerators=(*tables().accelerators, cpu), aliases=tables().aliases, instance_types=(*(aws_type(n) for n in prices if n != "c5d.18xlarge"), c5d),
        quotes=tuple(quotes), rates=(), interruptions=(), sources=(),
    )  # fmt: skip
    write_snapshot(tmp_path / "case.sqlite", contents, published_at=DAY, origin="import")
    catalog = open_snapshot(tmp_path / "case.sqlite")
    yield catalog
    catalog.close()


def ranking(catalog: Catalog, **asked: Any) -> tuple[list[str], dict[str, tuple[str, str]]]:
    request = RecommendRequest(model="8b", purchase=("spot",), **asked)
    answer = recommend(request, catalog=catalog, spec=model("llama-3.1-8b"), now=DAY)
    rejected = {r["instance_type"]: (r["reason"], r["detail"]) for r in answer["rejections"]}
    return [row["instance_type"] for row in answer["recommendations"]], rejected


def test_price_zero(holes: Catalog) -> None:
    # Zero and missing are holes, not bargains: the one known spot price of a GPU (0.35) wins, under any cap on the price.
    chosen, rejected = ranking(holes, accelerator=("L4", "A10G", "L40S"))
    assert chosen == ["g5.xlarge"]
    assert set(rejected) == {"g6.xlarge", "g6e.xlarge"}
    assert rejected["g6.xlarge"][0] == rejected["g6e.xlarge"][0] == "no_price"
    assert "0 USD per hour, which is a hole in the data" in rejected["g6.xlarge"][1]
    assert "no spot price was found" in rejected["g6e.xlarge"][1]


# page, zone, product, USD per hour, time of the change on 2026-07-20 (d: the day before)
SPOT_ROWS = """
1 us-east-1a Linux/UNIX               0.4523  03:10
1 us-east-1b Linux/UNIX               0.3811  01:00
1 us-east-1b Linux/UNIX               0.4902  11:30
1 us-east-1a Windows                  0.5712  11:00
2 us-east-1a Linux/UNIX               0.4610  10:05
2 us-east-1c Red_Hat_Enterprise_Linux 0.3999  11:50
2 us-east-1a SUSE_Linux               0.2100  11:55
2 us-east-1d Linux/UNIX               0.4710 d22:00
"""


def test_spot_latest() -> None:
    # The price of a zone is its newest Linux row: 0.2100 is another system, 0.3811 was replaced at 11:30, zone c has no Linux row at all.
    pages: dict[str, list[dict[str, str]]] = {"1": [], "2": []}
    for number, zone, product, price, at in (line.split() for line in SPOT_ROWS.strip().splitlines()):
        day = "2026-07-19" if at.startswith("d") else "2026-07-20"
        pages[number].append({
            "AvailabilityZone": zone, "InstanceType": "g5.xlarge", "ProductDescription": product.replace("_", " "), "SpotPrice": price,
            "Timestamp": f"{day}T{at.removeprefix('d')}:00+00:00",
        })  # fmt: skip
    for order in (["1", "2"], ["2", "1"]):
        reading = parse_spot_history(({"SpotPriceHistory": pages[n]} for n in order), at=DAY)
        quotes = spot_quotes(reading, region="us-east-1", retrieved_at=DAY)
        assert {q.availability_zone: q.effective_unit_price for q in quotes} == {
            "us-east-1a": Decimal("0.4610"),
            "us-east-1b": Decimal("0.4902"),
            "us-east-1d": Decimal("0.4710"),
        }
        cheapest = offer(list(quotes), PurchaseOption.SPOT, "us-east-1")
        assert isinstance(cheapest, Offer)
        assert (cheapest.quote.availability_zone, cheapest.price.amount) == ("us-east-1a", Decimal("0.4610"))
