"""Bytes that a forward pass keeps on one accelerator for the backward pass: by kind of layer, backend, recomputation, dtype and split.

Symbols: b = sequences of a micro-batch, s = tokens of a sequence, h = hidden size, t = tensor-parallel and p = pipeline-parallel degree, m =
micro-batches of a step. References: Korthikanti et al. 2022 (activations a layer under tensor and sequence parallelism, selective and
full recomputation); Dao et al. 2022 (flash attention keeps no s x s matrix); Narayanan et al. 2021 (1F1B keeps p micro-batches on the
first stage).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.models.spec import ModelSpec, TensorClass
from planner.perf.model import TrainingWork
from planner.perf.training_work import counted_in_tokens, one_pass

Array = npt.NDArray[np.float64]

CHECKPOINTING = ("none", "selective", "full")
ATTENTION_BACKENDS = ("sdpa", "flash", "math")
ACTIVATION_WIDTHS = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
KEPT_BY_CONVOLUTIONS = 2.3
"""Kept over written activations: a convolution's output and its normalised copy, and what skips around. From batches that others
chose to fill the card with ResNet-50 in fp16 (lambdal/deeplearning-benchmark): 720 images in 40 GB, 1,280 in 80 GB."""
KEPT_BY_TRANSFORMERS = 4 / 3
"""The inner activation's output comes on top of the written matrices: 16 h against 12 h a token and block."""
SELECTIVE_SHARE = 0.5
"""Share of a block's activations kept when every second matrix product is recomputed (torchtitan's selective operators)."""
RECOMPUTED = {
    False: ((0.0, 0.0), (0.5, 0.0), (1.0, 1.0)),
    True: ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0)),
}
"""By math backend or not, and by level of checkpointing: shares of the blocks' matrices and of the scores that are computed again. With
flash attention "selective" repeats every second matrix product; with the math backend it repeats the scores (Korthikanti et al. 2022)."""
SCORE_ELEMENTS = 2.5
"""16-bit numbers that the math backend keeps for each pair of tokens and head: softmax output, its dropout mask of a byte and the
dropped output, 5 bytes (Korthikanti et al. 2022, eq. 2)."""
BUFFERED_BLOCKS = 2.0
"""Blocks whose offloaded activations are on the device at once: one moves while the other is used."""
CHUNKS_OF_LOSS = 8.0
"""Chunks of a chunked loss (torchtune's and Liger's default): so much less is there at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Numbers that the layers of a model keep, before any split; a sample is a sequence of `tokens`, or one image or clip."""

    tokens: float
    residual: float  # a token, all layers: inputs and outputs of the norms, shared by sequence parallelism alone
    inner: (
        float  # a token, all layers: queries, attention outputs and feed-forward tensors, shared by tensor parallelism
    )
    cached: tuple[
        tuple[float, float], ...
    ]  # (KV heads, numbers a head and token of all its layers); a head is the least share
    scores: float  # a sample, all layers: pairs of tokens x heads (math backend), in numbers
    hidden: float
    blocks: float
    vocabulary: float  # 0 where no token is predicted
    written: float  # numbers that one forward pass writes (models not counted in tokens)


def kept_by(spec: ModelSpec, work: TrainingWork, *, feed_forward_inputs: bool = True) -> Kept:
    """Return what one sample keeps.

    Per token and block: 4 h (two norms and their outputs), q, k, v, attention output, and the feed-forward tensors (gated: gate, up,
    activated, product = 4 I; plain: 2 I; experts: those a token uses). With plain blocks and I = 4 h that is 16 h numbers = 32 h bytes, against 34 h in Korthikanti et al. (2 h of dropout masks). Without
    `feed_forward_inputs` (frozen and without adapters) neither matrix of it keeps its input: h and I less.
    """
    blocks = float(max(1, spec.layers))
    if not counted_in_tokens(spec):
        elements = one_pass(spec).activation_elements
        convolutional = any(g.tensor_class is TensorClass.CONVOLUTION for g in spec.tensors)
        return Kept(
            tokens=1.0,
            residual=0.0,
            inner=elements * (KEPT_BY_CONVOLUTIONS if convolutional else KEPT_BY_TRANSFORMERS),
            cached=(),
            scores=0.0,
            hidden=0.0,
            blocks=blocks,
            vocabulary=0.0,
            written=elements,
        )
    s, h = float(work.sequence_length), float(spec.hidden_size)
    residual = inner = scores = 0.0
    cached: list[tuple[float, float]] = []
    for a in spec.attention:
        if a.tower != "vision":
            residual += a.count * 2 * h
            inner += a.count * a.heads * (a.head_dim + a.value_head_dim)
            cached.append((float(a.kv_heads), float(a.count * (a.head_dim + a.value_head_dim))))
            scores += a.count * a.heads * s * s * SCORE_ELEMENTS
    for f in spec.feed_forward:
        if f.tower != "vision":
            width = f.intermediate_size * max(1, f.experts_per_token) + f.shared_intermediate_size
            inputs = 0 if feed_forward_inputs else 1
            residual += f.count * (2 - inputs) * h
            inner += f.count * ((4 if f.gated else 2) - inputs) * width
    for m in spec.state:
        inner += m.count * 8 * h
    return Kept(
        tokens=s,
        residual=residual,
        inner=inner,
        cached=tuple(cached),
        scores=scores if work.attention_backend == "math" else 0.0,
        hidden=h,
        blocks=blocks,
        vocabulary=float(spec.vocab_size) if spec.generates_tokens else 0.0,
        written=0.0,
    )


def activation_width(work: TrainingWork, precision: str) -> float:
    """Return the bytes of one kept number: of the asked dtype, else of the arithmetic (fp8 and fp4 runs keep 16 bits)."""
    if work.activation_dtype is not None:
        return ACTIVATION_WIDTHS[work.activation_dtype]
    return 4.0 if precision in {"fp32", "tf32"} else 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """Bytes on the accelerator that holds most; arrays broadcast over the layouts."""

    kept: Array  # until the backward pass
    block: Array  # the block that is recomputed, or whose offloaded activations are back
    loss: Array  # logits, their copies and gradients
    moved: Array  # to host memory and back, each micro-batch (offload)
    hosted: Array  # in host memory at once


def activations_of(
    kept: Kept,
    work: TrainingWork,
    precision: str,
    *,
    micro_batch: Array,
    checkpointing: Array,
    tensor: Array | float = 1.0,
    pipeline: Array | float = 1.0,
    micro_batches: Array | float = 1.0,
    context: Array | float = 1.0,
    sequence_parallel: Array | bool = True,
) -> Activations:
    """Return the activations of one accelerator; `checkpointing` holds indices into `CHECKPOINTING`.

    The first pipeline stage keeps min(p, m) micro-batches of ceil(L / p) blocks, the last one micro-batch and the loss; the heavier counts.
    Logits take 12 bytes an entry (16-bit, fp32 copy, its gradient, the 16-bit gradient; fp32 runs 8), shared by tensor parallelism.
    """
    t, p = np.asarray(tensor, dtype=np.float64), np.asarray(pipeline, dtype=np.float64)
    spread = np.where(sequence_parallel, t, 1.0)
    width = activation_width(work, precision)
    stage = np.ceil(kept.blocks / p) / kept.blocks
    in_flight = np.minimum(p, micro_batches)
    tokens = micro_batch * kept.tokens / context
    heads = sum((np.maximum(n / t, 1.0) * numbers for n, numbers in kept.cached), np.zeros_like(t))
    plain = width * tokens * (kept.residual / spread + kept.inner / t + heads)
    pairs = width * micro_batch * kept.scores / t / context
    # Where blocks differ in width, the best placement of checkpoints keeps a square root of them (Chen et al. 2016).
    rows = width * tokens * kept.hidden * kept.blocks / spread
    inputs = rows if kept.hidden else plain / kept.blocks**0.5
    selective = plain if work.attention_backend == "math" and kept.scores else SELECTIVE_SHARE * plain
    of_model = np.where(checkpointing == 2, inputs, np.where(checkpointing == 1, selective, plain + pairs))
    whole_block = (plain + pairs) / kept.blocks
    recomputed = np.where(checkpointing == 2, whole_block, np.where(checkpointing == 1, pairs / kept.blocks, 0.0))
    one_micro = of_model * stage
    loss = (8.0 if precision in {"fp32", "tf32"} else 12.0) * tokens * kept.vocabulary / t
    if work.chunked_loss:
        loss = loss / CHUNKS_OF_LOSS
    moved = np.zeros_like(one_micro)
    on_device, hosted = one_micro, moved
    if work.activation_offload:
        buffer = np.minimum(one_micro, BUFFERED_BLOCKS * of_model / kept.blocks)
        moved, hosted, on_device = one_micro, one_micro * in_flight, buffer
    first = on_device * (1.0 if work.activation_offload else in_flight)
    last = on_device
    alone = p <= 1
    heavier_first = ~alone & (first > last + loss)
    return Activations(
        kept=np.where(heavier_first, first, last),
        block=recomputed + np.zeros_like(one_micro),
        loss=np.where(heavier_first, 0.0, loss),
        moved=moved + np.zeros_like(one_micro),
        hosted=hosted + np.zeros_like(one_micro),
    )
