"""Sections D, E and F of the field faults: shapes, buffers and layout, batches and repetition."""

from __future__ import annotations

import numpy as np

import qwisp_native as qn

from .compare import difference, differences, expect, raises
from .faults import fault, logits_of, outcome, section
from .inputs import choice_order, dense, plant
from .refusals import refused_experts, small_gate
from .registry import PAIR, Checks, Context
from .routing import Layer, encode, planted_agrees, route, scratch_rows, variants_agree

# ---- D. Expert counts, K, shapes


@fault("D")
def expert_counts(context: Context) -> Checks:
    """vLLM 51521, imp 2056: counts off the template list crashed, or experts above 256 never won."""
    for experts in (8, 24, 144, 160, 248):
        rng = context.rng("expert counts", experts)
        planted = plant(rng.normal(0, 2, (2, experts)))
        yield from planted_agrees(context, f"E={experts}", planted, 8)
    yield from refused_experts(context.device)


@fault("D")
def refused_shape_writes_nothing(context: Context) -> Checks:
    """sglang 26303: an unsupported size returned uninitialised outputs."""
    router = qn.Router(small_gate(context), top_k=2)
    inds, scores = np.full((2, 2), 9, np.int32), np.full((2, 2), 9, np.float16)
    x = np.zeros((2, 1024), np.float16)
    told = raises(ValueError, ("x", "1024"), router, x, out=(inds, scores))
    yield "other H", told or expect(bool((inds == 9).all() and (scores == 9).all()), "outputs were written")


@fault("D")
def any_k(context: Context) -> Checks:
    """candle-vllm 296: the kernel took K for 8."""
    logits = context.rng("any K").integers(-9, 9, (2, 64)) / 4
    for top_k in (1, 2, 4, 6, 7, 9, 10, 16, 31, 32, 33, 64):
        yield from planted_agrees(context, f"K={top_k}", plant(logits), top_k)
    for top_k in (0, 65, -1):
        words = ("top_k", str(top_k))
        yield f"K={top_k}", raises(ValueError, words, qn.plan, context.device, 1, 512, 64, top_k)


@fault("D")
def k_equals_eight_experts(context: Context) -> Checks:
    """vLLM 29439: too few experts for the groups put k out of range."""
    yield from outcome(context, "E=8 K=8", np.arange(8.0), range(7, -1, -1))


@fault("D")
def no_rows(context: Context) -> Checks:
    """sglang 22455: M = 0 raised."""
    for variant in (PAIR, *context.variants(2)):
        router = qn.Router(small_gate(context), top_k=2, fuse=variant)
        inds, scores = router(np.zeros((0, 512), np.float16))
        ok = inds.shape == (0, 2) and scores.shape == (0, 2) and router.plan(0).dispatches == 0
        yield variant, expect(ok, f"{inds.shape} {scores.shape} {router.plan(0).dispatches}")


@fault("D")
def no_index_wraps(context: Context) -> Checks:
    """vLLM 5938, mlx 4538: 32-bit indices overflowed on huge inputs."""
    for rows, hidden, experts in (
        (2**22, 512, 8),
        (2**23, 256 * 2, 256),
        (2**33, 2048, 256),
        (2**62, 512, 8),
    ):
        told = raises(ValueError, ("rows",), qn.plan, context.device, rows, hidden, experts, 2)
        yield f"M={rows} H={hidden} E={experts}", told


# ---- E. Buffers, dtypes, layout


@fault("E")
def negative_ids_in_the_remap_table(context: Context) -> Checks:
    """vLLM 20166: the -1 of an absent expert was cast to unsigned."""
    case = dense(context.rng("negative ids"), 3, 16, 512)
    handle = case.gate(context.device)
    pair = route(handle, case.x, 4, PAIR)
    table = np.where(np.arange(16) % 2, -1, np.arange(16)).astype(np.int32)
    for variant in (PAIR, *context.variants(4)):
        scratch = qn.RouteScratch(context.device, rows=3, experts=16, top_k=4)
        encode(context.device, [Layer(handle, case.x, scratch, variant, {"remap": table})])
        yield variant, difference("inds", scratch.inds, table[pair["inds"]])


@fault("E")
def remap_never_reads_outside_its_table(context: Context) -> Checks:
    """vLLM 46408: an id outside the table wrapped to the last expert."""
    case = dense(context.rng("short table"), 1, 16, 512)
    scratch = qn.RouteScratch(context.device, rows=1, experts=16, top_k=4)
    table = np.zeros(15, np.int32)
    layer = Layer(case.gate(context.device), case.x, scratch, PAIR, {"remap": table})
    yield "table of 15", raises(ValueError, ("remap", "15", "16"), encode, context.device, [layer])


@fault("E")
def unaligned_arrays(context: Context) -> Checks:
    """Found in a CPU prototype: numpy arrays are not aligned for vector loads."""
    case = dense(context.rng("unaligned"), 2, 16, 512)
    handle = case.gate(context.device)
    want = route(handle, case.x, 4, PAIR)
    for offset in (2, 6, 10):
        raw = np.zeros(case.x.nbytes + 16, np.uint8)
        x = raw[offset : offset + case.x.nbytes].view(np.float16).reshape(case.x.shape)
        x[...] = case.x
        yield from variants_agree(context, f"offset {offset}", handle, x, 4, want=want)


@fault("E")
def rows_before_columns(context: Context) -> Checks:
    """mirage 764: weights were written [K, M] where [M, K] was read."""
    logits = np.stack([np.roll(np.arange(256.0), shift) / 8 for shift in (0, 100, 17)])
    want = {"inds": np.stack([choice_order(row.astype(np.float32), 8) for row in logits])}
    yield from planted_agrees(context, "M=3 K=8", plant(logits), 8, want)


@fault("E")
def diag_remap_and_bias_together(context: Context) -> Checks:
    """flashinfer 2629: one of several index maps was dropped, and consumers read another."""
    case = dense(context.rng("together"), 1, 16, 512)
    handle = case.gate(context.device)
    bias = qn.RouteBias((np.arange(16) % 2).astype(np.int32), 1.0)
    pair = route(handle, case.x, 4, PAIR, bias=bias)
    table = (100 - np.arange(16)).astype(np.int32)
    for variant in (PAIR, *context.variants(4)):
        inds = context.device.empty((4,), np.int32)
        logits = context.device.empty((16,), np.float16)
        place = qn.RouteDiag(inds, logits, layer=0, layers=1, slot=0, max_rows=1)
        scratch = qn.RouteScratch(context.device, rows=1, experts=16, top_k=4)
        options = {"bias": bias, "diag": place, "remap": table}
        encode(context.device, [Layer(handle, case.x, scratch, variant, options)])
        told = difference("diag inds", inds.array[None], pair["inds"])
        told = told or difference("diag logits", logits.array[None], pair["logits"])
        want = pair | {"inds": table[pair["inds"]]}
        yield variant, told or differences(scratch_rows(scratch, 1), want)


@fault("E")
def bias_moves_the_choice_not_the_gates(context: Context) -> Checks:
    """llama.cpp 18071: the biased tensor was taken for the one to gather from."""
    logits = logits_of((7, 1), (9, 2), rest=-np.inf)
    planted = plant(logits)
    plain = route(planted.gate(context.device), planted.x, 2, PAIR)
    resident = np.zeros(256, np.int32)
    resident[7] = 1
    want = {"inds": np.array([[7, 9]], np.int32), "scores": plain["scores"][:, ::-1].copy()}
    bias = qn.RouteBias(resident, 1.5)
    yield from variants_agree(
        context, "7 first", planted.gate(context.device), planted.x, 2, bias=bias, want=want
    )
    rng = context.rng("bias moves")
    resident = rng.integers(0, 2, 256).astype(np.int32)
    logits = (np.round(rng.normal(0, 4, (4, 256))) / 2).astype(np.float16)
    order = [choice_order(row, 8) for row in logits.astype(np.float32) + resident.astype(np.float32)]
    planted = plant(logits)
    bias = qn.RouteBias(resident, 1.0)
    want = {"inds": np.stack(order), "logits": logits}
    yield from variants_agree(
        context, "random", planted.gate(context.device), planted.x, 8, bias=bias, want=want
    )


# ---- F. Batches, repetition


@fault("F")
def result_does_not_depend_on_the_batch(context: Context) -> Checks:
    """vLLM 57016, sglang 38695: results changed with the batch size."""
    case = dense(context.rng("batch"), 32, 16, 512)
    handle = case.gate(context.device)
    whole = route(handle, case.x, 4, PAIR)
    for rows in (1, 2, 7, 25, 32):
        want = {key: value[:rows] for key, value in whole.items()}
        yield from variants_agree(context, f"M={rows}", handle, case.x[:rows], 4, want=want)


@fault("F")
def counters_reset_themselves(context: Context) -> Checks:
    """kokkos 6430, sparkinfer 282: a counter that outlives its launch breaks the next one."""
    case, other = (dense(context.rng("counters", i), 2, 16, 512) for i in range(2))
    handle = case.gate(context.device)
    want = route(handle, case.x, 4, PAIR)
    for variant in context.variants(4):
        scratch = qn.RouteScratch(context.device, rows=2, experts=16, top_k=4)
        layer = Layer(handle, case.x, scratch, variant, {"return_logits": True})
        before = Layer(handle, other.x, scratch, PAIR)  # counts nothing, and leaves other results
        for launch in range(5):
            encode(context.device, [before])
            encode(context.device, [layer])
            yield f"{variant} launch {launch}", differences(scratch_rows(scratch, 2), want)


section("D", "Expert counts, K and shapes, as reported by other projects.")
section("E", "Buffers and layout, as reported by other projects.")
section("F", "Batches and repetition, as reported by other projects.")
