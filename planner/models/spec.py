"""`ModelSpec`: a model as the rest of the planner sees it, tensor by tensor and layer kind by layer kind.

Counts are exact integers; nothing here is rounded. Shapes follow the Hugging Face implementations of each architecture.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ModelKind(StrEnum):
    """What one unit of work is: a request with tokens to generate, or a sample."""

    DECODER = "decoder"  # generates tokens; one inference = one request of ISL/OSL tokens
    ENCODER_DECODER = "encoder_decoder"  # T5: encodes the input, generates the output
    SPEECH = "speech"  # Whisper: one sample = one clip of up to 30 s
    ENCODER = "encoder"  # BERT: one sample = one sequence
    VISION = "vision"  # ResNet, ViT: one sample = one image
    DIFFUSION = "diffusion"  # SDXL: one sample = one image of `denoising_steps`


class TensorClass(StrEnum):
    """Operator class a tensor belongs to; the roofline has one efficiency per class and chip."""

    EMBEDDING = "embedding"  # looked up, not multiplied
    HEAD = "head"  # vocabulary projection
    ATTENTION = "attention"  # q, k, v, o projections (MLA: its down and up projections)
    MLP = "mlp"  # dense feed-forward
    EXPERT = "expert"  # routed experts
    SHARED_EXPERT = "shared_expert"
    ROUTER = "router"
    NORM = "norm"
    STATE_SPACE = "state_space"  # Mamba mixers
    VISION_TOWER = "vision_tower"
    CONVOLUTION = "convolution"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorGroup:
    """All tensors of one kind in the model, layers added up.

    `shared_with_embedding`: the head that is tied to the embedding: no parameters of its own, but it is multiplied.
    """

    name: str
    tensor_class: TensorClass
    parameters: int
    matmul_parameters: int  # how many of them multiply each token (experts: all experts together; lookup tables: 0)
    quantisable: bool  # int4/int8 schemes convert it (embeddings, head, norms, routers, biases stay 16-bit)
    stored_bits: float | None = None  # bits per parameter when the checkpoint itself is quantised; None = native dtype
    tower: str = "text"  # "text" (decoder) | "encoder" | "vision": which tokens it multiplies


class AttentionKind(StrEnum):
    """How far back a layer looks and what it caches."""

    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    LATENT = "latent"  # MLA
    BIDIRECTIONAL = "bidirectional"  # encoders: no cache
    CROSS = "cross"  # decoder over encoder output: cached once per request


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayers:
    """`count` equal attention layers."""

    count: int
    kind: AttentionKind
    heads: int
    kv_heads: int
    head_dim: int  # of q and k
    value_head_dim: int
    window_tokens: int | None = None
    latent_dim: int | None = None  # MLA: kv_lora_rank + qk_rope_head_dim, cached once, replicated under TP
    latent_value_dim: int | None = None  # MLA: kv_lora_rank, what the absorbed value product runs over
    tower: str = "text"  # "text" | "encoder" | "vision"

    @property
    def cache_elements_per_token(self) -> int:
        """Cached numbers per token in one layer, K and V together (0 for bidirectional layers)."""
        if self.kind is AttentionKind.BIDIRECTIONAL:
            return 0
        if self.latent_dim is not None:
            return self.latent_dim
        return self.kv_heads * (self.head_dim + self.value_head_dim)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardLayers:
    """`count` equal feed-forward layers; dense when `experts` is 0."""

    count: int
    intermediate_size: int  # of the dense MLP, or of one expert
    gated: bool
    experts: int = 0
    experts_per_token: int = 0
    shared_intermediate_size: int = 0  # all shared experts together
    tower: str = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayers:
    """`count` Mamba layers: a constant state per sequence instead of a cache that grows."""

    count: int
    state_elements_per_sequence: int  # one layer


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorWork:
    """Operators of one forward pass as eager PyTorch launches them, counted from the network's layers."""

    products: int  # convolutions and matrix products
    operators: int  # all of them
    elementwise: float  # elements that normalisations, activation functions, sums and poolings write, per unit of size
    grouped_flops: float = 0.0  # those of `WorkCurve.flops` in depthwise and grouped convolutions, per unit of size


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCurve:
    """Work of one forward pass as polynomials of its size u: fixed + linear·u + quadratic·u² (FLOPs, activation elements).

    u = size for sequences; (size / patch)² + extra for images of size x size pixels.
    """

    what: str  # "sequence of {size} tokens", "{size}x{size} image", …
    image: bool
    flops: tuple[float, float, float]
    activations: tuple[float, float, float]
    patch: int = 1
    extra: int = 0  # class token and the like
    passes_per_step: int = 1  # diffusion with guidance: 2
    largest: int | None = None  # where position tables bound the size
    operators: OperatorWork | None = None  # None: not counted

    def units(self, size: int) -> float:
        """Return u for a size in tokens or pixels."""
        return (size / self.patch) ** 2 + self.extra if self.image else float(size)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleWork:
    """Work of one sample for models that are not priced by tokens (vision, encoder, speech, diffusion), forward pass.

    FLOPs count a multiply-add as two. `activation_elements` is what every layer writes and reads again, in elements.
    """

    description: str  # "one 224x224 image", "one sequence of 128 tokens", "one 30 s clip, 112 output tokens"
    flops: float
    activation_elements: float
    steps: int = 1  # diffusion: denoising steps included in `flops`
    size: int | None = None  # tokens of a sequence, pixels along the edge of an image, output tokens of a clip
    curve: WorkCurve | None = None  # how the work changes with the size


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How the published checkpoint is stored, when it is not plain 16- or 32-bit."""

    method: str  # "fp8", "mxfp4", "awq", "gptq", "bitsandbytes", "compressed-tensors", "gguf-q4_k_m" …
    bits: float  # nominal width of quantised tensors
    group_size: int | None  # numbers per scale along the input dimension; None = per tensor or channel
    scale_bits: int = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model. Totals are sums over `tensors`; active counts take the experts one token is routed to."""

    name: str
    kind: ModelKind
    architecture: str  # class name in the config, e.g. "Qwen2ForCausalLM"
    model_type: str
    native_dtype: str  # "bf16" | "fp16" | "fp32"
    hidden_size: int
    layers: int  # blocks of the text/decoder stack (vision: blocks of the backbone)
    vocab_size: int
    max_context: int | None
    tensors: tuple[TensorGroup, ...]
    attention: tuple[AttentionLayers, ...] = ()
    feed_forward: tuple[FeedForwardLayers, ...] = ()
    state: tuple[StateLayers, ...] = ()
    quantization: Quantization | None = None
    parameters_total: int
    parameters_active: int  # per token, input embedding included
    encoder_positions: int | None = None  # speech: fixed encoder length (1,500)
    companion_parameters: int = (
        0  # of models that stay in memory beside it, 16-bit: text encoders and image decoder of a diffusion pipeline
    )
    sample: SampleWork | None = None  # at the default input size; `with_input` in models rebuilds it for another size
    aliases: tuple[str, ...] = ()
    source: str = ""
    assumptions: tuple[str, ...] = ()

    @property
    def generates_tokens(self) -> bool:
        """Whether requests are measured in input and output tokens."""
        return self.kind in {ModelKind.DECODER, ModelKind.ENCODER_DECODER}

    @property
    def experts(self) -> int:
        """Routed experts per mixture-of-experts layer; 0 for dense models."""
        return max((f.experts for f in self.feed_forward), default=0)
