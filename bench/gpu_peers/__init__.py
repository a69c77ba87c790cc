"""What routes on an NVIDIA GPU beside us: one module a library, used only if the user has it.

To add one: a module with PEERS here, its name in FAMILIES.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from peers import Peer

Kind = Literal["ours", "torch", "other", "floor"]

FAMILIES: dict[str, tuple[str, str]] = {
    "ours": ("ours", "qwisp_native"),
    "torch": ("with_torch", "torch"),
    "vllm": ("with_vllm", "vllm"),
    "sglang": ("with_sglang", "sgl_kernel"),
    "flashinfer": ("with_flashinfer", "flashinfer"),
    "floors": ("floors", "triton"),
}
"""A name for the command line: the module here, and the library that it needs."""


class GpuPeer(Peer):
    """One way to route many layers on the device without the host in between.

    `input` makes that for some rows: all layers captured in one graph, or encoded for one command buffer.
    `run` then gives the answers of one set, as that graph or command buffer computed them.
    """

    kind: Kind = "other"
    sets: int
    layers: int

    def size(self, sets: int, layers: int) -> None:
        """How many sets of weights the layers take in turn; before `input`."""
        self.sets, self.layers = sets, layers

    def sample(self) -> float:
        """Seconds that the device takes for all layers, after an untimed pass over them."""
        raise NotImplementedError


def find(families: Sequence[str]) -> tuple[list[GpuPeer], dict[str, str]]:
    """The peers of these families that can be had here, and why the others cannot."""
    found: list[GpuPeer] = []
    skipped: dict[str, str] = {}
    for family in families:
        module, library = FAMILIES[family]
        if importlib.util.find_spec(library) is None:
            skipped[family] = f"{library} is not installed"
            continue
        try:
            found += importlib.import_module(f"{__name__}.{module}").PEERS
        except Exception as error:  # whatever is amiss with another library: say so, and go on
            if family == "ours":
                raise
            skipped[family] = f"cannot be used: {reason(error)}"
    return found, skipped


def reason(error: Exception) -> str:
    """One line."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'without a message'}"


Answers = Sequence[tuple[NDArray[Any], ...]]


def agreement(peer: Peer, x: Any, answers: Answers) -> dict[str, int]:
    """Rows in all and those for which the peer chose the same experts as we; the same of the clear ones.

    A row is clear if no rounding of the peer's can swap its last expert with the next (Peer.margin).
    """
    counts = {"rows": 0, "same": 0, "clear": 0, "clear_same": 0}
    for index, (inds, _, gaps) in enumerate(answers):
        found, _ = peer.result(peer.run(x, index))
        same = (np.sort(found, axis=1) == np.sort(inds, axis=1)).all(axis=1)
        clear = gaps >= peer.margin
        counts["rows"] += len(inds)
        counts["same"] += int(same.sum())
        counts["clear"] += int(clear.sum())
        counts["clear_same"] += int((same & clear).sum())
    return counts
