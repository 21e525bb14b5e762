"""`SiliconTables`: step times from the operator tables of `aiconfigurator-core` (Apache-2.0), measured by NVIDIA on real devices.

Loaded when first asked, once per process: an engine (chip, model, layout, format) takes 0.05 to 1 s to compile and stays warm after
that; a query takes some 20 microseconds, and answers are kept. Operators that the tables do not have are no answer; nothing is
extrapolated from another chip, and nothing is ever downloaded.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import tempfile
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from planner.perf.silicon import Question, StepTimes
from planner.silicon import PACKAGE
from planner.silicon.configs import config_of, packaged_name

SYSTEMS = {
    "A100 SXM4 80GB": "a100_sxm",
    "H100 SXM5 80GB": "h100_sxm",
    "H200 SXM 141GB": "h200_sxm",
    "B200 SXM 180GB": "b200_sxm",
    "B300 SXM 288GB": "b300_sxm",
    "GB200 (per GPU)": "gb200",
    "GB300 (per GPU)": "gb300",
    "L40S": "l40s",
    "RTX PRO 6000 Blackwell Server": "rtx_pro_6000_server",
}
"""Accelerator -> system of the tables. Others are estimates there, not measurements, and are not asked."""

SINGLE = {"l40s", "rtx_pro_6000_server"}
"""Systems on PCIe that are asked of one device alone: with several, servers were measured up to 6 times faster than the tables' all-reduce
lets them be, and others 1.5 times slower."""
BACKENDS = {"vllm": "vllm", "tensorrt-llm": "trtllm", "sglang": "sglang"}
PRODUCTS = {
    "bf16": "bfloat16",
    "fp16": "bfloat16",
    "fp8": "fp8",
    "int8": "int8_wo",
    "int4": "int4_wo",
    "fp4": "nvfp4",
}
"""Format of weights -> that of matrix products in the tables. Both 16-bit formats run at the same rate."""
EXPERTS = {**PRODUCTS, "int8": "", "mxfp4": "w4a16_mxfp4"}
CACHES = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8", "int8": "int8"}
ENGINES_KEPT = 256

LOCK = threading.Lock()


class SiliconTables:
    """The operator tables of the installed package as a `Predictor`."""

    def __init__(self, version: str) -> None:
        self.version = version

    @property
    def source(self) -> str:
        """What an answer cites."""
        return f"{PACKAGE} {self.version}: operators measured by NVIDIA"

    def steps(self, question: Question) -> StepTimes | None:
        """Return the step times of one replica, or None where the tables have no such chip, engine, format, model or operator."""
        q = question
        system, backend = SYSTEMS.get(q.accelerator), BACKENDS.get(q.engine)
        cache = CACHES.get(q.kv_precision)
        config = None if packaged_name(q.spec) else config_of(q.spec, q.input_tokens + q.output_tokens)
        name = packaged_name(q.spec) or (None if config is None else json.dumps(config, sort_keys=True))
        packed = q.spec.experts and q.precision == "mxfp4"
        products = "bfloat16" if packed else PRODUCTS.get(q.precision)
        experts = (EXPERTS.get(q.precision) or None) if q.spec.experts else None
        if system is None or backend is None or cache is None or name is None or products is None:
            return None
        if (q.spec.experts and experts is None) or (q.tensor_parallel > 1 and system in SINGLE):
            return None
        return _answer(
            (system, backend, name, q.tensor_parallel, bool(q.expert_parallel), products, experts, cache),
            (q.input_tokens, q.output_tokens, q.concurrency, q.step_tokens),
        )


@lru_cache(maxsize=65536)
def _answer(layout: tuple[Any, ...], load: tuple[int, int, int, int]) -> StepTimes | None:
    engine = _engine(layout)
    if engine is None:
        return None
    input_tokens, output_tokens, concurrency, step_tokens = load
    context = input_tokens + max(1, output_tokens // 2)
    try:
        decode = engine.predict_decode_latency(concurrency, context) / 1e3
        alone = engine.predict_prefill_latency(1, input_tokens) / 1e3
        together = max(1, step_tokens // input_tokens)
        many = engine.predict_prefill_latency(together, input_tokens) / 1e3 / together if together > 1 else alone
    except Exception:  # noqa: BLE001 - the package raises its own and foreign errors for an operator that it does not have
        return None
    if engine.last_provenance() not in (None, "silicon") or not min(decode, alone, many) > 0:
        return None
    return StepTimes(decode_s=decode, prefill_s=min(many, alone), alone_s=alone)


@lru_cache(maxsize=ENGINES_KEPT)
def _engine(layout: tuple[Any, ...]) -> Any | None:
    """Return a compiled engine, or None where the tables do not have what the model needs."""
    system, backend, name, tp, whole_experts, products, experts, cache = layout
    with LOCK, _silent():
        from aiconfigurator_core.sdk import EngineHandle  # noqa: PLC0415 - 0.2 s and pandas; only when asked

        with tempfile.TemporaryDirectory(prefix="planner-silicon-") as folder:
            if name.startswith("{"):
                (Path(folder) / "config.json").write_text(name, encoding="utf-8")
            try:
                return EngineHandle.compile(
                    folder if name.startswith("{") else name,
                    system,
                    backend,
                    tp_size=tp,
                    moe_tp_size=1 if whole_experts else tp,
                    moe_ep_size=tp if whole_experts else 1,
                    gemm_quant_mode=products,
                    moe_quant_mode=experts,
                    kvcache_quant_mode=cache,
                )
            except Exception:  # noqa: BLE001 - as above: no table, no such format, heads that do not divide
                return None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep the package's remarks on its tables out of the answer."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
