# ruff: noqa: RUF001 - quotes the tables, whose signs are typographic
"""The tables as a person sees them: what must be in them, at every width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_answer import Document, answer, rejection, row, run

from planner.cli import figures
from planner.cli.explain_table import derivation_text, plain_money, readable
from planner.cli.output import encodable
from planner.cli.paint import CARD_WIDTH, Cell, Column, fitting
from planner.cli.recommend_table import recommendations_text, short_source

LONG = row(
    "p5.48xlarge",
    accelerator="RTX PRO 6000 Blackwell Server",
    accelerators_per_instance=8,
    layout__replicas_per_instance=2,
    layout__tensor_parallel=4,
    availability_zone_id="use1-atl2-az1",
    purchase_option="spot",
    price__stale=True,
)


def shown(document: Document, width: int = 140) -> str:
    return recommendations_text(document, width=width, colour=False)


def test_one_row_has_every_figure_with_its_range() -> None:
    said = shown(answer(row()))
    for figure in (
        "g6e.xlarge",
        "1 × L40S",
        "bf16 64 at once",
        "30.0",
        "of 40.0",
        "1.00",
        "0.800–1.25",
        "310 ms",
        "28.4 ms",
        "0.360",
        "100",
        "80.0–125",
        "modelled",
        "2026-07-20",
    ):
        assert figure in said, figure


def test_the_title_names_the_model_and_the_assumptions() -> None:
    first, second, third, fourth = shown(answer(row())).splitlines()[:4]
    assert first == "Qwen2.5-7B inference"
    assert (
        second
        == "“7b” is Qwen2.5-7B; 7.62 billion parameters; one inference = 1,000 input + 1,000 output tokens; at full load of whole machines"
    )
    assert third.startswith("(--requests-per-s N sizes for your load)")
    assert fourth == "us-east-1; on-demand, spot; cheapest per unit of work first"


def test_load_and_utilisation_are_said() -> None:
    assert "at 40.0 % utilisation" in shown(answer(row(), utilisation=0.4))
    assert "sized for 12.0 requests/s" in shown(answer(row(), requests_per_s=12.0))


def test_sources_ages_and_staleness_are_said() -> None:
    said = shown(answer(row(), LONG))
    lines = [line.strip() for line in said.splitlines()]
    start = lines.index("Prices  snapshot 5f0c12ab9d00")
    assert lines[start + 1 : start + 3] == [
        "on-demand of 2026-07-20, 20 days old: list",
        "spot of 2026-07-09, 31 days old (STALE): zones",
    ]
    assert "!" in said.split("Prices  snapshot")[0]
    assert "older than 24 h for spot" in said
    narrow = shown(answer(row(), LONG), width=80).split("Prices  snapshot")[0]
    assert "price of" not in narrow
    assert "!" in narrow, "the mark stays where the day of the price has to go"
    fresh = answer(row())
    fresh["prices"]["sources"] = fresh["prices"]["sources"][:1]
    assert "STALE" not in shown(fresh)


@pytest.mark.parametrize("width", [80, 120])
def test_several_sources_of_one_kind_are_listed_shortly_the_largest_first(width: int) -> None:
    several = answer(row())
    first = several["prices"]["sources"][0]
    several["prices"]["sources"][:1] = [
        first | {"source": source, "quotes": quotes}
        for source, quotes in (
            ("AWS price list", 300),
            ("AWS price list, at 7.1 CNY per USD stated in the request", 20),
            ("aws/karpenter-provider-aws pkg/providers/pricing/zz_generated.pricing_aws.go", 400),
            ("aws/karpenter-provider-aws pkg/providers/pricing/zz_generated.pricing_aws_us_gov.go", 1),
            ("derived: us-east-1 price of aws/karpenter-provider-aws x regional ratio of skypilot-org/skypilot-catalog v9", 2),
        )
    ]  # fmt: skip
    said = shown(several, width)
    assert all(len(line) <= width for line in said.splitlines())
    assert (
        "on-demand of 2026-07-20, 20 days old: aws/karpenter-provider-aws, AWS price list, AWS price list at 7.1 CNY per USD and 1 more "
        "spot of" in " ".join(said.split())
    )


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("AWS DescribeSpotPriceHistory", "AWS DescribeSpotPriceHistory"),
        ("AWS price list, published 2026-11-20T19:42:11Z", "AWS price list"),
        ("AWS price list, published 2026-11-20T19:42:11Z, at 7.1 CNY per USD stated in the request", "AWS price list at 7.1 CNY per USD"),
        ("derived: us-east-1 price of aws/karpenter-provider-aws x regional ratio", "derived from another region"),
        ("page copy of the AWS EC2 Capacity Blocks pricing page (rates valid until 2025-01-01)", "page copy of the AWS EC2 Capacity Blocks …"),
        ("skypilot-org/skypilot-catalog catalogs/v9/aws/vms.csv", "skypilot-org/skypilot-catalog"),
    ],
)  # fmt: skip
def test_a_source_has_a_short_name(source: str, name: str) -> None:
    assert short_source(source) == name


def test_the_derivation_of_the_first_row_stands_once() -> None:
    explained = answer(
        row(explanation=[{"name": "parameters_total", "value": 7e9, "unit": "parameters", "formula": "", "source": ""}])
    )
    assert shown(explained).count("step by step") == 1


def test_prices_of_several_days_name_the_oldest() -> None:
    mixed = answer(row())
    old = {
        "source": "sheet",
        "kind": "on_demand",
        "as_of": "2026-07-10T00:00:00Z",
        "oldest_as_of": "2026-06-20T00:00:00Z",
        "age_hours": 720,
        "stale": True,
    }
    mixed["prices"]["sources"].insert(1, old)
    # 20 June to 10 July are 20 days more than 720 h: 1,200 h, or 50 days
    assert "on-demand of 2026-06-20 to 2026-07-20, the oldest 50 days old (STALE)" in " ".join(shown(mixed).split())


def test_a_price_dated_after_the_clock_is_said_to_be_and_not_called_new() -> None:
    ahead = answer(row())
    for source in ahead["prices"]["sources"]:
        source |= {"age_hours": 0, "stale": True, "after_clock": True}
    said = " ".join(shown(ahead).split())
    assert "on-demand of 2026-07-20, dated after this machine's clock (STALE)" in said
    assert "less than an hour old" not in said
    assert "or dated after this machine's clock" in said


def test_what_the_bill_leaves_out_is_said() -> None:
    assert "Not in the bill: storage, tax." in shown(answer(row()))


def test_replicas_and_tensor_parallel() -> None:
    said = shown(answer(LONG))
    assert "8 × RTX PRO 6000 Blackwell Server" in said
    assert "bf16 2×TP4, 64 each" in said
    assert "spot, use1-atl2-az1" in said


def test_another_cloud_is_named_with_its_region() -> None:
    assert "on-demand, gcp us-central1" in shown(answer(row(provider="gcp", region="us-central1")))


def test_several_regions_are_named() -> None:
    said = shown(answer(row(), row(region="us-west-2")))
    assert "on-demand, us-west-2" in said


def test_training_shows_hours_and_dollars_per_epoch_and_in_total() -> None:
    said = shown(answer(run(), mode="training", dataset_size=1_281_167, epochs=3))
    assert said.startswith("Qwen2.5-7B full training, 1.28 million samples × 3 epochs\n")
    for figure in (
        "2 × p9.48xlarge",
        "8 × H100 SXM5 80GB",
        "bf16 zero3, micro 4, recompute",
        "Samples/s",
        "1,230",
        "2.00 h",
        "6.00 h",
        "12.00",
        "24.0",
        "20.0–30.0",
        "72.0",
        "60.0–90.0",
    ):
        assert figure in said, figure
    assert "inferences" not in said


def test_samples_have_their_own_unit_and_no_token_latencies() -> None:
    vision = row(
        performance__output_tokens_per_s=None,
        performance__samples_per_s=2500.0,
        performance__ttft_ms=None,
        performance__tpot_ms=None,
        performance__e2e_ms={"p50": 8.0, "p99": 9.5},
    )
    document = answer(vision)
    document["model"] |= {"name": "ResNet-50", "alias": None, "kind": "vision", "one_inference": "one 224x224 image"}
    said = shown(document)
    assert "one inference = one 224x224 image" in said
    assert "Samples/s" in said
    assert "9.50 ms" in said
    assert "TTFT" not in said


def test_nothing_fits_says_so_and_why_the_nearest_miss_first() -> None:
    misses = [
        rejection("a1.big", "out_of_memory", "needs 99.0 GiB in bf16, 10.0 available"),
        rejection("g4dn.xlarge", "out_of_memory", "needs 16.9 GiB in fp16, 13.1 available"),
        rejection("p5e.48xlarge", "no_price", "no price"),
    ]
    said = shown(answer(rejections=misses))
    assert "Nothing fits." in said
    assert "Turned down  3 instance types" in said
    assert "out of memory  2 types, such as g4dn.xlarge: needs 16.9 GiB in fp16, 13.1 available" in said
    assert "no price  1 type: p5e.48xlarge: no price" in said


def test_notes_are_folded_and_marked() -> None:
    band = "may be interrupted: interruption band {} of instances a month, 2025-06-28: advisor"
    rows = [
        row("a.x", notes=[band.format("<5%"), "L40S is new"]),
        row("b.x", notes=[band.format(">20%"), "L40S is new"]),
        row("c.x", notes=["L40S is new", "only c"]),
    ]
    said = shown(answer(*rows))
    assert "[a] share of spot instances interrupted in a month, advisor, 2025-06-28: <5% a.x, >20% b.x" in said
    assert "[b] only c" in said
    assert "[all] L40S is new" in said
    assert "a.x [a]" in said
    assert "c.x [b]" in said


@given(width=st.integers(min_value=32, max_value=260))
def test_no_line_is_wider_than_the_terminal_and_nothing_that_matters_is_lost(width: int) -> None:
    document = answer(
        row(),
        LONG,
        row("p3.2xlarge", notes=["V100 has no bf16: fp16 is used instead"]),
        rejections=[rejection("g4dn.xlarge", "out_of_memory", "needs 16.9 GiB in fp16, 13.1 available")],
    )
    said = shown(document, width)
    assert max(len(line) for line in said.splitlines()) <= width
    for kept in ("g6e.xlarge", "p5.48xlarge", "p3.2xlarge", "100", "80.0–125"):
        assert kept in said
    encodable(said, "ascii").encode("ascii")


@pytest.mark.parametrize("width", [CARD_WIDTH, 80, 100])
def test_columns_that_do_not_fit_are_named(width: int) -> None:
    named = shown(answer(LONG), width).split("left out at this width: ")[1].splitlines()[0]
    assert all(name.strip() for name in named.split(","))


def test_a_wide_terminal_leaves_nothing_out() -> None:
    assert "left out" not in shown(answer(LONG), 150)


def test_below_card_width_each_row_is_a_card() -> None:
    said = shown(answer(row(), LONG), 40)
    assert "1 g6e.xlarge" in said
    assert "  $/M (inferences): 100, 80.0–125" in said
    assert "──" not in said


def test_colour_is_only_added_where_it_is_wanted() -> None:
    plain = recommendations_text(answer(row(), LONG), width=120, colour=False)
    assert "\x1b" not in plain


def test_numbers_end_in_the_same_column() -> None:
    lines = shown(answer(row(), row(cost__usd_per_hour="1234.5")), 140).splitlines()
    ends = [line.index(figure) + len(figure) for figure in ("0.360", "1,234.50") for line in lines if figure in line]
    assert len(ends) == 2
    assert ends[0] == ends[1]


def test_columns_go_by_importance_and_a_narrow_one_may_come_back() -> None:
    columns = [
        Column("a", cells=[Cell("x" * 10)]),
        Column("b", keep=1, cells=[Cell("x" * 30)]),
        Column("c", keep=2, cells=[Cell("xxx")]),
        Column("empty", keep=3, cells=[Cell("")]),
    ]
    kept, dropped = fitting(columns, 20)  # a and b need 42, a and c need 15
    assert [c.title for c in kept] == ["a", "c"]
    assert [c.title for c in dropped] == ["b"]


def test_the_derivation_in_sentences_can_be_redone() -> None:
    document = answer(
        row(
            explanation=[
                {
                    "name": "usd_per_million_inferences",
                    "value": "100.000000",
                    "unit": "USD",
                    "formula": "0.36 / 3600 x 1,000,000",
                    "source": "cost lines",
                }
            ]
        )
    )
    said = derivation_text(document, document["recommendations"][0], width=200, colour=False)
    assert (
        "one g6e.xlarge costs 0.360 USD an hour on-demand (price list, 2026-07-20); 1 instance makes 0.360 USD an hour."
        in said
    )
    assert "needs 30.0 GiB of the 40.0 GiB that may be used (weights 14.2, KV cache 15.8)" in said
    assert "sustains 1.00 requests per second, 3,600 an hour" in said
    assert (
        "a million take 278 hours; 278 h × 0.360 USD/h = 100 USD per million (80.0 to 125)" in said
    )  # 1e6 / 3600 = 277.8
    assert "USD per million inferences: 100.00 USD" in said
    assert "0.36 / 3600 x 1,000,000; [cost lines]" in said


def test_the_derivation_of_a_run_in_sentences() -> None:
    document = answer(run(explanation=[]), mode="training", dataset_size=1_281_167, epochs=3)
    said = derivation_text(document, document["recommendations"][0], width=200, colour=False)
    assert "2.00 h per epoch, 6.00 h in total" in said
    assert "24.00 USD per epoch, 72.00 USD in total (60.00 to 90.00)" in said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1.861000", "1.861"),
        ("55.040000", "55.04"),
        ("12", "12.00"),
        ("1234.500000", "1,234.50"),
        ("0.000001", "0.000001"),
    ],
)
def test_money_keeps_its_digits_and_cents(text: str, shown: str) -> None:
    assert plain_money(text) == shown


def test_names_of_terms_as_prose() -> None:
    assert [readable(n) for n in ("usd_per_million_inferences", "kv_bytes_per_token", "served_requests_per_s")] == [
        "USD per million inferences",
        "KV bytes per token",
        "served requests per second",
    ]


def test_hours_without_checkpoints_are_folded_per_row() -> None:
    note = "expected {} h with checkpoints; without any the same run would be expected to take {}"
    said = shown(
        answer(
            row("a.x", notes=[note.format("3.4", "3.2 h")]),
            row("b.x", notes=[note.format("1.8", "more than a million hours")]),
            row("c.x"),
        )
    )
    assert (
        "[a] expected hours with checkpoints, and without any: a.x 3.4 h and 3.2 h, b.x 1.8 h and more than a million hours"
        in said
    )


def test_a_long_name_is_cut_only_as_far_as_it_must_be() -> None:
    assert "RTX PRO 6000 Blackwell Server" in shown(answer(LONG), 150)
    at_80 = shown(answer(LONG), 80)
    assert "RTX PRO 6000" in at_80
    assert "…" in at_80


def test_a_label_does_not_colour_what_follows_it() -> None:
    said = recommendations_text(answer(row(), LONG), width=140, colour=True)
    assert "\x1b[1mPrices  \x1b[0msnapshot" in said
    assert "\x1b[33m (STALE)\x1b[0m" in said
    assert "\x1b[2mon-demand" in said


def test_what_a_stage_set_is_said() -> None:
    document = answer(row(), stage="production")
    document["stage_presets"] = {"utilisation": 0.6, "purchase": ["on_demand", "reserved_1yr"]}
    assert "stage production set utilisation = 0.6, purchase = on_demand, reserved_1yr" in shown(document)


def test_training_without_a_data_set_names_the_method_alone() -> None:
    assert shown(answer(run(), mode="training", method="lora")).startswith("Qwen2.5-7B LoRA training\n")


def test_the_bill_adds_up_and_says_its_source() -> None:
    lines = [
        {"name": name, "quantity": q, "unit": "instance-hour", "unit_price": "6.00", "usd": usd, "source": "price list"}
        for name, q, usd in (("compute", 11, "66.000000"), ("start_up", 1, "6.000000"))
    ]
    document = answer(run(explanation=[], cost__lines=lines), mode="training", dataset_size=1000)
    said = derivation_text(document, document["recommendations"][0], width=110, colour=False)
    assert [line.split()[-1] for line in said.splitlines() if line.startswith(("compute", "start up", "total"))] == [
        "66.00",
        "6.00",
        "72.00",
    ]
    assert "every line at the price of: price list" in said


def test_limits_filters_and_assumptions_are_said() -> None:
    document = answer(
        row(),
        max_ttft_ms=500,
        percentile=95,
        budget_usd=2000,
        accelerator=["L40S"],
        needs=["efa", "nvlink"],
        assume=["pue=1.3"],
    )
    document["model"]["assumptions"] = ["32 layers"]
    said = shown(document)
    assert "TTFT at most 500 ms at p95; at most 2,000 USD a month; only L40S; with efa, nvlink; assumed pue=1.3" in said
    assert "assumed: 32 layers" in said


def test_the_nearest_miss_of_a_latency_limit_is_the_example() -> None:
    misses = [
        rejection("a1.x", "slo_infeasible", "best reachable at TP 1: TTFT p99 4973 ms (limit 3)"),
        rejection("p5.48xlarge", "slo_infeasible", "best reachable at TP 8: TTFT p99 12 ms (limit 3)"),
    ]
    assert (
        "latency limit missed  2 types, such as p5.48xlarge: best reachable at TP 8: TTFT p99 12 ms (limit 3)"
        in shown(answer(rejections=misses))
    )


@pytest.mark.parametrize("width", range(64, 200, 17))
def test_figures_of_the_models_are_never_cut(width: int) -> None:
    from planner.cli.list_tables import models_text
    from planner.services.show_model import list_models

    document = list_models()
    said = models_text(document, width=width, colour=False)
    for model in document["models"]:
        assert figures.count_of(model["parameters_total"]) in said
    assert max(len(line) for line in said.splitlines()) <= width
