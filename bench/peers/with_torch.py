"""PyTorch on dequantised weights, eager and compiled: the route of transformers' Qwen3-MoE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from qwisp_native.quantize import QuantizedGate

from . import TOP_K, Peer, dequantized


def _route(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    gates = functional.softmax(functional.linear(x, weight), dim=-1, dtype=torch.float32)
    scores, inds = torch.topk(gates, TOP_K, dim=-1)
    return inds, (scores / scores.sum(dim=-1, keepdim=True)).to(x.dtype)


class Torch(Peer):
    """Weights, rows and logits in one type, softmax in float32."""

    def __init__(self, dtype: torch.dtype, compiled: bool) -> None:
        short = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}[dtype]
        self.name = f"PyTorch {short}{', compiled' if compiled else ''}"
        self._dtype, self._compiled = dtype, compiled
        if dtype == torch.bfloat16:  # 8 bits: logits of 2 to 4 are 1/64 apart
            self.margin, self.tolerance = 0.05, 0.02

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self._weights = [torch.from_numpy(dequantized(each)).to(self._dtype) for each in sets]
        torch._dynamo.config.recompile_limit = 1000  # types times rows; beyond it a compiled peer is eager
        self._route = torch.compile(_route, dynamic=False, fullgraph=True) if self._compiled else _route

    def input(self, x: NDArray[np.float16]) -> Any:
        return torch.from_numpy(x).to(self._dtype)

    def run(self, x: Any, index: int) -> Any:
        return self._route(x, self._weights[index])

    def result(self, out: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        inds, scores = out
        return inds.numpy(), scores.float().numpy()


PEERS: list[Peer] = [
    Torch(dtype, compiled)
    for compiled in (False, True)
    for dtype in (torch.float32, torch.bfloat16, torch.float16)
]
