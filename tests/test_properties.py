"""Hypothesis: any shape and any values, biased to ties, NaN, infinities, zeros and subnormals.

Rows are drawn from a small palette of values, so that most of them tie; a failure shrinks to few values.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import contract
import qwisp_native as qn
from qwisp_native.gates.compare import differences
from qwisp_native.gates.inputs import plant
from qwisp_native.gates.registry import Context
from qwisp_native.gates.routing import Layer, encode, route, scratch_rows
from qwisp_native.settings import VARIANTS

BOUNDED = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    1.0009765625,
    -1.0,
    65504,
    -65504,
    2.0**-24,
    -(2.0**-24),
    2.0**-14,
    np.inf,
    -np.inf,
    np.nan,
]
HALVES = st.one_of(
    st.sampled_from(SPECIAL).map(np.float16),
    st.floats(-16, 16, width=16).map(np.float16),
    st.integers(0, 0xFFFF).map(lambda bits: np.uint16(bits).view(np.float16)),
)
EXPERTS = st.integers(1, 32).map(lambda n: 8 * n)


@st.composite
def logit_rows(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Rows that can be planted, and a K."""
    experts = draw(EXPERTS)
    rows = draw(st.integers(1, 4))
    palette = np.array(draw(st.lists(HALVES, min_size=1, max_size=6)), np.float16)
    choice = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(0, len(palette), (rows, experts))
    out = palette[choice]
    out[np.isnan(out)] = 1
    if draw(st.booleans()):  # NaN reaches all rows alike
        out[:, np.isnan(palette[choice[0]])] = np.nan
    for i, row in enumerate(out):
        if np.isinf(row).any():  # planted at half size, where the last bit of a subnormal would be lost
            out[i] = row / np.float16(2) * np.float16(2) + np.float16(0)
        elif np.abs(row[np.isfinite(row)], dtype=np.float32).max(initial=0) > 16000:
            out[i] = row + np.float16(0)  # a negative zero is planted at four times the size
    return out, draw(st.integers(1, min(experts, 40)))


@st.composite
def biases_of(draw: st.DrawFn, experts: int) -> tuple[np.ndarray, float]:
    seed = draw(st.integers(0, 2**32 - 1))
    resident = np.random.default_rng(seed).choice(np.array([0, 1, -3], np.int32), experts)
    eps = draw(
        st.one_of(st.sampled_from([0.0, -1.0, 2.0**-10, 0.25, 1.0, 1e30]), st.floats(-1, 40, width=32))
    )
    return resident.astype(np.int32), eps


def check(context: Context, got: dict[str, np.ndarray], want: contract.Routed) -> None:
    told = differences(got, {"inds": want.inds, "scores": want.scores, "logits": want.logits})
    assert told is None or not context.exact, told


@BOUNDED
@given(case=logit_rows(), data=st.data())
def test_any_logits(context: Context, case: tuple[np.ndarray, int], data: st.DataObject) -> None:
    rows, top_k = case
    planted = plant(rows)
    gate = planted.gate(context.device)
    given_bias, resident, eps = None, None, 0.0
    if data.draw(st.booleans()):
        resident, eps = data.draw(biases_of(rows.shape[1]))
        given_bias = qn.RouteBias(resident, eps)
    pair = route(gate, planted.x, top_k, "pair", bias=given_bias)
    check(context, pair, contract.Routed(*contract.top_k_rows(rows, top_k, resident, eps), rows))
    for variant in context.variants(top_k):
        told = differences(route(gate, planted.x, top_k, variant, bias=given_bias), pair)
        assert told is None, f"{variant}: {told}"
    repeats = [len(set(row)) < top_k for row in pair["inds"].tolist()]
    assert qn.repeated_rows(pair["inds"]).tolist() == repeats


@BOUNDED
@given(
    rows=st.integers(0, 5),
    experts=st.integers(1, 6).map(lambda n: 8 * n),
    hidden=st.sampled_from([512, 1024]),
    palette=st.lists(HALVES, min_size=1, max_size=5),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_any_gate(
    context: Context,
    rows: int,
    experts: int,
    hidden: int,
    palette: list[np.float16],
    seed: int,
    data: st.DataObject,
) -> None:
    """Bytes, scales, biases and x all at random: every overflow and NaN of the matvec too."""
    rng = np.random.default_rng(seed)
    values = np.concatenate([np.array(palette, np.float16), rng.normal(0, 1, 8).astype(np.float16)])
    x = rng.choice(values, (rows, hidden))
    scales, biases = (rng.choice(values, (experts, hidden // 64)) for _ in range(2))
    weight = rng.integers(0, 256, (experts, hidden), np.uint8)
    top_k = data.draw(st.integers(1, min(experts, 32)))
    gate = qn.Gate(context.device, weight, scales, biases)
    pair = route(gate, x, top_k, "pair")
    check(context, pair, contract.route(x, weight, scales, biases, top_k))
    for variant in context.variants(top_k):
        told = differences(route(gate, x, top_k, variant), pair)
        assert told is None, f"{variant}: {told}"


@BOUNDED
@given(
    rows=st.integers(1, 5),
    layers=st.integers(1, 4),
    slots=st.integers(1, 3),
    max_rows=st.integers(1, 5),
    variant=st.sampled_from(VARIANTS),
    concurrent=st.booleans(),
    data=st.data(),
)
def test_any_diag_place(
    context: Context,
    rows: int,
    layers: int,
    slots: int,
    max_rows: int,
    variant: str,
    concurrent: bool,
    data: st.DataObject,
) -> None:
    device = context.device
    layer, slot = data.draw(st.integers(0, layers - 1)), data.draw(st.integers(0, slots - 1))
    experts, top_k = 16, 3
    planted = plant(np.random.default_rng(rows).integers(-4, 4, (rows, experts)))
    inds = device.buffer(np.full(slots * layers * max_rows * top_k, -9, np.int32))
    logits = device.buffer(np.full(layers * experts, 77, np.float16))
    want_inds, want_logits = inds.array.copy(), logits.array.copy()
    place = qn.RouteDiag(inds, logits, layer=layer, layers=layers, slot=slot, max_rows=max_rows)
    scratch = qn.RouteScratch(device, rows=rows, experts=experts, top_k=top_k)
    table = np.arange(100, 100 + experts, dtype=np.int32)
    options = {"diag": place, "remap": table}
    encode(device, [Layer(planted.gate(device), planted.x, scratch, variant, options)], concurrent)

    chosen, _ = contract.top_k_rows(planted.logits, top_k)
    at, count, logits_at, logits_count = contract.diag_copies(
        rows, experts, top_k, layer, layers, slot, max_rows
    )
    want_inds[at // 4 : at // 4 + count] = chosen.ravel()[:count]
    want_logits[logits_at // 2 : logits_at // 2 + logits_count] = planted.logits.ravel()[:logits_count]
    assert np.array_equal(inds.array, want_inds)
    assert np.array_equal(logits.array, want_logits)
    assert np.array_equal(scratch_rows(scratch, rows)["inds"], contract.remap(chosen, table))


@pytest.mark.slow
@settings(BOUNDED, max_examples=1500, derandomize=False)
@given(case=logit_rows(), data=st.data())
def test_any_logits_at_length(context: Context, case: tuple[np.ndarray, int], data: st.DataObject) -> None:
    test_any_logits.hypothesis.inner_test(context, case, data)  # type: ignore[attr-defined]
