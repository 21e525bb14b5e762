"""`--explain` of training: every part of a step can be worked out again from the numbers in its formula."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import replace

import pytest
from training_cases import LLAMA_8B, LLAMA_70B, MIXTRAL, RESNET_50, machine

from planner.cli.explain_table import SECTIONS
from planner.models.spec import ModelSpec
from planner.perf.model import Evaluation, TrainingWork
from planner.perf.training import evaluate_training

OPERATIONS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.Pow: operator.pow,
}  # fmt: skip


def worked_out(formula: str) -> float:
    """The value of the expression before the words: numbers, + - x / ^ ( ) and max alone."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.BinOp):
            return OPERATIONS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            assert node.func.id == "max"
            return max(value(each) for each in node.args)
        assert isinstance(node, ast.Constant)
        return float(node.value)  # type: ignore[arg-type]

    expression = (
        formula.partition(":")[0].replace("max", "MAX").replace("x", "*").replace("MAX", "max").replace("^", "**")
    )
    return value(ast.parse(expression, mode="eval").body)


def terms_of(
    spec: ModelSpec, work: TrainingWork, instances: int = 1, chip: str = "H100 SXM5 80GB"
) -> dict[str, tuple[float, str]]:
    hardware = machine(chip, 8, network_gbps=400)
    ((found,),) = evaluate_training(spec, [hardware], work, [instances])
    assert isinstance(found, Evaluation), found
    return {t.name: (float(t.value), t.formula) for t in found.performance.terms if t.unit.startswith("s")}


@pytest.mark.parametrize(
    ("spec", "work", "instances", "occur"),
    [
        (LLAMA_8B, TrainingWork(), 2, {"data", "optimizer", "host", "launch"}),
        (LLAMA_8B, TrainingWork(sharding="zero2", checkpointing="full", global_batch=64), 4, {"data"}),
        (
            LLAMA_70B,
            TrainingWork(tensor_parallel=8, pipeline_parallel=4, checkpointing="selective"),
            8,
            {"tensor", "bubble"},
        ),
        (LLAMA_70B, TrainingWork(method="qlora", activation_offload=True, micro_batch=1), 1, {"dequantise", "offload"}),
        (MIXTRAL, TrainingWork(expert_parallel=8, pipeline_parallel=1, tensor_parallel=1), 4, {"expert"}),
        (
            LLAMA_8B,
            TrainingWork(allreduce="tree", sharding="ddp", method="lora", attention_backend="math"),
            2,
            {"data"},
        ),
        (RESNET_50, TrainingWork(), 1, {"launch", "data"}),
    ],
)
def test_every_time_can_be_worked_out_again(
    spec: ModelSpec, work: TrainingWork, instances: int, occur: set[str]
) -> None:
    terms = terms_of(spec, work, instances)
    for name, (value, formula) in terms.items():
        assert worked_out(formula) == pytest.approx(value, rel=1e-4, abs=1e-7), (name, formula)
    assert {f"{name}_time" for name in occur} <= {name for name, (value, _) in terms.items() if value > 0}
    # The lines of a micro-batch are what the step's computation is made of.
    micro = sum(
        v for name, (v, _) in terms.items() if name.endswith("_of_micro_batch") and not name.startswith("launches")
    )
    assert worked_out(terms["compute_time"][1].split(" x ")[1]) == pytest.approx(micro, rel=1e-5)
    parts = sum(v for name, (v, _) in terms.items() if name.endswith("_time") and name != "step_time")
    assert terms["step_time"][0] == pytest.approx(parts)


def test_widening_a_four_bit_base_is_a_part_of_its_own() -> None:
    """Forward and backward each read 4.127 bits of a weight and write and read 16: 2 x 4.516 bytes of 69.5e9 parameters in blocks."""
    terms = terms_of(LLAMA_70B, TrainingWork(method="qlora", micro_batch=1, tensor_parallel=1, checkpointing="full"))
    seconds, formula = terms["dequantise_time"]
    assert seconds > 0
    assert "widening the 4-bit base" in formula
    assert terms_of(LLAMA_70B, TrainingWork(method="lora", micro_batch=1))["dequantise_time"][0] == 0


def test_the_wait_for_samples_is_a_part_of_the_step() -> None:
    """4 vCPUs decode 100 images/s each: a step of b images takes b / 400 s, whatever the device could do."""
    hardware = replace(machine("H100 SXM5 80GB", 8), vcpus=4)
    ((found,),) = evaluate_training(RESNET_50, [hardware], TrainingWork(), [1])
    assert isinstance(found, Evaluation), found
    terms = {t.name: t for t in found.performance.terms}
    value = {name: float(t.value) for name, t in terms.items() if isinstance(t.value, float)}
    assert found.performance.rates.samples_per_s == pytest.approx(400)
    assert value["step_time"] == pytest.approx(value["samples_per_step"] / 400)
    others = sum(v for name, v in value.items() if name.endswith("_time") and name not in {"step_time", "input_time"})
    assert value["input_time"] == pytest.approx(value["samples_per_step"] / 400 - others)
    for name in ("input_time", "step_time"):
        assert worked_out(terms[name].formula) == pytest.approx(value[name], rel=1e-5)


def test_the_lines_of_a_micro_batch_stand_together_above_their_sum() -> None:
    """`--explain` groups lines by the beginnings of their names: none of a micro-batch may stray from those that it is added to."""
    strayed = [name for _, starts in SECTIONS for name in terms_of(LLAMA_8B, TrainingWork()) if name.startswith(starts)]
    assert strayed == []
