"""Statistics of the benchmark on series whose truth is known, and null experiments that must not be wins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import qwisp_native as qn
from qwisp_native import bench
from qwisp_native.bench.report import decide, judge
from qwisp_native.bench.rules import LEAST_EFFECTIVE
from qwisp_native.bench.statistics import correlation, student

EXPERIMENTS = 200


def ar1(rng: np.random.Generator, count: int, rho: float) -> Any:
    """An AR(1) series of mean 0 and variance 1."""
    steps = rng.standard_normal(count) * math.sqrt(1 - rho * rho)
    series = np.empty(count)
    series[0] = rng.standard_normal()
    for i in range(1, count):
        series[i] = rho * series[i - 1] + steps[i]
    return series


@pytest.mark.parametrize(
    ("probability", "freedom", "wanted"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.30265),
        (0.975, 5, 2.57058),
        (0.975, 30, 2.04227),
        (0.975, 1000, 1.96234),
        (0.95, 4, 2.13185),
        (0.995, 10, 3.16927),
    ],
)
def test_student(probability: float, freedom: float, wanted: float) -> None:
    assert student(probability, freedom) == pytest.approx(wanted, rel=2e-4)


def test_student_between_whole_numbers() -> None:
    values = [student(0.975, freedom) for freedom in (2, 2.5, 3, 3.5, 4)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.9])
def test_correlation_of_a_known_series(rho: float) -> None:
    rng = np.random.default_rng(1)
    found = [correlation(ar1(rng, 400, rho)) for _ in range(50)]
    assert np.mean(found) == pytest.approx(rho, abs=0.03)


def test_a_negative_correlation_does_not_narrow_the_interval() -> None:
    told = bench.mean_interval([1.0, -1.0] * 20)
    assert (told.correlation, told.effective) == (0.0, 40)


def test_a_constant_series() -> None:
    told = bench.mean_interval([2.0] * 10)
    assert (told.mean, told.low, told.high, told.correlation) == (2.0, 2.0, 2.0, 0.0)


def test_independent_samples_give_the_usual_interval() -> None:
    series = np.random.default_rng(0).standard_normal(2000)
    told = bench.mean_interval(series)
    usual = 1.96 * series.std(ddof=1) / math.sqrt(2000)
    assert (told.high - told.low) / 2 == pytest.approx(usual, rel=0.06)


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.8])
@pytest.mark.parametrize("count", [40, 200])
def test_the_interval_holds_the_mean_as_often_as_it_says(rho: float, count: int) -> None:
    """Of 400 seeded series at least 92% (95% less three standard errors)."""
    rng = np.random.default_rng([count, int(rho * 10)])
    told = [bench.mean_interval(5 + ar1(rng, count, rho)) for _ in range(400)]
    assert np.mean([each.low <= 5 <= each.high for each in told]) >= 0.92


def test_an_interval_that_ignores_the_correlation_would_not() -> None:
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(400):
        series = ar1(rng, 100, 0.8)
        half = student(0.975, 99) * series.std(ddof=1) / 10
        missed += abs(series.mean()) > half
    assert missed > 400 * 0.3


@pytest.mark.parametrize("series", [[], [1.0, 2.0], [[1.0, 2.0, 3.0]], [1.0, math.nan, 2.0]])
def test_series_that_are_refused(series: list[float]) -> None:
    with pytest.raises(ValueError, match="series"):
        bench.mean_interval(series)


def test_compare_times() -> None:
    first, second = [2.0, 4.0, 2.0, 4.0], [1.0, 1.0, 1.0, 8.0]
    told = bench.compare_times(first, second, [True, False, True, False])
    assert told.speed_up == pytest.approx((2 * 4 * 2 * 0.5) ** 0.25)
    assert (told.wins, told.pairs) == (3, 4)
    assert told.median == pytest.approx(2.0)
    assert told.mean == pytest.approx((2 + 4 + 2 + 0.5) / 4)
    assert told.first_then_second == pytest.approx(2.0)
    assert told.second_then_first == pytest.approx(math.sqrt(2.0))
    assert told.low < told.speed_up < told.high


@pytest.mark.parametrize(
    ("first", "second", "leads"),
    [
        ([1.0, 1.0, 1.0], [1.0, 1.0], [True] * 3),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 0.0], [True] * 3),
        ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [True] * 2),
        ([1.0], [1.0], [True]),
    ],
)
def test_times_that_are_refused(first: Any, second: Any, leads: Any) -> None:
    with pytest.raises(ValueError, match=r"times|second|series"):
        bench.compare_times(first, second, leads)


# ---- null experiments: 200, seeded


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5])
def test_made_up_null_experiments(rho: float, noise: float) -> None:
    """Two arms of the same time under drift, correlated noise and slow outliers: at most 5% are wins."""
    wins = above = 0
    for seed in range(EXPERIMENTS):
        rng = np.random.default_rng([seed, int(rho * 10), int(noise * 100)])
        count = 60
        common = np.cumsum(rng.normal(0, 0.02, count))
        slow = np.where(rng.random((2, count)) < 0.03, 1.6, 1.0)
        first, second = (np.exp(common + noise * ar1(rng, count, rho)) * slow[arm] for arm in (0, 1))
        told = bench.compare_times(first, second, np.arange(count) % 2 == 0)
        void = ["too few samples"] if told.effective < LEAST_EFFECTIVE else []
        wins += decide(told, told, void) == "GO"
        above += told.low > 1 and not void
    assert wins <= EXPERIMENTS * 0.05
    assert above <= EXPERIMENTS * 0.05 or rho > 0.5  # a bare interval; the bar at 1.02 is what decides


def test_a_true_win_is_found() -> None:
    found = 0
    for seed in range(EXPERIMENTS):
        rng = np.random.default_rng(seed)
        first, second = (scale * np.exp(0.05 * ar1(rng, 100, 0.3)) for scale in (1.1, 1.0))
        told = bench.compare_times(first, second, np.arange(100) % 2 == 0)
        found += decide(told, told, []) == "GO"
    assert found >= EXPERIMENTS * 0.95


def test_measured_null_experiments(device: qn.Device) -> None:
    """The pair against the pair on the device: at most 5% of 200 are wins."""
    probed = bench.probe(device, repeats=1)
    decisions = []
    for seed in range(EXPERIMENTS):
        options = bench.Options(
            rows=(1,),
            hidden=512,
            experts=8,
            top_k=2,
            arms=("pair", "pair"),
            layers=1,
            repeats=20,
            warm_up=0.0,
            seed=seed,
        )
        decisions.append(judge(bench.measure(device, 1, options), probed)["decision"])
    assert len(decisions) == EXPERIMENTS
    assert decisions.count("GO") <= EXPERIMENTS * 0.05
