"""The fit finds what made the data, draws thin keys to their mates, withstands bad rows, and knows how sure it is."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from planner.calibration import hierarchy
from planner.perf import parameters
from planner.perf.parameters import CEILING, Link, Slot

SLOTS = (
    Slot(name="bandwidth", unit="fraction", link=Link.FRACTION, start=0.4, levels={"chip": 0.3, "source": 0.2}),
    Slot(name="overhead", unit="s", link=Link.LOG, start=1e-3, levels={"engine": 0.5}),
)


def made(
    seed: int, *, bad: int = 0, rows: int = 600, spread: float = 0.3
) -> tuple[hierarchy.Problem, Mapping[str, float]]:
    """Return rows whose time is bytes / (bandwidth x fraction) + overhead, with 5 % of noise, and the fractions by chip."""
    rng = np.random.default_rng(seed)
    chips = [f"chip{i}" for i in range(8)]
    engines = [f"engine{i}" for i in range(3)]
    fraction = {c: float(Link.FRACTION.reach(spread * rng.standard_normal())) for c in chips}
    overhead = {e: 2e-3 * np.exp(0.4 * rng.standard_normal()) for e in engines}
    chip = rng.choice(chips, rows)
    engine = rng.choice(engines, rows)
    source = rng.choice([f"source{i}" for i in range(10)], rows)
    size = 10 ** rng.uniform(6, 10, rows)

    def forward(values: np.ndarray) -> np.ndarray:
        return np.log(size / (1e12 * values[:, 0]) + values[:, 1])

    truth = np.stack([[fraction[c] for c in chip], [overhead[e] for e in engine]], axis=1)
    measured = forward(truth) + 0.05 * rng.standard_normal(rows)
    measured[:bad] += 3.0
    problem = hierarchy.Problem(
        workload="serving",
        slots=SLOTS,
        keys={"chip": list(chip), "engine": list(engine), "source": list(source)},
        forward=forward,
        log_measured=measured,
        groups=[f"{s}{c}" for s, c in zip(source, chip, strict=True)],
        weights=np.ones(rows),
    )
    return problem, fraction


@pytest.mark.parametrize("bad", [0, 40])
def test_finds_the_fractions_that_made_the_data_also_among_bad_rows(bad: int) -> None:
    problem, fraction = made(1, bad=bad)
    fitted = hierarchy.fit(problem)
    found = fitted.values({"chip": list(fraction)}, len(fraction))[:, 0]
    assert found == pytest.approx(list(fraction.values()), rel=0.04)
    assert fitted.noise_sd == pytest.approx(0.05, rel=0.5)


def test_a_chip_that_was_never_seen_gets_the_centre_and_a_wide_interval_that_covers() -> None:
    inside = []
    for seed in range(30):
        problem, _ = made(100 + seed, rows=200)
        held = np.asarray([k == "chip0" for k in problem.keys["chip"]])
        fitted = hierarchy.fit(problem, used=~held, rounds=15)
        at, sd = hierarchy.predict(problem, fitted)
        matters = np.exp(at) > 8e-3  # reading takes most of the time
        big = held & matters
        if big.any():
            z = (problem.log_measured - at)[big] / sd[big]
            inside.append(np.mean(np.abs(z) < 1.2816))
            assert np.median(sd[big]) > 1.5 * 0.05  # more than the noise of a row
    assert 0.65 < np.mean(inside) < 0.95


def test_a_key_with_one_row_is_drawn_to_its_mates() -> None:
    problem, _ = made(3, spread=0.05)
    chips = list(problem.keys["chip"])
    chips[0] = "lonely"
    lonely = hierarchy.Problem(**{**_fields(problem), "keys": {**problem.keys, "chip": chips}})
    measured = lonely.log_measured.copy()
    measured[0] += 0.3
    lonely = hierarchy.Problem(**{**_fields(lonely), "log_measured": measured})
    fitted = hierarchy.fit(lonely)
    own = fitted.deviations["bandwidth", "chip", "lonely"]
    assert own.rows == 1
    # At a slope of a half, its row at face value would put it 0.6 off.
    assert abs(own.x) < 0.3
    assert own.sd > 2 * fitted.deviations["bandwidth", "chip", "chip1"].sd


def test_no_value_of_a_fraction_passes_the_ceiling() -> None:
    problem, _ = made(4)
    fast = hierarchy.Problem(**{**_fields(problem), "log_measured": problem.log_measured - 2.0})
    fitted = hierarchy.fit(fast)
    assert (fitted.values(problem.keys, len(problem.log_measured))[:, 0] <= CEILING).all()


def test_a_parameter_file_comes_back_as_it_was() -> None:
    problem, _ = made(5, rows=100)
    fitted = hierarchy.fit(problem, rounds=3, version="1", fitted_on="2026-11-30", data_sha256="00")
    text = parameters.to_json(fitted)
    again = parameters.from_json(text)
    assert parameters.to_json(again) == text
    assert again.values(problem.keys, 100) == pytest.approx(fitted.values(problem.keys, 100), rel=1e-4)


@pytest.mark.parametrize(
    "text", ["[]", '{"schema": "other"}', '{"schema": "gpu-cost-planner/parameters", "schema_version": 2}']
)
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="parameter file"):
        parameters.from_json(text)


def _fields(problem: hierarchy.Problem) -> dict[str, object]:
    return {name: getattr(problem, name) for name in hierarchy.Problem.__slots__}
