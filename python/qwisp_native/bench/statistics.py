"""Means of series whose neighbours resemble each other, and what they say of two arms.

Neighbouring samples share the clock, the heat and the rest of the machine. A series is taken for AR(1): n
samples of lag-1 correlation r say as much about the mean as n (1 - r) / (1 + r) independent ones. Single slow
samples hide a slow drift from r. Means of a few neighbours show it: both are asked, the wider one counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
_MOST_CORRELATION = 0.99
_BATCH, _LEAST_BATCHES = 4, 10


@dataclass(frozen=True)
class Interval:
    """A mean with its 95% interval; `effective` is the number of independent samples that it is worth."""

    mean: float
    low: float
    high: float
    count: int
    effective: float
    correlation: float


@dataclass(frozen=True)
class Comparison:
    """Times of two arms, pair by pair; all but the counts are ratios, first over second: above 1 is a win.

    `speed_up` is the geometric mean, with `low` to `high` its 95% interval; `wins` counts the pairs in which
    the second arm was faster. `first_then_second` and `second_then_first` are the means of the pairs in
    either order: apart from each other, they show what the order does.
    """

    speed_up: float
    low: float
    high: float
    mean: float
    median: float
    p10: float
    p90: float
    wins: int
    pairs: int
    effective: float
    correlation: float
    first_then_second: float
    second_then_first: float


def correlation(series: ArrayLike) -> float:
    """Lag-1 autocorrelation, with the first-order correction of its bias towards -1 / n; 0 to 0.99.

    A negative one would narrow the interval: it counts as 0.
    """
    values = np.asarray(series, np.float64)
    centred = values - values.mean()
    power = float(centred @ centred)
    if power == 0 or len(values) < 3:
        return 0.0
    found = float(centred[1:] @ centred[:-1]) / power
    corrected = found + (1 + 3 * found) / len(values)
    return min(max(corrected, 0.0), _MOST_CORRELATION)


def mean_interval(series: ArrayLike) -> Interval:
    """The mean of an AR(1) series with its 95% interval, by Student's t for the effective count.

    Args:
        series: [n] in order of time, n >= 3.

    Raises:
        ValueError: fewer than 3 values, or one that is not finite.
    """
    values = np.asarray(series, np.float64)
    if values.ndim != 1 or len(values) < 3:
        raise ValueError(f"series: shape {list(values.shape)}, but it must be [n] with n >= 3")
    if not np.isfinite(values).all():
        raise ValueError("series: a value is not finite")
    batches = len(values) // _BATCH
    told = [_ar1(values)]
    if batches >= _LEAST_BATCHES:
        told.append(_ar1(values[: batches * _BATCH].reshape(batches, _BATCH).mean(axis=1)))
    half = max(told)[0]
    mean = float(values.mean())
    return Interval(mean, mean - half, mean + half, len(values), told[0][1], correlation(values))


def _ar1(values: Floats) -> tuple[float, float]:
    """Half the width of the interval of an AR(1) series, and its effective count."""
    found = correlation(values)
    effective = max(len(values) * (1 - found) / (1 + found), 2.0)
    # Correlated samples also lie closer to their own mean than to the true one: effective - 1, not effective.
    error = math.sqrt(float(values.var()) / (effective - 1))
    return student(0.5 + CONFIDENCE / 2, effective - 1) * error, effective


@lru_cache(maxsize=1024)
def student(probability: float, freedom: float) -> float:
    """Quantile above the median of Student's t; `freedom` >= 1 need not be whole.

    With t = sqrt(freedom) tan(a) its density is that of cos(a) ** (freedom - 1), which is summed up.
    """
    angles = np.linspace(0, math.pi / 2, 20001)
    density = np.cos(angles) ** (freedom - 1)
    area = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    angle = float(np.interp(2 * probability - 1, area / area[-1], angles))
    return math.sqrt(freedom) * math.tan(angle)


def compare_times(first: ArrayLike, second: ArrayLike, first_leads: ArrayLike) -> Comparison:
    """Compare two arms by their times in the same rounds.

    Args:
        first: [n] seconds > 0, round by round, n >= 3.
        second: [n], the other arm's.
        first_leads: [n] bool, whether the first arm ran before the second in that round.

    Raises:
        ValueError: shapes that differ, fewer than 3 rounds, a time that is not above 0.
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    leads = np.asarray(first_leads, bool)
    if not a.shape == b.shape == leads.shape:
        raise ValueError(f"second: shape {list(b.shape)}, but it must be {list(a.shape)}, as first_leads")
    if not ((a > 0) & (b > 0)).all():
        raise ValueError("times: one is not above 0")
    logs = np.log(a) - np.log(b)
    told = mean_interval(logs)
    p10, median, p90 = np.exp(np.quantile(logs, [0.1, 0.5, 0.9]))

    def side(of: NDArray[np.bool_]) -> float:
        return math.exp(float(logs[of].mean())) if of.any() else math.nan

    return Comparison(
        speed_up=math.exp(told.mean),
        low=math.exp(told.low),
        high=math.exp(told.high),
        mean=float((a / b).mean()),
        median=float(median),
        p10=float(p10),
        p90=float(p90),
        wins=int((logs > 0).sum()),
        pairs=told.count,
        effective=told.effective,
        correlation=told.correlation,
        first_then_second=side(leads),
        second_then_first=side(~leads),
    )
