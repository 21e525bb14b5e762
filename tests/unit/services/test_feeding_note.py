"""A rate of pictures that the CPUs of the machine could not decode says so; other rates do not."""

from __future__ import annotations

import pytest

from planner import bootstrap
from planner.recommend.request import RecommendRequest


def told(model: str, instance: str, **more) -> list[str]:
    request = RecommendRequest(model=model, instance=(instance,), purchase=("on_demand",), **more)
    (row,) = bootstrap.answer_recommendation(request)["recommendations"]
    return [n for n in row["notes"] if "inputs ready" in n]


def test_many_accelerators_outrun_their_cpus():
    (note,) = told("resnet50", "p6-b200.48xlarge")
    # 192 vCPUs x 100/s = 19,200/s; 113.9328 USD/h / (19,200/s x 3,600 s/h) = 1.648 USD per million
    assert "192 vCPUs decode about 19,200 images/s" in note
    assert note.endswith("which makes 1.65 USD per million")


@pytest.mark.parametrize(
    ("model", "instance", "more"),
    [
        ("resnet50", "m7a.2xlarge", {}),  # computes 58 images/s on 8 vCPUs
        ("resnet50", "p6-b200.48xlarge", {"requests_per_s": 19_000}),  # what is served, not what could be
        ("bert-base", "p6-b200.48xlarge", {}),
        ("8b", "p6-b200.48xlarge", {}),
    ],
)
def test_nothing_is_said_where_decoding_does_not_bind(model, instance, more):
    assert told(model, instance, **more) == []
