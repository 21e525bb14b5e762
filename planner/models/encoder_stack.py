"""A stack of equal bidirectional transformer layers (text, vision, speech): its tensors, and its work as a polynomial of the positions."""

from __future__ import annotations

from dataclasses import dataclass

from planner.models.decoder import add_feed_forward
from planner.models.fields import Fields
from planner.models.spec import AttentionKind, AttentionLayers, FeedForwardLayers, TensorClass
from planner.models.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderStack:
    """`layers` equal bidirectional layers."""

    layers: int
    hidden: int
    heads: int
    intermediate: int
    head_dim: int
    gated: bool = False
    qkv_bias: bool = True
    k_bias: bool = True  # Whisper's keys have none
    o_bias: bool = True
    mlp_bias: bool = True
    norms_per_layer: int = 2
    norm_bias: bool = True
    tower: str = "text"

    def add_to(self, tally: Tally) -> None:
        """Count the stack's tensors."""
        n, h, width = self.layers, self.hidden, self.heads * self.head_dim
        tally.linear("attention.q", TensorClass.ATTENTION, h, width, bias=self.qkv_bias, times=n, tower=self.tower)
        tally.linear(
            "attention.k",
            TensorClass.ATTENTION,
            h,
            width,
            bias=self.qkv_bias and self.k_bias,
            times=n,
            tower=self.tower,
        )
        tally.linear("attention.v", TensorClass.ATTENTION, h, width, bias=self.qkv_bias, times=n, tower=self.tower)
        tally.linear("attention.o", TensorClass.ATTENTION, width, h, bias=self.o_bias, times=n, tower=self.tower)
        add_feed_forward(
            tally,
            hidden=h,
            intermediate=self.intermediate,
            gated=self.gated,
            bias=self.mlp_bias,
            layers=n,
            tower=self.tower,
        )
        tally.norm("norms", h, times=n * self.norms_per_layer, bias=self.norm_bias, tower=self.tower)

    def attention(self) -> AttentionLayers:
        """Return the stack's attention layers."""
        return AttentionLayers(
            count=self.layers,
            kind=AttentionKind.BIDIRECTIONAL,
            heads=self.heads,
            kv_heads=self.heads,
            head_dim=self.head_dim,
            value_head_dim=self.head_dim,
            tower=self.tower,
        )

    def feed_forward(self) -> FeedForwardLayers:
        """Return the stack's feed-forward layers."""
        return FeedForwardLayers(
            count=self.layers, intermediate_size=self.intermediate, gated=self.gated, tower=self.tower
        )

    def matmul_parameters(self) -> int:
        """Return the numbers that multiply each position."""
        return self.layers * (
            4 * self.hidden * self.heads * self.head_dim + (3 if self.gated else 2) * self.hidden * self.intermediate
        )

    def flops(self) -> tuple[float, float, float]:
        """Return (0, linear, quadratic) FLOPs in the number of positions."""
        return (0.0, 2.0 * self.matmul_parameters(), 4.0 * self.layers * self.heads * self.head_dim)

    def activations(self) -> tuple[float, float, float]:
        """Return (0, linear, 0) activation elements: q, k, v, context, output, up (and gate), down, two norms."""
        width = self.heads * self.head_dim
        per_layer = (
            4 * width
            + 2 * self.hidden
            + self.norms_per_layer * self.hidden
            + (2 if self.gated else 1) * self.intermediate
        )
        return (0.0, float(self.layers * per_layer), 0.0)


def label_count(config: Fields) -> int:
    """Return the classes of a classifier: num_labels, else the entries of id2label, else 2."""
    if config.has("num_labels"):
        return config.integer("num_labels", minimum=0)
    labels = config.data.get("id2label")
    return len(labels) if isinstance(labels, dict) and labels else 2
