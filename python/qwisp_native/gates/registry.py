"""The list of gates, what one of them is given, and what it gives back."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

import qwisp_native as qn
from qwisp_native.settings import VARIANTS, Variant

# A gate yields one pair a check: its name, and None or the difference that it found.
Checks = Iterator[tuple[str, str | None]]

PAIR: Variant = "pair"
FUSED: tuple[Variant, ...] = VARIANTS[1:]
MAX_FUSED_TOP_K = 32


@dataclass
class Context:
    """What a gate may know: the device under test and the seed of its random inputs."""

    device: qn.Device
    seed: int = 0

    @property
    def exact(self) -> bool:
        """Whether simd_sum and exp of the device are those of the contract, so that golden scores hold.

        Apple's are its own (contract, sections 2 and 3): there the fused variants are held against the
        pair, and the choices from planted logits, which no order of addition changes, against golden ones.
        """
        return self.device.kind != "metal" and self.device.contract == "off"

    def rng(self, *key: object) -> np.random.Generator:
        """A generator of its own for each key: inputs do not depend on what ran before."""
        return np.random.default_rng([self.seed, zlib.crc32(repr(key).encode())])

    def variants(self, top_k: int) -> tuple[Variant, ...]:
        """The fused variants that must exist; a silent fall back to the pair would prove nothing."""
        return FUSED if top_k <= MAX_FUSED_TOP_K else ()


@dataclass(frozen=True)
class Gate:
    """A named generator of checks."""

    name: str
    summary: str
    run: Callable[[Context], Checks] = field(repr=False)
    kind: str = ""
    """The only kind of device that it is about; "": every kind."""

    def is_about(self, device: qn.Device) -> bool:
        """Whether it has anything to check there."""
        return self.kind in {"", device.kind}


GATES: dict[str, Gate] = {}


def gate(name: str, kind: str = "") -> Callable[[Callable[[Context], Checks]], Callable[[Context], Checks]]:
    """Registers a gate; the first line of its docstring is the summary that the command prints."""

    def register(run: Callable[[Context], Checks]) -> Callable[[Context], Checks]:
        if name in GATES:
            raise ValueError(f"gate {name!r} is registered twice")
        GATES[name] = Gate(name, (run.__doc__ or name).strip().splitlines()[0], run, kind)
        return run

    return register
