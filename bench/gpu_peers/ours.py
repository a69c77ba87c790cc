"""Ours: every layer encoded into one command buffer by the package's own host code, as an engine does it.

The time is the command buffer's own (GPUEndTime - GPUStartTime). The layers share one scratch, as there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from peers import TOP_K

import qwisp_native as qn
from qwisp_native.quantize import QuantizedGate
from qwisp_native.settings import VARIANTS, Variant

from . import GpuPeer, Kind

LAUNCHES = ("dependent", "graph")
"""With and without programmatic dependent launch; see Device.kernels."""


@cache
def device() -> qn.Device:
    """The one that all arms share."""
    return qn.Device("cuda")


class Shared:
    """The gates that all arms share: made once."""

    sets: Sequence[QuantizedGate] = ()
    gates: Sequence[qn.Gate] = ()

    @classmethod
    def of(cls, sets: Sequence[QuantizedGate]) -> Sequence[qn.Gate]:
        """The gates of these sets."""
        if cls.sets is not sets:
            cls.sets, cls.gates = sets, [qn.Gate(device(), *each) for each in sets]
        return cls.gates


class Commands(GpuPeer):
    """A variant, and a way to launch it."""

    kind: Kind = "ours"
    margin = 0.0
    tolerance = 0.0

    def __init__(self, variant: Variant, launch: str) -> None:
        self.name = f"ours, {variant}, {launch}"
        self.variant, self.launch = variant, launch

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        if self.launch not in device().kernel_names:
            raise ValueError(
                f"this device has only {', '.join(device().kernel_names) or 'one way to launch'}"
            )
        self._gates = Shared.of(sets)

    def input(self, x: NDArray[np.float16]) -> qn.Buffer:
        self._scratch = qn.RouteScratch(device(), rows=len(x), experts=self._gates[0].experts, top_k=TOP_K)
        self._x = device().buffer(x, private=True)
        self._all = [self._gates[layer % self.sets] for layer in range(self.layers)]
        return self._x

    def run(self, x: qn.Buffer, index: int) -> Any:
        last = index == (self.layers - 1) % self.sets  # what is timed leaves the answers of its last layer
        self._route(self._all if last else self._gates[index : index + 1])
        return np.array(self._scratch.inds), np.array(self._scratch.scores)

    def sample(self) -> float:
        self._route(self._all)
        return self._route(self._all)

    def _route(self, gates: Sequence[qn.Gate]) -> float:
        device().kernels = self.launch
        commands = device().command_buffer()
        with commands.compute_encoder() as encoder:
            for gate in gates:
                qn.encode_moe_route_rows(
                    encoder, self._x, gate, self._scratch, rows=self._scratch.rows, fuse=self.variant
                )
        commands.commit()
        commands.wait_until_completed()
        return commands.gpu_time or 0.0


PEERS: list[GpuPeer] = [Commands(variant, launch) for variant in VARIANTS for launch in LAUNCHES]
