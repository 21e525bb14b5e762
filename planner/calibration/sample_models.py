"""Work of one sample of published benchmarks' models: FLOPs, activations, operators. From `sample_models.csv`, the shipped configs, or a row's own figures.

`sample_models.csv` counts operators of the networks in the measured tables (column `source` says how). A name that is not there is
looked up among the shipped configs; one that is nowhere is priced by the multiply-adds that the row states, with activations as its
family has them.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from planner.calibration.model import Facts
from planner.models.errors import ModelError
from planner.models.sample_work import with_input
from planner.models.spec import AttentionKind, ModelKind, ModelSpec
from planner.perf.samples_loads import Pass, family_of, family_of_name, passes_of

TABLE = "sample_models.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one item of a batch asks: its passes, and how many units of the metric it is (audio samples of a clip, tokens of a sequence)."""

    name: str
    family: str
    passes: tuple[Pass, ...]
    units_per_item: float = 1.0
    source: str = ""
    spread: float = 0.0  # standard deviation of the log of the work where it is a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the table: a model at one input size."""

    name: str
    size: int  # what `unit` counts; 0 where there is but one
    unit: str
    work: Work


PER_GMAC = {  # activations and element-wise results in 1e6, products and operators, of a network with the given 1e9 multiply-adds
    "vit": (1.15, 1.05, 62.0, 137.0),
    "efficientnet": (11.0, 28.0, 160.0, 480.0),
    "mobilenet": (16.0, 40.0, 60.0, 170.0),
    "regnet": (1.9, 4.5, 100.0, 320.0),
    "resnet": (2.7, 6.5, 60.0, 190.0),
    "other": (3.0, 6.5, 100.0, 320.0),
}
"""Medians of the table's own families; for models of which only the multiply-adds are known."""


def work_of(name: str, size: str, stated: Stated, facts: Facts) -> Work | None:
    """Return the work of a model's sample at an input size as a row states them; None where nothing says how much it is."""
    found = _from_table(name, size)
    if found is not None:
        return found
    spec = facts.find_model(name)
    if spec is not None:
        work = _from_spec(spec, size, name)
        if work is not None:
            return work
    if stated.gmacs is not None:
        return _from_gmacs(name, stated)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a row itself says of its model."""

    gmacs: float | None
    params_m: float | None
    activations_m: float | None


def _from_table(name: str, size: str) -> Work | None:
    entries = table().get(_key(name), ())
    if not entries:
        return None
    wanted = size_of(entries[0].unit, size)
    if wanted is None:
        return entries[0].work
    best = min(entries, key=lambda e: abs(e.size - wanted) if e.size else 0)
    return (
        best.work
        if best.size in {0, wanted} or best.unit not in {"image", "volume", "clip"}
        else _resized(best, wanted)
    )


def _resized(entry: Entry, edge: int) -> Work:
    """Return the work at another edge: convolutions grow with the area."""
    factor = (edge / entry.size) ** 2
    passes = tuple(
        replace(
            p,
            flops=p.flops * factor,
            grouped_flops=p.grouped_flops * factor,
            matrix_elements=p.matrix_elements * factor,
            elementwise_elements=p.elementwise_elements * factor,
        )
        for p in entry.work.passes
    )
    return replace(entry.work, passes=passes)


def _from_spec(spec: ModelSpec, size: str, name: str) -> Work | None:
    tokens = tokens_of(size) or edge_of(size)
    if spec.generates_tokens:
        if lengths := re.search(r"\bin (\d+) out (\d+)", size):
            return _generation(spec, int(lengths[1]), int(lengths[2]), name)
        return _one_pass(spec, tokens or 128, name)
    if spec.sample is None:
        return None
    try:
        steps = _steps_of(size)
        sized = with_input(spec, size=None if spec.kind is ModelKind.SPEECH else tokens, steps=steps)
    except ModelError:
        sized = spec
    return Work(name=spec.name, family=family_of(spec), passes=passes_of(sized), source=spec.source)


def _one_pass(spec: ModelSpec, tokens: int, name: str) -> Work:
    """Return one forward pass of a decoder over a prompt, as encoders are measured ("raw output")."""
    numbers = sum(g.matmul_parameters for g in spec.tensors)
    heads = sum(a.count * a.heads * (a.head_dim + a.value_head_dim) for a in spec.attention)
    width = float(spec.hidden_size)
    return Work(
        name=name,
        family="decoder",
        passes=(
            Pass(
                repeats=1,
                flops=2.0 * numbers * tokens + 2.0 * heads * tokens**2,
                matrix_elements=9.0 * spec.layers * width * tokens + float(spec.vocab_size) * tokens,
                elementwise_elements=8.0 * spec.layers * width * tokens,
                weights=float(spec.parameters_total),
                products=7.0 * spec.layers,
                operators=20.0 * spec.layers,
            ),
        ),
    )


def _generation(spec: ModelSpec, prompt: int, answer: int, name: str) -> Work:
    """Return the work of a request of an encoder-decoder: the encoder once, then a step of the decoder for each token; units are all tokens.

    Decoder step of a layer: 4 + 2 matrices and 4 products of attention (its own, and over the encoder's), 3 of a gated MLP.
    """
    tokens = float(prompt + answer)
    encoder = sum(g.matmul_parameters for g in spec.tensors if g.tower == "encoder")
    decoder = sum(g.matmul_parameters for g in spec.tensors) - encoder
    width, layers = float(spec.hidden_size), max(1, spec.layers)
    cached = sum(
        a.count * a.cache_elements_per_token * (prompt if a.kind is AttentionKind.CROSS else answer / 2)
        for a in spec.attention
        if a.kind is not AttentionKind.BIDIRECTIONAL
    )
    return Work(
        name=name,
        family="decoder",
        units_per_item=tokens,
        passes=(
            Pass(
                repeats=1,
                flops=2.0 * encoder * prompt / tokens,
                matrix_elements=9.0 * layers * width * prompt / tokens,
                elementwise_elements=8.0 * layers * width * prompt / tokens,
                weights=float(encoder),
                products=9.0 * layers,
                operators=20.0 * layers,
            ),
            Pass(
                repeats=answer,
                flops=2.0 * decoder / tokens,
                matrix_elements=12.0 * layers * width / tokens,
                elementwise_elements=10.0 * layers * width / tokens,
                cache_elements=cached / tokens,
                weights=float(decoder),
                products=13.0 * layers + 1,
                operators=32.0 * layers,
            ),
        ),
    )


def _from_gmacs(name: str, stated: Stated) -> Work:
    family = family_of_name(name)
    per_gmac, elementwise, products, operators = PER_GMAC.get(family, PER_GMAC["other"])
    gmacs = stated.gmacs or 0.0
    activations = stated.activations_m if stated.activations_m is not None else per_gmac * gmacs
    return Work(
        name=name,
        family=family,
        passes=(
            Pass(
                repeats=1,
                flops=2e9 * gmacs,
                matrix_elements=1e6 * activations,
                elementwise_elements=1e6 * activations * elementwise / per_gmac,
                weights=1e6 * (stated.params_m or 0.0),
                products=products,
                operators=operators,
            ),
        ),
    )


def tokens_of(size: str) -> int | None:
    """Return the tokens of a sequence in the text of a size: "seq 128", "Sequence Length=384", "sequence-length=128", "seq<=384"."""
    found = re.search(r"seq(?:uence)?[-_ ]*(?:length)?\s*(?:<=|=|\s)\s*(\d+)", size, re.IGNORECASE)
    return int(found[1]) if found else None


def edge_of(size: str) -> int | None:
    """Return the larger edge of an image in the text of a size, pixels: "224x224", "Resolution=512x512x1"."""
    found = re.search(r"(\d+)x(\d+)", size)
    return max(int(found[1]), int(found[2])) if found else None


SIZES = {  # unit of an entry -> the words with its size
    "token": re.compile(r"memory length\s*=\s*([\d,]+)", re.IGNORECASE),
    "sentence": re.compile(r"beam width\s*=\s*(\d+)", re.IGNORECASE),
    "audio sample": re.compile(r"channels\s*=\s*(\d+)", re.IGNORECASE),
}


def size_of(unit: str, size: str) -> int | None:
    """Return what tells the entries of a network apart: an image's edge, a memory's tokens, beams, channels of a vocoder."""
    words = SIZES.get(unit)
    if words is None:
        return edge_of(size)
    found = words.search(size)
    return int(found[1].replace(",", "")) if found else None


def _steps_of(size: str) -> int | None:
    found = re.search(r"(\d+)\s+steps", size)
    return int(found[1]) if found else None


def _key(name: str) -> str:
    return re.sub(r"\s+", "~", name.strip().lower().removeprefix("timm/").rstrip(" *"))


@lru_cache(maxsize=1)
def table() -> dict[str, tuple[Entry, ...]]:
    """Return the entries by name and alias."""
    text = files("planner.calibration").joinpath(TABLE).read_text(encoding="utf-8")
    out: dict[str, tuple[Entry, ...]] = {}
    for row in csv.DictReader(text.splitlines()):
        steps = float(row["steps"])
        work = Work(
            name=row["name"],
            family=row["family"],
            passes=(
                Pass(
                    repeats=steps,
                    flops=2e9 * float(row["gmacs"]) / steps,
                    grouped_flops=2e9 * float(row["grouped_gmacs"]) / steps,
                    matrix_elements=1e6 * float(row["activations_m"]) / steps,
                    elementwise_elements=1e6 * float(row["elementwise_m"]) / steps,
                    weights=1e6 * float(row["parameters_m"]),
                    products=float(row["matrix_operators"]),
                    operators=float(row["operators"]),
                ),
            ),
            units_per_item=float(row["units_per_item"]),
            source=row["source"],
        )
        entry = Entry(name=row["name"], size=int(row["size"]), unit=row["unit"], work=work)
        for name in (row["name"], *row["aliases"].split()):
            out[name] = (*out.get(name, ()), entry)
    return out
