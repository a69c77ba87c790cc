"""Every vector target of the CPU device gives the bits of the shaders themselves, run thread by thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import qwisp_native as qn

from .compare import differences
from .inputs import KINDS, Planted, Rng, dense, mixed, plant
from .registry import PAIR, Checks, Context, gate
from .routing import Arrays, route

EXECUTOR = "simt"


@contextmanager
def kernels(device: qn.Device, name: str) -> Iterator[None]:
    """Runs another implementation of the kernels meanwhile."""
    before = device.kernels
    device.kernels = name
    try:
        yield
    finally:
        device.kernels = before


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


def expert_rows_agree(device: qn.Device, case: Planted, top_k: int, bias: qn.RouteBias | None) -> str | None:
    """Each variant under each target against the pair on the executor."""
    handle = case.gate(device)
    with kernels(device, EXECUTOR):
        want: Arrays = route(handle, case.x, top_k, PAIR, bias=bias)
    for name in device.kernel_names:
        for variant in (PAIR, "single", "last"):
            with kernels(device, name):
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
        told = expert_rows_agree(context.device, make(rng, rows, experts, hidden), top_k, bias)
        yield told and f"M={rows} E={experts} H={hidden} K={top_k} {make.__name__}: {told}"
        done += rows * experts


@gate("targets")
def targets(context: Context) -> Checks:
    """avx512, avx2, neon, portable against the executor: kinds of rows, shapes, 30,000 random expert-rows."""
    device = context.device
    if not device.kernel_names:
        return
    for name, make in KINDS.items():
        case = plant(make(context.rng("targets", name), 2, 256, 8))
        yield name, expert_rows_agree(device, case, 8, None)
        bias = qn.RouteBias(np.arange(256, dtype=np.int32) % 3, 0.25)
        yield f"{name}, bias", expert_rows_agree(device, case, 8, bias)
    for experts in (8, 24, 40, 136, 248):
        case = plant(mixed(context.rng("targets", experts), 11, experts, 4))
        yield f"E={experts}", expert_rows_agree(device, case, 4, None)
    told = [text for text in random_rows(context, 30_000) if text]
    yield "random rows", told[0] if told else None
