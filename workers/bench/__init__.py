"""Benchmarks. torch is imported inside functions only, so that everything here imports without it."""

from __future__ import annotations

from datetime import UTC, datetime
from time import perf_counter

from workers.bench.series import Progress
from workers.environment import describe
from workers.model import Job, Measurement, Series, Skipped, Suite, Validity


def run_job(job: Job, progress: Progress) -> Measurement:
    """Return what the job measured on this machine; Unavailable when torch or the device is not there."""
    started_at, start = datetime.now(UTC), perf_counter()
    environment = describe()
    device, series, skipped = _run_suite(job, progress)
    return Measurement(
        job=job,
        environment=environment,
        device=device,
        started_at=started_at,
        duration_s=perf_counter() - start,
        series=series,
        skipped=skipped,
        validity=validity_of(series),
    ).sealed()


def validity_of(series: tuple[Series, ...]) -> Validity:
    """Return the validity of a whole: every series must be valid, and there must be one."""
    reasons = tuple(f"{_label(s)}: {reason}" for s in series for reason in s.validity.reasons)
    if not series:
        reasons = ("nothing could be measured: every part was skipped",)
    return Validity(valid=not reasons, reasons=reasons)


def _label(series: Series) -> str:
    shape = series.shape
    size = "" if shape.m is None else f"{shape.m}x{shape.k}x{shape.n}"
    return " ".join(part for part in (series.name, shape.dtype, size) if part)


def _run_suite(job: Job, progress: Progress) -> tuple[str, tuple[Series, ...], tuple[Skipped, ...]]:
    match job.suite:
        case Suite.DEVICE:
            from workers.bench.device import run_device  # noqa: PLC0415 - one suite is loaded, the one that runs

            return run_device(job, progress)
