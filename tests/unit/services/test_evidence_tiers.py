"""Which evidence answers a request, what it names, and that limits hold for what is answered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from planner.perf.silicon import Question, StepTimes, shares
from planner.recommend.errors import BadRequest
from planner.recommend.request import EstimateRequest, RecommendRequest
from planner.services.estimate import estimate
from planner.services.evidence import Evidence
from planner.services.find_model import find_model
from planner.services.identity import evidence_id
from planner.services.recommend import recommend
from pricing.snapshot import open_snapshot, shipped_snapshot_path

NOW = datetime(2026, 11, 30, tzinfo=UTC)
CATALOG = open_snapshot(shipped_snapshot_path())
HEADER = (
    "row_id,source,date,engine,model,precision_weights,gpu,gpus_total,gpus_per_replica,tp,pp,input_len,output_len,"
    "batch_or_concurrency,scenario,metric_name,metric_value\n"
)


class Tables:
    """Operator tables that have one chip, and steps that take as long as they are told."""

    source = "a table"

    def __init__(self, decode_s: float) -> None:
        self.decode_s = decode_s

    def steps(self, question: Question) -> StepTimes | None:
        if question.accelerator != "H100 SXM5 80GB":
            return None
        return StepTimes(decode_s=self.decode_s, prefill_s=self.decode_s / 2, alone_s=self.decode_s / 2)


def asked(here: Evidence | None = None, **more: object) -> Any:
    fields: dict[str, Any] = {"model": "8b", "accelerator": "H100-SXM", "count": 1, "explain": True}
    request = EstimateRequest(**(fields | more))
    return estimate(request, catalog=CATALOG, spec=find_model("8b", None), now=NOW, evidence=here or Evidence())


def own(rate: float, concurrency: int) -> Evidence:
    row = f"mine1,our lab,2026-11-01,vLLM,meta-llama/Llama-3.1-8B,bf16,H100 SXM5 80GB,1,1,1,1,1000,1000,{concurrency},server,output_tok_s,{rate}\n"
    return Evidence(own={"serving": (HEADER + row).encode()})


def test_the_model_alone_names_no_measured_row() -> None:
    found = asked(own(9000, 256), evidence="model")
    assert found["performance"]["basis"] == "modelled"
    assert found["request"]["evidence"] == "model"
    assert not any("our lab" in source for source in found["performance"]["sources"])


def test_an_own_measurement_of_the_same_conditions_answers_almost_alone() -> None:
    alone = asked(evidence="model")
    at, modelled = int(alone["layout"]["max_concurrency"]), alone["performance"]["output_tokens_per_s"]
    found = asked(own(1.3 * modelled, at))
    performance = found["performance"]
    assert performance["basis"] == "measured"
    assert 1.1 < performance["output_tokens_per_s"] / modelled < 1.35
    assert "our lab" in performance["sources"][0]
    assert any(t["name"] == "evidence_1" and "mine1" in t["source"] for t in found["explanation"])
    width, before = (
        p["high"]["requests_per_s"] / p["low"]["requests_per_s"] for p in (performance, alone["performance"])
    )
    assert width < before


def test_measured_operators_answer_when_asked_for_with_their_source() -> None:
    found = asked(Evidence(predictor=Tables(decode_s=0.010)), evidence="silicon", engine="tensorrt-llm")
    performance = found["performance"]
    assert performance["basis"] == "silicon"
    assert performance["sources"][0] == "silicon: a table"
    slower = asked(Evidence(predictor=Tables(decode_s=0.020)), evidence="silicon", engine="tensorrt-llm")["performance"]
    # Steps of twice the time halve the tables' rate; the answer follows with the share that they are trusted with.
    share = shares()["tensorrt-llm since 2025"].share
    ratio = slower["output_tokens_per_s"] / performance["output_tokens_per_s"]
    assert ratio == pytest.approx(0.5**share, rel=1e-3)
    assert slower["tpot_ms"]["p50"] == pytest.approx(performance["tpot_ms"]["p50"] / ratio, rel=1e-3)


def test_tables_of_an_engine_whose_servers_they_do_not_tell_are_left_aside() -> None:
    assert shares()["vllm since 2025"].share == 0
    assert (
        asked(Evidence(predictor=Tables(decode_s=0.010)), evidence="silicon", engine="vllm")["performance"]["basis"]
        == "modelled"
    )


def test_what_the_tables_do_not_have_is_left_to_the_next_tier() -> None:
    found = asked(Evidence(predictor=Tables(decode_s=0.010)), evidence="silicon", accelerator="L4")
    assert found["performance"]["basis"] == "modelled"


@pytest.mark.parametrize(("kind", "said"), [("silicon", "pip install"), ("measured", "there are none")])
def test_evidence_that_is_not_here_is_asked_for_in_vain_in_one_line(kind: str, said: str) -> None:
    with pytest.raises(BadRequest, match=said):
        asked(evidence=kind)


def test_other_evidence_is_another_answer() -> None:
    assert evidence_id() != evidence_id(own(100, 8).id) != evidence_id(own(200, 8).id)
    one, other = asked(own(100, 8)), asked(own(200, 8))
    assert one["id"] != other["id"]
    assert one["evidence_id"] != other["evidence_id"]


def test_latency_limits_hold_for_what_is_answered() -> None:
    """Steps of 400 ms and more whatever the model thinks: no layout of that chip keeps 30 ms, and every row that is left does."""
    request = RecommendRequest(
        model="8b", engine="tensorrt-llm", evidence="silicon", max_tpot_ms=30, accelerator=("H100-SXM", "A100-80GB")
    )
    found = recommend(
        request,
        catalog=CATALOG,
        spec=find_model("8b", None),
        now=NOW,
        evidence=Evidence(predictor=Tables(decode_s=0.400)),
    )
    chips = {row["accelerator"] for row in found["recommendations"]}
    assert "H100 SXM5 80GB" not in chips
    assert all(row["performance"]["tpot_ms"]["p99"] <= 30 for row in found["recommendations"])
    reasons = {r["reason"] for r in found["rejections"] if r["detail"] and "as measured nearby" in r["detail"]}
    assert reasons == {"slo_infeasible"}
