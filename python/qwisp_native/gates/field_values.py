"""Sections A, B and C of the field faults: ties, NaN and infinities, values."""

from __future__ import annotations

import numpy as np

import qwisp_native as qn

from .compare import difference, expect, raises
from .faults import EIGHTHS, FLAT, fault, logits_of, outcome, section
from .inputs import INF, LARGEST, dense, plant
from .orders import all_equal_launches
from .refusals import gate_arrays, small_gate
from .registry import PAIR, Checks, Context
from .routing import Arrays, planted_agrees, route, variants_agree

# ---- A. Ties and order


@fault("A")
def all_logits_equal(context: Context) -> Checks:
    """vLLM 52679, 54403: who wins a tie was left open, and CI flaked for weeks."""
    yield from outcome(context, "all 0", logits_of(rest=0), FLAT, scores=EIGHTHS)


@fault("A")
def two_beats_one(context: Context) -> Checks:
    """mlx-swift-lm 469, 568: MLX keeps the higher index of a tie; ours is never to follow it."""
    want = (2, 1, 0, 128, 64, 192, 32, 160)
    yield from outcome(context, "5 at 1 and 2", logits_of((1, 5), (2, 5), rest=-1), want)


@fault("A")
def literal_tree_against_fast_selectors(context: Context) -> Checks:
    """ds4 832: a fast selector without a total order can be held against nothing."""
    rng = context.rng("two values")
    for seed in range(4):
        logits = rng.permutation(np.arange(256) % 2)[None]
        for top_k in (8, 32):
            yield from planted_agrees(context, f"two values {seed} K={top_k}", plant(logits), top_k)


@fault("A")
def many_launches_one_answer(context: Context) -> Checks:
    """aiter 4376: 9 of 10 runs gave other sets on ties. Ten thousand runs: tests/test_field_faults.py."""
    yield "256 experts", all_equal_launches(context, 4, rows=8, experts=256)


@fault("A")
def same_row_through_every_route(context: Context) -> Checks:
    """rMLX 389: host and device path took different maxima of one row."""
    case = dense(context.rng("same row"), 1, 256, 512)
    yield from variants_agree(context, "dense", case.gate(context.device), case.x, 8)


@fault("A")
def global_random_state_untouched(context: Context) -> Checks:
    """Rapid-MLX 2153: a probe drew from the user's generator."""
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    for variant in (PAIR, *context.variants(2)):
        qn.Router(small_gate(context), top_k=2, fuse=variant)(np.zeros((1, 512), np.float16))
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    same = isinstance(before, dict) and isinstance(after, dict) and str(before) == str(after)
    yield "numpy", expect(same, "the global generator moved")


# ---- B. NaN, infinities, padding rows


@fault("B")
def all_nan_row(context: Context) -> Checks:
    """vLLM 39391, 39593: padding rows of a captured graph have NaN logits."""
    nan = np.full((1, 8), np.nan)
    yield from outcome(context, "all NaN", logits_of(rest=np.nan), [0] * 8, scores=nan)
    # The same by a padding row of x that is NaN, between rows that are not.
    case = dense(context.rng("padding"), 3, 256, 512)
    handle = case.gate(context.device)
    alone = route(handle, case.x, 8, PAIR)
    x = case.x.copy()
    x[1] = np.nan
    want = {key: value.copy() for key, value in alone.items()}
    want["inds"][1], want["scores"][1], want["logits"][1] = 0, np.nan, np.nan
    yield from variants_agree(context, "padding row", handle, x, 8, want=want)


@fault("B")
def ids_in_range(context: Context) -> Checks:
    """sglang 30079: an all-NaN row gave an id outside the experts."""
    rng = context.rng("ids in range")
    for experts, top_k in ((8, 8), (40, 8), (160, 32), (256, 32)):
        for name, values in (("NaN", [np.nan]), ("-inf", [-np.inf]), ("both", [np.nan, -np.inf, np.inf])):
            planted = plant(rng.choice(np.array(values, np.float16), (1, experts)))
            handle = planted.gate(context.device)
            for variant in (PAIR, *context.variants(top_k)):
                inds = route(handle, planted.x, top_k, variant)["inds"]
                ok = bool(((inds >= 0) & (inds < experts)).all())
                yield f"E={experts} K={top_k} {name} {variant}", expect(ok, f"inds {inds.tolist()}")


@fault("B")
def padding_slots_never_named(context: Context) -> Checks:
    """vLLM 32058: lanes past the end offered an index of their own."""
    logits = logits_of(rest=-np.inf, experts=160)
    yield from outcome(context, "E=160, all -inf", logits, [0] * 8, scores=np.full(8, np.nan))
    logits = logits_of((159, -65504), rest=-np.inf, experts=160)
    want = [159] + [0] * 7
    yield from outcome(context, "E=160, one finite", logits, want, scores=[1] + [0] * 7)


@fault("B")
def only_minus_infinity_left(context: Context) -> Checks:
    """vllm-omni 7175: once only -inf is left, the chosen are chosen again."""
    logits = logits_of((7, 1), (9, 2), rest=-np.inf)
    golden = [0.73096, 0.26904] + [0] * 6
    yield from outcome(context, "7 -> 1, 9 -> 2", logits, (9, 7, 0, 0, 0, 0, 0, 0), scores=golden)
    # The repeated expert keeps its gate, though its place in the choice is taken.
    logits = logits_of((0, 2), (9, 1), rest=-np.inf)
    want = {"inds": np.array([[0, 9, 0, 0]], np.int32)}
    planted = plant(logits)
    handle = planted.gate(context.device)
    yield from variants_agree(context, "expert 0 again", handle, planted.x, 4, want=want)
    inds, scores = qn.Router(handle, top_k=4, fuse=PAIR)(planted.x)
    yield "expert 0 again: its score", difference("scores", scores[:, 2:], scores[:, [0, 0]])
    yield "repeated_rows", expect(bool(qn.repeated_rows(inds)[0]), "the row is not reported")


@fault("B")
def nan_at_the_first_expert(context: Context) -> Checks:
    """jax 21397, mlx 4274: backends place NaN differently."""
    logits = -np.arange(256.0)
    logits[0] = np.nan
    nan = np.full((1, 8), np.nan)
    yield from outcome(context, "NaN at 0", logits, range(8), scores=nan)
    # A NaN takes no slot from below: at 128 it loses to nobody on the way and is never chosen.
    logits = -1 - np.arange(256.0)
    logits[128] = np.nan
    yield from outcome(context, "NaN at 128", logits, range(8), scores=nan)


@fault("B")
def nan_of_all_ones(context: Context) -> Checks:
    """No other project: split_last publishes two logits in a word that must not be 0, whatever they are."""
    logits = -np.arange(256.0).astype(np.float16)
    logits[6:8] = np.array([0xFFFF, 0xFFFF], np.uint16).view(np.float16)
    yield from planted_agrees(context, "experts 6 and 7", plant(logits), 8)
    logits[:] = logits[6]
    yield from planted_agrees(context, "all experts", plant(logits), 8)


@fault("B")
def sparse_nan(context: Context) -> Checks:
    """rMLX 389: a comparator that NaN made intransitive aborted the process."""
    rng = context.rng("sparse NaN")
    for i in range(12):
        logits = rng.normal(0, 2, (8, 256)).astype(np.float16)
        logits[:, rng.random(256) < 0.05] = np.nan
        planted = plant(logits)
        yield from variants_agree(context, f"batch {i}", planted.gate(context.device), planted.x, 8)


@fault("B")
def finite_logits_never_give_nan(context: Context) -> Checks:
    """flashinfer 2431: some routing modes gave NaN, at long context only."""
    rng = context.rng("exponent sweep")
    for exponent in range(-14, 16):
        logits = rng.uniform(1, 1.99, (2, 64)) * 2.0**exponent * rng.choice([-1, 1], (2, 64))
        planted = plant(logits.astype(np.float16))
        handle = planted.gate(context.device)
        yield from planted_agrees(context, f"2^{exponent}", planted, 8)
        scores = route(handle, planted.x, 8, PAIR)["scores"]
        yield f"2^{exponent}: scores", expect(not np.isnan(scores).any(), f"{scores.tolist()}")


# ---- C. Values: underflow, all negative, renormalisation


@fault("C")
def all_negative(context: Context) -> Checks:
    """flashinfer 2822, vLLM 37605: accumulators that start at 0 lose when every logit is negative."""
    planted = plant(-1 - np.arange(256.0))
    want = {"inds": np.arange(8, dtype=np.int32)[None]}
    yield from planted_agrees(context, "-1 ... -256", planted, 8, want)
    scores = route(planted.gate(context.device), planted.x, 8, PAIR)["scores"][0, :3]
    near = bool(np.abs(scores.astype(np.float64) - [0.63281, 0.23267, 0.08563]).max() < 1e-5)
    yield "-1 ... -256: scores", expect(near or not context.exact, f"{scores.tolist()}")
    yield from outcome(context, "all -65504", logits_of(rest=-65504), FLAT, scores=EIGHTHS)
    yield from outcome(context, "E=8: -5 ... -12", -5 - np.arange(8.0), (0, 1), top_k=2)
    logits = logits_of(rest=-65504, experts=8)
    yield from outcome(context, "E=8: all -65504", logits, (0, 4), scores=(0.5, 0.5), top_k=2)


@fault("C")
def renormalisation_cannot_be_switched_off(context: Context) -> Checks:
    """flashinfer 2889: the flag never reached the kernel."""
    words = ("contract always renormalises",)
    told = raises(ValueError, words, qn.Router, small_gate(context), top_k=2, renormalize=False)
    yield "renormalize=False", told


@fault("C")
def dtype_of_the_caller(context: Context) -> Checks:
    """flashinfer 2889, sglang 8212: bf16 logits were read as f32."""
    router = qn.Router(small_gate(context), top_k=2)
    weight, scales, biases = gate_arrays(16, 512)
    for dtype in (np.float32, np.uint16):
        name = np.dtype(dtype).name
        words = (name, "float16")
        yield f"x {name}", raises(TypeError, ("x", *words), router, np.zeros((1, 512), dtype))
        arrays = (weight, scales.astype(dtype), biases)
        yield f"scales {name}", raises(TypeError, ("scales", *words), qn.Gate, context.device, *arrays)
        arrays = (weight, scales, biases.astype(dtype))
        yield f"biases {name}", raises(TypeError, ("biases", *words), qn.Gate, context.device, *arrays)


@fault("C")
def maximum_is_subtracted(context: Context) -> Checks:
    """tt-metal 46633: exp without the maximum, tested on [0, 1] only."""
    yield from outcome(context, "all 60000", logits_of(rest=60000), FLAT, scores=EIGHTHS)


@fault("C")
def no_epsilon_in_the_denominator(context: Context) -> Checks:
    """ggml, mlx-lm: every engine guards the denominator differently; the contract does not."""
    logits = logits_of((17, 0), rest=-20)
    want = (17, 0, 128, 64, 192, 32, 160, 96)
    yield from outcome(context, "0 at 17, -20 elsewhere", logits, want, scores=[1] + [0] * 7)
    # Every chosen gate underflows: 0 / 0 is kept.
    planted = plant(logits_of((17, 0), rest=-30))
    resident = (np.arange(256) != 17).astype(np.int32)
    nan: Arrays = {"inds": np.array([FLAT], np.int32), "scores": np.full((1, 8), np.nan, np.float16)}
    bias = qn.RouteBias(resident, 40.0)
    yield from variants_agree(
        context, "0 / 0", planted.gate(context.device), planted.x, 8, bias=bias, want=nan
    )


@fault("C")
def minus_infinity_is_below_every_number(context: Context) -> Checks:
    """onnxruntime-genai 2575: a value fell below a finite stand-in for minus infinity."""
    logits = np.full((1, 256), -INF)
    logits[0, [200, 201, 40]] = -LARGEST
    want = (200, 40, 201, 0, 0, 0, 0, 0)  # bit reversals 19, 20, 147
    yield from outcome(context, "-65504 next to -inf", logits, want)


@fault("C")
def selection_sees_logits_not_gates(context: Context) -> Checks:
    """AstrAI 57, vLLM 58076: 16 bits before the choice make ties and other experts."""
    above = float(np.nextafter(np.float16(1), np.float16(2)))
    logits = logits_of((1, 1), (128, above), rest=0)
    yield from outcome(context, "one ulp", logits, (128, 1, 0, 64, 192, 32, 160, 96))
    # Far below the maximum the f16 gates are all 0; the logits still tell the experts apart.
    logits = np.full((1, 256), -60.0)
    logits[0, 5], logits[0, 250], logits[0, 251] = 10, -50, -40
    want = (5, 251, 250, 0, 128, 64, 192, 32)
    yield from outcome(context, "equal gates", logits, want, scores=[1] + [0] * 7)


section("A", "Ties and order, as reported by other projects.")
section("B", "NaN, infinities and padding rows, as reported by other projects.")
section("C", "Underflow, negative logits, renormalisation, dtypes, as reported by other projects.")
