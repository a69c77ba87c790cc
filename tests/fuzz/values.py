"""Gate values: the pair against the contract; every variant and kind of kernels against the pair."""

from __future__ import annotations

import journal
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import contract
import qwisp_native as qn
from qwisp_native.gates.compare import differences
from qwisp_native.gates.inputs import KINDS, Half, dense, plant
from qwisp_native.gates.registry import Context
from qwisp_native.gates.routing import Arrays, Layer, encode, route, scratch_rows
from test_properties import HALVES, biases_of

SEEDS = st.integers(0, 2**32 - 1)
SIMT_WORK = 1 << 21  # rows x experts x hidden above which the executor takes too long


@st.composite
def gates(draw: st.DrawFn) -> tuple[Half, np.ndarray, Half, Half]:
    """x, weight, scales and biases: planted logits, a checkpoint's like, or bits at random."""
    rng = np.random.default_rng(draw(SEEDS))
    experts, hidden = 8 * draw(st.integers(1, 32)), 512 * draw(st.integers(1, 8))
    rows = draw(st.sampled_from([1, 1, 2, 3, 4, 7, 8, 12, 33]))
    made = draw(st.sampled_from(["planted", "dense", "bits", "palette"]))
    if made == "planted":
        kind = draw(st.sampled_from(sorted(KINDS)))
        logits = KINDS[kind](rng, min(rows, hidden // 64), experts, min(8, experts))
        logits[:, np.isnan(logits).any(0)] = np.nan  # NaN reaches all rows alike
        try:
            planted = plant(logits, hidden)
        except ValueError:  # an infinity and a subnormal or a negative zero in one row
            made = "bits"
        else:
            return planted.x, planted.weight, planted.scales, planted.biases
    if made == "dense":
        each = dense(rng, rows, experts, hidden)
        return each.x, each.weight, each.scales, each.biases
    if made == "bits":
        pool = rng.integers(0, 1 << 16, 4096, np.uint16).view(np.float16)
        if draw(st.booleans()):
            pool = pool[np.isfinite(pool) & (abs(pool.astype(np.float32)) < 8)]
    else:
        pool = np.array(draw(st.lists(HALVES, min_size=1, max_size=6)), np.float16)
    weight = rng.integers(0, 256, (experts, hidden), np.uint8)
    x, scales, biases = (
        rng.choice(pool, shape)
        for shape in ((rows, hidden), (experts, hidden // 64), (experts, hidden // 64))
    )
    return x, weight, scales, biases


@given(case=gates(), data=st.data())
def test_every_variant_on_every_kernel(
    case: tuple[Half, np.ndarray, Half, Half], data: st.DataObject
) -> None:
    x, *arrays = case
    rows, (experts, hidden) = len(x), arrays[0].shape
    top_k = data.draw(st.one_of(st.integers(1, experts), st.integers(1, min(experts, 32))), "top_k")
    bias, resident, eps = None, None, 0.0
    if data.draw(st.booleans()):
        resident, eps = data.draw(biases_of(experts))
        bias = qn.RouteBias(resident, eps)
    journal.begin(f"rows {rows}, hidden {hidden}, experts {experts}, top_k {top_k}, eps {eps}")
    device = qn.Device("cpu")
    gate = qn.Gate(device, *arrays)
    pair = route(gate, x, top_k, "pair", bias=bias)
    literal = contract.route(x, *arrays, top_k, resident, eps)
    told = differences(pair, {"inds": literal.inds, "scores": literal.scores, "logits": literal.logits})
    assert told is None, f"pair, {device.kernels}: {told}"
    repeats = [len(set(row)) < top_k for row in pair["inds"].tolist()]
    assert qn.repeated_rows(pair["inds"]).tolist() == repeats

    kinds = [kind for kind in device.kernel_names if kind != "simt" or rows * experts * hidden < SIMT_WORK]
    for kernels in kinds:
        device.kernels = kernels
        device.threads = data.draw(st.integers(1, 3), "threads")
        if kernels == "simt":
            device.simt_seed = data.draw(st.integers(0, 2**63 - 1), "simt_seed")
        for variant in ("pair", *Context(device).variants(top_k)):
            journal.step(f"{kernels} {variant}")
            bare = data.draw(st.booleans(), "bare")
            got = route(gate, x, top_k, variant, bias=bias, logits=not bare)
            told = differences(got, {name: pair[name] for name in got})
            assert told is None, f"{kernels}, {variant}: {told}"
        encoded(device, gate, x, top_k, bias, pair, data)


def encoded(
    device: qn.Device, gate: qn.Gate, x: Half, top_k: int, bias: object, pair: Arrays, data: st.DataObject
) -> None:
    """Two layers into one scratch, with what a call has not: remap, a concurrent encoder."""
    variant = data.draw(st.sampled_from(["pair", *Context(device).variants(top_k)]))
    journal.step(f"encoded {variant}")
    scratch = qn.RouteScratch(device, len(x), gate.experts, top_k)
    table = np.random.default_rng(top_k).integers(-9, 999, gate.experts).astype(np.int32)
    options = {"bias": bias, "return_logits": True}
    layers = [
        Layer(gate, x, scratch, data.draw(st.sampled_from([variant, "pair"])), options),
        Layer(gate, x, scratch, variant, options | {"remap": table}),
    ]
    encode(device, layers, data.draw(st.booleans()))
    want = pair | {"inds": contract.remap(pair["inds"], table)}
    told = differences(scratch_rows(scratch, len(x)), want)
    assert told is None, f"{device.kernels}, encoded {variant}: {told}"
    assert qn.testing.scratch_is_cleared(scratch)


TESTS = [test_every_variant_on_every_kernel]
