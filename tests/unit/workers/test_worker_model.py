"""The wire contract: what is written reads back, and a document that is not right names the field."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.documents import parse_json, write_whole
from workers.errors import DocumentError
from workers.model import (
    Architecture,
    Device,
    Dtype,
    Environment,
    Figure,
    Gpu,
    Job,
    Measurement,
    Rules,
    Series,
    Shape,
    Skipped,
    Validity,
    Warmup,
)

LLAMA = Architecture(
    name="Llama-3.1-8B", hidden_size=4096, layers=32, heads=32, kv_heads=8, head_dim=128, intermediate_size=14336, gated=True, vocab_size=128256
)  # fmt: skip


def series(**over: Any) -> Series:
    given_: dict[str, Any] = {
        "name": "matmul",
        "shape": Shape(dtype="bf16", m=4096, n=4096, k=4096, calls_per_sample=3),
        "work_per_call": {"flop": 2.0 * 4096**3},
        "warmup": Warmup(calls=3, duration_s=0.1),
        "duration_s": 0.6,
        "samples_s": (0.001, 0.0011, 0.0009),
        "figures": (Figure(name="throughput", unit="TFLOP/s", value=137.4, low=124.9, high=152.7),),
        "validity": Validity(valid=False, reasons=("too short: 3 samples, at least 100 are needed",)),
    }
    return Series(**(given_ | over))


def measurement(**over: Any) -> Measurement:
    given_: dict[str, Any] = {
        "job": Job(name="größer", dtypes=(Dtype.BF16,), architecture=LLAMA),
        "environment": Environment(
            worker_version="0.1.0", python_version="3.11.7", operating_system="Linux 6", cpu_model=None, cpu_count=8, memory_total_mib=32768,
            driver_version="570.86", gpus=(Gpu(index=0, name="NVIDIA L4", power_limit_w=72.0, ecc_enabled=True),), notes=("no torch",),
        ),
        "device": "cuda:0 NVIDIA L4",
        "started_at": datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC),
        "duration_s": 3.25,
        "series": (series(),),
        "skipped": (Skipped(name="matmul fp8", why="no fp8"),),
        "validity": Validity(valid=False, reasons=("matmul bf16: too short",)),
    }  # fmt: skip
    return Measurement(**(given_ | over))


def test_a_measurement_reads_back() -> None:
    written = measurement()
    assert Measurement.parse(written.to_json()) == written.sealed()
    plain = json.loads(written.to_json())
    assert (plain["schema"], plain["schema_version"]) == ("gpu-cost-planner/measurement", 1)
    assert plain["job"]["dtypes"] == ["bf16"]
    assert plain["series"][0]["shape"]["input_tokens"] is None  # does not apply: null, not 0
    assert plain["started_at"] == "2026-11-30T12:00:00.123456+00:00"


def test_spacing_and_the_order_of_fields_do_not_matter_but_any_figure_does() -> None:
    plain = json.loads(measurement().to_json())
    assert Measurement.parse(json.dumps(dict(reversed(plain.items())))) == measurement().sealed()
    plain["series"][0]["samples_s"][1] = 0.0012
    with pytest.raises(
        DocumentError, match=r"content_hash: is [0-9a-f]{64}, the content has [0-9a-f]{64}: the document was changed"
    ):
        Measurement.parse(json.dumps(plain))


def test_a_measurement_without_a_hash_is_refused() -> None:
    plain = json.loads(measurement().to_json())
    del plain["content_hash"]
    with pytest.raises(DocumentError, match="content_hash: is empty"):
        Measurement.parse(json.dumps(plain))


jobs = st.builds(
    Job,
    name=st.text(max_size=20),
    device=st.sampled_from(Device),
    device_index=st.integers(0, 7),
    dtypes=st.lists(st.sampled_from(Dtype), max_size=3).map(tuple),
    matmul_sizes=st.lists(st.integers(16, 10**5), max_size=3).map(tuple),
    tokens=st.integers(1, 10**6),
    copy_bytes=st.none() | st.integers(1 << 20, 1 << 40),
    architecture=st.none() | st.just(LLAMA),
    rules=st.builds(
        Rules, warmup_s=st.floats(0, 1e3), min_duration_s=st.floats(0, 1e3), min_samples=st.integers(2, 2000)
    ),
    notes=st.text(max_size=20),
)


@given(jobs)
def test_a_job_reads_back(job: Job) -> None:
    assert Job.parse(job.to_json()) == job


def job_text(**over: Any) -> str:
    return json.dumps({"schema": "gpu-cost-planner/job", "schema_version": 1, "name": "x"} | over)


def test_what_a_job_leaves_out_has_its_default() -> None:
    assert Job.parse(job_text()) == Job(name="x")
    assert Job.parse(job_text(rules={"warmup_s": 5})).rules == Rules(warmup_s=5.0)  # a whole number is a number


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", r"^job\.json: not JSON: Expecting value \(line 1, column 1\)"),
        (b"\xff\xfe{", r"^job\.json: not UTF-8 text"),
        ("[]", r"^job\.json: must be a JSON object"),
        ("[" * 100_000, r"^job\.json: (nested too deeply|not JSON)"),
        (job_text(schema="other"), r"^job\.json\.schema: must be 'gpu-cost-planner/job', not 'other'"),
        (job_text(schema_version=2), r"^job\.json\.schema_version: is 2, this worker reads version 1"),
        (job_text(schema_version=True), r"^job\.json\.schema_version: is True"),
        ('{"schema": "gpu-cost-planner/job", "schema_version": 1}', r"^job\.json\.name: is missing"),
        (job_text(name=3), r"^job\.json\.name: must be text, not 3"),
        (job_text(nmae="x"), r"^job\.json\.nmae: unknown field; known are name, suite"),
        (job_text(suite="llm"), r"^job\.json\.suite: 'llm' is not one of device"),
        (job_text(suite=["device"]), r"^job\.json\.suite: \['device'\] is not one of device"),
        (job_text(dtypes="bf16"), r"^job\.json\.dtypes: must be a list, not the text 'bf16'"),
        (job_text(dtypes=["bf16", "fp12"]), r"^job\.json\.dtypes\[1\]: 'fp12' is not one of fp32, tf32"),
        (job_text(matmul_sizes=[4096.0]), r"^job\.json\.matmul_sizes\[0\]: must be a whole number, not 4096\.0"),
        (job_text(matmul_sizes=[True]), r"^job\.json\.matmul_sizes\[0\]: must be a whole number, not True"),
        (job_text(matmul_sizes=[8]), r"^job\.json: matmul_sizes must be at least 16, not 8"),
        (job_text(device_index=None), r"^job\.json\.device_index: must be a whole number, not null"),
        (job_text(copy_bytes=10), r"^job\.json: copy_bytes must be at least"),
        (
            job_text(rules={"min_samples": 500, "max_samples": 100}),
            r"^job\.json\.rules: max_samples \(100\) must not be less than min_samples \(500\)",
        ),
        (job_text(rules={"warmup_s": "1"}), r"^job\.json\.rules\.warmup_s: must be a number, not the text '1'"),
        (job_text(rules=7), r"^job\.json\.rules: must be an object, not 7"),
        (job_text(architecture={"name": "m"}), r"^job\.json\.architecture\.hidden_size: is missing"),
        (job_text()[:-1] + ', "tokens": NaN}', r"^job\.json: NaN is not a number"),
        (job_text()[:-1] + ', "name": "y"}', r"^job\.json: field 'name' occurs twice"),
        (job_text()[:-1] + ', "rules": {"warmup_s": 1e999}}', r"^job\.json\.rules\.warmup_s: must be finite"),
    ],
)
def test_a_job_that_cannot_be_right_names_the_field(text: str | bytes, why: str) -> None:
    with pytest.raises(DocumentError, match=why) as caught:
        Job.parse(text, source="job.json")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("over", "why"),
    [
        ({"started_at": "2026-11-30T12:00:00"}, r"started_at: must say its time zone"),
        ({"started_at": "yesterday"}, r"started_at: must be an ISO 8601 time, not the text 'yesterday'"),
        ({"started_at": 5}, r"started_at: must be an ISO 8601 time"),
        ({"validity": {"valid": True, "reasons": ["but"]}}, r"validity: valid needs no reasons"),
        (
            {"validity": {"valid": False, "reasons": []}},
            r"validity: valid needs no reasons, and invalid needs at least one",
        ),
    ],
)
def test_a_measurement_that_cannot_be_right_names_the_field(over: dict[str, Any], why: str) -> None:
    with pytest.raises(DocumentError, match=why):
        Measurement.parse(json.dumps(json.loads(measurement().to_json()) | over))


@pytest.mark.parametrize(
    ("over", "why"),
    [({"samples_s": (1.0, 0.0)}, "more than 0"), ({"unsettled": 4}, "unsettled must be between 0 and the 3 samples")],
)
def test_a_series_that_cannot_be_right_is_refused(over: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        series(**over)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "m.json"
    write_whole(target, "first")
    monkeypatch.setattr(
        "workers.documents.os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(OSError, match="No space left"):
        write_whole(target, "second")
    assert target.read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_plain_json_is_read_as_it_is() -> None:
    assert parse_json('{"a": [1, 2.5, null, true, "é"]}', source="x") == {"a": [1, 2.5, None, True, "é"]}
