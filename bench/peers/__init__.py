"""What routes beside us: one module a library, found only if the user has it.

A peer does the whole route (gate, softmax, top-k, renormalised scores) the way a Python user of that library
would. To add one: a module with PEERS here, its name in FAMILIES, a row in docs/cpu.md.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any

import numpy as np
from numpy.typing import NDArray

import qwisp_native as qn
from qwisp_native.quantize import GROUP, QuantizedGate

TOP_K = 8
SETTLE_S = 0.02
"""How long helper threads have to stop spinning before the next peer starts."""
FAMILIES = {
    "ours": "ours",
    "mlx": "with_mlx",
    "numpy": "with_numpy",
    "torch": "with_torch",
    "ggml": "with_ggml",
}
"""A name for the command line, and the module here."""


def versions(distributions: Iterable[str]) -> dict[str, str]:
    """The package's version, and those of the distributions that are installed."""
    found = {"qwisp_native": qn.__version__}
    for name in distributions:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


class Peer:
    """One way to route.

    `margin`: rows whose K-th and next logit are nearer than this are not compared with ours, for the peer's
    rounding may swap them. `tolerance`: how far its scores may be from ours.
    """

    name: str
    margin: float = 0.01
    tolerance: float = 0.005

    def prepare(self, sets: Sequence[QuantizedGate], threads: int) -> None:
        """Takes the weights in the form that it routes with."""
        raise NotImplementedError

    def input(self, x: NDArray[np.float16]) -> Any:
        """The rows as its user would hold them. Not timed."""
        raise NotImplementedError

    def run(self, x: Any, index: int) -> Any:
        """Routes through set `index`, and waits for the result."""
        raise NotImplementedError

    def result(self, out: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Experts and scores [M, K] of what `run` returned. Not timed."""
        inds, scores = out
        return np.asarray(inds), np.asarray(scores)

    def round(self, x: Any, sets: int) -> None:
        """Routes through the first `sets` sets in turn: what is timed."""
        for index in range(sets):
            self.run(x, index)

    def rest(self) -> None:
        """Sends helper threads to sleep that would spin for longer than SETTLE_S. Not timed."""


def dequantized(gate: QuantizedGate) -> NDArray[np.float32]:
    """The dense gate [E, H] that the 8-bit one stands for: what libraries without quantised products hold."""
    codes = gate.weight.view(np.uint8).astype(np.float32)
    scales, biases = (np.repeat(part.astype(np.float32), GROUP, 1) for part in (gate.scales, gate.biases))
    return scales * codes + biases


def find(families: Sequence[str]) -> tuple[list[Peer], dict[str, str]]:
    """The peers of these families that can be had here, and why the others cannot."""
    found: list[Peer] = []
    skipped: dict[str, str] = {}
    for family in families:
        try:
            found += importlib.import_module(f"{__name__}.{FAMILIES[family]}").PEERS
        except (ImportError, OSError) as error:  # OSError: a shared library that does not load
            if family == "ours":
                raise
            skipped[family] = f"cannot be imported: {error}"
    return found, skipped
