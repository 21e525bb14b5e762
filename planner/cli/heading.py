"""What stands above an answer: which model does what, under which assumptions, and what may be bought."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from planner.cli.figures import TIMES, count_of, dollars, figure, hours, milliseconds, whole, words
from planner.cli.output import printable
from planner.cli.paint import QUIET, STRONG

Document = Mapping[str, Any]


def heading(document: Document) -> list[RenderableType]:
    """Return the title, which names the model that an alias became, and the assumptions that every figure rests on."""
    model = document["model"]
    title = Text.assemble((printable(model["name"]), STRONG))
    title.append(f" {work_of(document)}")
    facts = [f"“{model['alias']}” is {model['name']}"] if model.get("alias") else []
    facts.append(f"{count_of(model['parameters_total'])} parameters")
    if model.get("parameters_active") not in (None, model["parameters_total"]):
        facts.append(f"{count_of(model['parameters_active'])} of them active per token")
    lines: list[RenderableType] = [title]
    lines.append(Text("; ".join([*facts, *work_assumptions(document)]), style=QUIET))
    lines.append(Text(market_line(document["request"]), style=QUIET))
    limits = limits_of(document["request"])
    lines += [Text("; ".join(limits), style=QUIET)] if limits else []
    lines += [Text(f"assumed: {printable(assumption)}", style=QUIET) for assumption in model.get("assumptions") or ()]
    changed = [f"{k} = {', '.join(map(str, listed(v)))}" for k, v in (document.get("stage_presets") or {}).items()]
    lines += [Text(f"stage {document['request']['stage']} set {', '.join(changed)}", style=QUIET)] if changed else []
    return lines


def limits_of(request: Mapping[str, Any]) -> list[str]:
    """Return the limits and filters that were asked for, as clauses."""
    at_percentile = f" at p{request.get('percentile', 99)}"
    said = [
        f"{name} at most {milliseconds(request[field])}{at_percentile}"
        for field, name in LATENCY_LIMITS
        if request.get(field)
    ]
    said += [f"done within {hours(request['deadline_hours'])}"] if request.get("deadline_hours") else []
    said += (
        [
            f"at most {dollars(request['budget_usd'])} USD {'in total' if request.get('mode') == 'training' else 'a month'}"
        ]
        if request.get("budget_usd")
        else []
    )
    for field, name in FILTERS:
        said += [f"{name} {', '.join(map(printable, listed(request[field])))}"] if request.get(field) else []
    return said


LATENCY_LIMITS = (("max_ttft_ms", "TTFT"), ("max_tpot_ms", "TPOT"), ("max_e2e_ms", "whole request"))
FILTERS = (
    ("precision", "precision"),
    ("allow_precision", "allowed as well:"),
    ("kv_precision", "KV cache in"),
    ("instance", "only"),
    ("accelerator", "only"),
    ("exclude", "without"),
    ("needs", "with"),
    ("usd_rate", "units per USD"),
    ("assume", "assumed"),
)


def is_training(document: Document) -> bool:
    """Return whether the answer is about training."""
    return bool(document["request"].get("mode") == "training")


def works_in_samples(document: Document) -> bool:
    """Return whether one inference is one sample rather than a request of tokens."""
    return document["model"]["kind"] not in TOKEN_KINDS


TOKEN_KINDS = {"decoder", "encoder_decoder"}
"""Kinds of models that are asked in input and output tokens."""


def work_of(document: Document) -> str:
    """Return what the model is to do, in a few words."""
    request = document["request"]
    if not is_training(document):
        return "inference"
    method = METHOD_WORDS[request["method"]]
    if request["dataset_tokens"] is None and request["dataset_size"] is None:
        return method
    amount = (
        f"{count_of(request['dataset_tokens'])} tokens"
        if request["dataset_tokens"]
        else f"{count_of(request['dataset_size'])} samples"
    )
    return f"{method}, {amount} {TIMES} {whole(request['epochs'])} {'epoch' if request['epochs'] == 1 else 'epochs'}"


METHOD_WORDS = {"full": "full training", "lora": "LoRA training", "qlora": "QLoRA training"}


def work_assumptions(document: Document) -> list[str]:
    """Return the assumptions on one unit of work, as clauses."""
    request = document["request"]
    if is_training(document):
        return [] if works_in_samples(document) else [f"sequences of {whole(request['sequence_length'])} tokens"]
    unit = f"one inference = {document['model']['one_inference']}"
    if not works_in_samples(document):
        unit = (
            f"one inference = {whole(request['input_tokens'])} input + {whole(request['output_tokens'])} output tokens"
        )
    share = request.get("utilisation", 1.0)
    load = "at full load" if share == 1 else f"at {figure(share * 100)} % utilisation"
    if request.get("sort") == "latency":
        load = f"few at once, for the lowest latency; {load}"
    sized = "instances" not in request  # an estimate is of the instances that were named
    load += (
        " of whole machines (--requests-per-s N sizes for your load)"
        if sized
        else " (--requests-per-s N: latencies at your load)"
    )
    if request.get("requests_per_s"):
        load = f"{'sized for' if sized else 'under'} {figure(request['requests_per_s'])} requests/s that come at random"
    if request.get("traffic"):
        series = request["traffic"]
        load = f"sized for the peak of {figure(max(series))} requests/s, paid by the mean of {figure(sum(series) / len(series))}"
    return [unit, load]


def market_line(request: Mapping[str, Any]) -> str:
    """Return where and how may be bought, and what ranks first."""
    regions, options = (listed(request.get(name)) for name in ("region", "purchase"))
    parts = ["every region" if "all" in regions else ", ".join(regions), ", ".join(words(option) for option in options)]
    parts += [SORTED_BY[request["sort"]]] if request.get("sort") else []
    return "; ".join(part for part in parts if part)


SORTED_BY = {
    "cost": "cheapest per unit of work first",
    "time": "fastest first",
    "latency": "lowest latency first",
    "energy": "least energy first",
}


def listed(value: Any) -> list[str]:
    """Return one name or several as a list."""
    return [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
