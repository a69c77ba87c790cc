"""What the contract does not cover is a clear error before anything is written, never a wrong answer."""

from __future__ import annotations

from typing import Any

import numpy as np

import qwisp_native as qn

from .compare import AnyArray, difference, expect, raises
from .inputs import dense
from .registry import PAIR, Checks, Context, gate


def gate_arrays(experts: int, hidden: int) -> tuple[Any, Any, Any]:
    """Weight, scales and biases of zeros."""
    pairs = np.zeros((experts, hidden // 64), np.float16)
    return np.zeros((experts, hidden), np.uint8), pairs, pairs.copy()


def small_gate(context: Context, experts: int = 16) -> qn.Gate:
    """A gate of zeros with H = 512."""
    return qn.Gate(context.device, *gate_arrays(experts, 512))


def refused_experts(device: qn.Device) -> Checks:
    """Counts of experts off the grid or above the trees' slots."""
    for experts, limit in (
        (60, "multiple of 8"),
        (62, "multiple of 8"),
        (264, "256"),
        (384, "256"),
        (512, "256"),
    ):
        words = ("experts", str(experts), limit)
        yield f"E={experts}", raises(ValueError, words, qn.Gate, device, *gate_arrays(experts, 512))


@gate("refused-shapes")
def shapes(context: Context) -> Checks:
    """E % 8, E > 256, H % 512, K outside 1 ... E, rows too many: each named with value and limit."""
    device = context.device
    yield from refused_experts(device)
    for hidden in (64, 256, 768):
        words = ("hidden", str(hidden), "512")
        yield f"H={hidden}", raises(ValueError, words, qn.Gate, device, *gate_arrays(8, hidden))
    handle = small_gate(context)
    for top_k in (0, -1, 17):
        words = ("top_k", str(top_k), "16")
        yield f"K={top_k}", raises(ValueError, words, qn.Router, handle, top_k=top_k)
        told = raises(ValueError, words, qn.RouteScratch, device, rows=1, experts=16, top_k=top_k)
        yield f"scratch K={top_k}", told
    for variant in context.variants(1):
        words = ("fuse", variant, "33")
        yield f"K=33 {variant}", raises(ValueError, words, qn.plan, device, 1, 512, 64, 33, fuse=variant)
    for name, rows, hidden, experts in (
        ("rows * hidden = 2^31", 2**31 // 512, 512, 8),
        ("rows * experts = 2^31", 2**31 // 256, 512, 256),
        ("rows = 2^40", 2**40, 2048, 256),
        ("rows = -1", -1, 512, 8),
    ):
        yield name, raises(ValueError, ("rows",), qn.plan, device, rows, hidden, experts, 2)
    largest = qn.plan(device, 2**31 // 512 - 1, 512, 8, 2)
    yield "just below 2^31", expect(largest.dispatches == 2, f"{largest.dispatches} dispatches")


@gate("refused-types")
def types(context: Context) -> Checks:
    """A wrong dtype or layout names the argument, what it was and what it may be; nothing is converted."""
    device = context.device
    handle = small_gate(context)
    router = qn.Router(handle, top_k=2)
    x = np.zeros((2, 512), np.float16)
    brain = x.view(np.uint16)
    for name, bad, error, words in (
        ("float32", x.astype(np.float32), TypeError, ("x", "float32", "float16")),
        ("float64", x.astype(np.float64), TypeError, ("x", "float64", "float16")),
        ("bfloat16 bits", brain, TypeError, ("x", "uint16", "float16")),
        ("one dimension", x[0], ValueError, ("x",)),
        ("other H", np.zeros((2, 1024), np.float16), ValueError, ("x", "1024", "512")),
        ("not contiguous", np.zeros((4, 512), np.float16)[::2], ValueError, ("x", "contiguous")),
        ("big endian", x.astype(">f2"), TypeError, ("x",)),
        ("a list", [[0.0] * 512], TypeError, ("x",)),
    ):
        yield f"x {name}", raises(error, words, router, bad)
    weight, scales, biases = gate_arrays(16, 512)
    for name, arrays, error, words in (
        ("weight", (weight.astype(np.int8), scales, biases), TypeError, ("weight", "int8", "uint8")),
        ("scales", (weight, scales.astype(np.float32), biases), TypeError, ("scales", "float32", "float16")),
        ("biases", (weight, scales, biases.view(np.uint16)), TypeError, ("biases", "uint16", "float16")),
        ("scales", (weight, scales[:, :4].copy(), biases), ValueError, ("scales", "4", "8")),
        ("biases", (weight, scales, biases[:8].copy()), ValueError, ("biases", "8", "16")),
    ):
        yield f"{name} {error.__name__}", raises(error, words, qn.Gate, device, *arrays)

    def biased(resident: AnyArray, eps: float) -> object:
        return router(x, bias=qn.RouteBias(resident, eps))

    for name, resident, eps, error in (
        ("too short", np.zeros(15, np.int32), 1.0, ValueError),
        ("float resident", np.zeros(16, np.float32), 1.0, TypeError),
        ("eps NaN", np.zeros(16, np.int32), float("nan"), ValueError),
        ("eps inf", np.zeros(16, np.int32), float("inf"), ValueError),
    ):
        yield f"bias {name}", raises(error, (), biased, resident, eps)
    told = raises(ValueError, ("renormal",), qn.Router, handle, top_k=2, renormalize=False)
    yield "renormalize=False", told
    yield "fuse", raises(ValueError, ("fuse", "both"), qn.Router, handle, top_k=2, fuse="both")


@gate("refused-untouched")
def untouched(context: Context) -> Checks:
    """A refused call leaves the caller's outputs as they were; M = 0 gives empty arrays and no dispatch."""
    case = dense(context.rng("refused-untouched"), 3, 16, 512)
    router = qn.Router(case.gate(context.device), top_k=2)
    inds = np.full((3, 2), -5, np.int32)
    scores = np.full((3, 2), 7, np.float16)
    for name, x, out in (
        ("x dtype", case.x.astype(np.float32), (inds, scores)),
        ("x shape", np.zeros((3, 1024), np.float16), (inds, scores)),
        ("out rows", case.x[:2], (inds, scores)),
        ("out dtype", case.x, (inds, scores.astype(np.float32))),
        ("out order", case.x, (scores, inds)),
    ):
        told = raises((TypeError, ValueError), (), router, x, out=out)
        told = told or difference("inds", inds, np.full((3, 2), -5, np.int32))
        yield name, told or difference("scores", scores, np.full((3, 2), 7, np.float16))
    got = router(case.x, out=(inds, scores))
    want = qn.Router(case.gate(context.device), top_k=2, fuse=PAIR)(case.x)
    yield "out", difference("inds", inds, want[0]) or difference("scores", scores, want[1])
    yield "out is returned", expect(got[0] is inds and got[1] is scores, "other arrays")
    for variant in (PAIR, *context.variants(2)):
        empty = qn.Router(case.gate(context.device), top_k=2, fuse=variant)
        inds0, scores0, logits0 = empty(case.x[:0], return_logits=True)
        told = difference("inds", inds0, np.empty((0, 2), np.int32))
        told = told or difference("scores", scores0, np.empty((0, 2), np.float16))
        told = told or difference("logits", logits0, np.empty((0, 16), np.float16))
        dispatches = empty.plan(0).dispatches
        yield f"M=0 {variant}", told or expect(dispatches == 0, f"{dispatches} dispatches")
