"""The public price list files of the small world: offer index, region files as JSON and CSV, Savings Plan files."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta
from typing import Any

from . import aws_plans
from .aws_products import DISCLAIMER, PLACES, SERVICES, products, region_of
from .aws_world import Edition, World, code_of, wire_time

COLUMNS = {
    # column of the CSV -> attribute of the JSON
    "Product Family": "productFamily", "serviceCode": "servicecode", "Location": "location", "Location Type": "locationType",
    "Instance Type": "instanceType", "Current Generation": "currentGeneration", "Instance Family": "instanceFamily", "vCPU": "vcpu",
    "Physical Processor": "physicalProcessor", "Memory": "memory", "Storage": "storage", "Network Performance": "networkPerformance",
    "Processor Architecture": "processorArchitecture", "Storage Media": "storageMedia", "Volume Type": "volumeType", "Tenancy": "tenancy",
    "Operating System": "operatingSystem", "License Model": "licenseModel", "Group": "group", "Group Description": "groupDescription",
    "Transfer Type": "transferType", "From Location": "fromLocation", "From Location Type": "fromLocationType", "To Location": "toLocation",
    "To Location Type": "toLocationType", "usageType": "usagetype", "operation": "operation", "AvailabilityZone": "availabilityzone",
    "CapacityStatus": "capacitystatus", "From Region Code": "fromRegionCode", "GPU": "gpu", "GPU Memory": "gpuMemory", "instanceSKU": "instancesku",
    "MarketOption": "marketoption", "Normalization Size Factor": "normalizationSizeFactor", "Pre Installed S/W": "preInstalledSw",
    "Provisioned": "provisioned", "Region Code": "regionCode", "serviceName": "servicename", "To Region Code": "toRegionCode",
    "Volume API Name": "volumeApiName", "File System Type": "fileSystemType", "Storage Type": "storageType", "Deployment Option": "deploymentOption",
    "Throughput Capacity": "throughputCapacity", "Storage Class": "storageClass", "Enhanced Networking Supported": "enhancedNetworkingSupported",
}  # fmt: skip
RATE_COLUMNS = (
    "SKU", "OfferTermCode", "RateCode", "TermType", "PriceDescription", "EffectiveDate", "StartingRange", "EndingRange", "Unit",
    "PricePerUnit", "Currency", "RelatedTo", "LeaseContractLength", "PurchaseOption", "OfferingClass",
)  # fmt: skip

VERSION = r"(?P<version>\d{14}|current)"
OFFER = re.compile(rf"/offers/v1\.0/aws/(?P<service>\w+)/{VERSION}/(?P<region>[a-z0-9-]+)/index\.(?P<form>json|csv)")
REGION_INDEX = re.compile(rf"/offers/v1\.0/aws/(?P<service>\w+)/{VERSION}/region_index\.json")
PLANS = re.compile(rf"/savingsPlan/v1\.0/aws/AWSComputeSavingsPlan/{VERSION}/(?P<region>[a-z0-9-]+)/index\.(?P<form>json|csv)")  # fmt: skip


def file_at(world: World, path: str) -> tuple[bytes, str] | None:
    """Return a file and its type; None where there is none."""
    if path == "/spot-advisor-data.json":
        return _json(aws_plans.spot_advisor(world))
    if path == "/offers/v1.0/aws/index.json":
        return _json(_head(world.edition) | {"offers": {service: _offer(service) for service in SERVICES}})
    if path == "/savingsPlan/v1.0/aws/AWSComputeSavingsPlan/current/region_index.json":
        where = f"/savingsPlan/v1.0/aws/AWSComputeSavingsPlan/{world.edition.version}"
        listed = [
            {"regionCode": region, "versionUrl": f"{where}/{region}/index.json"} for region in PLACES
        ]  # a list here
        return _json({"disclaimer": DISCLAIMER, "publicationDate": world.edition.published, "regions": listed})
    if (found := REGION_INDEX.fullmatch(path)) and found["service"] in SERVICES:
        where = f"/offers/v1.0/aws/{found['service']}/{world.edition.version}"
        regions = {
            region: {"regionCode": region, "currentVersionUrl": f"{where}/{region}/index.json"} for region in PLACES
        }
        return _json(_head(world.edition) | {"regions": regions})  # a map here
    if (found := OFFER.fullmatch(path)) and found["service"] in SERVICES and found["region"] in PLACES:
        edition = edition_of(world, found["version"])
        if edition is None:
            return None
        if found["form"] == "json":
            return region_json(world, edition, found["service"], found["region"]), "application/json"
        return region_csv(world, edition, found["service"], found["region"]), "text/csv"
    if (found := PLANS.fullmatch(path)) and found["region"] in PLACES:
        edition = edition_of(world, found["version"])
        if edition is None:
            return None
        if found["form"] == "json":
            return _json(plans(world, edition, found["region"]))
        return plans_csv(world, edition, found["region"]), "text/csv"
    return None


def edition_of(world: World, version: str) -> Edition | None:
    """Return the edition of a version, or the one in force for "current"."""
    if version == "current":
        return world.edition
    return next((e for e in world.editions if e.version == version), None)


def edition_on(world: World, day: str) -> Edition:
    """Return the edition that was in force at the end of a day (YYYY-MM-DD), or the first there is."""
    end = f"{day[:10]}T99"
    return next((e for e in reversed(world.editions) if e.published < end), world.editions[0])


def _offer(service: str) -> dict[str, str]:
    where = f"/offers/v1.0/aws/{service}"
    found = {
        "offerCode": service,
        "versionIndexUrl": f"{where}/index.json",
        "currentVersionUrl": f"{where}/current/index.json",
        "currentRegionIndexUrl": f"{where}/current/region_index.json",
    }
    if service == "AmazonEC2":
        found["currentSavingsPlanIndexUrl"] = "/savingsPlan/v1.0/aws/AWSComputeSavingsPlan/current/region_index.json"
    return found


def _head(edition: Edition) -> dict[str, Any]:
    return {"formatVersion": "v1.0", "disclaimer": DISCLAIMER, "publicationDate": edition.published}


def _json(value: Any) -> tuple[bytes, str]:
    return json.dumps(value, indent=1).encode(), "application/json"


def region_json(world: World, edition: Edition, service: str, region: str) -> bytes:
    """Return a region's offer file: products by SKU, then terms by sort and SKU."""
    found = [p for p in products(world, service, edition=edition) if region_of(p) == region]
    terms: dict[str, dict[str, Any]] = {"OnDemand": {}, "Reserved": {}}
    for product in found:
        for sort, given in product["terms"].items():
            terms[sort][product["product"]["sku"]] = given
    whole = {
        "formatVersion": "v1.0",
        "disclaimer": DISCLAIMER,
        "offerCode": service,
        "version": edition.version,
        "publicationDate": edition.published,
        "products": {p["product"]["sku"]: p["product"] for p in found},
        "terms": terms,
        "attributesList": {},
    }
    return json.dumps(whole, indent=2).encode()


def region_csv(world: World, edition: Edition, service: str, region: str) -> bytes:
    """Return the same as CSV: five lines about the file, the columns, a line for each rate; a reservation with a fee is two lines."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(
        [("FormatVersion", "v1.0"), ("Disclaimer", DISCLAIMER), ("Publication Date", edition.published), ("Version", edition.version), ("OfferCode", service)]
    )  # fmt: skip
    # an order of no meaning: columns are found by their names
    others = sorted(COLUMNS, key=lambda c: (c not in ("Product Family", "serviceCode"), code_of("column", c)))
    writer.writerow([*RATE_COLUMNS, *others])
    for product in products(world, service, edition=edition):
        if region_of(product) != region:
            continue
        attributes = product["product"]["attributes"] | {"productFamily": product["product"].get("productFamily", "")}
        for sort, terms in product["terms"].items():
            for term in terms.values():
                given = term["termAttributes"]
                for rate in term["priceDimensions"].values():
                    currency, price = next(iter(rate["pricePerUnit"].items()), ("", ""))
                    writer.writerow(
                        [
                            product["product"]["sku"], term["offerTermCode"], rate["rateCode"], sort, rate["description"],
                            term["effectiveDate"][:10], rate.get("beginRange", ""), rate.get("endRange", ""), rate["unit"], price, currency, "",
                            given.get("LeaseContractLength", ""), given.get("PurchaseOption", ""), given.get("OfferingClass", ""),
                            *(attributes.get(COLUMNS[c], "") for c in others),
                        ]
                    )  # fmt: skip
    return text.getvalue().encode()


def plans(world: World, edition: Edition, region: str) -> dict[str, Any]:
    """Return a region's Savings Plan file: products and terms are lists, the payment option is in the product."""
    sold: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for rate in aws_plans.rates(world):
        offering, had = rate["savingsPlanOffering"], {p["name"]: p["value"] for p in rate["properties"]}
        if offering["planType"] != "Compute" or offering["currency"] != "USD" or had.get("region") != region:
            continue
        key = (offering["durationSeconds"] // aws_plans.YEAR_S, offering["paymentOption"])
        kind = {"BoxUsage": "plain", "UnusedBox": "UnusedBox", "DedicatedUsage": "Dedicated"}.get(rate["usageType"].rpartition("-")[2].partition(":")[0], "plain")  # fmt: skip
        sku = code_of(
            "Windows" if had.get("productDescription") == "Windows" else kind, had.get("instanceType"), region
        )
        sold.setdefault(key, []).append(
            {
                "discountedSku": sku,
                "discountedUsageType": rate["usageType"],
                "discountedOperation": rate["operation"],
                "discountedServiceCode": rate["serviceCode"],
                "rateCode": f"{code_of('plan', *key)}.{sku}",
                "unit": rate["unit"],
                "discountedRate": {"price": rate["rate"], "currency": "USD"},
                "discountedRegionCode": region,
                "discountedInstanceType": had.get("instanceType", ""),
            }
        )
    listed, terms = [], []
    for (years, payment), found in sorted(sold.items()):
        sku = code_of("plan", years, payment)
        short = payment.replace(" ", "")
        listed.append(
            {
                "sku": sku,
                "productFamily": "ComputeSavingsPlans",
                "serviceCode": "ComputeSavingsPlans",
                "usageType": f"ComputeSP:{years}yr{short}",
                "operation": "",
                "attributes": {"purchaseOption": payment, "granularity": "hourly", "instanceType": "", "purchaseTerm": f"{years}yr", "locationType": "AWS Region", "location": "Any"},
            }
        )  # fmt: skip
        terms.append(
            {
                "sku": sku,
                "description": f"{years} year {payment} Compute Savings Plan",
                "effectiveDate": wire_time(world.now - timedelta(days=50)),
                "leaseContractLength": {"duration": years, "unit": "year"},
                "rates": found,
            }
        )
    return {
        "version": edition.version,
        "publicationDate": edition.published,
        "regionCode": region,
        "products": listed,
        "terms": {"savingsPlan": terms},
    }


def plans_csv(world: World, edition: Edition, region: str) -> bytes:
    """Return the same as CSV, which has no quotes here."""
    whole = plans(world, edition, region)
    lines = ["FormatVersion,v1.0", f"Disclaimer,{DISCLAIMER}", f"Publication Date,{edition.published}", f"Version,{edition.version}", "OfferCode,AmazonComputeSavingsPlan"]  # fmt: skip
    lines.append(
        "SKU,RateCode,Unit,EffectiveDate,DiscountedRate,Currency,DiscountedSKU,DiscountedServiceCode,DiscountedUsageType,DiscountedOperation,"
        "PurchaseOption,LeaseContractLength,LeaseContractLengthUnit,ServiceCode,UsageType,Operation,Description,Instance Family,Location,"
        "Location Type,Granularity,Product Family,DiscountedRegionCode,DiscountedInstanceType"
    )
    sold = {p["sku"]: p for p in whole["products"]}
    for term in whole["terms"]["savingsPlan"]:
        product = sold[term["sku"]]
        length = str(term["leaseContractLength"]["duration"])
        payment = product["attributes"]["purchaseOption"]
        lines += [
            ",".join(
                [
                    term["sku"], rate["rateCode"], rate["unit"], term["effectiveDate"], rate["discountedRate"]["price"], "USD", rate["discountedSku"],
                    rate["discountedServiceCode"], rate["discountedUsageType"], rate["discountedOperation"], payment, length, "year",
                    "ComputeSavingsPlans", product["usageType"], "", term["description"], "", "Any", "AWS Region", "hourly", "ComputeSavingsPlans",
                    region, rate["discountedInstanceType"],
                ]
            )
            for rate in term["rates"]
        ]  # fmt: skip
    return ("\n".join(lines) + "\n").encode()
