"""GetProducts replies, written by hand in the shape that AWS documents. Prices other than the wanted one are made up."""

from __future__ import annotations

import copy
import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.aws.currency import ExchangeRate, in_usd
from pricing.aws.price_list import (
    PLAIN_USE,
    on_demand_quote,
    parse_price_list,
)
from pricing.aws.price_list_query import region_filters, zone_filters
from pricing.aws.product import parse_price_list_page
from pricing.errors import CurrencyError, NotOnePrice, ReplyError
from pricing.model import PurchaseOption, Quote

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
PLAIN = {
    "servicecode": "AmazonEC2", "instanceType": "g6.xlarge", "regionCode": "us-east-2", "locationType": "AWS Region", "operatingSystem": "Linux",
    "preInstalledSw": "NA", "licenseModel": "No License required", "tenancy": "Shared", "capacitystatus": "Used", "marketoption": "OnDemand",
    "operation": "RunInstances",
}  # fmt: skip


def term(sku: str, usd: str = "0.8048000000", *, start: str | None = "2026-11-01T00:00:00Z", unit: str = "Hrs", currency: str = "USD") -> dict[str, Any]:  # fmt: skip
    name = f"{sku}.JRTCKXETXF"
    body: dict[str, Any] = {"sku": sku, "offerTermCode": "JRTCKXETXF", "priceDimensions": {f"{name}.6YS6EN2CT7": {"unit": unit, "pricePerUnit": {currency: usd}}}}  # fmt: skip
    return {name: body | ({"effectiveDate": start} if start else {})}


def product(sku: str = "A1", *, family: str | None = "Compute Instance", terms: Any = None, reserved: Any = None, **attributes: str | None) -> str:  # fmt: skip
    given = {k: v for k, v in (PLAIN | attributes).items() if v is not None}
    return json.dumps(
        {
            "product": {"sku": sku, "attributes": given} | ({"productFamily": family} if family else {}),
            "serviceCode": "AmazonEC2",
            "publicationDate": "2026-11-20T19:42:11Z",
            "terms": {"OnDemand": term(sku) if terms is None else terms} | ({"Reserved": reserved} if reserved else {}),
        }
    )


def the_one(*documents: str) -> Quote:
    return on_demand_quote(documents, instance_type="g6.xlarge", region="us-east-2", at=NOW, retrieved_at=NOW)


def test_the_plain_use_of_a_machine_is_a_quote() -> None:
    quote = the_one(product())
    assert (quote.effective_unit_price, quote.currency, quote.unit) == (Decimal("0.8048"), "USD", "Hrs")
    assert (quote.sku, quote.effective_from, quote.purchase_option) == ("A1", date(2026, 11, 1), PurchaseOption.ON_DEMAND)  # fmt: skip
    assert str(quote.effective_unit_price) == "0.8048"  # equal prices are equal texts, whatever the list pads
    assert quote.source == "AWS price list, published 2026-11-20T19:42:11Z"


LOOK_ALIKES = {
    "locationType AWS Local Zone": {"locationType": "AWS Local Zone"},
    "operatingSystem Windows": {"operatingSystem": "Windows", "operation": "RunInstances:0002"},
    "operatingSystem Ubuntu Pro": {"operatingSystem": "Ubuntu Pro", "operation": "RunInstances:0g00"},
    "preInstalledSw SQL Web": {"preInstalledSw": "SQL Web", "operation": "RunInstances:0200"},
    "licenseModel Bring your own license": {"licenseModel": "Bring your own license", "operation": "RunInstances:0800"},
    "tenancy Dedicated": {"tenancy": "Dedicated"},
    "tenancy Host": {"tenancy": "Host"},
    "capacitystatus UnusedCapacityReservation": {"capacitystatus": "UnusedCapacityReservation"},
    "capacitystatus AllocatedCapacityReservation": {"capacitystatus": "AllocatedCapacityReservation"},
    "marketoption CapacityBlock": {"marketoption": "CapacityBlock", "operation": "RunInstances:CB"},
    "operation RunInstances:CB": {"marketoption": None, "operation": "RunInstances:CB"},
    "servicecode AmazonECS": {"servicecode": "AmazonECS"},
    "tenancy missing": {"tenancy": None},
}


@pytest.mark.parametrize(("reason", "attributes"), LOOK_ALIKES.items())
def test_each_look_alike_is_left_out_by_name_at_whatever_price(reason: str, attributes: dict[str, str | None]) -> None:
    for usd in ("0.0000000000", "0.1000000000", "9.0000000000"):
        other = product("B2", terms=term("B2", usd), **attributes)
        assert the_one(other, product()).sku == "A1"
        with pytest.raises(NotOnePrice) as caught:
            the_one(other)
        assert caught.value.excluded == {reason: 1}
        assert reason in str(caught.value)


@pytest.mark.parametrize("family", ["Dedicated Host", "Storage", None])
def test_other_product_families_are_left_out(family: str | None) -> None:
    with pytest.raises(NotOnePrice, match=f"productFamily {family or 'missing'}"):
        the_one(product(family=family))


def test_bare_metal_is_listed_as_dedicated() -> None:
    metal = product(family="Compute Instance (bare metal)", tenancy="Dedicated", instanceType="g4dn.metal", terms=term("A1", "7.824"))  # fmt: skip
    quote = on_demand_quote([metal], instance_type="g4dn.metal", region="us-east-2", at=NOW, retrieved_at=NOW)
    assert quote.effective_unit_price == Decimal("7.824")


def test_zero_is_a_hole_and_not_a_price() -> None:
    zero = product("Z0", terms=term("Z0", "0.0000000000"))
    assert the_one(zero, product()).sku == "A1"
    with pytest.raises(NotOnePrice, match="1 x price of zero"):
        the_one(zero)


def test_an_announced_price_waits_for_its_day_and_then_replaces_the_old_one() -> None:
    documents = [product("A1"), product("N2", terms=term("N2", "0.7", start="2027-01-01T00:00:00Z"))]
    assert the_one(*documents).effective_unit_price == Decimal("0.8048")
    later = datetime(2027, 1, 1, tzinfo=UTC)
    quote = on_demand_quote(documents, instance_type="g6.xlarge", region="us-east-2", at=later, retrieved_at=later)
    assert quote.effective_unit_price == Decimal("0.7")
    two_terms = term("A1") | {"A1.OTHER": term("A1", "0.75", start="2026-11-15T00:00:00Z")["A1.JRTCKXETXF"]}
    assert the_one(product(terms=two_terms)).effective_unit_price == Decimal("0.75")


def test_future_dated_terms_of_one_sku_wait_too() -> None:
    two_terms = term("A1") | {"A1.OTHER": term("A1", "0.5", start="2026-12-01T00:00:00Z")["A1.JRTCKXETXF"]}
    assert the_one(product(terms=two_terms)).effective_unit_price == Decimal("0.8048")
    reading = parse_price_list([product(terms=two_terms)], at=NOW, retrieved_at=NOW)
    assert reading.excluded == {"starts in the future": 1}


def test_a_zero_price_twin_is_not_the_cheapest_price_but_none() -> None:
    twin = product("Z0", terms=term("Z0", "0.0000000000"))
    reading = parse_price_list([twin, product()], at=NOW, retrieved_at=NOW)
    assert [(q.sku, q.effective_unit_price) for q in reading.quotes] == [("A1", Decimal("0.8048"))]
    assert reading.excluded == {"price of zero": 1}


def test_memory_with_a_thousands_comma_and_gpu_memory_na_do_not_disturb_a_price() -> None:
    """Specifications of the list are prose ("1,152 GiB", "NA", the total of all GPUs): they are read from EC2, never from here."""
    quote = the_one(product(memory="1,152 GiB", gpuMemory="NA", gpu="8", vcpu="96", storage="8 x 1000 NVMe SSD"))
    assert quote.effective_unit_price == Decimal("0.8048")


def test_bare_metal_that_is_listed_twice_has_one_price() -> None:
    def metal(sku: str, tenancy: str, usd: str = "7.824") -> str:
        return product(sku, family="Compute Instance (bare metal)", tenancy=tenancy, instanceType="g4dn.metal", terms=term(sku, usd))  # fmt: skip

    reading = parse_price_list([metal("D1", "Dedicated"), metal("S1", "Shared")], at=NOW, retrieved_at=NOW)
    assert ([q.sku for q in reading.quotes], reading.excluded) == (["S1"], {"tenancy Dedicated": 1})
    dearer = parse_price_list([metal("D1", "Dedicated", "8.2"), metal("S1", "Shared")], at=NOW, retrieved_at=NOW)
    assert len(dearer.unresolved) == 1  # two prices: which one is meant is not ours to say


def test_two_prices_of_one_day_are_not_decided_by_which_is_lower() -> None:
    with pytest.raises(NotOnePrice, match=r"2 prices are left.*SKU A1 at 0.8048 USD.*SKU B2 at 0.1 USD"):
        the_one(product("A1"), product("B2", terms=term("B2", "0.1")))
    with pytest.raises(NotOnePrice):  # one of them does not say since when
        the_one(product("A1"), product("B2", terms=term("B2", "0.1", start=None)))


def test_other_units_are_not_hours() -> None:
    with pytest.raises(NotOnePrice, match="1 x unit Quantity"):
        the_one(product(terms=term("A1", "2750", unit="Quantity")))


@pytest.mark.parametrize(
    ("terms", "reason"),
    [({}, "no on-demand term"), ({"A1.X": {"priceDimensions": {}}}, "term without a price"), ({"A1.X": {"priceDimensions": {"r": {"unit": "Hrs", "pricePerUnit": {}}}}}, "term without a price")],
)  # fmt: skip
def test_a_missing_price_is_not_zero(terms: Any, reason: str) -> None:
    with pytest.raises(NotOnePrice, match=reason):
        the_one(product(terms=terms))


def test_an_empty_list_does_not_say_that_nothing_is_offered() -> None:
    with pytest.raises(NotOnePrice, match="does not say that it is not offered"):
        the_one()


def test_a_repeated_product_counts_once() -> None:
    reading = parse_price_list([product(), product()], at=NOW, retrieved_at=NOW)
    assert len(reading.quotes) == 1
    assert reading.excluded == {"repeated across pages": 1}


def test_one_broken_text_does_not_lose_the_others() -> None:
    reading = parse_price_list(["<html>", product(), "{}", '"text"'], at=NOW, retrieved_at=NOW)
    assert [q.sku for q in reading.quotes] == ["A1"]
    assert len(reading.unreadable) == reading.excluded["cannot be read"] == 3
    half = parse_price_list([product()[:-9]], at=NOW, retrieved_at=NOW)
    assert half.unreadable[0].where == "a product of g6.xlarge"  # whose price is not known now


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pricePerUnit": {"USD": "1.0", "CNY": "7.1"}}, "CNY and USD"),
        ({"pricePerUnit": {"USD": 1.006}}, "must be a text, not float"),
        ({"pricePerUnit": {"USD": "-1"}}, "'-1' is not a price"),
        ({"pricePerUnit": {"USD": "NaN"}}, "'NaN' is not a price"),
        ({"pricePerUnit": {"USD": "1e999"}}, "'1e999' is not a price"),
        ({"pricePerUnit": {"USD": "2_490"}}, "'2_490' is not a price"),
        ({"pricePerUnit": {"USD": "1e-300"}}, "'1e-300' is not a price"),
        ({"pricePerUnit": ["USD"]}, "must be an object"),
        ({"unit": None}, "unit must be a text"),
    ],
)
def test_what_cannot_be_a_price_is_an_error_with_its_place(change: dict[str, Any], message: str) -> None:
    terms = copy.deepcopy(term("A1"))
    terms["A1.JRTCKXETXF"]["priceDimensions"]["A1.JRTCKXETXF.6YS6EN2CT7"].update(change)
    with pytest.raises(ReplyError, match=f"A1.JRTCKXETXF.6YS6EN2CT7.*{message}"):
        the_one(product(terms=terms))


def test_a_start_without_a_zone_is_refused() -> None:
    with pytest.raises(ReplyError, match="has no zone"):
        the_one(product(terms=term("A1", start="2026-11-01T00:00:00")))


def test_a_cut_body_is_not_an_empty_page() -> None:
    assert parse_price_list_page({"PriceList": []}) == ()
    with pytest.raises(ReplyError, match="has no PriceList: a cut or foreign body"):
        parse_price_list_page({"ResponseMetadata": {}})
    with pytest.raises(ReplyError, match="JSON texts"):
        parse_price_list_page({"PriceList": [{"product": {}}]})


def test_yuan_stay_yuan_until_a_rate_is_stated() -> None:
    quote = the_one(product(terms=term("A1", "7.5", currency="CNY")))
    assert quote.currency == "CNY"
    with pytest.raises(CurrencyError, match="state a rate"):
        _ = quote.usd_per_hour
    rate = ExchangeRate(currency="CNY", per_usd=Decimal("7.5"), source="a bank", as_of=date(2026, 11, 30))
    dollars = in_usd(quote, rate)
    assert (dollars.usd_per_hour.amount, dollars.derived) == (Decimal(1), True)
    assert dollars.notes == "7.5 CNY at 7.5 CNY per USD (a bank, 2026-11-30)"
    with pytest.raises(CurrencyError, match="the rate is for CNY"):
        in_usd(dollars, rate)
    for wrong in ("0", "-7", "NaN"):
        with pytest.raises(CurrencyError, match="positive"):
            ExchangeRate(currency="CNY", per_usd=Decimal(wrong), source="a bank", as_of=date(2026, 11, 30))


def reservation(length: str, payment: str, *, hourly: str | None, upfront: str | None, sort: str = "standard") -> Any:
    rates = {}
    if upfront is not None:
        rates["A1.R.2TG2D8R56U"] = {"unit": "Quantity", "pricePerUnit": {"USD": upfront}}
    if hourly is not None:
        rates["A1.R.6YS6EN2CT7"] = {"unit": "Hrs", "pricePerUnit": {"USD": hourly}}
    attributes = {"LeaseContractLength": length, "OfferingClass": sort, "PurchaseOption": payment}
    return {"A1.R": {"effectiveDate": "2019-01-01T00:00:00Z", "termAttributes": attributes, "priceDimensions": rates}}


def test_a_price_names_the_line_that_it_stands_in() -> None:
    assert the_one(product()).rate_code == "A1.JRTCKXETXF.6YS6EN2CT7"


@pytest.mark.parametrize(
    ("hourly", "upfront", "code"),
    [
        ("0.5", None, "A1.R.6YS6EN2CT7"),
        ("0.25", "2190", "A1.R.6YS6EN2CT7"),  # whichever stands first
        (None, "13140", "A1.R.2TG2D8R56U"),  # nothing an hour: the fee's
        ("0.0000000000", "13140", "A1.R.2TG2D8R56U"),  # the same: zero is no price
    ],
)
def test_a_reservation_names_the_line_of_its_hourly_price(hourly: str | None, upfront: str | None, code: str) -> None:
    terms = reservation("1yr", "Partial Upfront", hourly=hourly, upfront=upfront)
    _, reserved = parse_price_list([product(reserved=terms)], at=NOW, retrieved_at=NOW).quotes
    assert (reserved.sku, reserved.rate_code) == ("A1", code)


@pytest.mark.parametrize(
    ("length", "payment", "hourly", "upfront", "effective"),
    [
        ("1yr", "No Upfront", "0.5", None, Decimal("0.5")),
        ("1yr", "Partial Upfront", "0.25", "2190", Decimal("0.5")),  # 2190 / 8760 = 0.25
        ("3yr", "All Upfront", "0.0000000000", "13140", Decimal("0.5")),  # 13140 / 26280
        ("3yr", "AllUpfront", None, "13140", Decimal("0.5")),
    ],
)
def test_a_reservation_spreads_its_fee_over_every_hour_of_the_term(length: str, payment: str, hourly: str | None, upfront: str | None, effective: Decimal) -> None:  # fmt: skip
    reading = parse_price_list(
        [product(reserved=reservation(length, payment, hourly=hourly, upfront=upfront))], at=NOW, retrieved_at=NOW
    )
    _, reserved = reading.quotes
    assert reserved.effective_unit_price == effective
    assert reserved.term_years == int(length[0])
    assert reserved.purchase_option == f"reserved_{length}"
    assert reserved.offering_class == "standard"


def test_reservations_that_are_none() -> None:
    old = parse_price_list([product(reserved=reservation("1yr", "Heavy Utilization", hourly="1", upfront=None))], at=NOW, retrieved_at=NOW)  # fmt: skip
    assert (len(old.quotes), old.excluded) == (1, {"reservation of an old or unknown sort": 1})
    free = parse_price_list([product(reserved=reservation("1yr", "All Upfront", hourly="0", upfront=None))], at=NOW, retrieved_at=NOW)  # fmt: skip
    assert (len(free.quotes), free.excluded) == (1, {"reservation without a price": 1})


def test_of_two_terms_of_one_reservation_the_later_holds() -> None:
    old = reservation("1yr", "No Upfront", hourly="0.6", upfront=None)
    new = {"A1.N": reservation("1yr", "No Upfront", hourly="0.5", upfront=None)["A1.R"] | {"effectiveDate": "2026-06-01T00:00:00Z"}}  # fmt: skip
    for terms in (old | new, {"A1.N": old["A1.R"], "A1.R": new["A1.N"]}):
        reading = parse_price_list([product(reserved=terms)], at=NOW, retrieved_at=NOW)
        _, reserved = reading.quotes
        assert reserved.effective_unit_price == Decimal("0.5")
        assert reading.excluded == {"superseded by a later price": 1}


def test_a_reservation_of_no_class_is_none() -> None:
    terms = reservation("1yr", "No Upfront", hourly="0.5", upfront=None)
    del terms["A1.R"]["termAttributes"]["OfferingClass"]
    reading = parse_price_list([product(reserved=terms)], at=NOW, retrieved_at=NOW)
    assert (len(reading.quotes), reading.excluded) == (1, {"reservation of an old or unknown sort": 1})


def test_a_type_without_a_certain_price_loses_no_other() -> None:
    other = product("B2", instanceType="p5e.48xlarge", marketoption="CapacityBlock", terms=term("B2", "0"))
    reading = parse_price_list([other, product()], at=NOW, retrieved_at=NOW)
    assert [q.instance_type for q in reading.quotes] == ["g6.xlarge"]
    assert [f.where for f in reading.unresolved] == ["p5e.48xlarge us-east-2"]


@pytest.mark.parametrize("location", ["EU (Frankfurt)", "Europe (Frankfurt)"])
def test_a_location_in_either_spelling_is_its_region_where_the_code_is_missing(location: str) -> None:
    (quote,) = parse_price_list([product(regionCode=None, location=location)], at=NOW, retrieved_at=NOW).quotes
    assert quote.region == "eu-central-1"
    (stated,) = parse_price_list([product(regionCode="eu-west-1", location=location)], at=NOW, retrieved_at=NOW).quotes
    assert stated.region == "eu-west-1"  # a code says more than a name


def test_a_location_that_is_no_region_has_no_price_of_one() -> None:
    reading = parse_price_list([product(regionCode=None, location="US West (Los Angeles)")], at=NOW, retrieved_at=NOW)
    assert (reading.quotes, reading.unresolved) == ((), ())


@given(st.randoms(use_true_random=False))
def test_order_of_products_changes_nothing(shuffler: random.Random) -> None:
    documents = [product("A1"), product("A1")]
    documents += [product(f"B{n}", terms=term(f"B{n}", "0.0"), **a) for n, a in enumerate(LOOK_ALIKES.values())]
    shuffler.shuffle(documents)
    assert the_one(*documents).sku == "A1"


def test_the_query_names_region_and_system_and_leaves_the_rest_to_the_reader() -> None:
    filters = {f["Field"]: f["Value"] for f in region_filters("us-east-2")}
    assert filters == {"regionCode": "us-east-2", "operatingSystem": "Linux"}
    zones = {f["Field"]: (f["Type"], f["Value"]) for f in zone_filters("us-east-2")}
    assert zones.pop("regionCode") == ("CONTAINS", "us-east-2-")  # us-east-2-chi-1, and not us-east-2
    assert all(zones[w.attribute] == ("TERM_MATCH", w.value) for w in PLAIN_USE if w.attribute in zones)
    assert "locationType" not in zones


def test_hosts_and_local_zones_are_counted_but_nobody_asked_their_price() -> None:
    host = product("H1", family="Dedicated Host", instanceType="g6", terms=term("H1", "5"))
    zone = product("L1", regionCode="us-west-2-lax-1", locationType="AWS Local Zone", terms=term("L1", "1"))
    reading = parse_price_list([host, zone, product()], at=NOW, retrieved_at=NOW)
    assert (len(reading.quotes), reading.unresolved) == (1, ())
    assert reading.excluded == {"productFamily Dedicated Host": 1, "locationType AWS Local Zone": 1}
