"""A price sheet: exact prices and types out, or every fault with its line and nothing."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from pricing.errors import SheetError
from pricing.model import AcceleratorKind, InterconnectKind, PurchaseOption
from pricing.price_sheet import parse_sheet
from pricing.sheet_rows import COLUMNS, REQUIRED, sheet_of, template
from pricing.sheet_types import Known
from pricing.static import load_tables

TODAY = date(2026, 11, 30)
HEADER = "provider,instance_type,region,purchase_option,unit_price,quoted_on"
ROW = "aws,p5.48xlarge,us-east-1,on_demand,40.00,2026-11-02"


@pytest.fixture(scope="module")
def known() -> Known:
    tables = load_tables()
    return Known(
        accelerators={a.name: a for a in tables.accelerators},
        aliases=tables.aliases,
        instance_types=tables.instance_types,
        regions=tuple({q.region for q in tables.quotes}),
    )


@pytest.fixture
def read(known):
    return lambda *lines, name="acme": parse_sheet("\n".join(lines) + "\n", name=name, known=known, today=TODAY)


@pytest.fixture
def faults(read):
    def of(*lines) -> list[str]:
        with pytest.raises(SheetError) as caught:
            read(*lines)
        return list(caught.value.faults)

    return of


def test_the_template_is_a_sheet_that_can_be_imported(known):
    """2.49 x 8 GPUs = 19.92; 3.10 + 280,000 / (4 x 8,760 h) = 11.0908676."""
    text = template()
    sheet = parse_sheet(text, name="acme", known=known, today=TODAY)
    on_demand, reserved, owned = sheet.quotes
    assert on_demand.effective_unit_price == Decimal("19.92")
    assert on_demand.notes == "2.49 USD an accelerator-hour x 8"
    assert (reserved.term_years, reserved.payment_option) == (1, "no_upfront")
    assert reserved.effective_unit_price == Decimal("15.60")
    assert owned.purchase_option is PurchaseOption.OWNED
    assert round(owned.effective_unit_price, 7) == Decimal("11.0908676")
    assert all(f"#   {column}" in text for column in COLUMNS)
    assert [line for line in text.splitlines() if "(required)" in line] == [
        line
        for line in text.splitlines()
        if line.removeprefix("#   ").split(" (")[0] in REQUIRED and "(required)" in line
    ]


def test_a_price_says_what_it_is_of_since_when_and_from_which_sheet(read):
    (quote,) = read(HEADER + ",source,note,effective_from", ROW + ',offer 4711,"for us, only",2026-10-01').quotes
    assert (quote.provider, quote.instance_type, quote.region) == ("aws", "p5.48xlarge", "us-east-1")
    assert quote.effective_unit_price == quote.list_unit_price == Decimal("40.00")
    assert (quote.currency, quote.unit) == ("USD", "Hrs")
    assert quote.source == "price sheet acme: offer 4711"
    assert sheet_of(quote.source) == "acme"
    assert quote.retrieved_at == datetime(2026, 11, 2, tzinfo=UTC)
    assert quote.effective_from == date(2026, 10, 1)
    assert quote.notes == "for us, only"
    assert not quote.derived


def test_names_are_spelt_as_the_tables_spell_them(read):
    (quote,) = read(HEADER, "AWS,P5.48XLARGE,US-East-1,On-Demand,40,2026-11-02").quotes
    assert (quote.provider, quote.instance_type, quote.region) == ("aws", "p5.48xlarge", "us-east-1")


def test_a_type_that_no_table_knows_is_described_by_the_sheet(read):
    """The chip by an alias; 900 GB/s is the NVLink of an H100; a described type needs no table."""
    sheet = read(
        HEADER + ",accelerator,accelerators_per_instance,vcpus,memory_gib,interconnect,network_gbps",
        "acme,h100x8,tx,on_demand,20,2026-11-02,H100-SXM,8,208,1800,nvswitch,3200",
        "acme,h100x8,tx,spot,9,2026-11-02,,,,,,",
    )
    (kind,) = sheet.instance_types
    assert (kind.provider, kind.instance_type, kind.accelerator) == ("acme", "h100x8", "H100 SXM5 80GB")
    assert (kind.accelerator_kind, kind.device_count, kind.device_fraction) == (AcceleratorKind.GPU, 8, 1.0)
    assert kind.interconnect_kind is InterconnectKind.NVSWITCH
    assert kind.interconnect_gb_s_bidirectional == 900
    assert (kind.vcpus, kind.memory_gib, kind.network_gbps, kind.local_nvme_gb) == (208, 1800, 3200, None)
    assert kind.source == "price sheet acme"
    assert len(sheet.quotes) == 2


def test_half_a_chip_and_a_pcie_box(read):
    """L40S over PCIe 4.0 x16: 64 GB/s, both directions; half an L4 has 22888 MiB / 2."""
    half, box = read(
        HEADER + ",accelerator,accelerators_per_instance,interconnect",
        "acme,l4-half,tx,on_demand,0.3,2026-11-02,L4,0.5,",
        "acme,l40s-box,tx,on_demand,5,2026-11-02,L40S,4,pcie",
    ).instance_types
    assert (half.device_count, half.device_fraction, half.accelerators_per_instance) == (1, 0.5, 0.5)
    assert half.device_memory_gib == pytest.approx(22888 / 1024 / 2)
    assert (box.interconnect_kind, box.interconnect_gb_s_bidirectional) == (InterconnectKind.PCIE, 64)


@pytest.mark.parametrize(
    ("terms", "hourly"),
    [
        ("reserved_1yr,no_upfront,,2.00", "2.00"),
        ("reserved_1yr,all_upfront,8760,0", "1"),  # 8,760 USD for the 8,760 hours of a year
        ("reserved_3yr,partial_upfront,26280,0.50", "1.50"),  # 26,280 hours in three years
        ("savings_plan_1yr,no_upfront,,2.5", "2.5"),
        ("capacity_block,all_upfront,,39.33", "39.33"),
    ],
)
def test_an_upfront_payment_is_spread_over_the_hours_of_the_term(read, terms, hourly):
    option, payment, upfront, price = terms.split(",")
    header = "provider,instance_type,region,purchase_option,payment_option,upfront,unit_price,quoted_on"
    (quote,) = read(header, f"aws,p5.48xlarge,us-east-1,{option},{payment},{upfront},{price},2026-11-02").quotes
    assert quote.effective_unit_price == Decimal(hourly)
    assert quote.term_years == {"reserved_3yr": 3, "capacity_block": None}.get(option, 1)


def test_a_price_a_month_is_one_of_730_hours(read):
    (quote,) = read(HEADER + ",unit", "aws,p5.48xlarge,us-east-1,on_demand,7300,2026-11-02,month").quotes
    assert quote.effective_unit_price == 10
    assert quote.notes == "7300 USD a month of 730 h"


def test_another_currency_stays_as_it_is_without_a_rate(read):
    (quote,) = read(HEADER + ",currency", ROW + ",eur").quotes
    assert (quote.currency, quote.effective_unit_price, quote.derived) == ("EUR", Decimal("40.00"), False)


def test_another_currency_is_converted_at_the_rate_that_the_row_states(read):
    """46 EUR at 0.92 EUR per USD are 50 USD."""
    (quote,) = read(
        HEADER + ",currency,usd_rate,rate_source,rate_on",
        "aws,p5.48xlarge,us-east-1,on_demand,46,2026-11-02,EUR,0.92,ECB,2026-11-02",
    ).quotes
    assert (quote.currency, quote.effective_unit_price, quote.list_unit_price) == ("USD", 50, 50)
    assert quote.derived
    assert quote.notes == "46 EUR at 0.92 EUR per USD (ECB, 2026-11-02)"


def test_every_fault_is_named_with_its_line(faults):
    found = faults(
        "# a comment",
        HEADER + ",accelerator,accelerators_per_instance",
        "acme,x,tx,on_demand,abc,2026-13-01,H100,1",
        "",
        ",p5.48xlarge,us-east-1,ondemand,40,2026-11-02,,",
        "aws,p5.48xlarge,us-east-1,on_demand,40,2026-12-01,,",
        "aws,p5.48xlarge,us-east-1,on_demand,40,2026-11-02",
    )
    assert [fault.split(":")[0] for fault in found] == ["line 3", "line 3", "line 5", "line 5", "line 6", "line 7"]
    assert found[0] == "line 3: quoted_on: must be a day like 2026-07-20, not '2026-13-01'"
    assert found[1] == "line 3: unit_price: must be a number, not 'abc'"
    assert found[4] == "line 6: quoted_on: must lie between 2020-01-01 and today, 2026-11-30, not 2026-12-01"
    assert found[5] == "line 7: has 6 cells, the header has 8"


@pytest.mark.parametrize(
    ("columns", "row", "fault"),
    [
        ("", ROW.replace("40.00", "0"), "line 2: unit_price: must be above zero where nothing is paid upfront"),
        ("", ROW.replace("40.00", "-1"), "line 2: unit_price: must be zero or more, not -1"),
        ("", ROW.replace("40.00", "nan"), "line 2: unit_price: must be a number, not 'nan'"),
        ("", ROW.replace("40.00", "1e999"), "line 2: unit_price: must be a number in plain digits like 2490 or 2.49, not '1e999'"),
        ("", ROW.replace("40.00", "1e-300"), "line 2: unit_price: must be a number in plain digits like 2490 or 2.49, not '1e-300'"),
        ("", ROW.replace("40.00", "2_490"), "line 2: unit_price: must be a number in plain digits like 2490 or 2.49, not '2_490'"),
        ("", ROW.replace("40.00", "\uff12.49"), "line 2: unit_price: must be a number in plain digits like 2490 or 2.49, not '\uff12.49'"),
        ("", ROW.replace("40.00", "1" + "0" * 30), "line 2: unit_price: must be from 0.000001 to 10,000,000 an hour, not 1.000e+30"),
        ("", ROW.replace("40.00", "10000000.01"), "line 2: unit_price: must be from 0.000001 to 10,000,000 an hour, not 10000000.01"),
        ("", ROW.replace("40.00", "0.0000001"), "line 2: unit_price: must be from 0.000001 to 10,000,000 an hour, not 0.0000001"),
        ("", ROW.replace("40.00", "9" * 50_000), f"line 2: unit_price: must be a number in plain digits like 2490 or 2.49, not '{'9' * 29}…"),
        (",unit", ROW.replace("40.00", "9999999") + ",gpu_hour", "line 2: unit_price: the whole instance, with everything in it, must be from 0.000001 to 10,000,000 an hour, not 79999992.0"),
        (",currency,usd_rate,rate_source,rate_on", ROW + ",EUR,1e-9,ECB,2026-11-02", "line 2: usd_rate: must be a number in plain digits like 2490 or 2.49, not '1e-9'"),
        (",currency,usd_rate,rate_source,rate_on", ROW + ",EUR,0.0000000001,ECB,2026-11-02", "line 2: usd_rate: must be from 0.000001 to 10,000,000, not 0.0000000001"),
        ("", ROW.replace("40.00", ""), "line 2: unit_price: must not be empty"),
        ("", ROW.replace("2026-11-02", ""), "line 2: quoted_on: must not be empty: a price has a day"),
        ("", ROW.replace("us-east-1", ""), "line 2: region: must not be empty"),
        (",currency", ROW + ",US$", "line 2: currency: must be three letters like USD, not 'US$'"),
        (",unit", ROW + ",week", "line 2: unit: must be hour, accelerator_hour or month, not 'week'"),
        (",upfront", ROW + ",100", "line 2: upfront: does not go with on_demand"),
        (",term_years", ROW + ",1", "line 2: term_years: 1 does not go with on_demand"),
        (",plan_type", ROW + ",compute", "line 2: plan_type: does not go with on_demand"),
        (",payment_option", ROW + ",no_upfront", "line 2: payment_option: does not go with on_demand"),
        (",usd_rate", ROW + ",0.92", "line 2: usd_rate: a rate needs usd_rate, rate_source and rate_on"),
        (",usd_rate,rate_source,rate_on", ROW + ",1,ECB,2026-11-02", "line 2: usd_rate: the price is in USD already"),
        (",accelerator", ROW + ",A100", "line 2: accelerator: 'A100', but p5.48xlarge of aws is known with H100 SXM5 80GB"),
        (",vcpus", ROW + ",96", "line 2: vcpus: '96', but p5.48xlarge of aws is known with 192"),
        (",effective_from", ROW + ",2027-01-01", "line 2: effective_from: must lie between 2020-01-01 and today, 2026-11-30, not 2027-01-01"),
        (",prize", ROW + ",1", "line 1: unknown column 'prize'; `planner prices import --template` lists them"),
        (",region", ROW + ",tx", "line 1: column region is there 2 times"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_right(faults, columns, row, fault):
    assert faults(HEADER + columns, row) == [fault]


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("H1000,8,nvswitch", "line 2: accelerator: unknown 'H1000'; did you mean H100"),
        ("H100,,", "line 2: accelerators_per_instance: must not be empty for a type that no table knows"),
        ("H100,2.5,nvlink", "line 2: accelerators_per_instance: must be a whole number or a part of one chip, not 2.5"),
        ("H100,8,", "line 2: interconnect: say how the 8 accelerators reach each other: nvswitch, nvlink, pcie, …"),
        ("H100,8,cable", "line 2: interconnect: must be one of none, pcie, nvlink"),
        ("H100,1,nvlink", "line 2: interconnect: one accelerator has nothing to reach: leave it empty"),
        (",,", "line 2: instance_type: no table knows 'x' of 'acme': say what it is in the columns accelerator"),
    ],
)
def test_a_type_that_is_not_described_well(faults, spec, fault):
    (found,) = faults(
        HEADER + ",accelerator,accelerators_per_instance,interconnect", f"acme,x,tx,on_demand,2,2026-11-02,{spec}"
    )
    assert found.startswith(fault)


def test_a_cpu_server_is_its_sockets_and_needs_its_memory(read, faults):
    header = HEADER + ",accelerator,accelerators_per_instance,memory_gib"
    (server,) = read(header, "lab,epyc,lab,owned,0.4,2026-11-02,EPYC 9R14,2,768").instance_types
    assert (server.accelerator_kind, server.device_count, server.device_fraction) == (AcceleratorKind.CPU, 1, 2.0)
    assert server.accelerators_per_instance is None
    assert faults(header, "lab,epyc,lab,owned,0.4,2026-11-02,EPYC 9R14,2,") == [
        "line 2: memory_gib: must not be empty for a CPU server: the model lies in it"
    ]
    assert faults(header + ",unit", "lab,epyc,lab,owned,0.4,2026-11-02,EPYC 9R14,2,768,accelerator_hour") == [
        "line 2: unit: epyc has no accelerator: price it by the hour"
    ]


def test_rows_of_one_type_must_not_contradict_each_other(faults):
    assert faults(
        HEADER + ",accelerator,accelerators_per_instance",
        "acme,x,tx,on_demand,2,2026-11-02,H100,1",
        "acme,x,ny,on_demand,2,2026-11-02,A100,1",
    ) == ["line 3: accelerator: 'A100', but line 2 says 'H100' of the same type"]


def test_the_same_thing_priced_twice(faults):
    assert faults(HEADER, ROW, ROW.replace("40.00", "41")) == ["line 3: the same thing is priced on line 2"]


def test_what_is_no_sheet_at_all(faults):
    assert faults("provider;instance_type;region") == ["line 1: cells must be separated by commas, not semicolons"]
    assert faults("provider,instance_type,unit_price") == [
        "line 1: lacks the columns region, purchase_option, quoted_on"
    ]
    assert faults("") == ["it holds no price"]
    assert faults(HEADER) == ["it holds no price"]
    (fault,) = faults(HEADER, ROW, 'aws,"p5')
    assert fault.startswith("line 3: is no line of CSV")


def test_line_numbers_count_comments_blank_lines_and_line_breaks_in_cells(faults):
    found = faults("# one", "", HEADER + ",note", ROW + ',"first', 'second"', ROW.replace("40.00", "x") + ",")
    assert found == ["line 6: unit_price: must be a number, not 'x'"]


def test_order_of_columns_blanks_and_a_byte_order_mark_do_not_matter(known):
    text = "\ufeffquoted_on, unit_price ,purchase_option,region,instance_type,provider\r\n 2026-11-02,40.00 ,on_demand,us-east-1,p5.48xlarge,aws\r\n"
    (quote,) = parse_sheet(text, name="a", known=known, today=TODAY).quotes
    assert quote.effective_unit_price == 40


@pytest.mark.parametrize("name", ["", "a: b", "a;b", " a", "x" * 81, "a\nb"])
def test_a_name_that_would_not_be_told_apart_in_a_source(read, name):
    with pytest.raises(SheetError, match="the name of a sheet"):
        read(HEADER, ROW, name=name)
