"""Offer files of the true shape: what is chosen from them, the same from JSON and CSV, and what is refused.

The on-demand prices are public ones; reservations are worked out by hand from the sort of `fakes.offer_file`.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import random
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fakes.file_server import Fault, FileServer, serving
from fakes.offer_file import COLUMNS, PUBLIC, Listed, OfferFile, Rate, Term

from pricing.aws.offer import OfferReading
from pricing.aws.offer_csv import parse_offer_csv
from pricing.aws.offer_json import parse_offer_json
from pricing.aws.price_list_files import price_list_files_source, read_price_list_files
from pricing.aws.session import PRICE_LIST_FILES_CHINA, Access, Aws
from pricing.errors import ReplyError, SourceFailed, Unreachable
from pricing.model import PurchaseOption
from pricing.source import Ask, SourceReading

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
TYPES = len(PUBLIC)
IN_BLOCKS = 6  # p4d, p5 (two sizes), p5en, p6-b200, trn1
Parser = Callable[..., OfferReading]


def parsed(parse: Parser, data: bytes, *, region: str = "us-east-1", at: datetime = NOW, types: frozenset[str] = frozenset()) -> OfferReading:  # fmt: skip
    return parse(io.BytesIO(data), region=region, instance_types=types, at=at, retrieved_at=NOW)


def as_json(offer: OfferFile, folder: Path, **how: bool) -> bytes:
    offer.write_json(folder / "index.json", **how)
    return (folder / "index.json").read_bytes()


def as_csv(offer: OfferFile, folder: Path) -> bytes:
    offer.write_csv(folder / "index.csv")
    return (folder / "index.csv").read_bytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Give the file of `OfferFile()` in both formats."""
    folder = tmp_path_factory.mktemp("offer")
    return {"json": as_json(OfferFile(), folder), "csv": as_csv(OfferFile(), folder)}


@pytest.fixture(params=["json", "csv"])
def reading(request: pytest.FixtureRequest, files: dict[str, bytes]) -> OfferReading:
    return parsed(PARSERS[request.param], files[request.param])


PARSERS: dict[str, Parser] = {"json": parse_offer_json, "csv": parse_offer_csv}


def test_the_generated_json_is_json(files: dict[str, bytes]) -> None:
    document = json.loads(files["json"])
    assert len(document["products"]) == (TYPES + 5) * 12 * 7 + IN_BLOCKS * 2 + 7
    rows = list(csv.reader(io.StringIO(files["csv"].decode())))
    assert rows[5] == list(COLUMNS)
    assert {len(row) for row in rows[6:]} == {91}
    assert files["json"][:18] == b'{\n  "formatVersion'


def test_each_machine_has_its_public_price(reading: OfferReading) -> None:
    prices = {q.instance_type: str(q.effective_unit_price) for q in reading.prices.quotes if q.purchase_option is PurchaseOption.ON_DEMAND}  # fmt: skip
    assert prices == PUBLIC
    assert reading.prices.unresolved == reading.prices.unreadable == ()


def test_the_publication_stands_in_every_quote(reading: OfferReading) -> None:
    assert (reading.published, reading.version) == ("2026-11-20T19:42:11Z", "20261120194211")
    assert {q.source for q in reading.prices.quotes} == {"AWS price list, published 2026-11-20T19:42:11Z"}


@pytest.mark.parametrize(
    ("sort", "hourly", "upfront"),
    [
        ((1, "standard", "no_upfront"), "0.64384", "0"),  # 1.006 x 0.64
        ((3, "standard", "all_upfront"), "0", "10046"),  # 1.006 x 0.38 x 26280 = 10046.3
        ((1, "convertible", "partial_upfront"), "0.3521", "3084"),  # 1.006 x 0.70 / 2, x 8760 = 3084.4
        ((3, "convertible", "partial_upfront"), "0.2515", "6609"),  # 1.006 x 0.50 / 2, x 26280 = 6609.4
    ],
)
def test_a_reservation_joins_its_hourly_price_and_its_fee(reading: OfferReading, sort: tuple[int, str, str], hourly: str, upfront: str) -> None:  # fmt: skip
    ours = [q for q in reading.prices.quotes if q.instance_type == "g5.xlarge"]
    (quote,) = (q for q in ours if (q.term_years, q.offering_class, q.payment_option) == sort)
    assert (quote.list_unit_price, quote.upfront) == (Decimal(hourly), Decimal(upfront))
    assert quote.effective_unit_price == Decimal(hourly) + Decimal(upfront) / (8760 * sort[0])
    assert quote.effective_from == date(2019, 4, 1)


def test_a_machine_without_reservations_has_none(reading: OfferReading) -> None:
    options = [q.purchase_option for q in reading.prices.quotes if q.instance_type == "p5en.48xlarge"]
    assert options == [PurchaseOption.ON_DEMAND]
    assert len(reading.prices.quotes) == TYPES + (TYPES - 1) * 12


def test_every_look_alike_is_counted_by_name(reading: OfferReading) -> None:
    assert reading.prices.excluded == {
        "capacitystatus UnusedCapacityReservation": TYPES,
        "capacitystatus AllocatedCapacityReservation": TYPES,  # at 0
        "tenancy Dedicated": 3 * TYPES,
        "tenancy Host": TYPES,  # at 0
        "preInstalledSw SQL Web": 7 * TYPES,
        "preInstalledSw SQL Std": 7 * TYPES,
        "preInstalledSw SQL Ent": 7 * TYPES,
        "operatingSystem Ubuntu Pro": 7 * TYPES + IN_BLOCKS,
        "operatingSystem RHEL": 7 * TYPES,
        "operatingSystem Red Hat Enterprise Linux with HA": 7 * TYPES,
        "operatingSystem SUSE": 7 * TYPES,
        "operatingSystem Windows": 4 * 7 * TYPES + 1,
        "marketoption CapacityBlock": IN_BLOCKS,  # at 0
        "productFamily Dedicated Host": 1,
        "locationType AWS Local Zone": 1,
        "price of zero": 1,  # the twin of g5.2xlarge
        "starts in the future": 1,  # the twin of g6e.xlarge
        "not a type we plan with": 5 * 12 * 7 + 2,
    }


def test_every_quote_names_the_line_that_it_stands_in(reading: OfferReading, files: dict[str, bytes]) -> None:
    terms = json.loads(files["json"])["terms"]
    lines = {code: line for sort in terms.values() for of_sku in sort.values() for term in of_sku.values() for code, line in term["priceDimensions"].items()}  # fmt: skip
    for quote in reading.prices.quotes:
        assert quote.rate_code is not None
        assert quote.rate_code.startswith(f"{quote.sku}.")
        line = lines[quote.rate_code]
        stated = ("Hrs", quote.list_unit_price) if quote.list_unit_price else ("Quantity", quote.upfront)
        assert (line["unit"], Decimal(line["pricePerUnit"]["USD"])) == stated
    assert len({q.rate_code for q in reading.prices.quotes}) == TYPES + (TYPES - 1) * 12


def test_both_formats_give_the_same(files: dict[str, bytes]) -> None:
    assert parsed(parse_offer_json, files["json"]) == parsed(parse_offer_csv, files["csv"])


@pytest.mark.parametrize("terms_first", [False, True])
@pytest.mark.parametrize("compact", [False, True])
def test_neither_order_nor_spaces_of_the_json_matter(tmp_path: Path, files: dict[str, bytes], terms_first: bool, compact: bool) -> None:  # fmt: skip
    data = as_json(OfferFile(), tmp_path, terms_first=terms_first, compact=compact)
    assert json.loads(data) == json.loads(files["json"])
    assert compact == (b"\n " not in data)
    assert parsed(parse_offer_json, data) == parsed(parse_offer_json, files["json"])


def test_neither_order_nor_number_of_the_columns_matter(tmp_path: Path, files: dict[str, bytes]) -> None:
    columns = [*COLUMNS, "Physical GPUs", "Some New Column"]
    random.Random(7).shuffle(columns)
    data = as_csv(OfferFile(columns=tuple(columns)), tmp_path)
    assert parsed(parse_offer_csv, data) == parsed(parse_offer_csv, files["csv"])


def test_order_of_the_lines_does_not_matter(files: dict[str, bytes]) -> None:
    lines = files["csv"].splitlines(keepends=True)
    rates = lines[6:]
    random.Random(7).shuffle(rates)
    expected = parsed(parse_offer_csv, files["csv"])
    shuffled = parsed(parse_offer_csv, b"".join([*lines[:6], *rates]))
    assert shuffled.prices.quotes == expected.prices.quotes
    assert shuffled.prices.excluded == expected.prices.excluded


def test_a_mark_of_byte_order_and_other_line_ends_change_nothing(files: dict[str, bytes]) -> None:
    expected = parsed(parse_offer_csv, files["csv"])
    assert parsed(parse_offer_csv, b"\xef\xbb\xbf" + files["csv"].replace(b"\n", b"\r\n")) == expected


def test_a_type_without_accelerators_is_read_when_the_catalog_has_it(files: dict[str, bytes]) -> None:
    for name, parse in PARSERS.items():
        quotes = parsed(parse, files[name], types=frozenset({"m5i.large"})).prices.quotes
        price = next(q.effective_unit_price for q in quotes if q.instance_type == "m5i.large")
        assert str(price) == "0.0962"  # 2 x 0.0481


def test_an_announced_price_is_taken_from_its_day_on(files: dict[str, bytes]) -> None:
    for name, parse in PARSERS.items():
        quotes = parsed(parse, files[name], at=datetime(2027, 2, 1, 1, tzinfo=UTC)).prices.quotes
        (price,) = (q.effective_unit_price for q in quotes if q.instance_type == "g6e.xlarge" and q.purchase_option == "on_demand")  # fmt: skip
        assert price == Decimal("1.6")


def test_yuan_stay_yuan(tmp_path: Path) -> None:
    offer = OfferFile(other_types=0, region="cn-north-1", location="China (Beijing)", currency="CNY", prices={"g4dn.xlarge": "3.711"})  # fmt: skip
    for parse, data in ((parse_offer_json, as_json(offer, tmp_path)), (parse_offer_csv, as_csv(offer, tmp_path))):
        quotes = parsed(parse, data, region="cn-north-1").prices.quotes
        assert {q.currency for q in quotes if q.instance_type == "g4dn.xlarge"} == {"CNY"}


def test_machines_of_another_region_are_not_this_regions(tmp_path: Path) -> None:
    offer = OfferFile(other_types=0)
    for parse, data in ((parse_offer_json, as_json(offer, tmp_path)), (parse_offer_csv, as_csv(offer, tmp_path))):
        found = parsed(parse, data, region="us-west-2").prices
        assert found.quotes == ()
        assert found.excluded["regionCode us-east-1"] == TYPES + 2  # with the two twins


def test_a_machine_sold_in_blocks_only_has_no_price_and_says_so(tmp_path: Path) -> None:
    in_blocks = next(p for p in OfferFile(other_types=0).products() if p.attributes["marketoption"] == "CapacityBlock")
    only = dataclasses.replace(
        in_blocks, sku="BLOCK", attributes={**in_blocks.attributes, "instanceType": "p5e.48xlarge"}
    )
    offer = OfferFile(other_types=0, more=(only,))
    for parse, data in ((parse_offer_json, as_json(offer, tmp_path)), (parse_offer_csv, as_csv(offer, tmp_path))):
        (fault,) = parsed(parse, data).prices.unresolved
        assert (fault.where, fault.left) == ("p5e.48xlarge us-east-1", ())
        assert fault.excluded == {"marketoption CapacityBlock": 1}


def test_two_prices_of_one_day_are_not_decided(tmp_path: Path) -> None:
    first = next(OfferFile(other_types=0).products())
    dear = dataclasses.replace(first.on_demand[0].rates[0], price="0.9000000000")
    twin = dataclasses.replace(first, sku="TWIN", on_demand=(dataclasses.replace(first.on_demand[0], rates=(dear,)),), reserved=())  # fmt: skip
    offer = OfferFile(other_types=0, more=(twin,))
    for parse, data in ((parse_offer_json, as_json(offer, tmp_path)), (parse_offer_csv, as_csv(offer, tmp_path))):
        (fault,) = parsed(parse, data).prices.unresolved
        assert fault.where == "g4dn.xlarge us-east-1"
        assert len(fault.left) == 2


def test_a_file_of_nothing_but_plain_use_does_not_fill_the_memory(tmp_path: Path) -> None:
    """Foreign or broken files may list a machine thousands of times: then it has no certain price, and the others have theirs."""
    first = next(OfferFile(other_types=0).products())
    many = tuple(dataclasses.replace(first, sku=f"TWIN{n:05}", reserved=()) for n in range(5000))
    offer = OfferFile(other_types=0, more=many, prices={"g4dn.xlarge": "0.526", "p5.48xlarge": "55.04"})
    for parse, data in ((parse_offer_json, as_json(offer, tmp_path)), (parse_offer_csv, as_csv(offer, tmp_path))):
        tracemalloc.start()
        try:
            found = parsed(parse, data).prices
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert {q.instance_type for q in found.quotes} == {"p5.48xlarge"}
        (fault,) = (f for f in found.unresolved if f.where == "g4dn.xlarge us-east-1")
        assert len(fault.left) == 20
        assert found.excluded["one of too many products of plain use"] == 5000 + 1 - 20
        assert peak < 6_000_000


def test_a_crowd_is_not_decided_even_where_the_first_ones_could_be(tmp_path: Path) -> None:
    first = next(OfferFile(other_types=0).products())
    later = dataclasses.replace(first.on_demand[0], since="2026-11-15T00:00:00Z")
    many = [dataclasses.replace(first, sku=f"TWIN{n}", reserved=()) for n in range(30)]
    many[0] = dataclasses.replace(many[0], on_demand=(later,))
    offer = OfferFile(other_types=0, more=tuple(many))
    for parse, data in ((parse_offer_json, as_json(offer, tmp_path)), (parse_offer_csv, as_csv(offer, tmp_path))):
        found = parsed(parse, data).prices
        assert "g4dn.xlarge" not in {q.instance_type for q in found.quotes}
        (fault,) = found.unresolved
        assert fault.excluded["one of too many products of plain use"] == 31 - 20
        assert fault.instance_type == "g4dn.xlarge"


def test_many_products_that_cannot_be_read_are_counted(files: dict[str, bytes]) -> None:
    document = json.loads(files["json"])
    document["products"] |= {f"ODD{n}": None for n in range(500)}
    found = parsed(parse_offer_json, json.dumps(document).encode()).prices
    assert (len(found.unreadable), found.excluded["cannot be read"]) == (100, 500)


def test_one_product_that_cannot_be_read_loses_no_other(tmp_path: Path) -> None:
    plain = next(OfferFile(other_types=0).products())
    odd = Term(code="JRTCKXETXF", since="2026-11-01T00:00:00Z", rates=(Rate(code="R", unit="Hrs", price="free", text="?"),))  # fmt: skip
    broken = Listed(sku="BROKEN", family="Compute Instance", attributes=dict(plain.attributes) | {"instanceType": "g9.large"}, on_demand=(odd,))  # fmt: skip
    offer = OfferFile(other_types=0, more=(broken,))
    for parse, data in ((parse_offer_json, as_json(offer, tmp_path)), (parse_offer_csv, as_csv(offer, tmp_path))):
        found = parsed(parse, data).prices
        assert "'free' is not a price" in str(found.unreadable[0])
        assert found.unreadable[0].instance_type == "g9.large"
        assert found.excluded["cannot be read"] == 1
        assert len(found.quotes) == TYPES + (TYPES - 1) * 12


def test_a_json_product_of_another_shape_loses_no_other(files: dict[str, bytes]) -> None:
    document = json.loads(files["json"])
    document["products"] |= {"ODD": ["not", "an", "object"], "BARE": {"sku": "BARE"}}
    found = parsed(parse_offer_json, json.dumps(document).encode()).prices
    assert [e.where for e in found.unreadable] == ["SKU ODD", "SKU BARE"]
    assert found.quotes == parsed(parse_offer_json, files["json"]).prices.quotes


@pytest.mark.parametrize("part", [0.05, 0.3, 0.55, 0.8, 0.999, 1.0])
def test_a_cut_json_is_no_reading(files: dict[str, bytes], part: float) -> None:
    data = files["json"]
    with pytest.raises(ReplyError, match=r"cut|ends before"):
        parsed(parse_offer_json, data[: int(len(data.rstrip()) * part) - 1])


@pytest.mark.parametrize("cut", [1, 2, 3, 50, 200, 400])
def test_a_cut_last_line_of_a_csv_is_no_reading(files: dict[str, bytes], cut: int) -> None:
    data = files["csv"].rstrip(b"\n")
    with pytest.raises(
        ReplyError, match=r"has \d+ cells where the header has 91: the file was cut|was cut: unexpected end"
    ):
        parsed(parse_offer_csv, data[:-cut])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"<html><body>Sign in</body></html>", "character 1"),
        (b"", "ends before it is complete"),
        (b'{"products": {}}', "has no products and no terms: this is no offer file"),
        (b'{"products": {"A": {"attributes": {}}}}', "has no terms"),
        (b'{"terms": {"OnDemand": {"A": {}}}}', "has no products"),
        (b'{"regions": {"us-east-1": {}}}', "has no products and no terms"),
        (b"[]", "has no products"),
    ],
)
def test_other_documents_are_no_offer_file(data: bytes, why: str) -> None:
    with pytest.raises(ReplyError, match=why):
        parsed(parse_offer_json, data)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"<html>\n<body>\n", "no line with SKU and RateCode among the first 50"),
        (b"", "no line with SKU and RateCode"),
        (b'"SKU","RateCode"\n', "lacks OfferTermCode, TermType"),
        (b'"FormatVersion","v1.0\n', "unexpected end of data"),
        (b"\xff\xfe\x00", "no CSV in UTF-8"),
    ],
)
def test_other_texts_are_no_offer_file(data: bytes, why: str) -> None:
    with pytest.raises(ReplyError, match=why):
        parsed(parse_offer_csv, data)


@pytest.mark.parametrize("column", ["Unit", "PricePerUnit", "CapacityStatus", "Pre Installed S/W", "Region Code", "OfferingClass", "EffectiveDate"])  # fmt: skip
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    columns = tuple(name for name in COLUMNS if name != column)
    with pytest.raises(ReplyError, match=r"header: lacks \w.*: prices cannot be told") as caught:
        parsed(parse_offer_csv, as_csv(OfferFile(other_types=0, columns=columns), tmp_path))
    assert "".join(filter(str.isalpha, column)).casefold() in "".join(filter(str.isalpha, str(caught.value))).casefold()


def test_a_column_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplyError, match="more than one operatingSystem"):
        parsed(parse_offer_csv, as_csv(OfferFile(other_types=0, columns=(*COLUMNS, "operating system")), tmp_path))


def test_an_older_list_without_market_option_tells_blocks_by_their_operation(tmp_path: Path) -> None:
    columns = tuple(name for name in COLUMNS if name != "MarketOption")
    found = parsed(parse_offer_csv, as_csv(OfferFile(columns=columns), tmp_path)).prices
    assert found.excluded["operation RunInstances:CB"] == IN_BLOCKS
    assert len(found.quotes) == TYPES + (TYPES - 1) * 12


# ---- the source: indexes, formats, faults


BASE = "/offers/v1.0/aws"
FILE = f"{BASE}/AmazonEC2/20261120194211/us-east-1/index"


@pytest.fixture
def server(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    for name in (
        "PLANNER_AWS_PRICE_LIST_URL",
        "AWS_ENDPOINT_URL",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    with serving() as running:
        entry = {"currentRegionIndexUrl": f"{BASE}/AmazonEC2/current/region_index.json"}
        regions = {"us-east-1": {"regionCode": "us-east-1", "currentVersionUrl": f"{FILE}.json"}}
        running.files = {
            f"{BASE}/index.json": json.dumps({"offers": {"AmazonEC2": entry}}).encode(),
            entry["currentRegionIndexUrl"]: json.dumps({"regions": regions}).encode(),
            f"{FILE}.json": files["json"],
            f"{FILE}.csv": files["csv"],
        }
        yield running


def ask(region: str | None = "us-east-1", **more: Any) -> Ask:
    return Ask(region=region, at=NOW, chips=(), instance_types=frozenset(), **more)


def read(server: FileServer, directory: Path | None = None, **more: Any) -> SourceReading:
    aws = Aws(Access(endpoint_url=server.url))
    return read_price_list_files(aws, ask(**more), directory=directory, sleep=lambda _: None)


def test_the_source_reads_csv_by_way_of_both_indexes(server: FileServer, tmp_path: Path, files: dict[str, bytes]) -> None:  # fmt: skip
    ticks: list[int] = []
    found = read(server, tmp_path, on_answer=lambda: ticks.append(1))
    assert [a.path for a in server.asked] == [f"{BASE}/index.json", f"{BASE}/AmazonEC2/current/region_index.json", f"{FILE}.csv"]  # fmt: skip
    assert found.quotes == parsed(parse_offer_csv, files["csv"]).prices.quotes
    assert (found.source, found.published, found.notices) == ("price_list_files", "2026-11-20T19:42:11Z", ())
    assert (found.scope.provider, found.scope.region, found.scope.tables) == ("aws", "us-east-1", {"quotes"})
    assert found.scope.purchase_options == {"on_demand", "reserved_1yr", "reserved_3yr"}
    assert ticks


def test_a_second_reading_does_not_fetch_the_file_again(server: FileServer, tmp_path: Path) -> None:
    first = read(server, tmp_path)
    assert read(server, tmp_path) == first
    assert server.asked[-1].status == 304
    assert [p.name for p in (tmp_path / "downloads").glob("*.csv")] == ["AmazonEC2-us-east-1.csv"]


def test_without_a_folder_nothing_stays(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert read(server).quotes
    assert list(tmp_path.iterdir()) == []


def test_where_there_is_no_csv_the_json_is_read(server: FileServer, tmp_path: Path) -> None:
    expected = read(server, tmp_path).quotes
    del server.files[f"{FILE}.csv"]
    assert read(server, tmp_path).quotes == expected
    assert [(a.path, a.status) for a in server.asked[-2:]] == [(f"{FILE}.csv", 403), (f"{FILE}.json", 200)]


def test_a_csv_that_was_cut_in_storage_is_not_kept_and_the_json_is_read(server: FileServer, tmp_path: Path, files: dict[str, bytes]) -> None:  # fmt: skip
    server.files[f"{FILE}.csv"] = files["csv"][:-100]
    assert read(server, tmp_path).quotes == parsed(parse_offer_json, files["json"]).prices.quotes
    assert list((tmp_path / "downloads").glob("*.csv*")) == [tmp_path / "downloads" / "AmazonEC2-us-east-1.csv.lock"]


def test_when_neither_can_be_read_the_source_failed(server: FileServer, tmp_path: Path, files: dict[str, bytes]) -> None:  # fmt: skip
    server.files |= {f"{FILE}.csv": files["csv"][:-100], f"{FILE}.json": files["json"][:-100]}
    with pytest.raises(SourceFailed, match=r"index.json cannot be read: character [\d,]+: .*the document is cut"):
        read(server, tmp_path)
    assert {p.suffix for p in (tmp_path / "downloads").iterdir()} == {".lock"}


def test_when_there_is_neither_file_the_source_failed(server: FileServer, tmp_path: Path) -> None:
    del server.files[f"{FILE}.csv"], server.files[f"{FILE}.json"]
    with pytest.raises(SourceFailed, match=r"there is no file http.*index.csv \(HTTP 403\)"):
        read(server, tmp_path)


def test_a_server_that_stays_busy_is_not_asked_for_the_other_format(server: FileServer, tmp_path: Path) -> None:
    server.faults = [None, None, *[Fault(status=503)] * 6]
    with pytest.raises(Unreachable, match=r"index.csv could not be fetched in 6 attempts: HTTP 503"):
        read(server, tmp_path)
    assert not any(a.path.endswith("/us-east-1/index.json") for a in server.asked)


def test_a_compressed_answer_is_read(server: FileServer, tmp_path: Path) -> None:
    plain = read(server)
    server.compressed = True
    assert read(server, tmp_path).quotes == plain.quotes
    del server.files[f"{FILE}.csv"]
    assert read(server, tmp_path).quotes == plain.quotes


def test_a_region_that_the_index_does_not_list(server: FileServer) -> None:
    with pytest.raises(SourceFailed, match=r"does not list us-eest-1; did you mean us-east-1\?"):
        read(server, region="us-eest-1")


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        (f"{BASE}/index.json", b"[]", "offer index: must be an object"),
        (f"{BASE}/index.json", b'{"offers": {}}', "AmazonEC2: must be an object, not missing"),
        (f"{BASE}/AmazonEC2/current/region_index.json", b'{"regions": {"us-east-1": {}}}', "currentVersionUrl must be a text"),
        (f"{BASE}/AmazonEC2/current/region_index.json", b'{"regions": []}', "region index: must be an object"),
    ],
)  # fmt: skip
def test_an_index_of_another_shape(server: FileServer, path: str, body: bytes, why: str) -> None:
    server.files[path] = body
    with pytest.raises(SourceFailed, match=why):
        read(server)


def test_a_file_without_a_wanted_machine_is_no_answer(server: FileServer, tmp_path: Path) -> None:
    server.files[f"{FILE}.csv"] = as_csv(OfferFile(region="us-east-2"), tmp_path)
    with pytest.raises(SourceFailed, match=r"no price of a type we plan with in us-east-1.*regionCode us-east-2"):
        read(server)


def test_china_has_a_list_of_its_own(server: FileServer, tmp_path: Path) -> None:
    offer = OfferFile(other_types=0, region="cn-north-1", currency="CNY", prices={"g4dn.xlarge": "3.711"})
    for path in list(server.files):
        body = server.files.pop(path)
        server.files[path.replace("/aws/", "/cn/")] = body.replace(b"/aws/", b"/cn/").replace(
            b"us-east-1", b"cn-north-1"
        )
    server.files["/offers/v1.0/cn/AmazonEC2/20261120194211/cn-north-1/index.csv"] = as_csv(offer, tmp_path)
    found = read(server, region="cn-north-1")
    assert {q.currency for q in found.quotes} == {"CNY"}
    assert Aws().price_list_files_of("cn-north-1") == PRICE_LIST_FILES_CHINA == "https://pricing.cn-north-1.amazonaws.com.cn"  # fmt: skip


def test_the_source_is_asked_only_by_name_and_needs_no_credentials() -> None:
    source = price_list_files_source(Aws())
    assert (source.name, source.regional, source.needs_credentials, source.default) == ("price_list_files", True, False, False)  # fmt: skip
    with pytest.raises(ValueError, match="region by region"):
        source.read(ask(None))
