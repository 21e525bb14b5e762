"""The model of a training row: an architecture, what one item of it costs, and how many units of the metric an item is.

`training_models.csv`, first matching pattern: `like` names a shipped config; else layers, hidden size and so on give a transformer; else
forward GFLOPs and millions of elements written by matrix products give an item (an image, a sentence, a clip). Names that nothing there
matches are asked of the shipped configs, of the table of image models, and last of what the row states: see `stated_model`.
"""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from planner.calibration.model import Facts, Row
from planner.calibration.serving_models import routed_shape
from planner.models.errors import ModelError
from planner.models.params_only import spec_from_params
from planner.models.parse import parse_config
from planner.models.spec import ModelKind, ModelSpec, SampleWork, TensorClass, TensorGroup
from planner.perf.training_machine import work_class

TABLE, IMAGE_TABLE = "training_models.csv", "training_image_models.csv"
ITEMS_PER_DEVICE = {"recommender": 65536, "detection": 8, "segmentation": 4, "encoder": 32, "lm": 1, "moe": 1}
"""Items a device trains at once where the row does not say, by class; images fill the card instead."""
IMAGE_CLASSES = {"conv", "vit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingModel:
    """A model as a training row means it."""

    spec: ModelSpec
    work: str  # class of work
    tokens: int | None  # of a sequence, where the row states none
    units: float  # of the metric in one item
    pixels: int | None  # edge of the image that the spec's work is of; None: the row's size changes nothing
    batch: int | None  # items a device usually trains at once


def training_model(row: Row, facts: Facts) -> TrainingModel | None:
    """Return the model of a row; None where neither its name nor its size says enough.

    Raises
    ------
    ValueError
        Nobody knows the name, and the row does not say what one item is.
    """
    name = re.sub(r"[\s_]+", " ", row.get("model", "").strip().lower())
    for pattern, entry in _patterns():
        if pattern.search(name):
            return _of_entry(entry, facts)
    plain = row.get("model", "").strip()
    image = _image_models().get(plain.lower())
    if image is not None:
        return _of_image(plain, image, _number(row.get("image_size")))
    found = facts.find_model(plain) if plain else None
    if found is not None:
        return TrainingModel(spec=found, work=work_class(found), tokens=None, units=1.0, pixels=None, batch=None)
    return stated_model(row)


IMAGE_UNITS = ("image", "volume")
TOKEN_UNITS = ("token", "flop", "%", "gb", "gib")
"""Words of units whose figures need no length of an item to be near: a rate of tokens, a share of the peak; memory asks for one later."""
CLIP_FRAMES = 800
"""Frames of a clip, where a unit counts frames: about ten seconds of speech at 80 a second, each as a token."""
STATED_PIXELS = 224


def stated_model(row: Row) -> TrainingModel | None:
    """Return a model of which only the row's own figures are known; None where they say no size.

    Images (by unit, or by a size without a sequence length): multiply-adds and written elements of an image by the parameters, as image
    models in general have them (`_law`), times the area. Else a transformer of so many parameters (`spec_from_params`), with a
    sequence as stated, a frame of the unit as one token.

    Raises
    ------
    ValueError
        An item without a length that is neither: sentences, records, users and so on.
    """
    total, active = _number(row.get("params_b")), _number(row.get("active_params_b"))
    if total is None:
        return None
    unit, length = row.get("unit", "").lower(), row.get("seq_len", "").strip()
    image = any(word in unit for word in IMAGE_UNITS) or bool(row.get("image_size", "").strip())
    if image and not length:
        return _stated_image(row.get("model", "").strip(), total * 1e3, row.get("image_size", ""))
    frames = "frame" in unit and not length
    if not (length or frames or any(word in unit for word in TOKEN_UNITS)):
        raise ValueError(f"no sequence length, no image size, and one of {unit or 'nothing'} may be anything")
    try:
        spec = routed_shape(total, active) if active and active < 0.9 * total else spec_from_params(total * 1e9)
    except ModelError:
        return None
    return TrainingModel(
        spec=spec,
        work=work_class(spec),
        tokens=CLIP_FRAMES if frames else None,
        units=float(CLIP_FRAMES) if frames else 1.0,
        pixels=None,
        batch=None,
    )


def _stated_image(name: str, params_m: float, size: str) -> TrainingModel:
    """Return an image model by its millions of parameters, at a size as "224", "800x1333" or "128x128x128"."""
    sides = [float(side) for side in re.findall(r"\d+(?:\.\d+)?", size)] or [float(STATED_PIXELS)]
    area = math.prod(sides) if len(sides) > 1 else sides[0] ** 2
    if not 1 <= area <= LARGEST_AREA:
        raise ValueError(f"image_size is {size!r}")
    scale = area / STATED_PIXELS**2
    gmacs, mactivations, operations = (
        factor * params_m**exponent for factor, exponent in (_law(column) for column in LAWS)
    )
    spec = item_spec(
        name,
        flops=2e9 * gmacs * scale,
        elements=1e6 * mactivations * scale,
        parameters=1e6 * params_m,
        blocks=max(1, round(operations / OPERATIONS_PER_BLOCK)),
        source="parameters and image size as stated",
    )
    return TrainingModel(spec=spec, work="conv", tokens=None, units=1.0, pixels=None, batch=None)


LAWS = ("gmacs", "mactivations", "operations")
LARGEST_AREA = 1e10


@lru_cache(maxsize=8)
def _law(column: str) -> tuple[float, float]:
    """Return (a, b) of column = a·(10⁶ parameters)^b at 224 x 224, by least squares in logs over the table of image models.

    Image models scatter about it by a factor of 1.6 (multiply-adds), 1.6 (elements) and 1.9 (operations).
    """
    rows = [row for models in _image_models().values() for row in models]
    x = [math.log(float(row["params_m"])) for row in rows]
    per_area = column != "operations"
    y = [
        math.log(float(row[column])) - (2 * math.log(float(row["pixels"]) / STATED_PIXELS) if per_area else 0.0)
        for row in rows
    ]
    slope, cut = statistics.linear_regression(x, y)
    return math.exp(cut), slope


@lru_cache(maxsize=1)
def _patterns() -> list[tuple[re.Pattern[str], tuple[tuple[str, str], ...]]]:
    text = (files("planner.calibration") / TABLE).read_text(encoding="utf-8")
    return [(re.compile(row["pattern"]), tuple(row.items())) for row in csv.DictReader(text.splitlines())]


@lru_cache(maxsize=1)
def _image_models() -> dict[str, list[dict[str, str]]]:
    text = (files("planner.calibration") / IMAGE_TABLE).read_text(encoding="utf-8")
    rows: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(text.splitlines()):
        rows.setdefault(row["name"], []).append(row)
    return rows


def _of_entry(entry: tuple[tuple[str, str], ...], facts: Facts) -> TrainingModel | None:
    row = dict(entry)
    if row["like"]:
        spec = facts.find_model(row["like"])
        if spec is None:
            return None
    else:
        spec = _shaped(entry) if row["layers"] else _item(entry)
    return TrainingModel(
        spec=spec,
        work=row["class"],
        tokens=int(row["tokens"]) if row["tokens"] else None,
        units=float(row["units"] or 1),
        pixels=int(row["pixels"]) if row["pixels"] else spec.sample.size if row["like"] and spec.sample else None,
        batch=int(row["batch"]) if row["batch"] else None,
    )


@lru_cache(maxsize=256)
def _shaped(entry: tuple[tuple[str, str], ...]) -> ModelSpec:
    """Return a transformer of a row's widths: a gated decoder as Llama has, a plain one as GPT-2 has, or an encoder as BERT is."""
    row = dict(entry)
    hidden, layers, heads = int(row["hidden"]), int(row["layers"]), int(row["heads"])
    common = {"vocab_size": int(row["vocab"]), "torch_dtype": "bfloat16"}
    if row["class"] in {"encoder", "diffusion"}:
        config = {
            "model_type": "bert",
            "architectures": ["BertModel"],
            "hidden_size": hidden,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "intermediate_size": int(row["inner"]),
            "max_position_embeddings": max(512, int(row["tokens"] or 512)),
            "type_vocab_size": 2,
            **common,
        }
    else:
        config = {
            "model_type": "llama" if row["gated"] else "gpt2",
            "architectures": ["LlamaForCausalLM" if row["gated"] else "GPT2LMHeadModel"],
            **(
                {
                    "hidden_size": hidden,
                    "num_hidden_layers": layers,
                    "num_attention_heads": heads,
                    "num_key_value_heads": int(row["kv_heads"] or heads),
                    "intermediate_size": int(row["inner"]),
                    "max_position_embeddings": 1 << 20,
                }
                if row["gated"]
                else {
                    "n_embd": hidden,
                    "n_layer": layers,
                    "n_head": heads,
                    "n_inner": int(row["inner"]),
                    "n_positions": 2048,
                }
            ),
            **({"head_dim": hidden // heads} if row["gated"] else {}),
            **common,
        }
    spec = parse_config(json.dumps(config), source=TABLE, name=row["pattern"])
    return replace(spec, source=row["source"])


@lru_cache(maxsize=256)
def _item(entry: tuple[tuple[str, str], ...]) -> ModelSpec:
    row = dict(entry)
    return item_spec(
        row["pattern"],
        flops=float(row["gflops"]) * 1e9,
        elements=float(row["mactivations"]) * 1e6,
        parameters=float(row["params_m"]) * 1e6,
        blocks=int(row["steps"] or 1),
        source=row["source"],
    )


def _of_image(name: str, rows: list[dict[str, str]], pixels: float | None) -> TrainingModel:
    """Return an image model at the counted size nearest to the row's."""
    row = min(rows, key=lambda r: abs(float(r["pixels"]) - (pixels or float(r["pixels"]))))
    spec = item_spec(
        name,
        flops=2e9 * float(row["gmacs"]),
        elements=1e6 * float(row["mactivations"]),
        parameters=1e6 * float(row["params_m"]),
        blocks=max(1, round(float(row["operations"]) / OPERATIONS_PER_BLOCK)),
        source="counted from timm",
    )
    size = int(row["pixels"])
    return TrainingModel(spec=spec, work=row["class"], tokens=None, units=1.0, pixels=size, batch=None)


OPERATIONS_PER_BLOCK = 12.0
"""Kernels of a residual block's forward pass: three convolutions, norms and activations, and what joins them."""


def item_spec(
    name: str, *, flops: float, elements: float, parameters: float, blocks: int, source: str = ""
) -> ModelSpec:
    """Return a model of which only the work of one item is known."""
    count = max(1, round(parameters))
    return ModelSpec(
        name=name,
        kind=ModelKind.VISION,
        architecture="counted",
        model_type="counted",
        native_dtype="fp32",
        hidden_size=1,
        layers=blocks,
        vocab_size=0,
        max_context=None,
        tensors=(
            TensorGroup(
                name="all",
                tensor_class=TensorClass.CONVOLUTION,
                parameters=count,
                matmul_parameters=count,
                quantisable=False,
            ),
        ),
        parameters_total=count,
        parameters_active=count,
        sample=SampleWork(description="one item", flops=flops, activation_elements=elements),
        source=source,
    )


def at_pixels(model: TrainingModel, pixels: float | None) -> ModelSpec:
    """Return the spec with its work at another edge of square images: FLOPs and activations grow with the area."""
    spec = model.spec
    if spec.sample is None or model.pixels is None or pixels is None or pixels == model.pixels:
        return spec
    area = (pixels / model.pixels) ** 2
    sample = replace(
        spec.sample,
        flops=spec.sample.flops * area,
        activation_elements=spec.sample.activation_elements * area,
        curve=None,
    )
    return replace(spec, sample=sample)


def usual_batch(model: TrainingModel, memory_gib: float, value_bytes: float) -> float:
    """Return the items a device trains at once where a row is silent: images fill 60 % of the card, in powers of two to 512."""
    if model.batch is not None:
        return float(model.batch)
    sample = model.spec.sample
    if model.work in IMAGE_CLASSES and sample is not None and sample.activation_elements > 0:
        kept = 2.5 * value_bytes * sample.activation_elements
        room = 0.6 * memory_gib * 2**30 / kept
        batch = 1.0
        while batch * 2 <= min(room, 512):
            batch *= 2
        return batch
    return float(ITEMS_PER_DEVICE.get(model.work, 16))


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text and text.strip() else None
    except ValueError:
        return None
    return value if value is not None and 0 < value <= 1e6 else None
