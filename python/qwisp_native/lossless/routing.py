"""A step's routing on a device: `encode_moe_route_rows` for each layer, and what was routed kept in a trace.

The layers of a model depend on each other through what lies between two routes, which here is numpy on the
host, and the Python interface has no events to wait for inside a command buffer. So a step routes each layer
in a command buffer of its own, through one scratch. With telemetry, the whole step is then routed once more,
all layers in one command buffer and a concurrent encoder, as an engine on a device does, and must give the
same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

import qwisp_native as qn

from ..settings import Fuse
from .model import Config
from .residency import Residency, Setting
from .trace import Call, Difference, DiffersError, Trace, shown

MAX_ROWS = 25


class Routed(NamedTuple):
    """M rows of one layer."""

    choice: NDArray[np.int32]  # [M, K] experts, or slots where experts are named by slot
    scores: NDArray[np.float16]  # [M, K]
    logits: NDArray[np.float16] | None  # [M, E], where asked for


class Routing(Protocol):
    """What the engine asks of a router."""

    @property
    def contents(self) -> NDArray[np.int32] | None:
        """Experts of the slots, int32 [E]; None where experts are named by themselves."""

    def begin(self, position: int, rows: int) -> None:
        """A step of `rows` rows, the first of them at `position`."""

    def route(self, layer: int, x: NDArray[np.float16]) -> Routed:
        """Routes the step's rows, float16 [M, H], of one layer."""

    def end(self) -> None:
        """After the last layer."""


class DeviceRouting:
    """Routes on a device.

    Args:
        gates: of all layers, on one device.
        config: the model's.
        setting, residency: what may change a choice.
        fuse: as for encode_moe_route_rows.
        telemetry: ask for raw logits and diag, and route each step again in one command buffer.
        capacity: positions of the trace.

    """

    def __init__(
        self,
        gates: Sequence[qn.Gate],
        config: Config,
        setting: Setting,
        residency: Residency,
        fuse: Fuse,
        *,
        telemetry: bool,
        capacity: int,
    ) -> None:
        self.gates = gates
        self.setting = setting
        self.residency = residency
        self.fuse = fuse
        self.telemetry = telemetry
        self.trace = Trace(config, capacity, logits=telemetry)
        self.calls: list[Call] = []
        self.contents: NDArray[np.int32] | None = None
        self.position = self.rows = 0
        device = gates[0].device
        layers, experts, top_k = config.layers, config.experts, config.top_k
        self._scratch = qn.RouteScratch(device, MAX_ROWS, experts, top_k)
        self._x = [device.empty((MAX_ROWS, config.hidden), np.float16) for _ in range(layers)]
        self._resident = device.empty((experts,), np.int32)
        self._table = device.empty((experts,), np.int32)
        self._version = -1
        self._options: dict[str, Any] = {}
        if setting.eps > 0:
            self._options["bias"] = qn.RouteBias(self._resident, setting.eps)
        if setting.bolt:
            self._options["remap"] = self._table
        if telemetry:
            self._again = [qn.RouteScratch(device, MAX_ROWS, experts, top_k) for _ in range(layers)]
            self._inds = device.empty((layers, MAX_ROWS, top_k), np.int32)
            self._logits = device.empty((layers, experts), np.float16)
            self._diag = [
                qn.RouteDiag(self._inds, self._logits, layer=n, layers=layers, max_rows=MAX_ROWS)
                for n in range(layers)
            ]
            self._routed: list[Routed] = []

    def begin(self, position: int, rows: int) -> None:
        """Put the tables in force into the device's buffers.

        Raises:
            ValueError: the rows see more than one table, or are too many.

        """
        version = self.residency.version(position)
        if not 1 <= rows <= MAX_ROWS or self.residency.version(position + rows - 1) != version:
            raise ValueError(f"rows: {rows} from position {position} on do not see one table of residency")
        self.position, self.rows = position, rows
        if version != self._version:
            self._resident.array[:] = self.residency.resident(version)
            self._table.array[:] = self.residency.table(version)
            self.contents = self.residency.contents(version) if self.setting.bolt else None
            self._version = version
        if self.telemetry:
            self._routed.clear()

    def route(self, layer: int, x: NDArray[np.float16]) -> Routed:
        """Raises DiffersError where a choice is no expert at all; else as encode_moe_route_rows."""
        self._x[layer].array[: self.rows] = x
        options = self._options
        if self.telemetry:
            options = options | {"diag": self._diag[layer], "return_logits": True}
        commands = self.gates[layer].device.command_buffer()
        with commands.compute_encoder() as encoder:
            self._encode(encoder, layer, self._scratch, options)
        commands.commit()
        commands.wait_until_completed()
        routed = self._read(self._scratch, self.telemetry)
        choice = routed.choice
        for row in np.flatnonzero(((choice < 0) | (choice >= self._scratch.experts)).any(axis=1)):
            expected = f"0 to {self._scratch.experts - 1}"
            raise DiffersError(self._difference("experts", layer, int(row), expected, str(choice[row])))
        written = (layer, self.position, self._experts(choice), routed.scores, routed.logits)
        self.trace.write(*written)
        self.calls.append(Call.of(*written))
        if self.telemetry:
            self._routed.append(routed)
        return routed

    def end(self) -> None:
        """With telemetry: what diag saw, and all layers in one command buffer.

        Raises:
            DiffersError: either is not what the step was given.

        """
        if not self.telemetry:
            return
        inds, logits = self._inds.array, self._logits.array
        commands = self.gates[0].device.command_buffer()
        with commands.compute_encoder(concurrent=True) as encoder:
            for layer, scratch in enumerate(self._again):
                self._encode(encoder, layer, scratch, self._options)
        commands.commit()
        commands.wait_until_completed()
        for layer, (routed, scratch) in enumerate(zip(self._routed, self._again, strict=True)):
            again = self._read(scratch, logits=False)
            self._same("experts of diag", layer, self._experts(routed.choice), inds[layer, : self.rows])
            self._same("experts, all layers in one command buffer", layer, routed.choice, again.choice)
            self._same("scores, all layers in one command buffer", layer, routed.scores, again.scores)
            if self.rows == 1 and routed.logits is not None:
                self._same("logits of diag", layer, routed.logits, logits[layer : layer + 1])

    def _encode(
        self, encoder: qn.ComputeEncoder, layer: int, scratch: qn.RouteScratch, options: dict[str, Any]
    ) -> None:
        qn.encode_moe_route_rows(
            encoder, self._x[layer], self.gates[layer], scratch, rows=self.rows, fuse=self.fuse, **options
        )

    def _read(self, scratch: qn.RouteScratch, logits: bool) -> Routed:
        raw = scratch.logits[: self.rows].copy() if logits else None
        return Routed(scratch.inds[: self.rows].copy(), scratch.scores[: self.rows].copy(), raw)

    def _experts(self, choice: NDArray[np.int32]) -> NDArray[np.int32]:
        return choice if self.contents is None else self.contents[choice]

    def _same(self, what: str, layer: int, expected: NDArray[np.generic], got: NDArray[np.generic]) -> None:
        bits = np.dtype(f"u{expected.itemsize}")
        for row in np.flatnonzero((expected.view(bits) != got.view(bits)).any(axis=1)):
            raise DiffersError(self._difference(what, layer, int(row), *shown(expected[row], got[row])))

    def _difference(self, what: str, layer: int, row: int, expected: str, got: str) -> Difference:
        return Difference(what, self.position + row, layer, row, self.rows, expected, got)
