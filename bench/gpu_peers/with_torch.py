"""PyTorch on dequantised float16 weights: eager, compiled and max-autotune, all layers in one CUDA graph.

Each in two forms: as transformers' Qwen3-MoE has it (softmax over all, then top-k), and with the top-k first,
which is the same function with less to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from peers import TOP_K, dequantized
from torch.nn import functional

from qwisp_native.quantize import QuantizedGate

from . import GpuPeer, Kind

Route = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def softmax_first(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax over all experts, the K largest, renormalised."""
    gates = functional.softmax(functional.linear(x, weight), dim=-1, dtype=torch.float32)
    scores, inds = torch.topk(gates, TOP_K, dim=-1)
    return inds, (scores / scores.sum(dim=-1, keepdim=True)).to(x.dtype)


def topk_first(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The K largest logits, and softmax over those."""
    logits, inds = torch.topk(functional.linear(x, weight), TOP_K, dim=-1)
    return inds, functional.softmax(logits, dim=-1, dtype=torch.float32).to(x.dtype)


class GraphTimer:
    """A CUDA graph, timed by CUDA events."""

    def __init__(self, body: Callable[[], None], warm_up: Callable[[], object]) -> None:
        """`warm_up` compiles and allocates what must not happen while `body` is captured."""
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                warm_up()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):  # our queue has threads
            body()
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def sample(self) -> float:
        """The timed replay is queued behind the untimed one, so that the time to launch it is hidden."""
        self.graph.replay()
        self._start.record()
        self.graph.replay()
        self._end.record()
        self._end.synchronize()
        return float(self._start.elapsed_time(self._end)) * 1e-3


class Weights:
    """The dense weights that all peers share: made once."""

    sets: Sequence[QuantizedGate] = ()
    dense: Sequence[torch.Tensor] = ()

    @classmethod
    def of(cls, sets: Sequence[QuantizedGate]) -> Sequence[torch.Tensor]:
        """float16 [E, H] of each set."""
        if cls.sets is not sets:
            cls.sets = sets
            cls.dense = [torch.from_numpy(dequantized(each)).half().cuda() for each in sets]
        return cls.dense


class Captured(GpuPeer):
    """`route` for every layer, captured in one CUDA graph; so are the answers that are checked."""

    def __init__(self, name: str, route: Route, kind: Kind = "other") -> None:
        self.name, self.route, self.kind = name, route, kind

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        self._weights = Weights.of(sets)

    @torch.no_grad()
    def input(self, x: NDArray[np.float16]) -> torch.Tensor:
        rows = torch.from_numpy(x).cuda()
        self._out: list[tuple[torch.Tensor, torch.Tensor]] = []

        def layers() -> None:
            self._out = [self.route(rows, self._weights[layer % self.sets]) for layer in range(self.layers)]

        self._timer = GraphTimer(layers, lambda: self.route(rows, self._weights[0]))
        self._timer.sample()
        return rows

    def run(self, x: torch.Tensor, index: int) -> Any:
        return self._out[index]

    def result(self, out: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        inds, scores = out
        return inds.cpu().numpy(), scores.float().cpu().numpy()

    def sample(self) -> float:
        return self._timer.sample()


def routes() -> list[tuple[str, Route]]:
    """Three modes of two forms. max-autotune without graphs of its own: all layers are in ours."""
    torch._dynamo.config.recompile_limit = 1000  # one a number of rows; beyond it a compiled peer is eager
    found: list[tuple[str, Route]] = []
    for form, route in (("softmax first", softmax_first), ("top-k first", topk_first)):
        found.append((f"PyTorch eager, {form}", route))
        for name, mode in (("compiled", "default"), ("max-autotune", "max-autotune-no-cudagraphs")):
            compiled = torch.compile(route, mode=mode, dynamic=False, fullgraph=True)
            found.append((f"PyTorch {name}, {form}", compiled))
    return found


if not torch.cuda.is_available():
    raise ImportError("PyTorch finds no CUDA device")
PEERS: list[GpuPeer] = [Captured(name, route, "torch") for name, route in routes()]
