"""Reading the tables: exact values out, and one clear error with table, line and column for whatever cannot be right."""

import csv
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.errors import TableError
from pricing.model import AcceleratorKind, InterconnectKind, PurchaseOption
from pricing.reading import Row
from pricing.static import TABLES_DIR, load_tables

FIGURE = "parameter,value,unit,source,retrieved_on,confidence,note"
SOURCE = "a list,2026-07-20,high,"
TABLES = {
    "accelerators.csv": [
        f"accelerator,{FIGURE}",
        f"Chip 16GB,vendor,Maker,-,{SOURCE}fast",
        f"Chip 16GB,architecture,New,-,{SOURCE}",
        f"Chip 16GB,kind,gpu,-,{SOURCE}",
        f"Chip 16GB,memory_gib,16,GiB,{SOURCE}",
        "Chip 16GB,memory_visible_gib,15.5,GiB,another list,2026-07-01,medium,seen",
        f"Chip 16GB,peak_bf16_tflops,100,TFLOPS,{SOURCE}",
        f"Chip 16GB,peak_int8_tflops,200,TOPS,{SOURCE}",
    ],
    "accelerator_aliases.csv": ["alias,accelerator,note", "chip,Chip 16GB,"],
    "instances.csv": [
        f"provider,instance_type,{FIGURE}",
        f"aws,x1.large,family,x1,-,{SOURCE}",
        f"aws,x1.large,accelerator,Chip 16GB,-,{SOURCE}",
        f"aws,x1.large,accelerator_kind,gpu,-,{SOURCE}",
        f"aws,x1.large,device_count,2,-,{SOURCE}",
        f"aws,x1.large,device_memory_gib,16,GiB,{SOURCE}",
        f"aws,x1.large,interconnect_kind,pcie,-,{SOURCE}",
        f"aws,x1.large,efa_supported,yes,-,{SOURCE}",
    ],
    "on_demand.csv": [
        "provider,instance_type,region,value,unit,source,retrieved_on,derived,confidence,note",
        "aws,x1.large,us-east-1,1.0060001,USD/h,a list,2026-07-20,no,high,",
    ],
    "on_demand_history.csv": [
        "provider,instance_type,region,value,unit,first_seen,last_seen,source,confidence,note",
        "aws,x1.large,us-east-1,1.5,USD/h,2024-08-26,2025-04-28,a list,high,",
        "aws,x1.large,us-east-1,1.0060001,USD/h,2025-06-23,2025-12-29,a list,high,",
    ],
    "spot.csv": [
        "provider,instance_type,region,availability_zone_id,value,unit,at_on_demand_cap,source,retrieved_on,confidence,note",
        "aws,x1.large,us-east-1,use1-az1,0.4,USD/h,no,another list,2026-07-01,high,",
    ],
    "commitments.csv": [
        "provider,instance_type,region,purchase_option,plan_type,offering_class,term_years,payment_option,upfront,value,unit,source,retrieved_on,derived,confidence,note",
        "aws,x1.large,us-east-1,reserved_1yr,,standard,1,all_upfront,4380,0.5,USD/h,a list,2023-08-30,no,low,",
    ],
    "storage_network.csv": [
        "provider,service,item,region,value,unit,tier_from_gb,tier_to_gb,source,retrieved_on,confidence,note",
        "aws,transfer,out,us-east-1,0.09,USD/GB,0,10240,a list,2026-07-20,high,",
    ],
    "interruptions.csv": [
        f"provider,instance_type,region,{FIGURE}",
        f"aws,x1.large,us-east-1,interrupted_per_month,10-15%,band,{SOURCE}",
        f"aws,x1.large,us-east-1,savings_over_on_demand,0.6,fraction,{SOURCE}",
    ],
}


@pytest.fixture
def write(tmp_path):
    """Write the small tables, with one line of one table replaced (or added at the end), and return their directory."""

    def written(table: str | None = None, line: int | None = None, text: str = ""):
        for name, lines in TABLES.items():
            kept = list(lines)
            if name == table:
                if line is None:
                    kept.append(text)
                else:
                    kept[line - 1] = text
            (tmp_path / name).write_text("\n".join(kept) + "\n", encoding="utf-8")
        return tmp_path

    return written


def test_a_chip_comes_together_from_its_rows(write):
    (chip,) = load_tables(write()).accelerators
    assert (chip.name, chip.vendor, chip.kind) == ("Chip 16GB", "Maker", AcceleratorKind.GPU)
    assert (chip.memory_gib, chip.memory_visible_gib) == (16.0, 15.5)
    assert chip.peak_tflops == {"bf16": 100.0, "int8": 200.0}
    assert chip.memory_bandwidth_gb_s is None  # not in the table: unknown, not zero


def test_a_thing_has_all_its_sources_the_oldest_day_the_weakest_confidence_and_its_notes(write):
    (chip,) = load_tables(write()).accelerators
    assert chip.source == "a list; another list"
    assert chip.retrieved_on == date(2026, 7, 1)
    assert chip.confidence == "medium"
    assert chip.notes == "fast; seen"


def test_an_instance_type_and_its_defaults(write):
    (instance,) = load_tables(write()).instance_types
    assert (instance.provider, instance.instance_type, instance.accelerator) == ("aws", "x1.large", "Chip 16GB")
    assert (instance.device_count, instance.device_fraction) == (2, 1.0)
    assert instance.interconnect_kind is InterconnectKind.PCIE
    assert instance.efa_supported is True
    assert instance.capacity_block_only is False
    assert (instance.vcpus, instance.network_gbps) == (None, None)


def test_quotes_are_exact_decimals_with_their_terms(write):
    on_demand, spot, reserved = load_tables(write()).quotes
    assert on_demand.effective_unit_price == Decimal("1.0060001")
    assert on_demand.retrieved_at == datetime(2026, 7, 20, tzinfo=UTC)
    assert (on_demand.currency, on_demand.unit, on_demand.derived) == ("USD", "Hrs", False)
    assert (spot.availability_zone_id, spot.at_on_demand_cap) == ("use1-az1", False)
    assert reserved.purchase_option is PurchaseOption.RESERVED_1YR
    assert (reserved.offering_class, reserved.term_years, reserved.upfront) == ("standard", 1, Decimal(4380))
    assert reserved.plan_type is None
    assert reserved.list_unit_price is None


def test_prices_of_now_extend_the_earlier_ones(write):
    """1.5 until April 2025; 1.0060001 from June 2025, still so in the list of 2026-07-20; the reservation was seen once."""
    earlier, now, reserved = load_tables(write()).price_periods
    assert (earlier.unit_price, earlier.last_seen) == (Decimal("1.5"), datetime(2025, 4, 28, tzinfo=UTC))
    assert (now.unit_price, now.unit, now.currency) == (Decimal("1.0060001"), "Hrs", "USD")
    assert (now.first_seen, now.last_seen) == (datetime(2025, 6, 23, tzinfo=UTC), datetime(2026, 7, 20, tzinfo=UTC))
    assert (reserved.purchase_option, reserved.payment_option) == (PurchaseOption.RESERVED_1YR, "all_upfront")
    assert reserved.first_seen == reserved.last_seen == datetime(2023, 8, 30, tzinfo=UTC)


def test_rates_bands_aliases_and_sources(write):
    contents = load_tables(write())
    (rate,) = contents.rates
    assert (rate.unit_price, rate.currency, rate.unit) == (Decimal("0.09"), "USD", "GB")
    assert (rate.tier_from, rate.tier_to) == (0.0, 10240.0)
    (band,) = contents.interruptions
    assert (band.monthly_low_fraction, band.monthly_high_fraction) == (0.10, 0.15)
    assert band.savings_over_on_demand_fraction == 0.6
    assert contents.aliases == {"chip": "Chip 16GB"}
    ages = {(s.kind, s.source): s for s in contents.sources}
    assert ages["on_demand", "a list"].quotes == 1
    assert ages["spot", "another list"].as_of == datetime(2026, 7, 1, tzinfo=UTC)
    assert ages["commitment", "a list"].as_of == datetime(2023, 8, 30, tzinfo=UTC)
    assert {s.kind for s in contents.sources} == {"on_demand", "spot", "commitment", "specs", "storage", "interruption"}


EARLIER = "aws,x1.large,us-east-1,1.5,USD/h,2024-08-26,2025-04-28,a list,high,"
ON_DEMAND = "aws,x1.large,us-east-1,1.006,USD/h,a list,2026-07-20,no,high,"


@pytest.mark.parametrize(
    ("table", "line", "text", "where", "why"),
    [
        ("on_demand_history.csv", 2, EARLIER.replace("1.5", "0"), "on_demand_history.csv:2: value", "above zero"),
        (
            "on_demand_history.csv",
            2,
            EARLIER.replace("high", "sure"),
            "on_demand_history.csv:2: confidence",
            "high, medium",
        ),
        (
            "on_demand_history.csv",
            2,
            EARLIER.replace("2025-04-28", "2024-08-25"),
            "on_demand_history.csv:2: last_seen",
            "2024-08-25 is before first_seen 2024-08-26",
        ),
        (
            "on_demand_history.csv",
            2,
            EARLIER.replace("2024-08-26", "August"),
            "on_demand_history.csv:2: first_seen",
            "a day like 2026-07-20",
        ),
        ("on_demand.csv", 2, ON_DEMAND.replace("1.006", "0"), "on_demand.csv:2: value", "above zero"),
        ("on_demand.csv", 2, ON_DEMAND.replace("1.006", "-1"), "on_demand.csv:2: value", "above zero"),
        ("on_demand.csv", 2, ON_DEMAND.replace("1.006", ""), "on_demand.csv:2: value", "not be empty"),
        ("on_demand.csv", 2, ON_DEMAND.replace("1.006", "1,006"), "on_demand.csv:2", "11 cells"),
        ("on_demand.csv", 2, ON_DEMAND.replace("1.006", "$1.006"), "on_demand.csv:2: value", "'$1.006'"),
        ("on_demand.csv", 2, ON_DEMAND.replace("1.006", "nan"), "on_demand.csv:2: value", "'nan'"),
        ("on_demand.csv", 2, ON_DEMAND.replace("1.006", "inf"), "on_demand.csv:2: value", "'inf'"),
        ("on_demand.csv", 2, ON_DEMAND.replace("USD/h", "USD/month"), "on_demand.csv:2: unit", "'USD/month'"),
        ("on_demand.csv", 2, ON_DEMAND.replace("USD/h", "USD"), "on_demand.csv:2: unit", "'USD'"),
        (
            "on_demand.csv",
            2,
            ON_DEMAND.replace("2026-07-20", "20.7.2026"),
            "on_demand.csv:2: retrieved_on",
            "2026-07-20",
        ),
        (
            "on_demand.csv",
            2,
            ON_DEMAND.replace("2026-07-20", "2026-02-30"),
            "on_demand.csv:2: retrieved_on",
            "2026-02-30",
        ),
        ("on_demand.csv", 2, ON_DEMAND.replace("high", "sure"), "on_demand.csv:2: confidence", "high, medium, low"),
        ("on_demand.csv", 2, ON_DEMAND.replace(",no,", ",nope,"), "on_demand.csv:2: derived", "yes or no"),
        ("on_demand.csv", 2, ON_DEMAND.replace("us-east-1", ""), "on_demand.csv:2: region", "not be empty"),
        ("on_demand.csv", 1, "instance_type,price", "on_demand.csv:1", "header must be provider,"),
        ("spot.csv", None, "aws,x1.large", "spot.csv:3", "2 cells"),
        ("accelerators.csv", 5, f"Chip 16GB,memory_gib,16,GB,{SOURCE}", "accelerators.csv:5: unit", "'GiB', not 'GB'"),
        ("accelerators.csv", 5, f"Chip 16GB,memory_gib,much,GiB,{SOURCE}", "accelerators.csv:5: value", "'much'"),
        (
            "accelerators.csv",
            5,
            f"Chip 16GB,memory,16,GiB,{SOURCE}",
            "accelerators.csv:5: parameter",
            "unknown: 'memory'",
        ),
        ("accelerators.csv", 4, f"Chip 16GB,kind,toaster,-,{SOURCE}", "accelerators.csv:4: value", "'toaster'"),
        (
            "accelerators.csv",
            2,
            f"Chip 16GB,form_factor,PCIe,-,{SOURCE}",
            "accelerators.csv:2: parameter",
            "lacks vendor",
        ),
        (
            "accelerators.csv",
            None,
            f"Chip 16GB,memory_gib,32,GiB,{SOURCE}",
            "accelerators.csv:9: parameter",
            "given twice, first on line 5",
        ),
        ("accelerators.csv", 5, "Chip 16GB,memory_gib,16,GiB,,2026-07-20,high,", "accelerators.csv:5: source", "empty"),
        ("instances.csv", 5, f"aws,x1.large,device_count,1.5,-,{SOURCE}", "instances.csv:5: value", "whole number"),
        ("instances.csv", 7, f"aws,x1.large,interconnect_kind,rope,-,{SOURCE}", "instances.csv:7: value", "'rope'"),
        ("accelerator_aliases.csv", None, "chip,Chip 16GB,", "accelerator_aliases.csv:3: alias", "given twice"),
        (
            "commitments.csv",
            2,
            "aws,x1.large,us-east-1,layaway,,standard,1,all_upfront,4380,0.5,USD/h,a list,2023-08-30,no,low,",
            "commitments.csv:2: purchase_option",
            "'layaway'",
        ),
        (
            "storage_network.csv",
            2,
            "aws,transfer,out,us-east-1,0.09,USD,0,10240,a list,2026-07-20,high,",
            "storage_network.csv:2: unit",
            "USD/GB",
        ),
        (
            "interruptions.csv",
            2,
            f"aws,x1.large,us-east-1,interrupted_per_month,often,band,{SOURCE}",
            "interruptions.csv:2: value",
            "'often'",
        ),
    ],
)
def test_a_row_that_cannot_be_right_is_one_line_with_its_place(write, table, line, text, where, why):  # noqa: PLR0917 - one case a row
    with pytest.raises(TableError) as caught:
        load_tables(write(table, line, text))
    message = str(caught.value)
    assert message.startswith(where)
    assert why in message
    assert "\n" not in message


def test_a_missing_table_is_named(write):
    directory = write()
    (directory / "spot.csv").unlink()
    with pytest.raises(TableError, match=r"^spot\.csv: cannot be read"):
        load_tables(directory)


def test_a_table_in_another_encoding_is_named(write):
    directory = write()
    (directory / "spot.csv").write_bytes(b"\xff\xfe broken")
    with pytest.raises(TableError, match=r"^spot\.csv: is not a CSV table in UTF-8"):
        load_tables(directory)


def test_reading_is_the_same_every_time_and_everywhere(tmp_path):
    copy = shutil.copytree(TABLES_DIR, tmp_path / "tables", ignore=shutil.ignore_patterns("*.sqlite"))
    assert load_tables(copy) == load_tables()


def test_every_figure_of_the_long_tables_arrives(tmp_path):
    """As many peaks come out as rows went in: nothing is dropped on the way."""
    with (TABLES_DIR / "accelerators.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["parameter"].startswith("peak_")]
    chips = load_tables().accelerators
    assert sum(len(chip.peak_tflops) for chip in chips) == len(rows)


@given(st.decimals(min_value="0.000001", max_value="1000", places=8))
def test_a_price_is_read_without_losing_a_digit(price):
    assert Row("t.csv", 2, {"value": str(price)}).decimal("value") == price
