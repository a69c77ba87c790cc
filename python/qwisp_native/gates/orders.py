"""Thread and threadgroup order must not show: the same bits under every shuffle, and on every repetition."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np

import qwisp_native as qn

from .compare import differences
from .inputs import Half, dense, mixed, plant
from .registry import PAIR, Checks, Context, gate
from .routing import Arrays, route, setting

SEEDS = 12


def shuffled(device: qn.Device, seed: int) -> AbstractContextManager[None]:
    """Runs threads and threadgroups in another order, where the device can; hardware does so anyway."""
    return setting(device, "simt_seed", seed) if device.kind == "cpu" else nullcontext()


@gate("orders")
def orders(context: Context) -> Checks:
    """Pair and fused variants under shuffled orders give the bits of the pair in plain order."""
    device = context.device
    rng = context.rng("orders")
    nan = rng.normal(0, 1, (2, 64)).astype(np.float16)
    nan[:, ::9] = np.nan
    inputs = {
        "dense": dense(rng, 3, 64, 512),
        "mixed": plant(mixed(rng, 5, 64, 8)),
        "NaN": plant(nan),
        "wide": dense(rng, 1, 64, 2560),  # more than the split kernels take at once
    }
    for name, case in inputs.items():
        handle = case.gate(device)
        bias = qn.RouteBias(rng.integers(0, 2, 64).astype(np.int32), 0.5)
        for told_bias, given in (("", None), (" bias", bias)):
            want = route(handle, case.x, 8, PAIR, bias=given)
            for variant in (PAIR, *context.variants(8)):
                told = None
                for seed in range(context.seed + 1, context.seed + 1 + SEEDS):
                    with shuffled(device, seed):
                        got = route(handle, case.x, 8, variant, bias=given)
                    told = told or _named(seed, differences(got, want))
                yield f"{name}{told_bias} {variant}", told


def _named(seed: int, told: str | None) -> str | None:
    return told and f"seed {seed}: {told}"


def all_equal_launches(context: Context, launches: int, rows: int = 32, experts: int = 64) -> str | None:
    """`last` on rows of equal logits, `launches` times under a new order each: one and the same answer."""
    x: Half = np.zeros((rows, 512), np.float16)
    flat = plant(np.zeros((1, experts), np.float16))
    router = qn.Router(flat.gate(context.device), top_k=8, fuse="last")
    reverse = sorted(range(experts), key=lambda t: f"{t:08b}"[::-1])[:8]
    want: Arrays = {
        "inds": np.tile(np.array(reverse, np.int32), (rows, 1)),
        "scores": np.full((rows, 8), 0.125, np.float16),
    }
    for launch in range(launches):
        with shuffled(context.device, context.seed + 1000 + launch):
            inds, scores = router(x)
        if told := differences({"inds": inds, "scores": scores}, want):
            return f"launch {launch}: {told}"
    return None


@gate("orders-all-equal")
def all_equal(context: Context) -> Checks:
    """The last arriver decides nothing: 640 rows of equal logits, every launch in another order."""
    yield "32 rows x 20 launches", all_equal_launches(context, 20)
