"""When a run says nothing: each rule gives the reason, or nothing. docs/benchmarks.md explains them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from .. import settings
from .runs import Run
from .statistics import mean_interval

LEAST_ROUNDS = 20
LEAST_EFFECTIVE = 8.0  # below it, null experiments of strong correlation are called a win too often
MOST_DRIFT = 0.15

# What a name means, told apart from the plan: an arm that ignores its flag runs other kernels than these.
KERNELS = {
    "pair": ("qmm8_rows", "route_top8_rows"),
    "single": ("route_fused_rows_single",),
    "last": ("route_fused_rows_last",),
    "split_pair": ("qmm8_rows_split", "route_top8_rows_wide"),
    "split_last": ("route_fused_rows_split",),
}


def void_reasons(run: Run) -> list[str]:
    """Why no conclusion may be drawn from the run; empty: nothing speaks against it."""
    rules = (_outputs, _flags, _dispatches, _inputs, _clock, _count, _drift, _validation)
    return [reason for rule in rules for reason in rule(run)]


def _outputs(run: Run) -> Iterator[str]:
    if run.difference:
        yield f"outputs differ: {run.difference}"
    for arm, count in zip(run.arms, run.compared, strict=True):
        if count == 0:
            yield f"outputs of arm '{arm}' were never compared with another arm's"


def _flags(run: Run) -> Iterator[str]:
    for arm, encoded in zip(run.arms, run.encoded, strict=True):
        wanted = KERNELS[arm.partition("#")[0]]
        if set(encoded) != set(wanted):
            yield (
                f"the flag of arm '{arm}' had no effect: it ran {', '.join(sorted(set(encoded)))}"
                f" instead of {', '.join(wanted)}"
            )


def _dispatches(run: Run) -> Iterator[str]:
    layers = run.options.layers
    concurrent = run.options.encoder == "concurrent"
    for arm, planned, encoded, barriers in zip(run.arms, run.planned, run.encoded, run.barriers, strict=True):
        if encoded != planned * layers:
            yield f"arm '{arm}' encodes {len(encoded)} dispatches, but its plan has {len(planned) * layers}"
        wanted = len(planned) * layers - 1 if concurrent else 0
        if barriers != wanted:
            yield f"arm '{arm}' encodes {barriers} barriers instead of {wanted}"


def _inputs(run: Run) -> Iterator[str]:
    by_round: dict[int, set[int]] = {}
    for sample in run.samples:
        by_round.setdefault(sample.round, set()).add(sample.x_hash)
    if any(len(hashes) > 1 for hashes in by_round.values()):
        yield "inputs differ between the arms of a round"
    rounds = [by_round[key] for key in sorted(by_round)]
    if any(before == after for before, after in itertools.pairwise(rounds)):
        yield "inputs do not differ between repeats: the rows in the device's memory stayed as they were"


def _clock(run: Run) -> Iterator[str]:
    gpu = np.array([sample.gpu_end - sample.gpu_start for sample in run.samples])
    host = np.array([sample.completed_ns - sample.committed_ns for sample in run.samples]) * 1e-9
    wall = np.array([sample.wall_ns for sample in run.samples])
    if (gpu <= 0).any():
        yield f"frozen clock: the device's stamps do not advance in {(gpu <= 0).sum()} of {len(gpu)} samples"
    elif len(gpu) > 3 and len(set(gpu.tolist())) == 1:
        yield "frozen clock: every sample took the same time by the device's stamps"
    if (wall <= 0).any():
        yield f"frozen clock: the host's clock does not advance in {(wall <= 0).sum()} of {len(wall)} samples"
    elif (gpu > 1.01 * host + 1e-5).any():
        yield "the device's stamps show more time than passed on the host's clock"


def _count(run: Run) -> Iterator[str]:
    rounds = len(run.samples) // len(run.arms)
    if rounds < LEAST_ROUNDS:
        yield (
            f"too few samples: {rounds} rounds, but it takes {LEAST_ROUNDS}"
            " (more --repeats or --budget, or fewer --layers)"
        )
        return
    base = run.gpu_seconds(0)
    for arm in range(1, len(run.arms)):
        other = run.gpu_seconds(arm)
        if (base > 0).all() and (other > 0).all():
            told = mean_interval(np.log(base) - np.log(other))
            if told.effective < LEAST_EFFECTIVE:
                yield (
                    f"too few samples: {rounds} rounds of arm '{run.arms[arm]}' are worth"
                    f" {told.effective:.1f} independent ones (lag-1 correlation {told.correlation:.2f}),"
                    f" but it takes {LEAST_EFFECTIVE:.0f}"
                )


def _drift(run: Run) -> Iterator[str]:
    base = run.gpu_seconds(0)
    third = len(base) // 3
    if third < 3 or (base <= 0).any():
        return
    change = float(np.median(base[-third:]) / np.median(base[:third]) - 1)
    if abs(change) > MOST_DRIFT:
        yield (
            f"drifting baseline: '{run.arms[0]}' was {change:+.0%} at the end against the beginning, and"
            f" {MOST_DRIFT:.0%} is the most (heat, a changing clock, other work on the machine)"
        )


def _validation(run: Run) -> Iterator[str]:
    for name in settings.metal_validation():
        yield f"{name} is set: Metal's validation changes what is timed"
