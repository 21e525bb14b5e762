"""Fitted parameters of models priced per sample, as the arrays of `samples_batch` want them: names, links, levels, keys of a request."""

from __future__ import annotations

from planner.perf.parameters import Link, Slot

SLOTS = (
    Slot(
        name="compute",
        unit="fraction of the dense peak",
        link=Link.FRACTION,
        start=0.5,
        levels={"architecture": 0.3, "chip": 0.2, "precision": 0.3, "engine": 0.3, "family": 0.3},
    ),
    Slot(
        name="grouped",
        unit="fraction of the dense peak, grouped convolutions",
        link=Link.FRACTION,
        start=0.05,
        levels={"grouped_architecture": 0.4, "grouped_engine": 0.4},
    ),
    Slot(
        name="bandwidth",
        unit="fraction of the peak bandwidth",
        link=Link.FRACTION,
        start=0.7,
        levels={"architecture": 0.3, "chip": 0.2, "engine": 0.3},
    ),
    Slot(
        name="unfused",
        unit="fraction of element-wise results that cross memory",
        link=Link.FRACTION,
        start=0.3,
        levels={"engine": 0.8},
    ),
    Slot(
        name="operator",
        unit="s of the device per matrix product, whatever its size",
        link=Link.LOG,
        start=5e-6,
        levels={"architecture": 0.3, "chip": 0.3, "engine": 0.5, "family": 0.3},
    ),
    Slot(
        name="launch",
        unit="s of the host per operator",
        link=Link.LOG,
        start=8e-6,
        levels={"eager_engine": 0.5, "eager_chip": 0.3, "eager_source": 0.3},
    ),
    Slot(
        name="pace",
        unit="factor on the time of a batch",
        link=Link.LOG,
        start=1.0,
        start_sd=0.05,
        levels={"model": 0.2, "engine_family": 0.2, "source": 0.1, "group": 0.1},
    ),
    Slot(
        name="served",
        unit="fraction of the offline rate under a latency limit",
        link=Link.FRACTION,
        start=0.85,
        levels={"served_model": 0.4, "served_chip": 0.3, "served_group": 0.3},
    ),
    Slot(
        name="spread",
        unit="factor of a latency percentile over the mean",
        link=Link.LOG,
        start=1.05,
        start_sd=0.1,
        levels={"percentile_model": 0.1},
    ),
    Slot(
        name="crowding",
        unit="share of the rate lost for each doubling of devices",
        link=Link.LOG,
        start=0.01,
        levels={"many_model": 0.7, "many_chip": 0.5},
    ),
)
COLUMN = {slot.name: i for i, slot in enumerate(SLOTS)}
