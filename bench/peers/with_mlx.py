"""MLX on its CPU device, with its own quantised product: the route of mlx-lm's Qwen3-MoE.

MLX runs CPU work on a thread of its own, one whatever is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from qwisp_native.quantize import GROUP, QuantizedGate

from . import TOP_K, Peer


class Mlx(Peer):
    """Rows, scales and biases in one type; the 8-bit weights as they are."""

    def __init__(self, name: str, dtype: Any) -> None:
        self.name = f"mlx {name}"
        self._dtype = dtype
        if dtype == mx.float16:  # its CPU product sums in float16 too
            self.margin, self.tolerance = 0.1, 0.03

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        mx.set_default_device(mx.cpu)
        self._gates = [
            (
                mx.array(each.weight),
                *(mx.array(part).astype(self._dtype) for part in (each.scales, each.biases)),
            )
            for each in sets
        ]
        mx.eval(self._gates)

    def input(self, x: NDArray[np.float16]) -> Any:
        rows = mx.array(x).astype(self._dtype)
        mx.eval(rows)
        return rows

    def run(self, x: Any, index: int) -> Any:
        weight, scales, biases = self._gates[index]
        logits = mx.quantized_matmul(x, weight, scales, biases, transpose=True, group_size=GROUP, bits=8)
        gates = mx.softmax(logits, axis=-1, precise=True)
        inds = mx.argpartition(gates, kth=-TOP_K, axis=-1)[..., -TOP_K:]
        scores = mx.take_along_axis(gates, inds, axis=-1)
        scores /= scores.sum(axis=-1, keepdims=True)
        mx.eval(inds, scores)
        return inds, scores


PEERS: list[Peer] = [Mlx("f32", mx.float32), Mlx("f16", mx.float16)]
