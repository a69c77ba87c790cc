"""What no route can be faster than: a kernel that does nothing, and one that only reads a layer's weights.

Each as the layers of one CUDA graph, with and without programmatic dependent launch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray

from qwisp_native.quantize import QuantizedGate

from . import GpuPeer, Kind
from .with_torch import GraphTimer

BLOCKS = ((1024, 4), (2048, 4), (2048, 8), (4096, 8), (8192, 8))
"""Words a program reads, and its warps: the fastest is the floor."""


@triton.jit
def _empty(dependent: tl.constexpr):  # type: ignore[no-untyped-def]
    if dependent:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@triton.jit
def _read(weights, sink, words, block: tl.constexpr, dependent: tl.constexpr):  # type: ignore[no-untyped-def]
    if dependent:
        tl.extra.cuda.gdc_launch_dependents()
    at = tl.program_id(0) * block + tl.arange(0, block)
    total = tl.sum(tl.load(weights + at, mask=at < words, other=0))
    if dependent:
        tl.extra.cuda.gdc_wait()
    if total == 0x5EED5EED:  # so that the reads are not left out
        tl.store(sink, total)


class Floor(GpuPeer):
    """It gives no answers."""

    kind: Kind = "floor"

    def __init__(self, name: str, dependent: bool) -> None:
        self.name = f"floor: {name}{', dependent' if dependent else ''}"
        self._dependent = dependent
        # Not given where it is off: what an older Triton does not know must not take the plain floor along.
        self._launch: dict[str, Any] = {"launch_pdl": True} if dependent else {}

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        if self._dependent and torch.cuda.get_device_capability() < (9, 0):
            raise ValueError("dependent launch needs compute capability 9.0")

    def sample(self) -> float:
        return self._timer.sample()


class Empty(Floor):
    """One program of one warp."""

    def input(self, x: NDArray[np.float16]) -> None:
        def layer() -> None:
            _empty[(1,)](self._dependent, num_warps=1, **self._launch)

        def layers() -> None:
            for _ in range(self.layers):
                layer()

        self._timer = GraphTimer(layers, layer)


class Read(Floor):
    """All bytes of a set: codes, scales and biases."""

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        super().prepare(sets, threads)
        words = [np.concatenate([part.view(np.int32).ravel() for part in each]) for each in sets]
        self._words = torch.from_numpy(np.stack(words)).cuda()
        self._sink = torch.zeros(1, dtype=torch.int32, device="cuda")

    def input(self, x: NDArray[np.float16]) -> None:
        timers = [self._capture(*shape) for shape in BLOCKS]
        self._timer = min(timers, key=lambda timer: min(timer.sample() for _ in range(5)))

    def _capture(self, block: int, warps: int) -> GraphTimer:
        words = self._words.shape[1]

        def layer(number: int = 0) -> None:
            _read[(-(-words // block),)](
                self._words[number % self.sets],
                self._sink,
                words,
                block,
                self._dependent,
                num_warps=warps,
                **self._launch,
            )

        def layers() -> None:
            for number in range(self.layers):
                layer(number)

        return GraphTimer(layers, layer)


PEERS: list[GpuPeer] = [
    kind(name, dependent)
    for kind, name in ((Empty, "an empty kernel"), (Read, "reading the weights"))
    for dependent in (False, True)
]
