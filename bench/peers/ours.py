"""Ours: a Router called from Python, and a layer's share of one command buffer for all layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import qwisp_native as qn
from qwisp_native.quantize import QuantizedGate
from qwisp_native.settings import VARIANTS, Variant

from . import TOP_K, Peer


class Ours(Peer):
    """What both ways share: gates on the CPU device, and bits that must equal those of the pair."""

    margin = 0.0
    tolerance = 0.0
    how: ClassVar[str]

    def __init__(self, variant: Variant) -> None:
        self.name = f"ours, {self.how}, {variant}"
        self._variant = variant

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        self._device = qn.Device("cpu")
        self._gates = [qn.Gate(self._device, *each) for each in sets]


class Call(Ours):
    """`router(x)`, once a layer."""

    how = "router(x)"

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        super().prepare(sets, threads)
        self._routers = [qn.Router(each, TOP_K, fuse=self._variant) for each in self._gates]

    def input(self, x: NDArray[np.float16]) -> Any:
        return x

    def run(self, x: Any, index: int) -> Any:
        return self._routers[index](x)

    def logits(self, x: NDArray[np.float16], index: int) -> NDArray[np.float16]:
        """Raw gate logits [M, E], which tell the rows that are too near to call."""
        return self._routers[index](x, return_logits=True)[2]


class Commands(Ours):
    """As an engine does it: every layer encoded into one command buffer, one commit, one wait.

    Encoding is timed too: a command buffer runs once. The layers share one scratch, as in an engine.
    """

    how = "command buffer"

    def input(self, x: NDArray[np.float16]) -> Any:
        rows, experts = len(x), self._gates[0].experts
        self._scratch = qn.RouteScratch(self._device, rows=rows, experts=experts, top_k=TOP_K)
        return self._device.buffer(x)

    def run(self, x: Any, index: int) -> Any:
        self._route(x, self._gates[index : index + 1])
        return self._scratch.inds, self._scratch.scores

    def round(self, x: Any, sets: int) -> None:
        self._route(x, self._gates[:sets])

    def _route(self, x: qn.Buffer, gates: Sequence[qn.Gate]) -> None:
        commands = self._device.command_buffer()
        with commands.compute_encoder() as encoder:
            for gate in gates:
                qn.encode_moe_route_rows(
                    encoder, x, gate, self._scratch, rows=self._scratch.rows, fuse=self._variant
                )
        commands.commit()
        commands.wait_until_completed()


PEERS: list[Peer] = [way(variant) for way in (Call, Commands) for variant in VARIANTS]
