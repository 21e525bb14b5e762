"""Step times of the operator tables: physics they must obey, what they do not have, and how fast they answer."""

from __future__ import annotations

import time

import pytest

from planner.perf.silicon import Question
from planner.services.find_model import find_model
from planner.silicon import installed_version
from planner.silicon.tables import SiliconTables

pytestmark = pytest.mark.skipif(
    installed_version() is None, reason="the extra [silicon] is not installed: operator tables of 114 MB, with pandas"
)


def question(**changed: object) -> Question:
    fields: dict[str, object] = {
        "spec": find_model("8b", None),
        "accelerator": "H100 SXM5 80GB",
        "engine": "vllm",
        "precision": "bf16",
        "kv_precision": "bf16",
        "tensor_parallel": 1,
        "expert_parallel": False,
        "input_tokens": 1000,
        "output_tokens": 500,
        "concurrency": 32,
        "step_tokens": 2048,
    }
    return Question(**(fields | changed))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def tables() -> SiliconTables:
    return SiliconTables(installed_version() or "")


def test_a_decode_step_reads_the_weights_at_no_more_than_the_bandwidth(tables: SiliconTables) -> None:
    found = tables.steps(question(concurrency=1))
    assert found is not None
    # Llama-3.1-8B: 8.03e9 parameters less the embedding of 0.525e9, two bytes each, at 3,350 GB/s: 4.48 ms.
    assert 4.48e-3 <= found.decode_s <= 2 * 4.48e-3
    # One prompt of 1,000 tokens: 2 x 7.5e9 x 1000 FLOPs at 989 TFLOP/s: 15.2 ms; the head is asked for one token.
    assert 14e-3 <= found.alone_s <= 2.5 * 15.2e-3


def test_more_in_flight_longer_contexts_and_fewer_devices_take_longer(tables: SiliconTables) -> None:
    one = tables.steps(question())
    for more in ({"concurrency": 128}, {"input_tokens": 8000}):
        other = tables.steps(question(**more))
        assert one is not None
        assert other is not None
        assert other.decode_s > one.decode_s
    split = tables.steps(question(tensor_parallel=4))
    assert one is not None
    assert split is not None
    assert split.decode_s < one.decode_s
    assert split.alone_s < one.alone_s


@pytest.mark.parametrize(
    "changed",
    [
        {"accelerator": "T4"},
        {"accelerator": "MI300X"},
        {"accelerator": "A100 SXM4 40GB"},
        {"engine": "pytorch"},
        {"precision": "fp32"},
        {"spec": find_model("bert-base", None)},
        {"spec": find_model("whisper-large-v3", None)},
    ],
)
def test_what_the_tables_do_not_have_is_no_answer(tables: SiliconTables, changed: dict[str, object]) -> None:
    assert tables.steps(question(**changed)) is None


def test_a_warm_query_takes_less_than_a_millisecond(tables: SiliconTables) -> None:
    assert tables.steps(question()) is not None
    begun = time.perf_counter()
    for concurrency in range(1, 201):
        assert tables.steps(question(concurrency=concurrency, output_tokens=501)) is not None
    assert (time.perf_counter() - begun) / 200 < 1e-3
