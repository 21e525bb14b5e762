"""A regional EC2 offer file of the true shape, of any size, as JSON and as CSV: the same content, and always the same bytes.

What each type has is what a real region lists for it: the plain use of the machine among other systems, software, licences, tenancies,
capacity reservations (some at 0) and capacity blocks (0 for Linux), reservations of twelve sorts for some of them, and around the machines
hosts, volumes, a Local Zone and data transfer. Prices are made up, except those of `PUBLIC` (Linux on demand, us-east-1, July 2026).
"""

from __future__ import annotations

import csv
import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TextIO

REGION, LOCATION = "us-east-1", "US East (N. Virginia)"
VERSION, PUBLISHED = "20261120194211", "2026-11-20T19:42:11Z"
SINCE, RESERVED_SINCE = "2026-11-01T00:00:00Z", "2019-04-01T00:00:00Z"
DISCLAIMER = "This pricing list is for informational purposes only."

PUBLIC = {
    "g4dn.xlarge": "0.526", "g5.xlarge": "1.006", "g5.2xlarge": "1.212", "g6.xlarge": "0.8048", "g6e.xlarge": "1.861", "inf2.xlarge": "0.7582",
    "trn1.32xlarge": "21.5", "p4d.24xlarge": "21.957642", "p5.4xlarge": "6.88", "p5.48xlarge": "55.04", "p5en.48xlarge": "63.296",
    "p6-b200.48xlarge": "113.9328",
}  # fmt: skip
SIZES = (
    "medium",
    "large",
    "xlarge",
    "2xlarge",
    "4xlarge",
    "8xlarge",
    "12xlarge",
    "16xlarge",
    "24xlarge",
    "32xlarge",
    "48xlarge",
)
BLOCKS = ("p4d", "p5", "p5en", "p6-b200", "trn1")

# operating system, software, licence, operation, dearer by (USD per hour)
SYSTEMS = (
    ("Linux", "NA", "No License required", "RunInstances", "0"),
    ("Linux", "SQL Web", "No License required", "RunInstances:0200", "0.068"),
    ("Linux", "SQL Std", "No License required", "RunInstances:0004", "0.48"),
    ("Linux", "SQL Ent", "No License required", "RunInstances:0100", "1.5"),
    ("Ubuntu Pro", "NA", "No License required", "RunInstances:0g00", "0.007"),
    ("RHEL", "NA", "No License required", "RunInstances:0010", "0.0576"),
    ("Red Hat Enterprise Linux with HA", "NA", "No License required", "RunInstances:1010", "0.0921"),
    ("SUSE", "NA", "No License required", "RunInstances:000g", "0.0562"),
    ("Windows", "NA", "No License required", "RunInstances:0002", "0.184"),
    ("Windows", "NA", "Bring your own license", "RunInstances:0800", "0"),
    ("Windows", "SQL Std", "No License required", "RunInstances:0006", "0.664"),
    ("Windows", "SQL Ent", "No License required", "RunInstances:0102", "1.684"),
)  # fmt: skip
# tenancy, capacity status, usage type, price: a share of the price, 0 for what is paid elsewhere
USES = (
    ("Shared", "Used", "BoxUsage", "1"),
    ("Shared", "UnusedCapacityReservation", "UnusedBox", "1"),
    ("Shared", "AllocatedCapacityReservation", "Reservation", "0"),
    ("Dedicated", "Used", "DedicatedUsage", "1.06"),
    ("Dedicated", "UnusedCapacityReservation", "UnusedDed", "1.06"),
    ("Dedicated", "AllocatedCapacityReservation", "DedicatedRes", "0"),
    ("Host", "Used", "HostBoxUsage", "0"),
)
# code, years, class, payment, share of the on-demand price, share of the term paid at once
RESERVATIONS = (
    ("4NA7Y494T4", 1, "standard", "No Upfront", "0.64", "0"), ("HU7G6KETJZ", 1, "standard", "Partial Upfront", "0.61", "0.5"),
    ("6QCMYABX3D", 1, "standard", "All Upfront", "0.60", "1"), ("BPH4J8HBKS", 3, "standard", "No Upfront", "0.44", "0"),
    ("38NPMPTW36", 3, "standard", "Partial Upfront", "0.41", "0.5"), ("NQ3QZPMQV9", 3, "standard", "All Upfront", "0.38", "1"),
    ("7NE97W5U4E", 1, "convertible", "No Upfront", "0.74", "0"), ("CUZHX8X6JH", 1, "convertible", "Partial Upfront", "0.70", "0.5"),
    ("VJWZNREJX2", 1, "convertible", "All Upfront", "0.69", "1"), ("Z2E3P23VKM", 3, "convertible", "No Upfront", "0.54", "0"),
    ("R5XV2EPQQZ", 3, "convertible", "Partial Upfront", "0.50", "0.5"), ("MZU6U2429S", 3, "convertible", "All Upfront", "0.49", "1"),
)  # fmt: skip

COLUMNS = (
    "SKU", "OfferTermCode", "RateCode", "TermType", "PriceDescription", "EffectiveDate", "StartingRange", "EndingRange", "Unit", "PricePerUnit",
    "Currency", "RelatedTo", "LeaseContractLength", "PurchaseOption", "OfferingClass", "Product Family", "serviceCode", "Location", "Location Type",
    "Instance Type", "Current Generation", "Instance Family", "vCPU", "Physical Processor", "Clock Speed", "Memory", "Storage",
    "Network Performance", "Processor Architecture", "Storage Media", "Volume Type", "Max Volume Size", "Max IOPS/volume",
    "Max IOPS Burst Performance", "Max throughput/volume", "Provisioned", "Tenancy", "EBS Optimized", "Operating System", "License Model", "Group",
    "Group Description", "Transfer Type", "From Location", "From Location Type", "To Location", "To Location Type", "usageType", "operation",
    "AvailabilityZone", "CapacityStatus", "ClassicNetworkingSupport", "Dedicated EBS Throughput", "ECU", "Elastic Graphics Type",
    "Enhanced Networking Supported", "From Region Code", "GPU", "GPU Memory", "Instance", "Instance Capacity - 10xlarge",
    "Instance Capacity - 12xlarge", "Instance Capacity - 16xlarge", "Instance Capacity - 18xlarge", "Instance Capacity - 24xlarge",
    "Instance Capacity - 2xlarge", "Instance Capacity - 32xlarge", "Instance Capacity - 4xlarge", "Instance Capacity - 8xlarge",
    "Instance Capacity - 9xlarge", "Instance Capacity - large", "Instance Capacity - medium", "Instance Capacity - metal",
    "Instance Capacity - xlarge", "instanceSKU", "Intel AVX2 Available", "Intel AVX Available", "Intel Turbo Available", "MarketOption",
    "Normalization Size Factor", "Physical Cores", "Pre Installed S/W", "Processor Features", "Product Type", "Region Code", "Resource Type",
    "serviceName", "SnapshotArchiveFeeType", "To Region Code", "Volume API Name", "VPCNetworkingSupport",
)  # fmt: skip
COLUMN_OF = {
    "servicecode": "serviceCode", "location": "Location", "locationType": "Location Type", "instanceType": "Instance Type", "memory": "Memory",
    "currentGeneration": "Current Generation", "instanceFamily": "Instance Family", "vcpu": "vCPU", "physicalProcessor": "Physical Processor",
    "clockSpeed": "Clock Speed", "storage": "Storage", "networkPerformance": "Network Performance", "gpu": "GPU", "gpuMemory": "GPU Memory",
    "processorArchitecture": "Processor Architecture", "tenancy": "Tenancy", "operatingSystem": "Operating System",
    "licenseModel": "License Model", "usagetype": "usageType", "operation": "operation", "availabilityzone": "AvailabilityZone",
    "capacitystatus": "CapacityStatus", "classicnetworkingsupport": "ClassicNetworkingSupport", "ecu": "ECU",
    "dedicatedEbsThroughput": "Dedicated EBS Throughput", "enhancedNetworkingSupported": "Enhanced Networking Supported",
    "intelAvx2Available": "Intel AVX2 Available", "intelAvxAvailable": "Intel AVX Available", "intelTurboAvailable": "Intel Turbo Available",
    "marketoption": "MarketOption", "normalizationSizeFactor": "Normalization Size Factor", "preInstalledSw": "Pre Installed S/W",
    "processorFeatures": "Processor Features", "regionCode": "Region Code", "servicename": "serviceName", "instancesku": "instanceSKU",
    "vpcnetworkingsupport": "VPCNetworkingSupport", "volumeType": "Volume Type", "volumeApiName": "Volume API Name",
    "transferType": "Transfer Type",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One price of a term: per unit, from and to where there are tiers."""

    code: str
    unit: str
    price: str
    text: str
    begin: str | None = "0"
    end: str | None = "Inf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One offer of a product. A reservation has a length, a class and a payment."""

    code: str
    since: str
    rates: tuple[Rate, ...]
    years: int | None = None
    offering_class: str = ""
    payment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One product of the file."""

    sku: str
    family: str | None
    attributes: Mapping[str, str]
    on_demand: tuple[Term, ...]
    reserved: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferFile:
    """What to write: the types of `PUBLIC`, `other_types` types without accelerators, and products of one's own."""

    other_types: int = 5
    more: tuple[Listed, ...] = ()
    region: str = REGION
    location: str = LOCATION
    currency: str = "USD"
    columns: tuple[str, ...] = COLUMNS
    prices: Mapping[str, str] = field(default_factory=lambda: PUBLIC)

    def products(self) -> Iterator[Listed]:
        """Yield every product, types without accelerators among those with."""
        half = self.other_types // 2
        accelerated = [(name, Decimal(price)) for name, price in self.prices.items()]
        before, after = itertools.islice(self._others(), half), itertools.islice(self._others(), half, self.other_types)
        for name, price in itertools.chain(before, accelerated, after):
            yield from self._machine(name, price)
        yield from self._around()
        yield from self.more

    def _others(self) -> Iterator[tuple[str, Decimal]]:
        for generation in itertools.count(5):
            for family, size in itertools.product(("m", "c", "r", "x"), SIZES):
                if family == "x" and size == "medium":
                    continue
                yield f"{family}{generation}i.{size}", Decimal("0.0481") * (SIZES.index(size) + 1)

    def _machine(self, name: str, price: Decimal) -> Iterator[Listed]:
        family, _, size = name.partition(".")
        accelerated = name in self.prices
        vcpus = 4 * 2 ** min(SIZES.index(size), 6)
        shape = {
            "servicecode": "AmazonEC2", "location": self.location, "locationType": "AWS Region", "instanceType": name,
            "currentGeneration": "Yes", "instanceFamily": "GPU instance" if accelerated else "General purpose", "vcpu": f"{vcpus}",
            "physicalProcessor": "Intel Xeon Platinum 8488C (Sapphire Rapids)", "clockSpeed": "3.8 GHz",
            "memory": "1,152 GiB" if family == "p4d" else f"{vcpus * 4} GiB", "storage": "8 x 1000 GB SSD" if accelerated else "EBS only",
            "networkPerformance": "Up to 12.5 Gigabit", "processorArchitecture": "64-bit", "availabilityzone": "NA",
            "classicnetworkingsupport": "false", "dedicatedEbsThroughput": "Up to 10000 Mbps", "ecu": "NA", "enhancedNetworkingSupported": "Yes",
            "intelAvx2Available": "Yes", "intelAvxAvailable": "Yes", "intelTurboAvailable": "Yes",
            "normalizationSizeFactor": f"{2 ** SIZES.index(size)}", "regionCode": self.region, "servicename": "Amazon Elastic Compute Cloud",
            "processorFeatures": "Intel AVX; Intel AVX2; Intel AVX512; Intel Turbo", "vpcnetworkingsupport": "true",
        }  # fmt: skip
        if accelerated and not family.startswith(("trn", "inf")):
            shape |= {"gpu": "8" if size == "48xlarge" else "1", "gpuMemory": "640 GB HBM3" if family == "p5" else "NA"}
        for system, use in itertools.product(SYSTEMS, USES):
            yield self._use(shape, name, price, system, use, market="OnDemand")
        if family in BLOCKS:
            for system, fee in ((SYSTEMS[0], "0"), (SYSTEMS[4], "0.168")):
                operation = f"{system[3]}:CB"
                yield self._use(
                    shape, name, Decimal(fee), (*system[:3], operation, "0"), USES[0], market="CapacityBlock"
                )

    def _use(self, shape: Mapping[str, str], name: str, price: Decimal, system: tuple[str, ...], use: tuple[str, ...], *, market: str) -> Listed:  # fmt: skip
        os, software, licence, operation, fee = system
        tenancy, status, usage, share = use
        sku = sku_of(self.region, name, *system, *use, market)
        attributes = dict(shape) | {
            "tenancy": tenancy, "operatingSystem": os, "licenseModel": licence, "usagetype": f"{usage}:{name}", "operation": operation,
            "capacitystatus": status, "marketoption": market, "preInstalledSw": software,
        }  # fmt: skip
        if status != "Used":
            attributes["instancesku"] = sku_of(self.region, name, *system, *USES[0], market)
        hourly = (price + Decimal(fee)) * Decimal(share)
        text = f"${hourly.normalize():f} per {market} {os}, {software} {name} Instance Hour"
        hour = Rate(code="6YS6EN2CT7", unit="Hrs", price=f"{hourly:.10f}", text=text)
        on_demand = (Term(code="JRTCKXETXF", since=SINCE, rates=(hour,)),)
        plain = tenancy == "Shared" and status == "Used" and software == "NA" and market == "OnDemand"
        reserved = plain and os in ("Linux", "RHEL", "Windows") and not name.startswith("p5en")
        return Listed(
            sku=sku,
            family="Compute Instance",
            attributes=attributes,
            on_demand=on_demand,
            reserved=tuple(reservation(hourly, sort) for sort in RESERVATIONS) if reserved else (),
        )

    def _around(self) -> Iterator[Listed]:
        """Yield what is listed around machines: twins at 0 and in the future, hosts, a Local Zone, a volume, traffic, an old reservation."""
        plain = dict(next(self._machine("g5.2xlarge", Decimal("1.212"))).attributes)
        hour = Rate(code="6YS6EN2CT7", unit="Hrs", price="0.0000000000", text="$0.00 per hour")
        term = Term(code="JRTCKXETXF", since=SINCE, rates=(hour,))
        yield Listed(sku=sku_of("zero"), family="Compute Instance", attributes=plain, on_demand=(term,))
        later = Term(
            code="JRTCKXETXF", since="2027-02-01T00:00:00Z", rates=(Rate(code="6YS6EN2CT7", unit="Hrs", price="1.6000000000", text="later"),)
        )  # fmt: skip
        plain_g6e = dict(next(self._machine("g6e.xlarge", Decimal(1))).attributes)
        yield Listed(sku=sku_of("later"), family="Compute Instance", attributes=plain_g6e, on_demand=(later,))
        dear = Term(code="JRTCKXETXF", since=SINCE, rates=(Rate(code="6YS6EN2CT7", unit="Hrs", price="6.0000000000", text="$6.00, per host"),))  # fmt: skip
        host = {k: v for k, v in plain.items() if k not in ("operatingSystem", "preInstalledSw")} | {"instanceType": "g5", "tenancy": "Host"}  # fmt: skip
        yield Listed(sku=sku_of("host"), family="Dedicated Host", attributes=host, on_demand=(dear,))
        zone = plain | {"regionCode": f"{self.region}-lax-1", "locationType": "AWS Local Zone"}
        yield Listed(sku=sku_of("zone"), family="Compute Instance", attributes=zone, on_demand=(dear,))
        volume = {"servicecode": "AmazonEC2", "location": self.location, "locationType": "AWS Region", "regionCode": self.region, "volumeApiName": "gp3", "usagetype": "EBS:VolumeUsage.gp3"}  # fmt: skip
        month = Term(code="JRTCKXETXF", since=SINCE, rates=(Rate(code="6YS6EN2CT7", unit="GB-Mo", price="0.0800000000", text='$0.08 per GB-month of "gp3"'),))  # fmt: skip
        yield Listed(sku=sku_of("volume"), family="Storage", attributes=volume, on_demand=(month,))
        tiers = (
            Rate(code="A", unit="GB", price="0.0900000000", text="first 10 TB", end="10240"),
            Rate(code="B", unit="GB", price="0.0850000000", text="next 40 TB", begin="10240"),
        )
        traffic = {"servicecode": "AWSDataTransfer", "transferType": "AWS Outbound"}
        yield Listed(sku=sku_of("traffic"), family=None, attributes=traffic, on_demand=(Term(code="JRTCKXETXF", since=SINCE, rates=tiers),))  # fmt: skip
        old = Term(code="HEAVY", since="2013-01-01T00:00:00Z", rates=(Rate(code="6YS6EN2CT7", unit="Hrs", price="1.0000000000", text="old"),), years=1, offering_class="standard", payment="Heavy Utilization")  # fmt: skip
        windows = plain | {"operatingSystem": "Windows"}
        yield Listed(sku=sku_of("old"), family="Compute Instance", attributes=windows, on_demand=(dear,), reserved=(old,))  # fmt: skip

    def write_json(self, path: Path, *, terms_first: bool = False, compact: bool = False) -> None:
        """Write the file as JSON, spaced as the provider does, or without a space."""
        head = {"formatVersion": "v1.0", "disclaimer": DISCLAIMER, "offerCode": "AmazonEC2", "version": VERSION, "publicationDate": PUBLISHED}  # fmt: skip
        with path.open("w", encoding="utf-8", newline="") as file:
            out = _Compact(file) if compact else file
            out.write("{\n" + "".join(f'  "{k}" : "{v}",\n' for k, v in head.items()))
            for part in (self._terms, self._products) if terms_first else (self._products, self._terms):
                part(out)
                out.write(",\n")
            out.write('  "attributesList" : { }\n}\n')

    def _products(self, file: TextIO | _Compact) -> None:
        file.write('  "products" : {')
        for n, product in enumerate(self.products()):
            family = f'      "productFamily" : "{product.family}",\n' if product.family else ""
            attributes = ",\n".join(f'        "{k}" : "{escaped(v)}"' for k, v in product.attributes.items())
            file.write(
                f'{"," if n else ""}\n    "{product.sku}" : {{\n      "sku" : "{product.sku}",\n{family}      "attributes" : {{\n{attributes}\n      }}\n    }}'
            )
        file.write("\n  }")

    def _terms(self, file: TextIO | _Compact) -> None:
        file.write('  "terms" : {\n')
        for sort in ("OnDemand", "Reserved"):
            file.write(f'    "{sort}" : {{')
            comma = ""
            for product in self.products():
                terms = product.reserved if sort == "Reserved" else product.on_demand
                if terms:
                    body = ",\n".join(self._term(product.sku, term) for term in terms)
                    file.write(f'{comma}\n      "{product.sku}" : {{\n{body}\n      }}')
                    comma = ","
            file.write("\n    }" + (",\n" if sort == "OnDemand" else "\n"))
        file.write("  }")

    def _term(self, sku: str, term: Term) -> str:
        rates = ",\n".join(
            f'            "{sku}.{term.code}.{rate.code}" : {{\n'
            f'              "rateCode" : "{sku}.{term.code}.{rate.code}",\n'
            f'              "description" : "{escaped(rate.text)}",\n'
            + (f'              "beginRange" : "{rate.begin}",\n' if rate.begin is not None else "")
            + (f'              "endRange" : "{rate.end}",\n' if rate.end is not None else "")
            + f'              "unit" : "{rate.unit}",\n              "appliesTo" : [ ],\n'
            f'              "pricePerUnit" : {{\n                "{self.currency}" : "{rate.price}"\n              }}\n            }}'
            for rate in term.rates
        )
        attributes = (
            f'{{\n            "LeaseContractLength" : "{term.years}yr",\n            "OfferingClass" : "{term.offering_class}",\n'
            f'            "PurchaseOption" : "{term.payment}"\n          }}'
            if term.years
            else "{ }"
        )
        return (
            f'        "{sku}.{term.code}" : {{\n          "offerTermCode" : "{term.code}",\n          "sku" : "{sku}",\n'
            f'          "effectiveDate" : "{term.since}",\n          "priceDimensions" : {{\n{rates}\n          }},\n'
            f'          "termAttributes" : {attributes}\n        }}'
        )

    def write_csv(self, path: Path) -> None:
        """Write the file as CSV: five lines of metadata, the header, one line a rate; every text quoted, what is missing empty."""
        head = (("FormatVersion", "v1.0"), ("Disclaimer", DISCLAIMER), ("Publication Date", PUBLISHED), ("Version", VERSION), ("OfferCode", "AmazonEC2"))  # fmt: skip
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(
                file, quoting=csv.QUOTE_NOTNULL if hasattr(csv, "QUOTE_NOTNULL") else csv.QUOTE_ALL, lineterminator="\n"
            )
            writer.writerows(head)
            writer.writerow(self.columns)
            for product in self.products():
                for sort, terms in (("OnDemand", product.on_demand), ("Reserved", product.reserved)):
                    for term, rate in ((t, r) for t in terms for r in t.rates):
                        file.write(self._line(product, sort, term, rate))

    def _line(self, product: Listed, sort: str, term: Term, rate: Rate) -> str:
        cells: dict[str, str | None] = {COLUMN_OF[k]: v for k, v in product.attributes.items()}
        cells |= {
            "SKU": product.sku, "OfferTermCode": term.code, "RateCode": f"{product.sku}.{term.code}.{rate.code}", "TermType": sort,
            "PriceDescription": rate.text, "EffectiveDate": term.since[:10], "StartingRange": rate.begin, "EndingRange": rate.end,
            "Unit": rate.unit, "PricePerUnit": rate.price, "Currency": self.currency, "Product Family": product.family,
        }  # fmt: skip
        if term.years:
            cells |= {"LeaseContractLength": f"{term.years}yr", "PurchaseOption": term.payment, "OfferingClass": term.offering_class}  # fmt: skip
        return ",".join(quoted(cells.get(name)) for name in self.columns) + "\n"


class _Compact:
    """Writes JSON that has no space outside texts: this file's texts have neither two spaces in a row nor ' : '."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        lines = (line.strip().replace('" : ', '":') for line in text.split("\n"))
        self._file.write("".join(lines))


def reservation(hourly: Decimal, sort: tuple[str, int, str, str, str, str]) -> Term:
    """Return one sort of reservation of a machine. Its fee is a rate of its own, the first or the last one."""
    code, years, offering_class, payment, share, at_once = sort
    price = hourly * Decimal(share)
    fee = (price * 8760 * years * Decimal(at_once)).quantize(Decimal(1))
    per_hour = price * (1 - Decimal(at_once))
    rates = [
        Rate(code="6YS6EN2CT7", unit="Hrs", price=f"{per_hour:.10f}", text=f"Linux, {payment} reservation applied")
    ]
    if at_once != "0":
        rates.append(Rate(code="2TG2D8R56U", unit="Quantity", price=f"{fee}", text="Upfront Fee", begin=None, end=None))
        if years == 3:
            rates.reverse()
    return Term(code=code, since=RESERVED_SINCE, rates=tuple(rates), years=years, offering_class=offering_class, payment=payment)  # fmt: skip


def sku_of(*parts: str) -> str:
    """Return a SKU: sixteen capitals and digits, the same for the same product."""
    number = int.from_bytes(hashlib.blake2b("|".join(parts).encode(), digest_size=12).digest())
    letters = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
    return "".join(letters[number // len(letters) ** n % len(letters)] for n in range(16))


def escaped(text: str) -> str:
    """Return a text as it stands in JSON."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def quoted(text: str | None) -> str:
    """Return a cell: quoted, or nothing at all where there is no value."""
    return "" if text is None else '"' + text.replace('"', '""') + '"'


def sized(size_mb: float, *, csv_file: bool) -> OfferFile:
    """Return the file whose JSON (or CSV) text has about `size_mb` million bytes, from the size that one more type has."""
    one, two = (_length(OfferFile(other_types=n), csv_file=csv_file) for n in (40, 80))
    types = 40 + (size_mb * 1e6 - one) / ((two - one) / 40)
    return OfferFile(other_types=max(0, round(types)))


def _length(offer: OfferFile, *, csv_file: bool) -> int:
    if csv_file:
        terms = ((p, s, t, r) for p in offer.products() for s, ts in (("OnDemand", p.on_demand), ("Reserved", p.reserved)) for t in ts for r in t.rates)  # fmt: skip
        return sum(len(offer._line(*term)) for term in terms)
    counted = _Counted()
    offer._products(counted)  # type: ignore[arg-type]
    offer._terms(counted)  # type: ignore[arg-type]
    return counted.length


class _Counted:
    length = 0

    def write(self, text: str) -> None:
        self.length += len(text)
