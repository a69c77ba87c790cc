"""G-A: the fused variants give the bits of the pair, and the pair those of the contract."""

from __future__ import annotations

import numpy as np

import qwisp_native as qn

from .compare import differences, expect
from .inputs import KINDS, dense, golden, mixed, plant
from .registry import MAX_FUSED_TOP_K, PAIR, Checks, Context, gate
from .routing import planted_agrees, route, variants_agree

SMALL_BATCHES = (1, 2, 3, 5, 8)
LARGE_BATCHES = (16, 25, 32)
EXPERTS = (8, 16, 40, 64, 128, 144, 160, 248, 256)
TOP_K = (1, 2, 4, 6, 7, 8, 9, 10, 16, 32)
HIDDEN = (512, 1024, 2048, 2560)


@gate("ga-kinds")
def kinds(context: Context) -> Checks:
    """Every kind of row, M = 1, 2, 3, 5, 8: fused = pair = planted logits in the contract's order."""
    for rows in SMALL_BATCHES:
        for name, make in KINDS.items():
            logits = make(context.rng("ga-kinds", name, rows), rows, 256, 8)
            yield from planted_agrees(context, f"M={rows} {name}", plant(logits), 8)


@gate("ga-batches")
def batches(context: Context) -> Checks:
    """M = 16, 25, 32 with a different kind in each row."""
    for rows in LARGE_BATCHES:
        logits = mixed(context.rng("ga-batches", rows), rows, 256, 8)
        yield from planted_agrees(context, f"M={rows} mixed", plant(logits), 8)


@gate("ga-shapes")
def shapes(context: Context) -> Checks:
    """E = 8 ... 256 against K = 1 ... 32 and E."""
    for experts in EXPERTS:
        for top_k in sorted({*(k for k in TOP_K if k <= experts), experts}):
            logits = mixed(context.rng("ga-shapes", experts, top_k), 3, experts, top_k)
            name = f"E={experts} K={top_k}"
            yield from planted_agrees(context, name, plant(logits), top_k)
            if top_k > MAX_FUSED_TOP_K:
                plan = qn.plan(context.device, 3, 512, experts, top_k, fuse=True)
                ok = plan.variant == PAIR and str(MAX_FUSED_TOP_K) in plan.reason
                yield f"{name}: fuse=True is the pair", None if ok else f"{plan.variant}: {plan.reason}"


@gate("ga-dense")
def dense_gates(context: Context) -> Checks:
    """Gates and hidden rows as in a checkpoint, H = 512 ... 2560, every row with a tie."""
    for hidden in HIDDEN:
        for rows, experts, top_k in ((1, 256, 8), (3, 64, 6)):
            case = dense(context.rng("ga-dense", hidden, rows), rows, experts, hidden)
            name = f"H={hidden} M={rows} E={experts}"
            yield from variants_agree(context, name, case.gate(context.device), case.x, top_k)


@gate("ga-golden")
def golden_arrays(context: Context) -> Checks:
    """The golden cases that ship with the package, through the whole path."""
    case = golden("topk_256_8")
    for i, name in enumerate(case["names"]):
        want = {"inds": case["inds"][i : i + 1], "scores": case["scores"][i : i + 1]}
        yield from planted_agrees(context, str(name), plant(case["logits"][i]), 8, want)
    path = golden("path_2048_256_8")
    handle = qn.Gate(context.device, path["weight"], path["scales"], path["biases"])
    exact = {key: path[key] for key in ("logits", "inds", "scores")} if context.exact else None
    yield from variants_agree(context, "path", handle, path["x"], 8, want=exact)


@gate("ga-rows-alone")
def rows_alone(context: Context) -> Checks:
    """A row alone gives what it gives inside a batch of 2 ... 32: the contract is local to a row."""
    case = dense(context.rng("ga-rows-alone"), 32, 40, 512)
    handle = case.gate(context.device)
    x = case.x.copy()
    x[7] = np.nan  # a padding row must not reach its neighbours
    x[9] = np.inf
    for variant in (PAIR, *context.variants(8)):
        alone = [route(handle, x[m : m + 1], 8, variant) for m in range(32)]
        want = {key: np.concatenate([row[key] for row in alone]) for key in alone[0]}
        for rows in (2, 3, 8, 16, 25, 32):
            start = 32 - rows
            got = route(handle, x[start:], 8, variant)
            told = differences(got, {key: value[start:] for key, value in want.items()})
            yield f"M={rows} {variant}", told


@gate("ga-contract-compiler")
def contract_compiler(context: Context) -> Checks:
    """The library switch that lets the compiler contract: the fused variants still equal the pair."""
    device = qn.Device(context.device.kind, contract="compiler")
    other = Context(device, context.seed)
    yield "contract", expect(device.contract == "compiler", device.contract)
    path = golden("path_2048_256_8")
    handle = qn.Gate(device, path["weight"], path["scales"], path["biases"])
    yield from variants_agree(other, "path", handle, path["x"], 8)
    case = dense(context.rng("ga-contract-compiler"), 4, 64, 1024)
    bias = qn.RouteBias(context.rng("resident").integers(0, 2, 64).astype(np.int32), 0.25)
    yield from variants_agree(other, "dense", case.gate(device), case.x, 6)
    yield from variants_agree(other, "dense, bias", case.gate(device), case.x, 6, bias=bias)
    logits = mixed(context.rng("planted"), 6, 64, 8)
    yield from planted_agrees(other, "planted", plant(logits), 8)
