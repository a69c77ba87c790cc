"""The same commands again without any clearing: the fused kernels leave their state as they found it."""

from __future__ import annotations

import numpy as np

import qwisp_native as qn
from qwisp_native.testing import scratch_is_cleared

from .compare import difference, differences, expect
from .inputs import dense, mixed, plant
from .registry import PAIR, Checks, Context, gate
from .routing import Layer, encode, filled, route, scratch_rows

EXPERTS, TOP_K, HIDDEN = 64, 8, 512


@gate("repeats")
def repeats(context: Context) -> Checks:
    """One scratch over and over: in new command buffers, other inputs, other M, variants in turn."""
    device = context.device
    rng = context.rng("repeats")
    cases = [dense(rng, rows, EXPERTS, HIDDEN) for rows in (4, 1, 3, 8, 1, 2)]
    cases.append(plant(mixed(rng, 8, EXPERTS, TOP_K)))
    pairs = [route(case.gate(device), case.x, TOP_K, PAIR) for case in cases]
    for order in ((PAIR,), *((v,) for v in context.variants(TOP_K)), (PAIR, *context.variants(TOP_K))):
        scratch = qn.RouteScratch(device, rows=8, experts=EXPERTS, top_k=TOP_K)
        told = None
        for i in range(2 * len(cases)):
            case, pair = cases[i % len(cases)], pairs[i % len(cases)]
            options = {"return_logits": True}
            encode(device, [Layer(case.gate(device), case.x, scratch, order[i % len(order)], options)])
            told = told or differences(scratch_rows(scratch, len(case.x)), pair)
            told = told or expect(scratch_is_cleared(scratch), f"launch {i} left its state behind")
        yield f"{' '.join(order)}: {2 * len(cases)} command buffers", told


@gate("repeats-in-one")
def repeats_in_one(context: Context) -> Checks:
    """Twelve routes through one scratch in one encoder, serial and concurrent; diag keeps each choice."""
    device = context.device
    rng = context.rng("repeats-in-one")
    launches, rows = 12, 3
    cases = [dense(rng, rows, EXPERTS, HIDDEN) for _ in range(3)]
    handles = [case.gate(device) for case in cases]
    pairs = [route(handle, case.x, TOP_K, PAIR) for handle, case in zip(handles, cases, strict=True)]
    for order in (
        (PAIR,),
        *((v,) for v in context.variants(TOP_K)),
        ("last", PAIR, "single", "split_last", "split_pair"),
    ):
        for concurrent in (False, True):
            scratch = qn.RouteScratch(device, rows=rows, experts=EXPERTS, top_k=TOP_K)
            seen = filled(device, (launches, rows, TOP_K), np.int32, -7)
            logits = device.empty((EXPERTS,), np.float16)
            layers = []
            for i in range(launches):
                place = qn.RouteDiag(seen, logits, layer=0, layers=1, slot=i, max_rows=rows)
                case, handle = cases[i % 3], handles[i % 3]
                layers.append(Layer(handle, case.x, scratch, order[i % len(order)], {"diag": place}))
            encode(device, layers, concurrent)
            want = np.stack([pairs[i % 3]["inds"] for i in range(launches)])
            told = difference("inds of all launches", seen.array, want)
            told = told or differences(scratch_rows(scratch, rows), pairs[(launches - 1) % 3])
            yield f"{' '.join(order)} {'concurrent' if concurrent else 'serial'}", told
