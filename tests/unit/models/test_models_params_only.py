"""A model known by its parameter count alone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.models.counting import weight_bytes
from planner.models.errors import ConfigError
from planner.models.params_only import spec_from_params


@settings(max_examples=300, deadline=None)
@given(st.floats(min_value=6.0, max_value=14.0).map(lambda e: 10.0**e))
def test_the_total_is_within_a_thousandth(params: float) -> None:
    spec = spec_from_params(params)
    assert spec.parameters_total == pytest.approx(params, rel=0.001)
    assert spec.parameters_active == spec.parameters_total


@pytest.mark.parametrize(
    "params", [1e6, 5e7, 1.25e8, 3.5e8, 1e9, 1.5e9, 3e9, 6.7e9, 7e9, 8e9, 13e9, 34e9, 70e9, 405e9, 1e12, 1e14]
)
def test_common_sizes(params: float) -> None:
    spec = spec_from_params(params)
    assert spec.parameters_total == pytest.approx(params, rel=0.001)
    assert weight_bytes(spec, "fp32") == pytest.approx(params * 4, rel=0.001)


@pytest.mark.parametrize("params", [3e9, 6.7e9, 13e9, 70e9, 405e9])
def test_heads_can_be_shared_by_eight_accelerators(params: float) -> None:
    (layer,) = spec_from_params(params).attention
    assert layer.heads % 8 == 0
    assert layer.kv_heads == 8


def test_the_shape_is_near_published_ones() -> None:
    # Llama-2-7B: 32 layers of 4096; Llama-3.1-70B: 80 of 8192; Llama-3.1-405B: 126 of 16384
    for params, layers, hidden in ((6.7e9, 32, 4096), (70e9, 80, 8192), (405e9, 126, 16384)):
        spec = spec_from_params(params)
        assert layers * 0.7 <= spec.layers <= layers * 1.3
        assert hidden * 0.8 <= spec.hidden_size <= hidden * 1.3


def test_what_was_assumed_is_said() -> None:
    spec = spec_from_params(6.7e9)
    assert "only the parameter count" in spec.assumptions[0]
    assert str(spec.parameters_total) in spec.assumptions[0]
    assert "config.json" in spec.assumptions[1]


@pytest.mark.parametrize("params", [0, -1, 1e5, 1e15, math.nan, math.inf, True])
def test_absurd_counts_are_refused(params: float) -> None:
    with pytest.raises(ConfigError, match="params"):
        spec_from_params(params)
