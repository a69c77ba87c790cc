"""numpy on dequantised weights. Its BLAS takes its threads from the environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qwisp_native.quantize import QuantizedGate

from . import TOP_K, Peer, dequantized


class Numpy(Peer):
    """Everything in float32."""

    name = "numpy f32"

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        self._weights = [dequantized(each) for each in sets]

    def input(self, x: NDArray[np.float16]) -> Any:
        return x.astype(np.float32)

    def run(self, x: Any, index: int) -> Any:
        logits = x @ self._weights[index].T
        gates = np.exp(logits - logits.max(axis=1, keepdims=True))
        gates /= gates.sum(axis=1, keepdims=True)
        inds = np.argpartition(logits, -TOP_K, axis=1)[:, -TOP_K:]
        scores = np.take_along_axis(gates, inds, axis=1)
        return inds, scores / scores.sum(axis=1, keepdims=True)


PEERS: list[Peer] = [Numpy()]
