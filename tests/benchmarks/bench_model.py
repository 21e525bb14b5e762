"""How fast the models of serving, samples and training are, in process: `python tests/benchmarks/bench_model.py [RUNS]`.

Prints, against the bars of the documentation, the median time of one evaluation on one machine (no prices), and layout evaluations per
second when a whole catalog is evaluated, hardware x formats x splits x concurrencies. Seconds are those of one core, so that other
processes do not count.
"""

# ruff: noqa: T201 - a command that prints its result

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.resources import files

import numpy as np

from planner.models.parse import parse_config
from planner.models.spec import ModelSpec
from planner.perf.hardware import UnknownChipFigure, hardware_of
from planner.perf.inference import MOST_ROWS, candidates_that_fit, evaluate_inference, surface_of
from planner.perf.model import Hardware, Infeasible, InferenceWork, TrainingWork
from planner.perf.parameters import shipped
from planner.perf.samples import evaluate_samples, prepare
from planner.perf.samples_loads import loads_of
from planner.perf.samples_time import batch_seconds
from planner.perf.training import evaluate_training
from pricing.static import load_tables

RUNS = 15
EVALUATE_MS = 2.0
LAYOUTS_PER_S = 1e6


def model(name: str) -> ModelSpec:
    """Return a shipped model."""
    text = (files("planner.models") / "configs" / f"{name}.json").read_text(encoding="utf-8")
    return parse_config(text, source=name, name=name)


def catalog() -> list[Hardware]:
    """Return the hardware of every shipped instance type."""
    tables = load_tables()
    chips = {chip.name: chip for chip in tables.accelerators}
    out = []
    for each in tables.instance_types:
        if each.accelerator in chips:
            try:
                out.append(hardware_of(each, chips[each.accelerator]))
            except UnknownChipFigure:
                continue
    return out


def median_s(what: Callable[[], object], runs: int) -> tuple[float, float, float]:
    """Return the median, least and most seconds of one core of several runs, after two that warm up."""
    what()
    what()
    seconds = []
    for _ in range(runs):
        began = time.process_time()
        what()
        seconds.append(time.process_time() - began)
    return statistics.median(seconds), min(seconds), max(seconds)


def main() -> None:
    """Print the table."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    machines = catalog()
    late = False
    print(f"{'one evaluation':<48} {'median ms':>10} {'least':>7} {'most':>7} {'bar':>9}   ({runs} runs)")
    for name, devices in (
        *(("qwen2.5-7b", None), ("llama-3.1-70b", 8), ("llama-3.1-70b", None), ("llama-3.1-405b", None)),
        *(("mixtral-8x7b", None), ("qwen3-235b-a22b", None), ("gpt-oss-120b", None), ("deepseek-v3", None)),
    ):
        spec = model(name)
        h = next(m for m in machines if m.accelerator == "H200 SXM 141GB" and m.devices == 8)
        work = InferenceWork(tensor_parallel=devices)
        median, least, most = median_s(lambda spec=spec, h=h, work=work: evaluate_inference(spec, [h], work), runs)
        within = median * 1e3 <= EVALUATE_MS
        late |= not within
        print(
            f"{name + ', 8 x H200, ' + (f'TP {devices}' if devices else 'all layouts'):<48} {median * 1e3:>10.3f} {least * 1e3:>7.3f} {most * 1e3:>7.3f} {EVALUATE_MS:>9g}   "
            f"{'within' if within else 'OVER'}"
        )
    resnet, alone = model("resnet-50"), [next(m for m in machines if m.accelerator == "L4")]
    median, least, most = median_s(lambda: evaluate_samples(resnet, alone, InferenceWork()), runs)
    within = median * 1e3 <= EVALUATE_MS
    late |= not within
    print(
        f"{'resnet-50, L4, all batches':<48} {median * 1e3:>10.3f} {least * 1e3:>7.3f} {most * 1e3:>7.3f} {EVALUATE_MS:>9g}   "
        f"{'within' if within else 'OVER'}"
    )
    eight = [next(m for m in machines if m.accelerator == "H200 SXM 141GB" and m.devices == 8)]
    for name, job in (
        ("llama-3.1-8b", TrainingWork()),
        ("llama-3.1-70b", TrainingWork(method="qlora")),
        ("resnet-50", TrainingWork()),
    ):
        spec = model(name)
        median, least, most = median_s(partial(evaluate_training, spec, eight, job, [1]), runs)
        within = median * 1e3 <= EVALUATE_MS
        late |= not within
        print(
            f"{f'{name}, 8 x H200, {job.method} training':<48} {median * 1e3:>10.3f} {least * 1e3:>7.3f} {most * 1e3:>7.3f} {EVALUATE_MS:>9g}   "
            f"{'within' if within else 'OVER'}"
        )
    print(f"\n{'whole catalog':<48} {'median ms':>10} {'layouts':>9} {'per s':>11} {'bar':>9}")
    for name in ("qwen2.5-7b", "llama-3.1-70b", "qwen3-235b-a22b"):
        spec = model(name)
        work = InferenceWork(allowed_precisions=("fp8", "int4"))
        members, plans, rooms, refused = candidates_that_fit(spec, dict(enumerate(machines)), work)

        def passes() -> int:
            """Return how many layouts were evaluated over all passes."""
            done = 0
            for i in range(0, len(members), MOST_ROWS):  # noqa: B023 - run before the next turn
                j = i + MOST_ROWS
                done += int(surface_of(members[i:j], plans[i:j], rooms[i:j], work).rate.size)  # noqa: B023 - as above
            return done

        cells = passes()
        for words, what in (
            ("array passes", passes),
            ("all of it, best of each machine", lambda: evaluate_inference(spec, machines, work)),  # noqa: B023
        ):
            median, _, _ = median_s(what, runs)
            per_s = cells / median
            bar = LAYOUTS_PER_S if words == "array passes" else None
            within = bar is None or per_s >= bar
            late |= not within
            told = "" if bar is None else f"{bar:>9.2g}   {'within' if within else 'UNDER'}"
            print(
                f"{f'{name}, {len(machines)} machines: {words}':<48} {median * 1e3:>10.2f} {cells:>9,} {per_s:>11,.0f} {told}"
            )
        assert all(isinstance(why, Infeasible) for _, why in refused)  # what does not fit says why
    late |= not samples_pass(resnet, machines, runs)
    sys.exit(1 if late else 0)


def samples_pass(spec: ModelSpec, machines: list[Hardware], runs: int) -> bool:
    """Print the rate of times of batches of 1 to 256 samples on every machine in one pass; return whether it keeps the bar."""
    found = [prepare(spec, machine, InferenceWork(), i) for i, machine in enumerate(machines)]
    items = [each for each in found if not isinstance(each, Infeasible)]
    loads, values = loads_of(spec, items), shipped("samples").values({}, len(items))
    batches = np.arange(1, 257, dtype=np.float64)[None, :]
    median, _, _ = median_s(lambda: batch_seconds(loads, values, batches), runs)
    cells = len(items) * batches.size
    within = cells / median >= LAYOUTS_PER_S
    print(
        f"{f'{spec.name}, {len(items)} machines: batches of 1 to 256':<48} {median * 1e3:>10.2f} {cells:>9,} {cells / median:>11,.0f} "
        f"{LAYOUTS_PER_S:>9.2g}   {'within' if within else 'UNDER'}"
    )
    return within


if __name__ == "__main__":
    main()
