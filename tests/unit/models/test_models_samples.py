"""Work of one sample against an independent FLOP counter and published figures."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from planner.models.errors import ModelError
from planner.models.sample_work import with_input
from planner.models.spec import SampleWork
from planner.services.find_model import find_model

DATA = Path(__file__).parents[2] / "data" / "models"
with (DATA / "reference_flops.csv").open(encoding="utf-8", newline="") as f:
    FLOPS = list(csv.DictReader(f))


def sample(name: str) -> SampleWork:
    work = find_model(name, None).sample
    assert work is not None
    return work


@pytest.mark.parametrize("row", FLOPS, ids=lambda r: r["model"])
def test_flops_are_those_of_an_independent_counter(row: dict[str, str]) -> None:
    spec = with_input(find_model(row["model"], None), size=int(row["size"]))
    assert spec.sample is not None
    assert spec.sample.flops == pytest.approx(int(row["flops"]), rel=1e-12)


def test_published_multiply_adds() -> None:
    assert sample("resnet50").flops / 2e9 == pytest.approx(4.09, abs=0.005)
    assert sample("vit-b16").flops / 2e9 == pytest.approx(17.56, abs=0.01)
    assert sample("resnet50").activation_elements == pytest.approx(11.1e6, rel=0.01)  # convolution outputs


def test_sdxl_pass_and_image() -> None:
    # 6,761,236,398,080 FLOPs a pass: torch.utils.flop_counter on the diffusers implementation at 128x128 latents, 77 prompt tokens
    work = sample("sdxl")
    assert (work.steps, work.size) == (50, 1024)
    assert work.flops == pytest.approx(50 * 2 * 6761236398080, rel=1e-12)
    assert sample("stable-diffusion-1.5").flops == pytest.approx(50 * 2 * 803273441280, rel=1e-12)


def test_steps_scale_the_work() -> None:
    spec = with_input(find_model("sdxl", None), steps=20)
    assert spec.sample is not None
    assert spec.sample.flops == pytest.approx(sample("sdxl").flops * 20 / 50)
    assert spec.sample.activation_elements == pytest.approx(sample("sdxl").activation_elements * 20 / 50)
    assert "20 denoising steps" in spec.sample.description


def test_whisper_clip() -> None:
    # 2,797,212,385,280: torch.utils.flop_counter with 112 tokens at once and no causal saving: 32·4·1280·112²/2 more than token by token
    assert sample("whisper-large-v3").flops + 32 * 4 * 1280 * 112**2 / 2 == pytest.approx(2797212385280, rel=1e-9)


def test_an_image_of_twice_the_edge_is_four_times_the_convolutions() -> None:
    spec = with_input(find_model("resnet50", None), size=448)
    assert spec.sample is not None
    head = 2 * 2048 * 1000
    assert spec.sample.flops - head == pytest.approx(4 * (8178368512 - head))


def test_attention_grows_with_the_square_of_the_sequence() -> None:
    def flops(size: int) -> float:
        work = with_input(find_model("bert-base", None), size=size).sample
        assert work is not None
        return work.flops

    once = 2 * 768 * 768
    assert flops(128) - once == 2 * 12 * (4 * 768**2 + 2 * 768 * 3072) * 128 + 12 * 4 * 768 * 128**2
    assert flops(512) > 4 * flops(128)


@pytest.mark.parametrize(
    ("size", "steps"), [(0, None), (-1, None), (10**9, None), (None, 0), (True, None), (1.5, None)]
)
def test_absurd_sizes_are_refused(size: object, steps: int | None) -> None:
    with pytest.raises(ModelError, match="should be a whole number"):
        with_input(find_model("sdxl", None), size=size, steps=steps)  # type: ignore[arg-type]


def test_longer_than_the_position_table_is_refused() -> None:
    with pytest.raises(ModelError, match="512"):
        with_input(find_model("bert-base", None), size=513)
    with pytest.raises(ModelError, match="priced by tokens"):
        with_input(find_model("7b", None), size=10)
    with pytest.raises(ModelError, match="multiple of 16"):
        with_input(find_model("vit-b16", None), size=225)
