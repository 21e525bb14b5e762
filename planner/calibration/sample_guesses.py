"""Work of a sample of a model that nobody knows, from what a row says besides its name: task, size of the input, unit, parameters.

The networks of the task that are known stand for it: the one in the middle of their FLOPs (or nearest in parameters, where the row states
them, and scaled by these) is taken, and how far the others are from it says how far off the guess may be. Nothing here is fitted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from planner.calibration.model import Facts
from planner.calibration.sample_models import Stated, Work, table, work_of

NOTHING_STATED = Stated(gmacs=None, params_m=None, activations_m=None)
LEAST_SPREAD = 0.5
"""Spread of log FLOPs where a task has but one or two networks: those of one family and size differ by that (ResNet-34, -50, -101)."""
ENCODERS = ("distilbert-base", "bert-base", "roberta-base", "electra-base", "bert-large")
CLASSIFIERS = frozenset(
    {"coatnet", "convnext", "densenet", "dpn", "efficientnet", "hrnet", "inception", "levit", "maxvit", "mixer", "mobilenet", "nfnet", "poolformer", "pvt",
     "regnet", "resnest", "resnet", "resnext", "swin", "vgg", "vit", "xception"}
)  # fmt: skip
USUAL_EDGE, USUAL_TOKENS = 224, 128
"""Pixels along the edge, and tokens, of rows that speak of images or sequences without a size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a network does, the words that say so, and networks that do it."""

    name: str
    words: re.Pattern[str]
    networks: tuple[str, ...]


def _task(name: str, words: str, *networks: str) -> Task:
    return Task(name=name, words=re.compile(words, re.IGNORECASE), networks=networks)


TASKS = (  # the first whose words occur
    _task("click prediction", r"criteo|dlrm|click|\bctr\b", "dlrm", "dlrm-v2"),
    _task("recommendation", r"recommend|movielens|collaborative", "dlrm-pair", "ncf", "sim", "vae-cf"),
    _task("speech to text", r"librispeech|speech.?(to.?text|recog)|transcri|\basr\b|wav2vec|conformer|utterance", "rnnt"),
    _task("speech", r"\d s(ec(onds)?)? (of )?audio|whisper", "whisper-large-v3", "distil-whisper-large-v2"),
    _task("speech synthesis", r"audio_samples_s|speech.?synth|text.?to.?speech|\btts\b|vocoder", "hifigan", "tacotron2-waveglow"),
    _task("translation", r"\bwmt|newstest|beam width|translat|sentences?/s", "gnmt", "transformer-big"),
    _task("language model", r"memory length|\btok_s\b", "transformer-xl-base", "transformer-xl-large"),
    _task("volumes", r"\bkits|brats|volume|=?\b\d+x\d+x\d{2,}", "3d-unet", "3d-unet-brats", "nnunet-3d"),
    _task("image generation", r"\d steps|diffusion|text.?to.?image|guidance", "sdxl", "stable-diffusion-1.5"),
    _task("detection", r"detect|\bcoco|\bssd|yolo|r-?cnn|open.?images", "ssd-resnet34", "retinanet", "ssd-mobilenet", "ssd300-resnet50"),
    _task("segmentation", r"segment|unet", "unet", "unet-industrial", "nnunet-2d", "unet3p"),
    _task("molecules", r"mol(ecule)?s?/|molecul", "moflow", "se3-transformer"),
    _task("large text encoder", r"(bert|encoder).{0,12}large|large.{0,12}(bert|encoder)", "bert-large"),
    _task("text encoder", r"\bseq|squad|glue|mnli|bert\b|encoder|embedding|sent/s|tokens? per (sample|sequence)", *ENCODERS),
    _task("images", r"\d+x\d+|image|\bimg|classif", ""),
)  # fmt: skip


def guess_of(name: str, size: str, context: str, stated: Stated, facts: Facts) -> Work | None:
    """Return the work that a row's words let expect, with its spread; None where none says what a sample is.

    `context`: words beside name and size, such as scenario, metric and the unit that notes quote; they count where those say nothing.
    """
    task = next((t for text in (f"{name} {size}", context) for t in TASKS if t.words.search(text)), None)
    if task is None:
        return None
    works = list(_networks(task, name, _sized(task, size), facts))
    if not works:
        return None
    logs = [math.log(flops_of(w)) for w in works]
    if stated.params_m is not None:
        own = math.log(1e6 * stated.params_m)
        per = [at - math.log(weights_of(w)) for at, w in zip(logs, works, strict=True)]
        chosen = min(range(len(works)), key=lambda i: abs(math.log(weights_of(works[i])) - own))
        spread = _away(per, per[chosen])
        work = _scaled(works[chosen], 1e6 * stated.params_m / weights_of(works[chosen]))
    else:
        middle = sum(logs) / len(logs)
        chosen = min(range(len(works)), key=lambda i: abs(logs[i] - middle))
        spread, work = _away(logs, logs[chosen]), works[chosen]
    return replace(work, name=name, spread=max(LEAST_SPREAD, spread), source=f"{task.name}: as {work.name}")


def flops_of(work: Work) -> float:
    """Return the FLOPs of an item."""
    return sum(p.repeats * (p.flops + p.grouped_flops) for p in work.passes) * work.units_per_item


def weights_of(work: Work) -> float:
    """Return the parameters that all passes read."""
    return sum(p.weights for p in work.passes)


def _away(values: list[float], middle: float) -> float:
    return math.sqrt(sum((v - middle) ** 2 for v in values) / len(values))


def _sized(task: Task, size: str) -> str:
    if re.search(r"\d", size):
        return size
    return (
        f"seq {USUAL_TOKENS}"
        if "encoder" in task.name
        else f"{USUAL_EDGE}x{USUAL_EDGE}"
        if task.name == "images"
        else size
    )


def _networks(task: Task, name: str, size: str, facts: Facts) -> Iterator[Work]:
    """Yield the works of the networks of a task at a size; of images those of the family that the name says, where it does."""
    names: tuple[str, ...] = task.networks
    if task.name == "images":
        families = {e.work.name: e.work.family for entries in table().values() for e in entries}
        plain = name.lower().replace("-", "").replace("_", "")
        said = max((f for f in CLASSIFIERS if f in plain), key=len, default=None)
        names = tuple(n for n, family in families.items() if family in CLASSIFIERS and said in {None, family})
    for each in names:
        work = work_of(each, size, NOTHING_STATED, facts)
        if work is not None:
            yield work


def _scaled(work: Work, factor: float) -> Work:
    """Return the work of a network of so many times the parameters: FLOPs grow with them, results with their root (wider layers)."""
    passes = tuple(
        replace(
            p,
            flops=p.flops * factor,
            grouped_flops=p.grouped_flops * factor,
            matrix_elements=p.matrix_elements * math.sqrt(factor),
            elementwise_elements=p.elementwise_elements * math.sqrt(factor),
            weights=p.weights * factor,
        )
        for p in work.passes
    )
    return replace(work, passes=passes)
