"""A small layer for the tests of the Python interface: 16 experts, 512 columns, 4 chosen."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import qwisp_native as qn

EXPERTS, HIDDEN, TOP_K = 16, 512, 4


class Layer(NamedTuple):
    weight: NDArray[np.uint8]
    scales: NDArray[np.float16]
    biases: NDArray[np.float16]

    def gate(self, device: qn.Device) -> qn.Gate:
        return qn.Gate(device, *self)


def layer(seed: int = 0) -> Layer:
    rng = np.random.default_rng(seed)
    scales = rng.uniform(5e-4, 2e-3, (EXPERTS, HIDDEN // 64)).astype(np.float16)
    biases = (-127.5 * scales).astype(np.float16)
    return Layer(rng.integers(0, 256, (EXPERTS, HIDDEN), np.uint8), scales, biases)


def rows(count: int, seed: int = 1) -> NDArray[np.float16]:
    return np.random.default_rng(seed).normal(0, 1, (count, HIDDEN)).astype(np.float16)


def same(got: Any, want: Any) -> bool:
    """Bit for bit, dtype and shape included."""
    return len(got) == len(want) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(got, want, strict=True)
    )
