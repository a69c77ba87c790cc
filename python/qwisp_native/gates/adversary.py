"""Every variant on small shapes while the executor of the software device is out to get it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import qwisp_native as qn
from qwisp_native.settings import VARIANTS, Variant
from qwisp_native.testing import scratch_is_cleared

from .compare import differences
from .inputs import KINDS, Half, Planted, dense, mixed, plant
from .registry import PAIR, Checks, Context, gate
from .routing import Arrays, filled, scratch_rows, setting

SEEDS = 128
EXTRAS = ("bias", "diag", "remap", "return_logits")
SHAPES = ((1, 32, 4), (2, 16, 8), (3, 8, 2), (8, 16, 1))  # rows, experts, top_k


@dataclass
class _Scratch:
    """What one variant writes."""

    scratch: qn.RouteScratch
    diag_inds: qn.Buffer
    diag_logits: qn.Buffer

    def poison(self) -> None:
        """Values that no route leaves behind."""
        self.scratch.inds[...] = -77
        for array in (self.scratch.scores, self.scratch.logits, self.diag_logits.array):
            array[...] = np.nan
        self.diag_inds.array[...] = -78


@dataclass
class _Target:
    """One gate and its rows, routed by all variants in one command buffer."""

    device: qn.Device
    case: Planted
    top_k: int
    x: qn.Buffer = field(init=False)
    wanted: dict[tuple[str, ...], Arrays] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows, self.experts = len(self.case.x), len(self.case.weight)
        self.x, self.gate = self.device.buffer(self.case.x), self.case.gate(self.device)
        flags = np.arange(self.experts, dtype=np.int32) % 3 == 0
        self.bias = qn.RouteBias(flags.astype(np.int32), 0.5)
        self.table = np.arange(self.experts, dtype=np.int32)[::-1].copy()
        self.scratches = {variant: self._scratch() for variant in VARIANTS}

    def _scratch(self) -> _Scratch:
        shape = {"rows": self.rows, "experts": self.experts, "top_k": self.top_k}
        return _Scratch(
            qn.RouteScratch(self.device, **shape),
            filled(self.device, (self.rows * self.top_k,), np.int32, 0),
            filled(self.device, (self.experts,), np.float16, 0),
        )

    def _options(self, of: _Scratch, extras: tuple[str, ...]) -> dict[str, Any]:
        place = {"layer": 0, "layers": 1, "slot": 0, "max_rows": self.rows}
        options = {
            "bias": self.bias,
            "diag": qn.RouteDiag(of.diag_inds, of.diag_logits, **place),
            "remap": self.table,
            "return_logits": True,
        }
        return {name: options[name] for name in extras}

    def route(self, variants: tuple[Variant, ...], extras: tuple[str, ...], concurrent: bool) -> None:
        """Leave the results in the variants' scratches."""
        commands = self.device.command_buffer()
        with commands.compute_encoder(concurrent=concurrent) as encoder:
            for variant in variants:
                out = self.scratches[variant]
                out.poison()
                options = self._options(out, extras)
                qn.encode_moe_route_rows(
                    encoder, self.x, self.gate, out.scratch, rows=self.rows, fuse=variant, **options
                )
        commands.commit()
        commands.wait_until_completed()

    def found(self, variant: Variant, extras: tuple[str, ...]) -> Arrays:
        """Copies of what a variant left."""
        out = self.scratches[variant]
        logits = bool({"return_logits", "diag"} & set(extras))
        arrays = scratch_rows(out.scratch, self.rows, logits=logits)
        if "diag" in extras:
            arrays |= {"diag inds": out.diag_inds.array.copy(), "diag logits": out.diag_logits.array.copy()}
        return arrays

    def want(self, extras: tuple[str, ...]) -> Arrays:
        """The pair's results with nobody in the way."""
        if extras not in self.wanted:
            with setting(self.device, "simt_seed", None):
                self.route((PAIR,), extras, concurrent=False)
            self.wanted[extras] = self.found(PAIR, extras)
        return self.wanted[extras]


class Attack:
    """Inputs for all seeds: `attack(seed)` gives None, or what that seed found."""

    def __init__(self, device: qn.Device, rng: np.random.Generator) -> None:
        self.device = device
        self.targets = []
        for rows, experts, top_k in SHAPES:
            kinds: list[Half] = [mixed(rng, rows, experts, top_k)]
            kinds += [KINDS[name](rng, rows, experts, top_k) for name in KINDS if "some_nan" in name]
            self.targets += [_Target(device, plant(logits), top_k) for logits in kinds]
            self.targets.append(_Target(device, dense(rng, rows, experts, 512), top_k))

    def __call__(self, seed: int) -> str | None:
        """Shape, extras and kind of encoder follow from the seed as well.

        Raises:
            MemoryError: the device's memory is exhausted.
        """
        rest, which = divmod(seed, len(self.targets))
        target = self.targets[which]
        extras = tuple(name for i, name in enumerate(EXTRAS) if rest >> i & 1)
        want = target.want(extras)
        try:
            with setting(self.device, "simt_seed", seed):
                target.route(VARIANTS, extras, concurrent=bool(rest >> len(EXTRAS) & 1))
        except qn.DeviceError as error:
            return f"seed {seed}: {error}"
        for variant in VARIANTS:
            told = differences(target.found(variant, extras), want)
            if told is None and not scratch_is_cleared(target.scratches[variant].scratch):
                told = "the scratch is not left at 0"
            if told is not None:
                return f"seed {seed}: {variant} with {'+'.join(extras) or 'no extras'}: {told}"
        return None


@gate("adversary", kind="cpu")
def adversary(context: Context) -> Checks:
    """No seed of the executor changes a bit or finds a race: every variant, with and without extras."""
    attack = Attack(context.device, context.rng("adversary"))
    for first in range(0, SEEDS, 16):
        told = [attack(seed) for seed in range(context.seed + first, context.seed + first + 16)]
        yield f"seeds {first} to {first + 15}", next(filter(None, told), None)
