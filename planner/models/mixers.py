"""Mixers that keep a constant state per sequence instead of a cache that grows: Mamba, Mamba-2, gated delta networks.

The state is the convolution's last inputs and the recurrent state (Gu and Dao 2023, arXiv:2312.00752; Dao and Gu 2024, arXiv:2405.21060;
Yang et al. 2024, arXiv:2412.06464).
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.models.spec import StateLayers, TensorClass
from planner.models.tally import Tally

STATE = TensorClass.STATE_SPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba1:
    """First-generation mixer: one state of `state` numbers per channel; `norms` where dt, B and C are normalised (Jamba)."""

    inner: int
    state: int
    kernel: int
    step_rank: int
    conv_bias: bool
    bias: bool
    norms: bool = False

    def add_to(self, tally: Tally, hidden: int, layers: int) -> StateLayers:
        """Count `layers` mixers; return what they hold per sequence."""
        tally.linear("mamba.in", STATE, hidden, 2 * self.inner, bias=self.bias, times=layers)
        tally.linear("mamba.x", STATE, self.inner, self.step_rank + 2 * self.state, times=layers)
        tally.linear("mamba.dt", STATE, self.step_rank, self.inner, bias=True, times=layers)
        tally.linear("mamba.out", STATE, self.inner, hidden, bias=self.bias, times=layers)
        tally.add("mamba.convolution", STATE, self.inner * (self.kernel + (1 if self.conv_bias else 0)), times=layers)
        tally.add("mamba.recurrence", STATE, self.inner * (self.state + 1), times=layers)
        if self.norms:
            tally.norm("mamba.norm", self.step_rank + 2 * self.state, times=layers)
        return StateLayers(count=layers, state_elements_per_sequence=self.inner * (self.state + self.kernel))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """Second-generation mixer: heads share B and C by groups; a gated norm before the output."""

    inner: int
    heads: int
    state: int
    groups: int
    kernel: int
    conv_bias: bool
    bias: bool

    def add_to(self, tally: Tally, hidden: int, layers: int) -> StateLayers:
        """Count `layers` mixers; return what they hold per sequence."""
        convolved = self.inner + 2 * self.groups * self.state
        tally.linear("mamba.in", STATE, hidden, self.inner + convolved + self.heads, bias=self.bias, times=layers)
        tally.linear("mamba.out", STATE, self.inner, hidden, bias=self.bias, times=layers)
        tally.add("mamba.convolution", STATE, convolved * (self.kernel + (1 if self.conv_bias else 0)), times=layers)
        tally.add("mamba.recurrence", STATE, 3 * self.heads, times=layers)
        tally.norm("mamba.norm", self.inner, times=layers)
        return StateLayers(count=layers, state_elements_per_sequence=self.inner * self.state + convolved * self.kernel)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDelta:
    """Gated delta network of Qwen3-Next and Qwen3.5: a matrix state of key x value numbers per value head."""

    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    kernel: int

    def add_to(self, tally: Tally, hidden: int, layers: int) -> StateLayers:
        """Count `layers` mixers; return what they hold per sequence."""
        keys, values = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        convolved = 2 * keys + values
        tally.linear("mamba.in", STATE, hidden, convolved + values + 2 * self.value_heads, times=layers)
        tally.linear("mamba.out", STATE, values, hidden, times=layers)
        tally.add("mamba.convolution", STATE, convolved * self.kernel, times=layers)
        tally.add("mamba.recurrence", STATE, 2 * self.value_heads, times=layers)
        tally.norm("mamba.norm", self.value_dim, times=layers)
        state = self.value_heads * self.key_dim * self.value_dim + convolved * self.kernel
        return StateLayers(count=layers, state_elements_per_sequence=state)


Mixer = Mamba1 | Mamba2 | GatedDelta
