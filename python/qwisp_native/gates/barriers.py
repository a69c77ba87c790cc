"""Concurrent encoders: the barriers that a route needs, no more and no fewer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import qwisp_native as qn
from qwisp_native.settings import Variant

from .compare import differences, expect, raises
from .inputs import dense
from .registry import PAIR, Checks, Context, gate
from .routing import Layer, encode, route, scratch_rows

EXPERTS, TOP_K, HIDDEN, ROWS = 16, 4, 512, 1


def requests(device: qn.Device) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every set of extras that a route may be given."""
    bias = qn.RouteBias(np.arange(EXPERTS, dtype=np.int32) % 2, 0.5)
    table = np.arange(EXPERTS, dtype=np.int32)[::-1].copy()
    inds, logits = device.empty((ROWS * TOP_K,), np.int32), device.empty((EXPERTS,), np.float16)
    diag = qn.RouteDiag(inds, logits, layer=0, layers=1, slot=0, max_rows=ROWS)
    for bits in range(8):
        chosen = {"bias": bias, "diag": diag, "remap": table}
        extras = {name: value for i, (name, value) in enumerate(chosen.items()) if bits >> i & 1}
        yield "+".join(extras) or "plain", extras


@gate("barriers")
def enough(context: Context) -> Checks:
    """A concurrent encoder gets a barrier between the steps of a route, and gives the bits of a serial one.

    The software device's hazard tracking refuses a missing one by name.
    """
    device = context.device
    case = dense(context.rng("barriers"), ROWS, EXPERTS, HIDDEN)
    handle = case.gate(device)
    for name, extras in requests(device):
        for variant in (PAIR, *context.variants(TOP_K)):
            found = []
            for concurrent in (False, True):
                scratch = qn.RouteScratch(device, rows=ROWS, experts=EXPERTS, top_k=TOP_K)
                layer = Layer(handle, case.x, scratch, variant, {"return_logits": True, **extras})
                plan = encode(device, [layer], concurrent)[0]
                found.append(scratch_rows(scratch, ROWS))
            steps = (2 if variant in (PAIR, "split_pair") else 1) + ("diag" in extras) + ("remap" in extras)
            told = differences(found[1], found[0])
            told = told or expect(plan.dispatches == steps, f"{plan.dispatches} dispatches, not {steps}")
            yield f"{name} {variant}", told or expect(plan.barriers == steps - 1, f"{plan.barriers} barriers")


@gate("barriers-missing")
def missing(context: Context) -> Checks:
    """Two routes in one concurrent encoder: a scratch each needs no barrier, a shared one is refused."""
    device = context.device
    case = dense(context.rng("barriers-missing"), ROWS, EXPERTS, HIDDEN)
    handle = case.gate(device)
    x = device.buffer(case.x)
    pair = route(handle, case.x, TOP_K, PAIR)
    for variant in (PAIR, *context.variants(TOP_K)):
        apart = [qn.RouteScratch(device, rows=ROWS, experts=EXPERTS, top_k=TOP_K) for _ in range(2)]
        _without_barrier(device, x, handle, apart, variant)
        told = [differences(scratch_rows(scratch, ROWS), pair) for scratch in apart]
        yield f"{variant}: a scratch each", told[0] or told[1]
        if device.kind == "cpu":  # Apple's Metal leaves such hazards to the caller
            shared = [apart[0], apart[0]]
            told_shared = raises(
                RuntimeError, ("barrier",), _without_barrier, device, x, handle, shared, variant
            )
            yield f"{variant}: one for both", told_shared


def _without_barrier(
    device: qn.Device, x: qn.Buffer, handle: qn.Gate, scratches: list[qn.RouteScratch], variant: Variant
) -> None:
    commands = device.command_buffer()
    with commands.compute_encoder(concurrent=True) as encoder:
        for scratch in scratches:
            qn.encode_moe_route_rows(encoder, x, handle, scratch, rows=ROWS, fuse=variant, return_logits=True)
    commands.commit()
    commands.wait_until_completed()
