"""The shipped tables: the rules hold, and figures are those that their sources published."""

import csv
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from pricing.checks import check_snapshot
from pricing.contents import SnapshotContents
from pricing.model import AcceleratorKind, InterconnectKind, PurchaseOption, Quote
from pricing.static import TABLES_DIR, load_tables

READ_ON = date(2026, 11, 30)  # the day the tables were last written
NAMES = Path(__file__).parents[2] / "data" / "accelerator_names.csv"


@pytest.fixture(scope="module")
def tables() -> SnapshotContents:
    return load_tables()


@pytest.fixture(scope="module")
def types(tables):
    return {i.instance_type: i for i in tables.instance_types if i.provider == "aws"}


@pytest.fixture(scope="module")
def chips(tables):
    return {a.name: a for a in tables.accelerators}


@pytest.fixture(scope="module")
def on_demand(tables) -> dict[tuple[str, str], Quote]:
    return {
        (q.instance_type, q.region): q
        for q in tables.quotes
        if q.provider == "aws" and q.purchase_option is PurchaseOption.ON_DEMAND
    }


def test_every_rule_holds(tables):
    assert [str(finding) for finding in check_snapshot(tables, today=READ_ON)] == []


# aws/karpenter-provider-aws, price file generated 2026-07-20
@pytest.mark.parametrize(
    ("instance_type", "usd_per_hour"),
    [
        ("p4d.24xlarge", "21.957642"),
        ("p4de.24xlarge", "27.44705"),
        ("p5.48xlarge", "55.04"),
        ("p5.4xlarge", "6.88"),
        ("p5en.48xlarge", "63.296"),
        ("g5.xlarge", "1.006"),
        ("g5.2xlarge", "1.212"),
        ("g4dn.xlarge", "0.526"),
        ("g6.xlarge", "0.8048"),
        ("g6e.xlarge", "1.861"),
        ("g6f.xlarge", "0.2375"),
        ("inf2.xlarge", "0.7582"),
        ("trn1.32xlarge", "21.5"),
    ],
)
def test_us_east_1_prices_are_the_published_ones(on_demand, instance_type, usd_per_hour):
    quote = on_demand[instance_type, "us-east-1"]
    assert quote.effective_unit_price == Decimal(usd_per_hour)
    assert quote.list_unit_price == quote.effective_unit_price
    assert not quote.derived
    assert quote.retrieved_at == datetime(2026, 7, 20, tzinfo=UTC)
    assert str(quote.usd_per_hour) == usd_per_hour


# skypilot-org/skypilot-catalog v9, 2026-07-09; GovCloud from the karpenter file
@pytest.mark.parametrize(
    ("instance_type", "region", "usd_per_hour"),
    [
        ("p5.48xlarge", "ap-northeast-1", "68.8"),  # 55.04 x 1.25
        ("p5.48xlarge", "us-gov-west-1", "66.048"),  # 55.04 x 1.2
        ("p4d.24xlarge", "us-east-2", "21.957642"),
        ("g5.xlarge", "eu-west-1", "1.123"),
        ("g6.48xlarge", "me-central-1", "16.39339"),
    ],
)
def test_prices_of_other_regions_are_the_published_ones(on_demand, instance_type, region, usd_per_hour):
    published = Decimal(usd_per_hour)
    assert abs(on_demand[instance_type, region].effective_unit_price - published) <= published * Decimal("0.00001")


@pytest.mark.parametrize("family", ["p5e.", "trn2", "trn3", "p6e", "dl2q"])
def test_types_without_a_known_on_demand_price_have_no_quote_rather_than_zero(types, on_demand, family):
    assert [name for name in types if name.startswith(family)]
    assert [key for key in on_demand if key[0].startswith(family)] == []


def test_every_other_aws_type_has_an_on_demand_price_in_us_east_1(types, on_demand):
    without = {name for name in types if (name, "us-east-1") not in on_demand}
    assert without == {
        *("p5e.48xlarge", "p6e-gb200.36xlarge", "dl2q.24xlarge"),
        *("trn2.3xlarge", "trn2.48xlarge", "trn2u.48xlarge"),
        *("trn2 UltraServer", "trn3 Gen1 UltraServer", "trn3 Gen2 UltraServer"),
    }


def test_price_of_one_h100_is_an_eighth_of_eight(on_demand):
    one, eight = on_demand["p5.4xlarge", "us-east-1"], on_demand["p5.48xlarge", "us-east-1"]
    assert one.effective_unit_price * 8 == eight.effective_unit_price


def test_prices_are_those_after_the_cut_of_june_2025(tables):
    """Before it: p4d 32.7726, p4de 40.96575, p5 98.32, p5en 84.80; no row of any kind may still rest on them."""
    before = {"p4d.24xlarge": "32.7", "p4de.24xlarge": "40.9", "p5.48xlarge": "98.3", "p5en.48xlarge": "84.8"}
    for quote in tables.quotes:
        if quote.provider == "aws" and quote.instance_type in before:
            assert not str(quote.effective_unit_price).startswith(before[quote.instance_type])
            assert before[quote.instance_type] not in quote.notes


# us-east-1 in six looks at the price file: 2023-09-18, 2024-08-26, 2025-04-28, 2025-06-23, 2025-12-29, 2026-07-20
@pytest.mark.parametrize(
    ("instance_type", "periods"),
    [
        ("p5.48xlarge", [("98.32", "2023-09-18", "2025-04-28"), ("55.04", "2025-06-23", "2026-07-20")]),
        ("p4d.24xlarge", [("32.7726", "2023-09-18", "2025-04-28"), ("21.957642", "2025-06-23", "2026-07-20")]),
        ("p4de.24xlarge", [("40.96575", "2023-09-18", "2025-04-28"), ("27.44705", "2025-06-23", "2026-07-20")]),
        ("p5en.48xlarge", [("84.8", "2025-04-28", "2025-04-28"), ("63.296", "2025-06-23", "2026-07-20")]),
        ("p5.4xlarge", [("6.88", "2025-12-29", "2026-07-20")]),
        ("g5.xlarge", [("1.006", "2023-09-18", "2026-07-20")]),
        ("p6-b300.48xlarge", [("142.416", "2026-07-20", "2026-07-20")]),
    ],
)
def test_the_cut_of_june_2025_stands_in_the_price_history(tables, instance_type, periods):
    assert [
        (str(p.unit_price), str(p.first_seen.date()), str(p.last_seen.date()))
        for p in tables.price_periods
        if (p.instance_type, p.region, p.purchase_option) == (instance_type, "us-east-1", PurchaseOption.ON_DEMAND)
    ] == periods


def test_the_history_of_on_demand_prices_ends_with_the_prices_of_today(tables, on_demand):
    """95 price levels of 91 types; only the four of June 2025 ever moved."""
    with (TABLES_DIR / "on_demand_history.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 95
    last = {row["instance_type"]: row for row in sorted(rows, key=lambda row: row["first_seen"])}
    assert len(last) == 91
    assert {name: Decimal(row["value"]) for name, row in last.items()} == {
        name: on_demand[name, "us-east-1"].effective_unit_price for name in last
    }
    assert {row["last_seen"] for row in last.values()} == {"2026-07-20"}


def test_every_price_that_somebody_lists_is_in_the_history_and_no_derived_one(tables):
    recorded = {(p.instance_type, p.region, p.purchase_option) for p in tables.price_periods}
    derived = {(q.instance_type, q.region, q.purchase_option) for q in tables.quotes if q.derived}
    listed = {
        (q.instance_type, q.region, q.purchase_option)
        for q in tables.quotes
        if not q.derived and q.purchase_option is not PurchaseOption.SPOT
    }
    assert recorded == listed
    assert derived - recorded


def test_derived_prices_state_arithmetic_that_gives_the_price(tables, on_demand):
    derived = [q for q in on_demand.values() if q.derived]
    assert len(derived) > 300
    for quote in derived:
        found = re.match(r"([\d.]+) x ([\d.]+) \(", quote.notes)
        assert found, quote.notes
        base, ratio = Decimal(found[1]), Decimal(found[2])
        assert base == on_demand[quote.instance_type, "us-east-1"].effective_unit_price
        assert quote.effective_unit_price == (base * ratio).quantize(Decimal("0.00001"))
        assert quote.confidence in ("medium", "low")


def test_a_derived_price_by_hand(on_demand):
    """g5.48xlarge in Tokyo is not in the source; the sizes that are cost 1.4503 of us-east-1: 16.288 x 1.4503."""
    quote = on_demand["g5.48xlarge", "ap-northeast-1"]
    assert (quote.derived, quote.effective_unit_price) == (True, Decimal("23.62249"))
    seen = on_demand["g5.xlarge", "ap-northeast-1"]
    assert not seen.derived
    assert round(seen.effective_unit_price / Decimal("1.006"), 4) == Decimal("1.4503")


def test_derived_prices_extend_only_families_whose_lists_are_incomplete(on_demand):
    """The P4, P5 and P6 lists of every region are complete in the source: a size missing there is not offered there."""
    assert {name.split(".")[0] for (name, _), q in on_demand.items() if q.derived} == {
        "g4dn",
        "g5",
        "g5g",
        "g6",
        "g6e",
        "g6f",
        "g7e",
        "m7i",
        "p3",
    }
    assert ("p5.4xlarge", "eu-north-1") not in on_demand


def test_spot_is_by_zone_and_says_where_it_stands_at_its_cap(tables):
    """p5.48xlarge in us-east-1 on 2026-07-09: from 16.95 to the on-demand price of 55.04."""
    zones = [
        q
        for q in tables.quotes
        if q.purchase_option is PurchaseOption.SPOT
        and (q.provider, q.instance_type, q.region) == ("aws", "p5.48xlarge", "us-east-1")
    ]
    prices = sorted(q.effective_unit_price for q in zones)
    assert round(prices[0], 2) == Decimal("16.95")
    assert prices[-1] == Decimal("55.04")
    assert len({q.availability_zone_id for q in zones}) == len(zones) == 7
    assert all(re.fullmatch(r"use1-(atl2-)?az\d", q.availability_zone_id or "") for q in zones)
    assert all(q.at_on_demand_cap is (q.effective_unit_price == Decimal("55.04")) for q in zones)


def test_reserved_prices_spread_the_upfront_over_8760_hours(tables):
    reserved = [q for q in tables.quotes if q.upfront is not None]
    assert len(reserved) > 40
    for quote in reserved:
        assert (quote.payment_option, quote.term_years) == ("all_upfront", 1)
        assert quote.upfront is not None
        assert abs(quote.upfront / 8760 - quote.effective_unit_price) < Decimal("0.0001")


def test_capacity_blocks_have_the_rates_of_january_2026(tables):
    blocks = {
        (q.instance_type, q.region): q.effective_unit_price
        for q in tables.quotes
        if q.purchase_option is PurchaseOption.CAPACITY_BLOCK
    }
    assert blocks["p5en.48xlarge", "us-east-1"] == Decimal("41.61")
    assert blocks["p5e.48xlarge", "us-east-2"] == Decimal("39.8")
    assert blocks["p5.48xlarge", "us-east-1"] == Decimal("39.33")
    assert all(re.fullmatch(r"[a-z]{2}-[a-z]+-\d", region) for _, region in blocks)


# DescribeInstanceTypes: MiB of one GPU, GPUs, MiB in total
@pytest.mark.parametrize(
    ("instance_type", "chip", "gpus", "mib"),
    [
        ("p5.4xlarge", "H100 SXM5 80GB", 1, (81920, 81920)),  # the API says Count 0
        ("p5.48xlarge", "H100 SXM5 80GB", 8, (81920, 655360)),
        ("g6.12xlarge", "L4", 4, (22888, 91552)),  # some tables print 366208
        ("g5.xlarge", "A10G", 1, (22888, 22888)),
        ("g5.48xlarge", "A10G", 8, (22888, 183104)),
        ("g4dn.metal", "T4", 8, (16384, 131072)),
        ("g6e.24xlarge", "L40S", 4, (45776, 183104)),
        ("p4d.24xlarge", "A100 SXM4 40GB", 8, (40960, 327680)),
        ("p4de.24xlarge", "A100 SXM4 80GB", 8, (81920, 655360)),
        ("p3dn.24xlarge", "V100 SXM2 32GB", 8, (32768, 262144)),
        ("p5en.48xlarge", "H200 SXM 141GB", 8, (144384, 1155072)),
        ("p6-b200.48xlarge", "B200 SXM 180GB", 8, (183359, 1466872)),
        ("trn1.32xlarge", "Trainium1", 16, (32768, 524288)),
        ("inf2.24xlarge", "Inferentia2", 6, (32768, 196608)),
    ],
)
def test_devices_and_their_memory_are_what_the_api_says(types, instance_type, chip, gpus, mib):
    instance, (mib_each, mib_total) = types[instance_type], mib
    assert instance.accelerator == chip
    assert instance.device_count == gpus
    assert instance.accelerators_per_instance == gpus
    assert instance.device_memory_gib is not None
    assert instance.device_memory_gib * 1024 == pytest.approx(mib_each, abs=0.2)
    assert instance.device_memory_gib * 1024 * gpus == pytest.approx(mib_total, abs=1)


@pytest.mark.parametrize(
    ("instance_type", "fraction", "mib"),
    [
        ("g6f.large", 0.125, 2861),
        ("g6f.xlarge", 0.125, 2861),
        ("g6f.2xlarge", 0.25, 5722),
        ("g6f.4xlarge", 0.5, 11444),
        ("gr6f.4xlarge", 0.5, 11444),
    ],
)
def test_fractional_types_are_a_part_of_one_l4(types, instance_type, fraction, mib):
    instance = types[instance_type]
    assert (instance.device_count, instance.device_fraction) == (1, fraction)
    assert instance.accelerators_per_instance == fraction
    assert instance.device_memory_gib == pytest.approx(mib / 1024)


def test_sizes_that_sound_larger_but_have_one_gpu(types):
    for family in ("g4dn", "g5", "g6", "g6e"):
        assert types[f"{family}.16xlarge"].device_count == 1
        assert types[f"{family}.12xlarge"].device_count == 4


def test_trainium2_has_96_gib_not_the_512_that_the_api_reports(types, chips):
    assert chips["Trainium2"].memory_gib == 96
    assert types["trn2.48xlarge"].device_memory_gib == 96
    assert types["trn2.48xlarge"].device_count * 96 == 1536


@pytest.mark.parametrize(
    ("instance_type", "kind", "gb_s"),
    [
        ("p3.16xlarge", InterconnectKind.NVLINK, 300),
        ("p4d.24xlarge", InterconnectKind.NVSWITCH, 600),
        ("p5.48xlarge", InterconnectKind.NVSWITCH, 900),
        ("p6-b200.48xlarge", InterconnectKind.NVSWITCH, 1800),
        ("g5.12xlarge", InterconnectKind.PCIE, 64),
        ("g7e.48xlarge", InterconnectKind.PCIE, 128),
        ("trn1.32xlarge", InterconnectKind.NEURONLINK, 384),
        ("trn1n.32xlarge", InterconnectKind.NEURONLINK, 768),
        ("dl1.24xlarge", InterconnectKind.ROCE, 250),
        ("g5.xlarge", InterconnectKind.NONE, None),
        ("p5.4xlarge", InterconnectKind.NONE, None),
    ],
)
def test_how_devices_reach_each_other(types, instance_type, kind, gb_s):
    assert types[instance_type].interconnect_kind is kind
    assert types[instance_type].interconnect_gb_s_bidirectional == gb_s


def test_ultraservers_are_capacity_blocks_only(types):
    only = {name for name, instance in types.items() if instance.capacity_block_only}
    assert only == {"p6e-gb200.36xlarge", "trn2 UltraServer", "trn2u.48xlarge"}


def test_every_aws_accelerator_family_is_there(types):
    families = {i.family for i in types.values() if i.accelerator_kind is not AcceleratorKind.CPU}
    assert families == {
        *("p2", "p3", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300", "p6e-gb200"),
        *("g3", "g3s", "g4ad", "g4dn", "g5", "g5g", "g6", "g6e", "g6f", "g7", "g7e", "gr6", "gr6f"),
        *("inf1", "inf2", "trn1", "trn1n", "trn2", "trn2u", "trn3", "dl1", "dl2q"),
    }


# dense tensor peaks: datasheets print twice these with sparsity
@pytest.mark.parametrize(
    ("chip", "bf16", "fp8", "bandwidth_gb_s"),
    [
        ("H100 SXM5 80GB", 989.4, 1978.9, 3350),
        ("H200 SXM 141GB", 989.4, 1978.9, 4800),
        ("B200 SXM 180GB", 2250, 4500, 7700),
        ("A100 SXM4 80GB", 312, None, 2039),
        ("A100 PCIe 40GB", 312, None, 1555),
        ("A10G", 70, None, 600),
        ("A10", 125, None, 600),
        ("L4", 121, 242, 300),
        ("L40S", 362, 733, 864),
        ("A30", 165, None, 933),
        ("A40", 149.7, None, 696),
        ("RTX 4090", 165.2, 330.3, 1008),
        ("RTX 5090", 209.5, 419, 1792),
        ("MI300X", 1307.4, 2614.9, 5300),
        ("Trainium1", 190, 190, 820),
        ("TPU v3", 123, None, 900),
    ],
)
def test_peaks_are_dense(chips, chip, bf16, fp8, bandwidth_gb_s):
    assert chips[chip].peak_tflops["bf16"] == bf16
    assert chips[chip].peak_tflops.get("fp8") == fp8
    assert chips[chip].memory_bandwidth_gb_s == bandwidth_gb_s


@pytest.mark.parametrize(
    ("chip", "low", "high"),
    [
        ("T4", 14.6, 14.8),
        ("V100 SXM2 16GB", 15.8, 15.8),
        ("A10G", 22.0, 22.4),
        ("L4", 22.0, 22.4),
        ("A100 SXM4 40GB", 39.4, 39.5),
        ("L40S", 44.4, 44.5),
        ("A100 SXM4 80GB", 79.1, 79.2),
        ("H100 SXM5 80GB", 79.1, 79.2),
        ("H200 SXM 141GB", 139.8, 139.8),
        ("B200 SXM 180GB", 178.3, 178.4),
        ("RTX 5090", 31.3, 31.4),
    ],
)
def test_memory_that_a_process_sees_is_what_out_of_memory_messages_report(chips, chip, low, high):
    assert low <= chips[chip].memory_visible_gib <= high


@pytest.mark.parametrize(
    ("chip", "dtype", "native"),
    [
        ("T4", "bf16", False),
        ("V100 SXM2 16GB", "bf16", False),
        ("A10G", "bf16", True),
        ("A10G", "fp8", False),
        ("A100 SXM4 40GB", "fp8", False),
        ("L4", "fp8", True),
        ("L40S", "fp8", True),
        ("H100 SXM5 80GB", "fp8", True),
        ("H100 SXM5 80GB", "fp4", False),
        ("B200 SXM 180GB", "fp4", True),
        ("RTX PRO 6000 Blackwell Server", "fp4", True),
    ],
)
def test_formats_by_generation(chips, chip, dtype, native):
    assert (dtype in chips[chip].peak_tflops) is native


@pytest.mark.parametrize(
    ("chip", "bf16_tflops", "fp32_tflops", "gb_s"),
    [
        # 48 cores x 3.2 GHz x 1024 (AMX) and x 64 (2 AVX-512 FMA); 8 x 4800 MT/s x 8 B
        ("Xeon Platinum 8488C", 157.29, 9.83, 307.2),
        # 64 x 2.6 x 128 (BFMMLA) and x 32 (2 x 256-bit SVE); 8 x 4800 x 8
        ("Graviton3", 21.3, 5.32, 307.2),
        # 96 x 2.8 x 128 and x 32; 12 x 5600 x 8
        ("Graviton4", 34.41, 8.6, 537.6),
        # 96 x 3.7 x 64 and x 32; 12 x 4800 x 8
        ("EPYC 9R14", 22.73, 11.37, 460.8),
    ],
)
def test_cpu_sockets_by_cores_clock_and_width(chips, chip, bf16_tflops, fp32_tflops, gb_s):
    socket = chips[chip]
    assert socket.kind is AcceleratorKind.CPU
    assert socket.peak_tflops["bf16"] == pytest.approx(bf16_tflops, abs=0.01)
    assert socket.peak_tflops["fp32"] == pytest.approx(fp32_tflops, abs=0.01)
    assert socket.memory_bandwidth_gb_s == gb_s


def test_cpu_types_are_a_share_of_a_socket(types, chips):
    """m7i.4xlarge: 16 vCPU are 8 cores with two threads each, of 48; on Graviton and Zen 4 a vCPU is a core."""
    assert types["m7i.4xlarge"].device_fraction == pytest.approx(8 / 48, abs=1e-6)
    assert types["c7g.16xlarge"].device_fraction == 1
    assert types["c7a.12xlarge"].device_fraction == 0.5
    cpu = [i for i in types.values() if i.accelerator_kind is AcceleratorKind.CPU]
    assert len(cpu) == 72
    assert all(i.device_count == 1 and i.device_memory_gib is None for i in cpu)
    assert all(chips[i.accelerator].cores for i in cpu)


def test_names_in_measurements_drivers_and_the_api_resolve(tables):
    known = {alias.casefold(): name for alias, name in tables.aliases.items()}
    known |= {a.name.casefold(): a.name for a in tables.accelerators}
    with NAMES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 120
    assert {row["name"]: known.get(row["name"].casefold()) for row in rows} == {
        row["name"]: row["accelerator"] for row in rows
    }


def test_other_clouds_have_instances_with_prices(tables):
    priced = {q.provider for q in tables.quotes}
    assert {"gcp", "azure", "oci", "lambda", "nebius", "coreweave", "runpod"} <= priced
    lambda_h100 = [q for q in tables.quotes if (q.provider, q.instance_type) == ("lambda", "gpu_1x_h100_pcie")]
    assert [q.effective_unit_price for q in lambda_h100] == [Decimal("3.29")]  # long lists still say 1.99


def test_prices_of_the_accelerator_part_alone_say_so(tables):
    part = [q for q in tables.quotes if "accelerator" in q.instance_type and q.provider == "gcp"]
    assert part
    assert all(q.notes.startswith("accelerator part only") and q.confidence == "low" for q in part)


def test_interruption_bands(tables):
    bands = {(i.instance_type, i.region): i for i in tables.interruptions}
    band = bands["dl1.24xlarge", "us-west-2"]
    assert (band.band, band.monthly_low_fraction, band.monthly_high_fraction) == ("<5%", 0.0, 0.05)
    assert band.savings_over_on_demand_fraction == 0.72


def test_storage_rates_have_tiers_and_units(tables):
    rates = {(r.service, r.item, r.region, r.tier_from): r for r in tables.rates}
    gp3 = rates["EBS", "gp3 storage", "us-east-1", None]
    assert (gp3.unit_price, gp3.unit) == (Decimal("0.08"), "GB-month")
    free = [r for r in tables.rates if r.unit_price == 0]
    assert free
    assert all(r.notes for r in free)


def test_sources_are_dated_by_their_oldest_figure(tables):
    ages = {(s.source, s.kind): s for s in tables.sources}
    assert len(ages) == len(tables.sources)
    karpenter = ages["aws/karpenter-provider-aws pkg/providers/pricing/zz_generated.pricing_aws.go", "on_demand"]
    assert karpenter.as_of == datetime(2026, 7, 20, tzinfo=UTC)
    assert karpenter.quotes == 163
    assert sum(s.quotes for s in tables.sources) == len(tables.quotes)


def test_notice_names_every_repository_that_rows_come_from(tables):
    notice = (Path(__file__).parents[3] / "NOTICE").read_text()
    named = {
        s for row in (*tables.quotes, *tables.rates) for s in re.findall(r"(?:^|; )([\w.-]+/[\w.-]+) ", row.source)
    }
    assert "skypilot-org/skypilot-catalog" in named
    assert {name for name in named if name not in notice} == set()


def test_tables_are_small_enough_to_read_and_have_no_blank_tail():
    for path in TABLES_DIR.glob("*.csv"):
        text = path.read_text(encoding="utf-8")
        assert text.endswith("\n"), path.name
        assert not text.endswith("\n\n"), path.name
        assert "\r" not in text, path.name
