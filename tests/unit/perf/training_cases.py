"""Models and machines for the tests of training and samples: shapes and datasheet figures written out by hand."""

from __future__ import annotations

from dataclasses import replace

from planner.models.spec import (
    AttentionKind,
    AttentionLayers,
    FeedForwardLayers,
    ModelKind,
    ModelSpec,
    SampleWork,
    TensorClass,
    TensorGroup,
    WorkCurve,
)
from planner.perf.model import Hardware
from pricing.model import AcceleratorKind, InterconnectKind


def group(
    name: str, tensor_class: TensorClass, parameters: int, *, matmul: bool = True, quantisable: bool = True
) -> TensorGroup:
    return TensorGroup(
        name=name,
        tensor_class=tensor_class,
        parameters=parameters,
        matmul_parameters=parameters if matmul else 0,
        quantisable=quantisable,
    )


def decoder(
    name: str,
    *,
    hidden: int,
    layers: int,
    heads: int,
    kv_heads: int,
    inner: int,
    vocabulary: int,
    gated: bool = True,
    tied: bool = False,
    experts: int = 0,
    experts_per_token: int = 0,
    biases: int = 0,
    head_dim: int | None = None,
) -> ModelSpec:
    """A decoder whose parameters are counted here, independently of the config parser."""
    d = head_dim or hidden // heads
    attention = layers * hidden * d * (2 * heads + 2 * kv_heads)
    mlp = layers * (3 if gated else 2) * hidden * inner * max(1, experts)
    mlp_class = TensorClass.EXPERT if experts else TensorClass.MLP
    tensors = [
        group("embedding", TensorClass.EMBEDDING, vocabulary * hidden, matmul=False, quantisable=False),
        group("attention", TensorClass.ATTENTION, attention),
        group("mlp", mlp_class, mlp),
        group("norms", TensorClass.NORM, (2 * layers + 1) * hidden + biases, matmul=False, quantisable=False),
        TensorGroup(
            name="head",
            tensor_class=TensorClass.HEAD,
            parameters=0 if tied else vocabulary * hidden,
            matmul_parameters=vocabulary * hidden,
            quantisable=False,
        ),
    ]
    total = sum(t.parameters for t in tensors)
    idle = mlp * (experts - experts_per_token) // experts if experts else 0
    return ModelSpec(
        name=name,
        kind=ModelKind.DECODER,
        architecture="DecoderForCausalLM",
        model_type="decoder",
        native_dtype="bf16",
        hidden_size=hidden,
        layers=layers,
        vocab_size=vocabulary,
        max_context=131072,
        tensors=tuple(tensors),
        attention=(
            AttentionLayers(
                count=layers, kind=AttentionKind.FULL, heads=heads, kv_heads=kv_heads, head_dim=d, value_head_dim=d
            ),
        ),
        feed_forward=(
            FeedForwardLayers(
                count=layers, intermediate_size=inner, gated=gated, experts=experts, experts_per_token=experts_per_token
            ),
        ),
        parameters_total=total,
        parameters_active=total - idle,
    )


# Qwen2.5-7B: biases on q, k and v (28 x (3,584 + 512 + 512)); 7,615,616,512 parameters.
QWEN_7B = decoder(
    "Qwen2.5-7B",
    hidden=3584,
    layers=28,
    heads=28,
    kv_heads=4,
    inner=18944,
    vocabulary=152064,
    biases=28 * (3584 + 2 * 512),
)
LLAMA_8B = decoder("Llama-3.1-8B", hidden=4096, layers=32, heads=32, kv_heads=8, inner=14336, vocabulary=128256)
LLAMA_70B = decoder("Llama-3.1-70B", hidden=8192, layers=80, heads=64, kv_heads=8, inner=28672, vocabulary=128256)
LLAMA_3B = decoder(
    "Llama-3.2-3B", hidden=3072, layers=28, heads=24, kv_heads=8, inner=8192, vocabulary=128256, tied=True, head_dim=128
)
MIXTRAL = decoder(
    "Mixtral-8x7B",
    hidden=4096,
    layers=32,
    heads=32,
    kv_heads=8,
    inner=14336,
    vocabulary=32000,
    experts=8,
    experts_per_token=2,
)
# The first Qwen-7B (2023): multi-head attention, 151,936 tokens, gated MLP of 11,008.
QWEN1_7B = decoder("Qwen-7B", hidden=4096, layers=32, heads=32, kv_heads=32, inner=11008, vocabulary=151936)
# MPT: plain MLP of 4 h, tied embeddings, 50,368 tokens.
MPT_1B = decoder(
    "MPT-1B", hidden=2048, layers=24, heads=16, kv_heads=16, inner=8192, vocabulary=50368, gated=False, tied=True
)
MPT_13B = decoder(
    "MPT-13B", hidden=5120, layers=40, heads=40, kv_heads=40, inner=20480, vocabulary=50368, gated=False, tied=True
)


def encoder(
    name: str, *, hidden: int, layers: int, heads: int, vocabulary: int = 30522, tokens: int = 128
) -> ModelSpec:
    """A BERT: plain MLP of 4 h; one sample = one sequence of `tokens`."""
    body = layers * 12 * hidden * hidden
    tensors = (
        group("embedding", TensorClass.EMBEDDING, (vocabulary + 514) * hidden, matmul=False, quantisable=False),
        group("attention", TensorClass.ATTENTION, body // 3),
        group("mlp", TensorClass.MLP, body - body // 3),
    )
    total = sum(t.parameters for t in tensors)
    flops = 2.0 * body * tokens + 4.0 * layers * hidden * tokens * tokens
    return ModelSpec(
        name=name,
        kind=ModelKind.ENCODER,
        architecture="BertModel",
        model_type="bert",
        native_dtype="fp32",
        hidden_size=hidden,
        layers=layers,
        vocab_size=vocabulary,
        max_context=512,
        tensors=tensors,
        attention=(
            AttentionLayers(
                count=layers,
                kind=AttentionKind.BIDIRECTIONAL,
                heads=heads,
                kv_heads=heads,
                head_dim=hidden // heads,
                value_head_dim=hidden // heads,
            ),
        ),
        feed_forward=(FeedForwardLayers(count=layers, intermediate_size=4 * hidden, gated=False),),
        parameters_total=total,
        parameters_active=total,
        sample=SampleWork(
            description=f"one sequence of {tokens} tokens",
            flops=flops,
            activation_elements=16.0 * hidden * tokens * layers,
        ),
    )


BERT_LARGE = encoder("BERT-large", hidden=1024, layers=24, heads=16)
BERT_BASE = encoder("BERT-base", hidden=768, layers=12, heads=12)

CHIPS: dict[str, tuple[float, float, dict[str, float], float, float]] = {
    # visible GiB, GB/s, dense peaks, compute capability, W
    "A100 SXM4 80GB": (79.1, 2039, {"bf16": 312, "fp16": 312, "tf32": 156, "fp32": 19.5, "int8": 624}, 8.0, 400),
    "A100 SXM4 40GB": (39.4, 1555, {"bf16": 312, "fp16": 312, "tf32": 156, "fp32": 19.5, "int8": 624}, 8.0, 400),
    "H100 SXM5 80GB": (
        79.1,
        3350,
        {"bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp32": 66.9, "fp8": 1978.9},
        9.0,
        700,
    ),
    "H200 SXM 141GB": (
        139.8,
        4800,
        {"bf16": 989.4, "fp16": 989.4, "tf32": 494.7, "fp32": 66.9, "fp8": 1978.9},
        9.0,
        700,
    ),
    "A10G": (22.0, 600, {"bf16": 70, "fp16": 70, "tf32": 35, "fp32": 35, "int8": 140}, 8.6, 300),
    "T4": (14.6, 320, {"fp16": 65, "fp32": 8.1, "int8": 130}, 7.5, 70),
    "L4": (22.0, 300, {"bf16": 121, "fp16": 121, "tf32": 60, "fp32": 30.3, "fp8": 242, "int8": 242}, 8.9, 72),
    "L40S": (44.5, 864, {"bf16": 362, "fp16": 362, "fp32": 91.6, "fp8": 733, "int8": 733}, 8.9, 350),
    "V100 SXM2 32GB": (31.7, 900, {"fp16": 125, "fp32": 15.7}, 7.0, 300),
    "K80 (one of two GPUs)": (11.8, 240, {"fp32": 4.37}, 3.7, 150),
}


ARCHITECTURES = {
    3.7: "Kepler",
    7.0: "Volta",
    7.5: "Turing",
    8.0: "Ampere",
    8.6: "Ampere",
    8.9: "Ada Lovelace",
    9.0: "Hopper",
}
"""Of NVIDIA's chips by compute capability."""


def machine(
    chip: str,
    devices: int = 1,
    *,
    link: InterconnectKind | None = None,
    link_gb_s: float | None = None,
    network_gbps: float | None = None,
    efa: bool = False,
    vcpus: int | None = None,
) -> Hardware:
    """`devices` NVIDIA chips of one instance; several are joined by NVSwitch unless said otherwise."""
    visible, bandwidth, peaks, capability, watts = CHIPS[chip]
    kind = InterconnectKind.NONE if devices == 1 else link or InterconnectKind.NVSWITCH
    return Hardware(
        accelerator=chip,
        vendor="NVIDIA",
        architecture=ARCHITECTURES[capability],
        kind=AcceleratorKind.GPU,
        devices=devices,
        fraction=1.0,
        memory_visible_gib=visible,
        memory_bandwidth_gb_s=bandwidth,
        peak_tflops=peaks,
        interconnect_kind=kind,
        interconnect_gb_s_bidirectional=None if devices == 1 else link_gb_s or 600,
        tdp_w=watts,
        compute_capability=capability,
        vcpus=vcpus,
        host_memory_gib=None,
        network_gbps=network_gbps,
        efa_supported=efa,
    )


def neuron(chip: str, devices: int) -> Hardware:
    """AWS chips: Inferentia1 (64 TFLOPS, 50 GB/s), Inferentia2 and Trainium1 (190 TFLOPS, 820 GB/s)."""
    first = chip == "Inferentia1"
    return Hardware(
        accelerator=chip,
        vendor="AWS",
        architecture="NeuronCore-v1 x4" if first else "NeuronCore-v2 x2",
        kind=AcceleratorKind.NEURON,
        devices=devices,
        fraction=1.0,
        memory_visible_gib=7.84 if first else 31.36,
        memory_bandwidth_gb_s=50 if first else 820,
        peak_tflops={"fp16": 64, "bf16": 64} if first else {"fp16": 190, "bf16": 190, "tf32": 190, "fp32": 47.5},
        interconnect_kind=InterconnectKind.NEURONLINK,
        interconnect_gb_s_bidirectional=32 if first else 192,
        tdp_w=None,
        compute_capability=None,
        vcpus=4,
        host_memory_gib=8,
        network_gbps=None,
        efa_supported=False,
    )


def resnet50(pixels: int = 224) -> ModelSpec:
    """ResNet-50 v1.5: 25.6e6 parameters, 4.09e9 multiply-adds and 11.1e6 convolution outputs an image of 224 pixels."""
    scale = (pixels / 224) ** 2
    return ModelSpec(
        name="ResNet-50",
        kind=ModelKind.VISION,
        architecture="ResNetForImageClassification",
        model_type="resnet",
        native_dtype="fp32",
        hidden_size=2048,
        layers=16,
        vocab_size=0,
        max_context=None,
        tensors=(
            group("convolutions", TensorClass.CONVOLUTION, 23_500_000),
            group("head", TensorClass.HEAD, 2_049_000, quantisable=False),
        ),
        parameters_total=25_549_000,
        parameters_active=25_549_000,
        sample=SampleWork(
            description=f"one {pixels}x{pixels} image", flops=8.18e9 * scale, activation_elements=11.1e6 * scale
        ),
    )


RESNET_50 = resnet50()


def whisper(tokens: int = 112) -> ModelSpec:
    """Whisper large-v3 by hand: 32 + 32 blocks of 1,280; 1,500 encoder positions; a 30 s clip with `tokens` output tokens."""
    h, layers, positions = 1280, 32, 1500
    encoder_matrices, decoder_matrices = layers * 12 * h * h, layers * 16 * h * h
    once = 2.0 * encoder_matrices * positions + 4.0 * layers * h * positions**2 + 2.0 * layers * 2 * h * h * positions
    step = 2.0 * (layers * 14 * h * h + 51866 * h) + 4.0 * layers * h * positions
    curve = WorkCurve(
        what="30 s clip, {size} output tokens",
        image=False,
        flops=(once, step, 2.0 * layers * h),
        activations=(12.0 * h * layers * positions, 12.0 * h * layers, 0.0),
    )
    heads = {"heads": 20, "kv_heads": 20, "head_dim": 64, "value_head_dim": 64}
    return ModelSpec(
        name="Whisper large-v3",
        kind=ModelKind.SPEECH,
        architecture="WhisperForConditionalGeneration",
        model_type="whisper",
        native_dtype="fp16",
        hidden_size=h,
        layers=layers,
        vocab_size=51866,
        max_context=448,
        tensors=(
            replace(group("encoder", TensorClass.MLP, encoder_matrices), tower="encoder"),
            group("decoder", TensorClass.MLP, decoder_matrices),
            group("embedding", TensorClass.EMBEDDING, 51866 * h, matmul=False, quantisable=False),
        ),
        attention=(
            AttentionLayers(count=layers, kind=AttentionKind.FULL, **heads),
            AttentionLayers(count=layers, kind=AttentionKind.CROSS, **heads),
            AttentionLayers(count=layers, kind=AttentionKind.BIDIRECTIONAL, tower="encoder", **heads),
        ),
        encoder_positions=positions,
        parameters_total=encoder_matrices + decoder_matrices + 51866 * h,
        parameters_active=encoder_matrices + decoder_matrices + 51866 * h,
        sample=SampleWork(
            description=f"one 30 s clip, {tokens} output tokens",
            flops=once + step * tokens + 2.0 * layers * h * tokens**2,
            activation_elements=12.0 * h * layers * (positions + tokens),
            size=tokens,
            curve=curve,
        ),
    )
