"""Denoising UNets of Stable Diffusion (arXiv:2112.10752) and SDXL (arXiv:2307.01952), from a diffusers `UNet2DConditionModel` config.

One sample = one image: `steps` denoising steps, two passes each (with and without the prompt: classifier-free guidance). The text encoders and
the image decoder, which run once, are separate configs and not in these figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from planner.models.assemble import assemble
from planner.models.fields import MAX_WIDTH, Fields
from planner.models.sample_work import sample_of
from planner.models.spec import ModelKind, ModelSpec, TensorClass, WorkCurve
from planner.models.tally import Tally

STEPS = 50
GUIDANCE_PASSES = 2
PROMPT_TOKENS = 77
PIXELS_PER_LATENT = 8
MAX_BLOCK_DEPTH = 32


@dataclass(slots=True)
class _UNet:
    """The tally with work by latent pixels of the input: linear (convolutions, matrices), quadratic (self-attention), fixed (the prompt's keys)."""

    prompt_width: int
    time_width: int
    tally: Tally = field(default_factory=Tally)
    fixed: float = 0.0
    linear: float = 0.0
    quadratic: float = 0.0
    outputs: float = 0.0

    def convolution(self, inputs: int, outputs: int, kernel: int, share: float) -> None:
        """Add a biased convolution whose output has `share` of the input's latent pixels."""
        self._matrix("convolution.kernel", TensorClass.CONVOLUTION, inputs * kernel * kernel, outputs, share, bias=True)

    def _matrix(
        self, name: str, kind: TensorClass, inputs: int, outputs: int, share: float, *, bias: bool = False
    ) -> None:
        self.tally.linear(name, kind, inputs, outputs, bias=bias)
        self.linear += 2.0 * inputs * outputs * share
        self.outputs += outputs * share

    def residual(self, inputs: int, outputs: int, share: float) -> None:
        """Add a residual block: two normalised 3x3 convolutions, the time step's projection, a 1x1 shortcut where widths differ."""
        self.tally.norm("norms", inputs, bias=True)
        self.convolution(inputs, outputs, 3, share)
        self.tally.linear("time.projection", TensorClass.OTHER, self.time_width, outputs, bias=True)
        self.fixed += 2.0 * self.time_width * outputs
        self.tally.norm("norms", outputs, bias=True)
        self.convolution(outputs, outputs, 3, share)
        if inputs != outputs:
            self.convolution(inputs, outputs, 1, share)

    def transformer(self, width: int, depth: int, share: float) -> None:
        """Add a spatial transformer of `depth` blocks: self-attention, attention to the prompt, gated feed-forward of 4 x width."""
        attention, mlp = TensorClass.ATTENTION, TensorClass.MLP
        self.tally.norm("norms", width, bias=True)
        for name in ("spatial.in", "spatial.out"):
            self._matrix(name, attention, width, width, share, bias=True)
        for _ in range(depth):
            self.tally.norm("norms", width, times=3, bias=True)
            for name in ("attention.q", "attention.k", "attention.v"):
                self._matrix(name, attention, width, width, share)
            self._matrix("attention.o", attention, width, width, share, bias=True)
            self.quadratic += 4.0 * width * share * share
            self._matrix("cross_attention.q", attention, width, width, share)
            for name in ("cross_attention.k", "cross_attention.v"):
                self.tally.linear(name, attention, self.prompt_width, width)
                self.fixed += 2.0 * self.prompt_width * width * PROMPT_TOKENS
            self._matrix("cross_attention.o", attention, width, width, share, bias=True)
            self.linear += 4.0 * width * share * PROMPT_TOKENS
            self.outputs += 2.0 * width * share
            self._matrix("mlp.up", mlp, width, 8 * width, share, bias=True)
            self._matrix("mlp.down", mlp, 4 * width, width, share, bias=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    widths: tuple[int, ...]
    layers: int
    depths: tuple[int, ...]
    attends_down: tuple[bool, ...]
    attends_up: tuple[bool, ...]


def _plan(config: Fields) -> _Plan:
    widths = config.integers("block_out_channels", minimum=1, maximum=MAX_WIDTH, longest=16)
    down, up = config.strings("down_block_types"), config.strings("up_block_types")
    if not widths or not down or not up or not len(widths) == len(down) == len(up):
        raise config.error(
            "block_out_channels", "should list one width for each entry of down_block_types and up_block_types"
        )
    for name, blocks in (("down_block_types", down), ("up_block_types", up)):
        known = {"CrossAttnDownBlock2D", "DownBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"}
        if set(blocks) - known:
            raise config.error(
                name, f"has {sorted(set(blocks) - known)[0]!r}; it should be one of {', '.join(sorted(known))}"
            )
    per_block = config.data.get("transformer_layers_per_block")
    depths = (
        config.integers("transformer_layers_per_block", minimum=0, maximum=MAX_BLOCK_DEPTH, longest=16)
        if isinstance(per_block, list)
        else None
    )
    flat = (
        (config.integer("transformer_layers_per_block", maximum=MAX_BLOCK_DEPTH, default=1),) * len(widths)
        if depths is None
        else depths
    )
    if len(flat) != len(widths):
        raise config.error("transformer_layers_per_block", f"has {len(flat)} entries for {len(widths)} blocks")
    return _Plan(
        widths=widths,
        layers=config.integer("layers_per_block", maximum=MAX_BLOCK_DEPTH),
        depths=flat,
        attends_down=tuple(b.startswith("CrossAttn") for b in down),
        attends_up=tuple(b.startswith("CrossAttn") for b in up),
    )


CLIP_L, OPENCLIP_H, OPENCLIP_BIG_G, IMAGE_DECODER = 123_060_480, 340_387_840, 694_659_840, 83_653_863
COMPANIONS = {
    768: CLIP_L + IMAGE_DECODER,
    1024: OPENCLIP_H + IMAGE_DECODER,
    2048: CLIP_L + OPENCLIP_BIG_G + IMAGE_DECODER,
}
"""Parameters beside the UNet by the width of its prompt: Stable Diffusion 1 (CLIP ViT-L), 2 (OpenCLIP ViT-H), XL (both text encoders: 817 million,
Podell et al. 2023, arXiv:2307.01952, table 1), each with the variational autoencoder of 84 million (Rombach et al. 2022)."""


def read_unet(config: Fields) -> ModelSpec:
    """Return the spec of a UNet: down blocks, a middle, up blocks with skip connections."""
    p = _plan(config)
    first, channels = p.widths[0], config.integer("in_channels", maximum=1000)
    net = _UNet(prompt_width=config.integer("cross_attention_dim"), time_width=4 * first)
    net.convolution(channels, first, 3, 1.0)
    _time_embedding(config, net, first)
    skips, share = _down(net, p)
    bottom = p.widths[-1]
    net.residual(bottom, bottom, share)
    net.transformer(bottom, p.depths[-1], share)
    net.residual(bottom, bottom, share)
    _up(net, p, skips, share)
    net.tally.norm("norms", first, bias=True)
    net.convolution(first, config.integer("out_channels", maximum=1000), 3, 1.0)
    size = config.integer("sample_size", maximum=100_000, default=64) * PIXELS_PER_LATENT
    curve = WorkCurve(
        what="{size}x{size} image",
        image=True,
        flops=(net.fixed, net.linear, net.quadratic),
        activations=(0.0, net.outputs, 0.0),
        patch=PIXELS_PER_LATENT,
        passes_per_step=GUIDANCE_PASSES,
    )
    companions = COMPANIONS.get(config.integer("cross_attention_dim"), 0)
    config.assumed.append(
        f"text encoders and image decoder ({companions / 1e6:.0f} million parameters) stay in memory but run once per image: their time is not counted"
        if companions
        else "the UNet alone: its text encoders and image decoder are not known and not counted, neither in time nor in memory"
    )
    spec = assemble(
        config,
        net.tally,
        kind=ModelKind.DIFFUSION,
        hidden_size=first,
        layers=2 * len(p.widths) + 1,
        vocab_size=0,
        max_context=None,
        sample=sample_of(curve, size, STEPS),
        default_dtype="fp16",
        name="UNet2DConditionModel",
    )
    return replace(spec, companion_parameters=companions)


def _time_embedding(config: Fields, net: _UNet, first: int) -> None:
    wide = net.time_width
    net.tally.linear("time.embedding", TensorClass.OTHER, first, wide, bias=True)
    net.tally.linear("time.embedding", TensorClass.OTHER, wide, wide, bias=True)
    net.fixed += 2.0 * (first * wide + wide * wide)
    kind = config.text("addition_embed_type", default="none", choices=("none", "text_time"))
    if kind == "text_time":
        pooled = config.integer("projection_class_embeddings_input_dim")
        net.tally.linear("time.addition", TensorClass.OTHER, pooled, wide, bias=True)
        net.tally.linear("time.addition", TensorClass.OTHER, wide, wide, bias=True)
        net.fixed += 2.0 * (pooled * wide + wide * wide)


def _down(net: _UNet, p: _Plan) -> tuple[list[int], float]:
    """Add the contracting half; return the widths kept for skip connections and the share of pixels at the bottom."""
    skips, share, inputs = [p.widths[0]], 1.0, p.widths[0]
    for i, width in enumerate(p.widths):
        for _ in range(p.layers):
            net.residual(inputs, width, share)
            if p.attends_down[i]:
                net.transformer(width, p.depths[i], share)
            inputs = width
            skips.append(width)
        if i < len(p.widths) - 1:
            share /= 4
            net.convolution(width, width, 3, share)
            skips.append(width)
    return skips, share


def _up(net: _UNet, p: _Plan, skips: list[int], share: float) -> None:
    """Add the expanding half: each residual block reads the last output and one skip."""
    inputs = p.widths[-1]
    for i, width in enumerate(reversed(p.widths)):
        depth = p.depths[len(p.widths) - 1 - i]
        for _ in range(p.layers + 1):
            net.residual(inputs + skips.pop(), width, share)
            if p.attends_up[i]:
                net.transformer(width, depth, share)
            inputs = width
        if i < len(p.widths) - 1:
            share *= 4
            net.convolution(width, width, 3, share)


DIFFUSION_READERS: dict[str, Callable[[Fields], ModelSpec]] = {"UNet2DConditionModel": read_unet}
