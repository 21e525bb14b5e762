"""Fit of a hierarchy of physical parameters to measurements: robust least squares in log space with estimated spreads.

    log measured = forward(values) + noise,   x_slot(row) = centre_slot + sum over levels of deviation_slot,level,key(row)

Deviations are normal with a spread per (slot, level) that is estimated from the data (EM on the Laplace approximation), so a key with
few rows is drawn to its mates and one with many speaks for itself. Noise is Student-t (iteratively reweighted), so that a bad row
does not bend the fit. A level named `group` takes what the rows of one (source, model, accelerator) have in common.

References: Gelman & Hill 2007 (partial pooling); Lange, Little, Taylor 1989 (t errors by reweighting); Dempster, Laird, Rubin 1977
(EM); Nocedal & Wright 2006, ch. 10 (Gauss-Newton with damping).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from planner.perf.parameters import Deviation, Parameters, Slot

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

DEGREES = 4.0
"""Degrees of freedom of the noise: heavy tails, as repeats of published runs have."""
DIFFERENCE = 1e-4
"""Step in link space of the forward differences."""
LEAST_SPREAD, MOST_SPREAD = 0.01, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Measurements and the physics that should explain them.

    `forward` takes values [rows, slots] and returns the log of the predicted figure [rows]; always of all rows, each from its own.
    """

    workload: str
    slots: tuple[Slot, ...]
    keys: Mapping[str, Sequence[str]]  # level -> key per row; "" where the level does not apply
    forward: Callable[[Array], Array]
    log_measured: Array
    groups: Sequence[str]
    weights: Array  # of a row; 1 unless it is known to be a poor witness
    log_predicted_sd: Array | None = None  # extra noise of a row beyond the common one (log), where the source says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Which coefficient acts on which slot of which row. Coefficient 0..S-1 are the centres."""

    names: tuple[tuple[str, str, str], ...]  # (slot, level, key); level "" for centres
    rows: npt.NDArray[np.int64]  # triplets: row, slot, coefficient
    slots: npt.NDArray[np.int64]
    coefficients: npt.NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return len(self.names)


def values_of(slots: Sequence[Slot], points: Array) -> Array:
    """Return values [rows, slots] of points in link space."""
    return np.stack([slot.link.reach(points[:, i]) for i, slot in enumerate(slots)], axis=1)


def jacobian_of(forward: Callable[[Array], Array], slots: Sequence[Slot], points: Array, at: Array) -> Array:
    """Return d log prediction / d point [rows, slots] by forward differences."""
    out = np.empty_like(points)
    for i in range(len(slots)):
        moved = points.copy()
        moved[:, i] += DIFFERENCE
        out[:, i] = (forward(values_of(slots, moved)) - at) / DIFFERENCE
    return out


def design_of(problem: Problem, used: Mask) -> Design:
    """Return the coefficients that the used rows speak of."""
    names: dict[tuple[str, str, str], int] = {}
    for slot in problem.slots:
        names[slot.name, "", ""] = len(names)
    rows, columns, coefficients = [], [], []
    everywhere = np.flatnonzero(used)
    for column, slot in enumerate(problem.slots):
        rows.append(everywhere)
        columns.append(np.full(len(everywhere), column))
        coefficients.append(np.full(len(everywhere), names[slot.name, "", ""]))
        for level in slot.levels:
            keys = problem.keys.get(level)
            if keys is None:
                continue
            at = [r for r in everywhere.tolist() if keys[r]]
            index = [names.setdefault((slot.name, level, keys[r]), len(names)) for r in at]
            rows.append(np.asarray(at, dtype=np.int64))
            columns.append(np.full(len(at), column))
            coefficients.append(np.asarray(index, dtype=np.int64))
    return Design(
        names=tuple(names),
        rows=np.concatenate(rows).astype(np.int64),
        slots=np.concatenate(columns).astype(np.int64),
        coefficients=np.concatenate(coefficients).astype(np.int64),
    )


def fit(
    problem: Problem,
    *,
    used: Mask | None = None,
    start: Parameters | None = None,
    spreads: Mapping[tuple[str, str], float] | None = None,
    noise_sd: float | None = None,
    rounds: int = 12,
    version: str = "",
    fitted_on: str = "",
    data_sha256: str = "",
) -> Parameters:
    """Return the parameters that explain the used rows best.

    `spreads` and `noise_sd` given are kept (folds of a cross-validation take those of the whole fit and start from it with few rounds);
    not given, they are estimated.
    """
    rows = len(problem.log_measured)
    mask = np.ones(rows, dtype=np.bool_) if used is None else used
    design = design_of(problem, mask)
    prior_mean = np.zeros(design.size)
    prior_sd = np.empty(design.size)
    current = {
        (s.name, level): (spreads or {}).get((s.name, level), sd)
        for s in problem.slots
        for level, sd in s.levels.items()
    }
    for i, (name, level, _) in enumerate(design.names):
        slot = next(s for s in problem.slots if s.name == name)
        prior_mean[i] = slot.link.point(slot.start) if level == "" else 0.0
        prior_sd[i] = slot.start_sd if level == "" else current[name, level]
    beta = prior_mean.copy()
    if start is not None:
        for i, (name, level, key) in enumerate(design.names):
            if level == "":
                beta[i] = start.centres.get(name, beta[i])
            else:
                beta[i] = start.deviation(name, level, key)
    noise = noise_sd if noise_sd is not None else 0.2
    extra = np.zeros(rows) if problem.log_predicted_sd is None else problem.log_predicted_sd**2
    damping = 1e-3
    points = _points(design, beta, rows, len(problem.slots))
    predicted = problem.forward(values_of(problem.slots, points))
    covariance_diagonal = prior_sd**2
    for turn in range(rounds):
        jacobian = jacobian_of(problem.forward, problem.slots, points, predicted)
        residual = problem.log_measured - predicted
        variance = noise**2 + extra
        robust = (DEGREES + 1) / (DEGREES + residual**2 / variance)
        weight = np.where(mask, problem.weights * robust / variance, 0.0)
        J = np.zeros((rows, design.size))
        J[design.rows, design.coefficients] = jacobian[design.rows, design.slots]
        J = J[mask]
        w = weight[mask]
        normal = (J * w[:, None]).T @ J
        gradient = J.T @ (w * residual[mask]) - (beta - prior_mean) / prior_sd**2
        normal[np.diag_indices_from(normal)] += 1 / prior_sd**2
        prior = Prior(mean=prior_mean, sd=prior_sd)
        objective = _objective(problem, mask, predicted, variance, beta=beta, prior=prior)
        for _ in range(8):
            damped = normal.copy()
            damped[np.diag_indices_from(damped)] *= 1 + damping
            step = np.linalg.solve(damped, gradient)
            trial = beta + np.clip(step, -1.0, 1.0)
            trial_points = _points(design, trial, rows, len(problem.slots))
            trial_predicted = problem.forward(values_of(problem.slots, trial_points))
            trial_objective = _objective(problem, mask, trial_predicted, variance, beta=trial, prior=prior)
            if np.isfinite(trial_objective) and trial_objective <= objective:
                damping = max(damping / 5, 1e-6)
                beta, points, predicted = trial, trial_points, trial_predicted
                break
            damping *= 8
        last = turn == rounds - 1
        if spreads is None or noise_sd is None or last:
            covariance_diagonal = np.diag(np.linalg.inv(normal)).copy()
        if spreads is None:
            for name, level in tuple(current):
                at = [i for i, (n, lv, _) in enumerate(design.names) if n == name and lv == level]
                if at:
                    estimate = float(np.sqrt(np.mean(beta[at] ** 2 + covariance_diagonal[at])))
                    current[name, level] = min(MOST_SPREAD, max(LEAST_SPREAD, estimate))
                    prior_sd[at] = current[name, level]
        if noise_sd is None:
            residual = (problem.log_measured - predicted)[mask]
            robust = (DEGREES + 1) / (DEGREES + residual**2 / (noise**2 + extra[mask]))
            leverage = np.einsum("ij,jk,ik->i", J, np.linalg.inv(normal), J) if design.size < 600 else np.zeros(len(w))
            noise = float(
                np.sqrt(
                    np.sum(robust * problem.weights[mask] * (residual**2 + leverage)) / np.sum(problem.weights[mask])
                )
            )
            noise = max(noise, 0.02)
    return _parameters(
        problem,
        mask,
        design,
        beta=beta,
        variance=covariance_diagonal,
        spreads=current,
        noise=noise,
        version=version,
        fitted_on=fitted_on,
        data_sha256=data_sha256,
    )


def predict(problem: Problem, parameters: Parameters) -> tuple[Array, Array]:
    """Return (log predictions, standard deviations of log measured / predicted) of all rows under some parameters."""
    rows = len(problem.log_measured)
    points = parameters.points(problem.keys, rows)
    at = problem.forward(values_of(problem.slots, points))
    jacobian = jacobian_of(problem.forward, problem.slots, points, at)
    variance = np.sum(jacobian**2 * parameters.variances(problem.keys, rows), axis=1) + parameters.noise_sd**2
    if problem.log_predicted_sd is not None:
        variance = variance + problem.log_predicted_sd**2
    return at, np.sqrt(variance)


def _points(design: Design, beta: Array, rows: int, slots: int) -> Array:
    points = np.zeros((rows, slots))
    np.add.at(points, (design.rows, design.slots), beta[design.coefficients])
    # Rows that are not used stay at the centres: their predictions are not looked at, but must be finite.
    unused = np.ones(rows, dtype=np.bool_)
    unused[design.rows] = False
    points[unused] = beta[:slots]
    return points


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """What the coefficients are expected to be before any row is seen."""

    mean: Array
    sd: Array


def _objective(problem: Problem, mask: Mask, predicted: Array, variance: Array, *, beta: Array, prior: Prior) -> float:
    residual = (problem.log_measured - predicted)[mask]
    v = variance[mask]
    misfit = np.sum(problem.weights[mask] * (DEGREES + 1) / 2 * np.log1p(residual**2 / (DEGREES * v)))
    return float(misfit + np.sum(((beta - prior.mean) / prior.sd) ** 2) / 2)


def _parameters(
    problem: Problem,
    mask: Mask,
    design: Design,
    *,
    beta: Array,
    variance: Array,
    spreads: Mapping[tuple[str, str], float],
    noise: float,
    version: str,
    fitted_on: str,
    data_sha256: str,
) -> Parameters:
    used: list[int] = np.flatnonzero(mask).tolist()
    rows_of: dict[tuple[str, str], list[int]] = {}
    for level, keys in problem.keys.items():
        for r in used:
            if keys[r]:
                rows_of.setdefault((level, keys[r]), []).append(r)
    counts = {k: (len(v), len({problem.groups[r] for r in v})) for k, v in rows_of.items()}
    deviations = {
        (name, level, key): Deviation(
            x=float(beta[i]), sd=float(np.sqrt(variance[i])), rows=counts[level, key][0], groups=counts[level, key][1]
        )
        for i, (name, level, key) in enumerate(design.names)
        if level
    }
    centres = {name: float(beta[i]) for i, (name, level, _) in enumerate(design.names) if level == ""}
    sds = {name: float(np.sqrt(variance[i])) for i, (name, level, _) in enumerate(design.names) if level == ""}
    return Parameters(
        workload=problem.workload,
        version=version,
        fitted_on=fitted_on,
        data_sha256=data_sha256,
        rows=len(used),
        groups=len({problem.groups[r] for r in used}),
        slots=problem.slots,
        centres=centres,
        centre_sds=sds,
        spreads=dict(spreads),
        deviations=deviations,
        noise_sd=noise,
    )
