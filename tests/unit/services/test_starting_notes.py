"""What may keep the software from starting is told: an Arm host beside a GPU, a host too small for Neuron's compiler."""

from __future__ import annotations

import pytest

from planner import bootstrap
from planner.recommend.request import RecommendRequest


def notes(model: str, instance: str, **more) -> str:
    request = RecommendRequest(model=model, instance=(instance,), purchase=("on_demand",), **more)
    (row,) = bootstrap.answer_recommendation(request)["recommendations"]
    return "\n".join(row["notes"])


@pytest.mark.parametrize(
    ("instance", "host"),
    [("inf2.xlarge", "16 GiB of host memory"), ("trn1.2xlarge", "32 GiB of host memory")],
)
def test_a_small_host_cannot_compile_a_large_model(instance, host):
    # 8,030,261,248 parameters x 2 bytes = 14.96 GiB, so 44.9 GiB are wanted
    assert f"{host} may be too little to compile and load 15.0 GiB of weights" in notes("8b", instance)


@pytest.mark.parametrize(
    ("model", "instance"),
    [
        ("8b", "inf2.8xlarge"),  # 128 GiB
        ("70b", "trn1.32xlarge"),  # 512 GiB for 131.4 GiB on eight devices: 394 wanted
        ("bert-base", "inf2.xlarge"),
        ("8b", "g6e.xlarge"),  # no compiler: weights are read into the GPU as they come
    ],
)
def test_others_are_not_warned_of(model, instance):
    assert "host memory" not in notes(model, instance)


def test_an_arm_host_is_told():
    assert "its CPUs are Arm" in notes("7b", "g5g.xlarge", precision="int4")
    assert "its CPUs are Arm" not in notes("7b", "g4dn.xlarge", precision="int4")
    assert "its CPUs are Arm" not in notes("7b", "c8g.16xlarge")  # builds for Arm CPUs are the usual ones
