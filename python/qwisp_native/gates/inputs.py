"""Inputs of the gates: logits planted through the whole path, kinds of rows, dense gates, golden arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

import qwisp_native as qn

Half = NDArray[np.float16]
Rng = np.random.Generator

TINY = np.float16(2.0**-24)  # the smallest subnormal
LARGEST = np.float16(65504)
INF = np.float16(np.inf)


@dataclass(frozen=True)
class Planted:
    """x and gate arrays whose logits are wanted bit for bit (contract, section 8)."""

    x: Half
    weight: NDArray[np.uint8]
    scales: Half
    biases: Half
    logits: Half

    def gate(self, device: qn.Device) -> qn.Gate:
        """Put the gate on a device."""
        return qn.Gate(device, self.weight, self.scales, self.biases)


def hidden_for(rows: int) -> int:
    """The smallest allowed H with a group of columns for each planted row."""
    return 512 * max(1, -(-rows // 8))


def plant(logits: Any, hidden: int = 0) -> Planted:
    """Row m is one-hot at column 64 m, and the biases of that group are the logits.

    The factor is 2 for a row with an infinity (2 * 65504 rounds to infinity in f16) and 1/4 for one with a
    negative zero (sums start at +0, so only a tiny product that rounds away gives one). NaN reaches every row
    of the batch, because 0 * NaN is NaN, so rows must share their NaN experts.
    """
    want = np.atleast_2d(np.asarray(logits, np.float16))
    rows, experts = want.shape
    hidden = hidden or hidden_for(rows)
    if rows > hidden // 64:
        raise ValueError(f"{rows} planted rows need H >= {64 * rows}, not {hidden}")
    if (np.isnan(want) != np.isnan(want[0])).any():
        raise ValueError("planted rows of one batch must share their NaN experts")
    x = np.zeros((rows, hidden), np.float16)
    biases = np.zeros((experts, hidden // 64), np.float16)
    for m, row in enumerate(want):
        if np.isinf(row).any():
            factor = np.float16(2)
            value = np.where(np.isinf(row), np.copysign(LARGEST, row), row / factor)
        elif ((row == 0) & np.signbit(row)).any():
            factor = np.float16(0.25)
            value = np.where(row == 0, np.copysign(TINY, row), row / factor)
        else:
            factor = np.float16(1)
            value = row
        with np.errstate(all="ignore"):
            if not ((value * factor == row) | np.isnan(row)).all():
                raise ValueError(f"row {m} cannot be planted exactly")
        x[m, 64 * m] = factor
        biases[:, m] = value
    zeros = np.zeros((experts, hidden // 64), np.float16)
    return Planted(x, np.zeros((experts, hidden), np.uint8), zeros, biases, want)


def choice_order(values: NDArray[Any], top_k: int) -> NDArray[np.int32]:
    """The experts that f32 values without NaN name: value, then bit-reversed index; -inf names 0."""
    if np.isnan(values).any():
        raise ValueError("NaN is not an order: only the tree says what such a row gives")
    index = np.arange(values.size)
    reverse = np.sum([(index >> bit & 1) << (7 - bit) for bit in range(8)], axis=0)
    order = np.lexsort((reverse, -values))[:top_k]
    return np.where(values[order] == -np.inf, 0, order).astype(np.int32)


# Kinds of rows: (generator, rows, experts, top_k) -> logits. Add one here and every G-A gate runs it.
Kind = Callable[[Rng, int, int, int], Half]
KINDS: dict[str, Kind] = {}


def _kind(make: Kind) -> Kind:
    KINDS[make.__name__.strip("_")] = make
    return make


def _scatter(rng: Rng, rows: Half, values: NDArray[Any]) -> Half:
    """Writes `values` over each row at places of its own."""
    for row in rows:
        row[rng.permutation(row.size)[: len(values)]] = values[: row.size]
    return rows


def _halves(values: NDArray[Any]) -> Half:
    return np.asarray(values).astype(np.float16)


@_kind
def _random(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    return _halves(rng.normal(0, 2, (rows, experts)))


@_kind
def _every_exponent(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    bits = rng.integers(1, 0x7C00, (rows, experts)) | rng.integers(0, 2, (rows, experts)) << 15
    return bits.astype(np.uint16).view(np.float16)


@_kind
def _near_tie(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    """All within one unit in the last place, so that the boundary is one as well."""
    low = np.float16(1.5)
    return np.where(rng.random((rows, experts)) < 0.1, np.nextafter(low, INF), low)


@_kind
def _boundary_tie(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    """One place short of K distinct winners, then three that tie for the last place."""
    out = _halves(rng.uniform(-3, -1, (rows, experts)))
    winners = 2 + np.arange(top_k - 1) / 8
    return _scatter(rng, out, np.concatenate([winners, [1, 1, 1]])[-experts:])


@_kind
def _all_equal(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    return np.repeat(_halves(rng.normal(0, 5, (rows, 1))), experts, axis=1)


@_kind
def _signed_zeros(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    out = _halves(rng.choice([0.0, -0.0], (rows, experts)))
    out[:, 0] = -0.0
    return _scatter(rng, out, np.array([TINY, -TINY, -0.0]))


@_kind
def _infinities(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    out = _halves(rng.integers(-8, 8, (rows, experts)))
    return _scatter(rng, out, np.array([np.inf, -np.inf, np.inf, -np.inf, -np.inf]))


@_kind
def _few_finite(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    return _scatter(rng, np.full((rows, experts), -INF), np.array([1, 2, -LARGEST]))


@_kind
def _all_minus_inf(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    return np.full((rows, experts), -INF)


@_kind
def _some_nan(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    out = _halves(rng.normal(0, 2, (rows, experts)))
    out[:, rng.random(experts) < 0.05] = np.nan
    out[:, rng.integers(experts)] = np.nan
    return out


@_kind
def _all_nan(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    return np.full((rows, experts), np.float16(np.nan))


@_kind
def _nan_and_infinities(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    out = _infinities(rng, rows, experts, top_k)
    out[:, rng.integers(experts, size=2)] = np.nan
    return out


@_kind
def _subnormals(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    return _halves(rng.integers(-1023, 1024, (rows, experts)) * float(TINY))


@_kind
def _underflow(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    """One expert takes it all: the other gates are 0 or subnormal in f16."""
    return _scatter(rng, _halves(rng.uniform(-30, -8, (rows, experts))), np.array([0]))


@_kind
def _all_negative(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    return _halves(-1 - rng.permuted(np.tile(np.arange(experts), (rows, 1)), axis=1))


@_kind
def _far_below_zero(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    """So far down that an exponential without the maximum is 0."""
    return _halves(rng.integers(-600, -500, (rows, experts)))


@_kind
def _largest(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    values = [LARGEST, np.nextafter(LARGEST, np.float16(0)), -LARGEST]
    return _halves(rng.choice(values, (rows, experts)))


@_kind
def _plateau(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    """A plateau at the top that is wider than K."""
    out = _halves(rng.uniform(-4, 0, (rows, experts)))
    return _scatter(rng, out, np.full(min(experts, 2 * top_k + 1), 3.25))


@_kind
def _duplicates(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    return _halves(rng.integers(0, max(2, experts // 4), (rows, experts)) / 4)


@_kind
def _two_values(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    return _halves(rng.permuted(np.tile(np.arange(experts) % 2, (rows, 1)), axis=1))


def mixed(rng: Rng, rows: int, experts: int, top_k: int) -> Half:
    """Row m of kind m, without those with a NaN at some experts only."""
    makers = [make for name, make in KINDS.items() if "nan" not in name]
    start = int(rng.integers(len(makers)))
    picked = (makers[(start + m) % len(makers)] for m in range(rows))
    return np.concatenate([make(rng, 1, experts, top_k) for make in picked])


def dense(rng: Rng, rows: int, experts: int, hidden: int) -> Planted:
    """Hidden rows and a gate as in a checkpoint; the last expert repeats a middle one: every row ties."""
    weight = rng.integers(0, 256, (experts, hidden), np.uint8)
    scales = _halves(rng.uniform(5e-4, 2e-3, (experts, hidden // 64)))
    biases = _halves(-127.5 * scales.astype(np.float32) * rng.uniform(0.9, 1.1, scales.shape))
    for array in (weight, scales, biases):
        array[-1] = array[experts // 2]
    x = _halves(rng.normal(0, 1, (rows, hidden)))
    return Planted(x, weight, scales, biases, np.zeros((rows, 0), np.float16))


def golden(name: str) -> dict[str, NDArray[Any]]:
    """The arrays of a case that ships with the package."""
    with (files(__package__) / "data" / f"{name}.npz").open("rb") as stream, np.load(stream) as arrays:
        return {key: arrays[key] for key in arrays.files}
