"""From a row with a published peak of memory to what the memory model counts of it (`planner.perf.training_memory.PeakTerms`).

The columns say how a run was split; what they leave open is known of the framework, or follows from the fact that the run fitted:

- LitGPT, torchtune: 16-bit weights without a master copy; figures of the allocator, which torchtitan gives as well: no context in them
- Qwen's LoRA on one card runs without DeepSpeed, and so without fp32 copies of what is trained
- LitGPT: adapters on queries and values; the loss in chunks. torchtune: in chunks from the row that says so on (its rows pile up)
- Megatron of the BigScience runs: no sequence parallelism
- a state that would not fit its card with fp32 copies was kept without them; recomputation that is not stated is the least that fits
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from planner.models.spec import ModelSpec
from planner.perf.memory import GIB
from planner.perf.model import TrainingWork
from planner.perf.training_activations import CHECKPOINTING
from planner.perf.training_memory import Keeping, PeakTerms, Split, memory_factors, peak_bytes, peak_terms

PLAIN_STATES = ("litgpt", "torchtune")
OF_ALLOCATOR = ("litgpt", "torchtune", "torchtitan")
WITHOUT_SEQUENCE_PARALLEL = ("bigscience",)
CHUNKING = ("chunk", "checkpointing", "backward", "offload", "8-bit", "lora")
"""Words of torchtune's rows from the chunked loss on: each row keeps what the rows above it brought."""
BACKWARD = ("backward", "offload", "8-bit adam")
FULL_CARD = 0.95
"""Share of a card that a run can have filled."""
RANK = {"litgpt": 8, "qwen-readme": 64}
"""Rank of the adapters in the scripts that the rows name; 16 elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """How a row's run was split, as read from its columns."""

    data: float
    tensor: float = 1.0
    pipeline: float = 1.0
    context: float = 1.0
    expert: float = 1.0
    zero: float = 0.0
    micro_batch: float = 1.0
    accumulation: float = 1.0


def peak_of(
    row: Mapping[str, str],
    spec: ModelSpec,
    degrees: Degrees,
    *,
    method: str,
    precision: str,
    sequence_length: int,
    visible_gib: float,
) -> PeakTerms:
    """Return the counted memory of one accelerator in a row's run; `precision` is that of the arithmetic (bf16, fp8, fp32 …)."""
    family, strategy = row["source_family"], row["strategy"].lower()
    stated = row["activation_checkpointing"].lower()
    alone = family == "qwen-readme" and method == "lora" and row.get("gpu_count", "") == "1"
    piled = family == "torchtune" and any(word in strategy for word in CHUNKING)
    keeping = Keeping(
        master_weights=family not in PLAIN_STATES and "true" not in row["precision"].lower() and not alone,
        gradients_kept=not (family == "torchtune" and any(word in strategy for word in BACKWARD)),
        sequence_parallel=family not in WITHOUT_SEQUENCE_PARALLEL,
        trained_embeddings="emb" in strategy,
        adapters_on_attention=family == "litgpt" and method != "full",
        outside_allocator=family not in OF_ALLOCATOR,
    )
    work = TrainingWork(
        method=method,
        sequence_length=sequence_length,
        optimizer="adamw_8bit" if "8-bit adam" in strategy else "adamw",
        lora_rank=RANK.get(family, 16),
        activation_offload="offload" in stated,
        chunked_loss=piled or family == "litgpt",
    )
    named = next((i for i, name in enumerate(CHECKPOINTING) if stated.startswith(name)), None)
    split = Split(
        data=degrees.data,
        tensor=degrees.tensor,
        pipeline=degrees.pipeline,
        context=degrees.context,
        expert=degrees.expert,
        stage=degrees.zero,
        micro_batch=degrees.micro_batch,
        micro_batches=degrees.accumulation,
        checkpointing=float(named or 0),
    )
    terms = peak_terms(spec, work, precision, split, keeping=keeping)
    if method == "full" and _state_gib(terms) > visible_gib:
        keeping = replace(keeping, master_weights=False)
        terms = peak_terms(spec, work, precision, split, keeping=keeping)
    if named is None:
        for level in range(len(CHECKPOINTING)):
            split = replace(split, checkpointing=float(level))
            terms = peak_terms(spec, work, precision, split, keeping=keeping)
            if float(peak_bytes(terms, memory_factors(None))) <= FULL_CARD * visible_gib * GIB:
                break
    return terms


def _state_gib(terms: PeakTerms) -> float:
    return float(terms.weights + terms.gradients + terms.optimizer) / GIB
