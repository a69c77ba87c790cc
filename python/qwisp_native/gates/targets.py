"""Every vector target of the CPU device gives the bits of the shaders themselves, run thread by thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import qwisp_native as qn

from .compare import differences
from .inputs import KINDS, Planted, Rng, dense, mixed, plant
from .registry import PAIR, Checks, Context, gate
from .routing import Arrays, route, setting

EXECUTOR = "simt"


def wild(rng: Rng, rows: int, experts: int, hidden: int) -> Planted:
    """x of every exponent and sign with some infinities, NaN and zeros; scales and biases likewise."""

    def halves(*shape: int) -> np.ndarray:
        bits = rng.integers(0, 1 << 16, shape, dtype=np.uint16)
        return np.where((bits & 0x7C00) == 0x7C00, bits & 0x8FFF, bits).astype(np.uint16).view(np.float16)

    x = halves(rows, hidden)
    special = rng.random((rows, hidden)) < 1 / (4 * hidden)  # a row in four or so meets one
    x[special] = rng.choice(np.array([np.inf, -np.inf, np.nan], np.float16), special.sum())
    weight = rng.integers(0, 256, (experts, hidden), dtype=np.uint8)
    weight[rng.random(weight.shape) < 0.1] = 0
    pairs = (experts, hidden // 64)
    return Planted(x, weight, halves(*pairs), halves(*pairs), np.empty((rows, experts), np.float16))


def expert_rows_agree(context: Context, case: Planted, top_k: int, bias: qn.RouteBias | None) -> str | None:
    """Each variant under each target against the pair on the executor."""
    device = context.device
    handle = case.gate(device)
    with setting(device, "kernels", EXECUTOR):
        want: Arrays = route(handle, case.x, top_k, PAIR, bias=bias)
    for name in device.kernel_names:
        for variant in (PAIR, *context.variants(top_k)):
            with setting(device, "kernels", name):
                told = differences(route(handle, case.x, top_k, variant, bias=bias), want)
            if told:
                return f"{name} {variant}: {told}"
    return None


def random_rows(context: Context, expert_rows: int, part: int = 0) -> Iterator[str | None]:
    """Random and adversarial rows under random biases, at least `expert_rows` logits of each target."""
    rng = context.rng("targets", part)
    done = 0
    while done < expert_rows:
        rows, experts = int(rng.integers(1, 36)), 8 * int(rng.integers(1, 33))
        hidden, top_k = 512 * int(rng.integers(1, 3)), int(rng.integers(1, min(experts, 32) + 1))
        make = (wild, dense)[int(rng.integers(0, 2))]
        bias = None
        if rng.integers(0, 2):
            bias = qn.RouteBias(
                rng.integers(0, 2, experts).astype(np.int32), float(rng.choice([1e-3, 0.5, 1e4]))
            )
        told = expert_rows_agree(context, make(rng, rows, experts, hidden), top_k, bias)
        yield told and f"M={rows} E={experts} H={hidden} K={top_k} {make.__name__}: {told}"
        done += rows * experts


@gate("targets", kind="cpu")
def targets(context: Context) -> Checks:
    """avx512, avx2, neon, portable against the executor: kinds of rows, shapes, 30,000 random expert-rows."""
    for name, make in KINDS.items():
        case = plant(make(context.rng("targets", name), 2, 256, 8))
        yield name, expert_rows_agree(context, case, 8, None)
        bias = qn.RouteBias(np.arange(256, dtype=np.int32) % 3, 0.25)
        yield f"{name}, bias", expert_rows_agree(context, case, 8, bias)
    for experts in (8, 24, 40, 136, 248):
        case = plant(mixed(context.rng("targets", experts), 11, experts, 4))
        yield f"E={experts}", expert_rows_agree(context, case, 4, None)
    told = [text for text in random_rows(context, 30_000) if text]
    yield "random rows", told[0] if told else None
