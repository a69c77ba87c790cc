"""G-C, bias: chooses on logit + eps where resident; gates, scores and renormalisation never see it."""

from __future__ import annotations

import numpy as np

import qwisp_native as qn

from .compare import expect
from .inputs import KINDS, choice_order, dense, golden, mixed, plant
from .registry import PAIR, Checks, Context, gate
from .routing import Arrays, Layer, encode, route, variants_agree

STEP = 2.0**-10  # one f16 ulp at 1
NUDGE = 2.0**-23  # one f32 ulp at 1


def _resident(experts: int, *chosen: int) -> np.ndarray:
    out = np.zeros(experts, np.int32)
    out[list(chosen)] = 1
    return out


@gate("gc-bias-flips")
def flips(context: Context) -> Checks:
    """One place is won by a margin of one f16 ulp: eps just below it, equal to it, and just above it."""
    experts, held, challenger = 64, 3, 1
    logits = np.full((2, experts), -4, np.float16)
    logits[:, held] = 1 + STEP
    logits[:, challenger] = 1
    logits[1] = logits[1] * np.float16(0.5)  # a margin of half the size in the second row
    planted = plant(logits)
    handle = planted.gate(context.device)
    # The tie at the margin goes to the smaller bit reversal: 1 -> 128, 3 -> 192.
    for row, scale in ((0, 1.0), (1, 0.5)):
        for word, eps, first in (
            ("below", STEP - NUDGE, held),
            ("at", STEP, challenger),
            ("above", STEP + NUDGE, challenger),
        ):
            bias = qn.RouteBias(_resident(experts, challenger), eps * scale)
            want: Arrays = {"inds": np.array([[first]], np.int32), "scores": np.ones((1, 1), np.float16)}
            x = planted.x[row : row + 1]
            yield from variants_agree(
                context, f"{word}, margin {scale} ulp", handle, x, 1, bias=bias, want=want
            )
    # The tie again, where the challenger has the larger bit reversal and loses it: 2 -> 64 holds, 1 -> 128.
    logits = np.full((1, experts), -4, np.float16)
    logits[0, 2], logits[0, 1] = 1 + STEP, 1
    planted = plant(logits)
    handle = planted.gate(context.device)
    for word, eps, first in (("at", STEP, 2), ("above", STEP + NUDGE, 1)):
        want = {"inds": np.array([[first]], np.int32)}
        bias = qn.RouteBias(_resident(experts, 1), eps)
        yield from variants_agree(context, f"{word}, lost tie", handle, planted.x, 1, bias=bias, want=want)


@gate("gc-bias-rows")
def rows(context: Context) -> Checks:
    """Every kind of row and M = 2, 8, 25 mixed, resident at random: fused = pair = order of logit + eps."""
    for name, make in KINDS.items():
        rng = context.rng("gc-bias-rows", name)
        yield from _ordered(context, name, make(rng, 2, 64, 8), rng, float(rng.choice([0.25, 1, 3, 1e30])))
    for count in (2, 8, 25):
        rng = context.rng("gc-bias-rows", count)
        yield from _ordered(context, f"M={count} mixed", mixed(rng, count, 256, 8), rng, 0.25)


def _ordered(context: Context, name: str, logits: np.ndarray, rng: np.random.Generator, eps: float) -> Checks:
    planted = plant(logits)
    resident = rng.choice(np.array([0, 0, 1, -1, 7], np.int32), logits.shape[1]).astype(np.int32)
    bonus = np.where(resident != 0, np.float32(eps), np.float32(0))
    want = {"logits": planted.logits}
    if not np.isnan(logits).any():
        lg = planted.logits.astype(np.float32) + bonus
        want["inds"] = np.stack([choice_order(row, 8) for row in lg])
    bias = qn.RouteBias(resident, eps)
    yield from variants_agree(context, name, planted.gate(context.device), planted.x, 8, bias=bias, want=want)


@gate("gc-bias-scores")
def scores(context: Context) -> Checks:
    """Scores come from the unbiased logits, also where the choice is turned round or rounds into a tie."""
    logits = np.full((1, 64), -np.inf, np.float16)
    logits[0, 7], logits[0, 9] = 1, 2
    planted = plant(logits)
    plain = route(planted.gate(context.device), planted.x, 2, PAIR)
    want = {key: plain[key][:, ::-1] for key in ("inds", "scores")}
    bias = qn.RouteBias(_resident(64, 7), 2.0)
    yield from variants_agree(
        context, "7 before 9", planted.gate(context.device), planted.x, 2, bias=bias, want=want
    )

    # eps absorbs every logit: all 64 tie, and a resident's gate may be 0, so that 0 / 0 stays NaN.
    ramp = plant(-np.arange(64.0))
    everyone = qn.RouteBias(np.ones(64, np.int32), 1e30)
    want = {"inds": np.array([[0, 32, 16, 48, 8, 40, 24, 56]], np.int32)}
    yield from variants_agree(
        context, "eps absorbs", ramp.gate(context.device), ramp.x, 8, bias=everyone, want=want
    )
    last = qn.RouteBias(_resident(64, 61, 63), 1e30)
    want = {"inds": np.array([[61, 63]], np.int32), "scores": np.full((1, 2), np.nan, np.float16)}
    yield from variants_agree(context, "0 / 0", ramp.gate(context.device), ramp.x, 2, bias=last, want=want)

    case = golden("topk_256_8")
    for i, name in enumerate(case["names"]):
        planted = plant(case["logits"][i])
        bias = qn.RouteBias(case["resident"], float(case["eps"]))
        want = {"inds": case["bias_inds"][i : i + 1]}
        if context.exact:
            want["scores"] = case["bias_scores"][i : i + 1]
        yield from variants_agree(
            context, str(name), planted.gate(context.device), planted.x, 8, bias=bias, want=want
        )


@gate("gc-bias-none")
def none(context: Context) -> Checks:
    """An eps <= 0 is the unbiased kernel; nobody resident changes nothing; all resident keep the choice."""
    case = dense(context.rng("gc-bias-none"), 3, 64, 512)
    handle = case.gate(context.device)
    plain = route(handle, case.x, 8, PAIR)
    everyone = np.ones(64, np.int32)
    for eps in (0.0, -0.0, -1.0):
        bias = qn.RouteBias(everyone, eps)
        yield from variants_agree(context, f"eps={eps}", handle, case.x, 8, bias=bias, want=plain)
        scratch = qn.RouteScratch(context.device, rows=3, experts=64, top_k=8)
        layer = Layer(handle, case.x, scratch, options={"bias": bias})
        kernels = encode(context.device, [layer])[0].kernels
        yield f"eps={eps}: kernels", expect(kernels == ("qmm8_rows", "route_top8_rows"), f"{kernels}")
    nobody = qn.RouteBias(np.zeros(64, np.int32), 1.0)
    yield from variants_agree(context, "nobody resident", handle, case.x, 8, bias=nobody, want=plain)
    # Logits on a grid of 1/4: adding 1 is exact, so no order changes.
    grid = plant(np.round(context.rng("grid").normal(0, 8, (4, 64))) / 4)
    pair = route(grid.gate(context.device), grid.x, 8, PAIR)
    told = qn.RouteBias(everyone, 1.0)
    yield from variants_agree(
        context, "all resident", grid.gate(context.device), grid.x, 8, bias=told, want=pair
    )
