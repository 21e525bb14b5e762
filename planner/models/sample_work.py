"""Work of one sample for models that are not priced by tokens, and the same for another size: `with_input`.

FLOPs of a transformer over S tokens: 2 · matrix numbers · S + 2 · heads · (d_qk + d_v) · S² per layer (both products, no causal mask).
Activation elements: outputs of every matrix, attention and normalisation, once; convolutions: their outputs (norm and ReLU are fused).
"""

from __future__ import annotations

from dataclasses import replace

from planner.models.errors import ModelError
from planner.models.spec import ModelSpec, SampleWork, WorkCurve

MAX_SIZE = 1_000_000
MAX_STEPS = 10_000


def sample_of(curve: WorkCurve, size: int, steps: int = 1) -> SampleWork:
    """Return the work of one sample of a size (and number of denoising steps)."""
    u = curve.units(size)
    passes = steps * curve.passes_per_step
    text = "one " + curve.what.format(size=size)
    if steps > 1 or curve.passes_per_step > 1:
        text += f", {steps} denoising steps" + (" with guidance (2 passes each)" if curve.passes_per_step == 2 else "")
    return SampleWork(
        description=text,
        flops=passes * polynomial(curve.flops, u),
        activation_elements=passes * polynomial(curve.activations, u),
        steps=steps,
        size=size,
        curve=curve,
    )


def polynomial(c: tuple[float, float, float], u: float) -> float:
    """Return c0 + c1 u + c2 u²."""
    return c[0] + c[1] * u + c[2] * u * u


def with_input(spec: ModelSpec, *, size: int | None = None, steps: int | None = None) -> ModelSpec:
    """Return the spec with its sample at another size (tokens, pixels along the edge, output tokens) or number of denoising steps."""
    sample = spec.sample
    if sample is None or sample.curve is None or sample.size is None:
        raise ModelError(f"{spec.name}: is priced by tokens; give input and output tokens instead of a sample size")
    new_size = sample.size if size is None else size
    new_steps = sample.steps if steps is None else steps
    if (
        isinstance(new_size, bool)
        or not isinstance(new_size, int)
        or not 1 <= new_size <= (sample.curve.largest or MAX_SIZE)
    ):
        raise ModelError(
            f"{spec.name}: sample size {new_size!r} should be a whole number from 1 to {sample.curve.largest or MAX_SIZE}"
        )
    if isinstance(new_steps, bool) or not isinstance(new_steps, int) or not 1 <= new_steps <= MAX_STEPS:
        raise ModelError(f"{spec.name}: steps {new_steps!r} should be a whole number from 1 to {MAX_STEPS}")
    if sample.curve.image and new_size % sample.curve.patch:
        raise ModelError(f"{spec.name}: image size {new_size} should be a multiple of {sample.curve.patch} pixels")
    return replace(spec, sample=sample_of(sample.curve, new_size, new_steps))
