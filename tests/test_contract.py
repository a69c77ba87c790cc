"""The reference of tests/contract.py against the golden arrays, then the pair and every variant against it.

To add a case: put a kind of row into qwisp_native/gates/inputs.py (KINDS); it runs here and in the gates.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import contract
import qwisp_native as qn
from qwisp_native import gates
from qwisp_native.gates.inputs import KINDS, choice_order, dense, mixed, plant
from qwisp_native.gates.registry import Context
from qwisp_native.settings import VARIANTS

DATA = Path(gates.__file__).parent / "data"


@pytest.fixture(autouse=True)
def _exact(context: Context) -> None:
    if not context.exact:
        pytest.skip("simd_sum and exp of this device are its own (contract, sections 2 and 3)")


def same(got: tuple[np.ndarray, ...], want: contract.Routed) -> None:
    for name, a, b in zip(
        ("inds", "scores", "logits"), got, (want.inds, want.scores, want.logits), strict=True
    ):
        assert contract.same_bits(a, b), name


def test_reference_gives_the_golden_tails() -> None:
    case = np.load(DATA / "topk_256_8.npz")
    inds, scores = contract.top_k_rows(case["logits"], 8)
    assert contract.same_bits(inds, case["inds"])
    assert contract.same_bits(scores, case["scores"])
    inds, scores = contract.top_k_rows(case["logits"], 8, case["resident"], float(case["eps"]))
    assert contract.same_bits(inds, case["bias_inds"])
    assert contract.same_bits(scores, case["bias_scores"])


def test_reference_gives_the_golden_path() -> None:
    case = np.load(DATA / "path_2048_256_8.npz")
    got = contract.route(case["x"], case["weight"], case["scales"], case["biases"], 8)
    assert contract.same_bits(got.logits, case["logits"])
    assert contract.same_bits(got.inds, case["inds"])
    assert contract.same_bits(got.scores, case["scores"])


def test_reference_names_the_tie_order_of_the_text() -> None:
    inds, _ = contract.top_k_rows(np.zeros((1, 256), np.float16), 8)
    assert inds.tolist() == [[0, 128, 64, 192, 32, 160, 96, 224]]
    row = np.full((1, 256), -1, np.float16)
    row[0, [1, 2]] = 5
    assert contract.top_k_rows(row, 8)[0].tolist() == [[2, 1, 0, 128, 64, 192, 32, 160]]


def test_order_of_the_gates_is_that_of_the_tree() -> None:
    """The gates' own order formula, which never sees this reference, against it."""
    rng = np.random.default_rng(5)
    for name, make in KINDS.items():
        rows = make(rng, 8, 64, 8)
        if not np.isnan(rows).any():
            want, _ = contract.top_k_rows(rows, 8)
            got = np.stack([choice_order(row.astype(np.float32), 8) for row in rows])
            assert np.array_equal(got, want), name


def test_planted_logits_are_what_the_reference_computes() -> None:
    rng = np.random.default_rng(6)
    for name, make in KINDS.items():
        case = plant(make(rng, 4, 64, 8))
        got = contract.qmm_rows(case.x, case.weight, case.scales, case.biases)
        assert contract.same_bits(got, case.logits), name


def test_diag_offsets_of_the_text() -> None:
    assert contract.diag_copies(1, 256, 8, layer=3, layers=40, slot=0, max_rows=4) == (384, 8, 1536, 256)
    assert contract.diag_copies(2, 256, 8, layer=3, layers=40, slot=2, max_rows=4) == (10624, 16, 1536, 0)
    assert contract.diag_copies(5, 256, 8, layer=0, layers=40, slot=0, max_rows=4) == (0, 0, 0, 0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_golden_path(device: qn.Device, variant: str) -> None:
    case = np.load(DATA / "path_2048_256_8.npz")
    gate = qn.Gate(device, case["weight"], case["scales"], case["biases"])
    got = qn.Router(gate, top_k=8, fuse=variant)(case["x"], return_logits=True)
    same(got, contract.Routed(case["inds"], case["scores"], case["logits"]))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_row(device: qn.Device, kind: str, variant: str) -> None:
    rng = np.random.default_rng(len(kind))
    for experts, top_k in ((256, 8), (40, 32)):
        rows = KINDS[kind](rng, 3, experts, top_k)
        resident = rng.integers(0, 2, experts).astype(np.int32)
        case = plant(rows)
        router = qn.Router(case.gate(device), top_k=top_k, fuse=variant)
        same(router(case.x, return_logits=True), contract.Routed(*contract.top_k_rows(rows, top_k), rows))
        biased = router(case.x, return_logits=True, bias=qn.RouteBias(resident, 0.75))
        want = contract.top_k_rows(rows, top_k, resident, 0.75)
        same(biased, contract.Routed(*want, rows))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("hidden", [512, 1024, 2048, 2560])
def test_dense_gates(device: qn.Device, hidden: int, variant: str) -> None:
    rng = np.random.default_rng(hidden)
    for rows, experts, top_k in ((1, 256, 8), (3, 64, 6), (2, 8, 8)):
        case = dense(rng, rows, experts, hidden)
        want = contract.route(case.x, case.weight, case.scales, case.biases, top_k)
        got = qn.Router(case.gate(device), top_k=top_k, fuse=variant)(case.x, return_logits=True)
        same(got, want)


@pytest.mark.parametrize("variant", VARIANTS)
def test_weights_of_any_bits(device: qn.Device, variant: str) -> None:
    """Scales, biases and x with every exponent, infinities and NaN included: overflow in every step."""
    rng = np.random.default_rng(7)

    def halves(*shape: int) -> np.ndarray:
        return rng.integers(0, 0x10000, shape).astype(np.uint16).view(np.float16)

    for trial in range(6):
        x, scales, biases = halves(3, 512), halves(16, 8), halves(16, 8)
        if trial % 2:  # finite ones only
            x, scales, biases = (np.where(np.isfinite(a), a, np.float16(0)) for a in (x, scales, biases))
        weight = rng.integers(0, 256, (16, 512), np.uint8)
        want = contract.route(x, weight, scales, biases, 4)
        got = qn.Router(qn.Gate(device, weight, scales, biases), top_k=4, fuse=variant)(x, return_logits=True)
        same(got, want)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("rows", [16, 25, 32])
def test_large_batches(device: qn.Device, rows: int, variant: str) -> None:
    logits = mixed(np.random.default_rng(rows), rows, 64, 8)
    case = plant(logits)
    got = qn.Router(case.gate(device), top_k=8, fuse=variant)(case.x, return_logits=True)
    same(got, contract.Routed(*contract.top_k_rows(logits, 8), logits))


@pytest.mark.parametrize("top_k", [1, 33, 64, 256])
def test_pair_at_every_k(device: qn.Device, top_k: int) -> None:
    logits = mixed(np.random.default_rng(top_k), 2, 256, 8)
    case = plant(logits)
    got = qn.Router(case.gate(device), top_k=top_k, fuse=False)(case.x, return_logits=True)
    same(got, contract.Routed(*contract.top_k_rows(logits, top_k), logits))
