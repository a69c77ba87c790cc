"""The Python interface: what each class holds, what a call returns, what is refused and by what name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qwisp_native as qn
from contract import route
from qwisp_native.settings import VARIANTS
from small import EXPERTS, HIDDEN, TOP_K, layer, rows, same


@pytest.fixture(scope="module")
def gate(device: qn.Device) -> qn.Gate:
    return layer().gate(device)


@pytest.fixture(scope="module")
def router(gate: qn.Gate) -> qn.Router:
    return qn.Router(gate, top_k=TOP_K)


@pytest.fixture
def scratch(device: qn.Device) -> qn.RouteScratch:
    return qn.RouteScratch(device, rows=3, experts=EXPERTS, top_k=TOP_K)


# ---- devices


def test_devices() -> None:
    found = qn.devices()
    assert {each.kind for each in found} == {"cpu", "cuda", "metal"}
    for each in found:
        assert each.available == (not each.why)
        assert bool(each.name) == each.available
    (cpu,) = (each for each in found if each.kind == "cpu")
    assert cpu.available
    assert qn.Device("cpu").name == cpu.name


def test_a_private_buffer_holds_the_same_rows(device: qn.Device) -> None:
    gate, x = layer().gate(device), rows(3)
    found = []
    for private in (False, True):
        buffer = device.buffer(x, "x", private=private)
        scratch = qn.RouteScratch(device, rows=3, experts=EXPERTS, top_k=TOP_K)
        commands = device.command_buffer()
        with commands.compute_encoder() as encoder:
            qn.encode_moe_route_rows(encoder, buffer, gate, scratch, rows=3)
        commands.commit()
        commands.wait_until_completed()
        found.append((np.array(scratch.inds), np.array(scratch.scores)))
    assert same(*found)
    assert (buffer.shape, buffer.dtype, buffer.label) == (x.shape, x.dtype, "x")
    with pytest.raises(RuntimeError, match="array: the buffer is private to the device"):
        _ = buffer.array
    bias = qn.RouteBias(device.buffer(np.ones(EXPERTS, np.int32), private=True), 0.5)
    with pytest.raises(ValueError, match=r"bias.resident: a private Buffer"):
        qn.Router(gate, TOP_K)(x, bias=bias)


def test_device() -> None:
    device = qn.Device("cpu", contract="off")
    assert (device.kind, device.contract, device.shader_sha256) == ("cpu", "off", qn.shader_sha256())
    assert repr(device).startswith("Device('cpu'")
    assert qn.Device("cpu", contract="compiler").contract == "compiler"
    assert qn.Device(kind=None).kind in {"cpu", "cuda", "metal"}


@pytest.mark.parametrize(
    ("arguments", "options", "error", "text"),
    [
        (("gpu",), {}, ValueError, "kind: 'gpu'.*'cpu', 'cuda' or 'metal'"),
        (("",), {}, ValueError, "kind: ''"),
        ((3,), {}, TypeError, "kind: an int"),
        ((b"cpu",), {}, TypeError, "kind: a bytes"),
        ((), {"contract": "on"}, ValueError, "contract: 'on'.*'off' or 'compiler'"),
        ((), {"contract": True}, TypeError, "contract: a bool"),
        (("cpu", "off"), {}, TypeError, "incompatible constructor arguments"),
    ],
)
def test_device_refused(arguments: Any, options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        qn.Device(*arguments, **options)


def test_absent_device() -> None:
    if any(each.kind == "metal" and each.available for each in qn.devices()):
        pytest.skip("Metal is here")
    with pytest.raises(qn.DeviceError, match="'metal' is not available; this machine has 'cpu'"):
        qn.Device("metal")


def test_seed_shuffles_and_changes_no_bit(device: qn.Device) -> None:
    if device.kind != "cpu":
        pytest.skip("of the software device")
    before = device.simt_seed
    x, routers = (
        rows(3),
        [qn.Router(layer().gate(device), TOP_K, fuse=each) for each in VARIANTS],
    )
    want = routers[0](x)
    try:
        for seed in (0, 1, 2**63 - 1, None):
            device.simt_seed = seed
            assert device.simt_seed == seed
            assert all(same(each(x), want) for each in routers)
        for bad, error in ((-1, ValueError), (2**63, ValueError), (1.5, TypeError), ("1", TypeError)):
            with pytest.raises(error, match="simt_seed"):
                device.simt_seed = bad  # type: ignore[assignment]
    finally:
        device.simt_seed = before


# ---- gates


def test_gate(device: qn.Device, gate: qn.Gate) -> None:
    small = layer()
    assert (gate.experts, gate.hidden) == (EXPERTS, HIDDEN)
    assert gate.device is device
    assert same((gate.weight, gate.scales, gate.biases), small)
    assert repr(gate) == "Gate(experts=16, hidden=512)"


def test_gate_from_dense_and_from_a_checkpoint(device: qn.Device) -> None:
    dense = np.random.default_rng(0).normal(0, 0.02, (EXPERTS, HIDDEN)).astype(np.float16)
    gate = qn.Gate.quantize(device, dense)
    near = np.repeat(gate.scales.astype(np.float32), 64, 1) * gate.weight + np.repeat(
        gate.biases.astype(np.float32), 64, 1
    )
    assert np.abs(near - dense).max() < 1e-3

    class Weights:
        weight, scales, biases = gate.weight.view(np.uint32), gate.scales, gate.biases

    again = qn.Gate.from_weights(device, Weights)  # type: ignore[arg-type]
    assert same((again.weight, again.scales, again.biases), (gate.weight, gate.scales, gate.biases))
    with pytest.raises(TypeError, match="dense: a list"):
        qn.Gate.quantize(device, [[1.0]])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"weights: an int.*weight, scales and biases"):
        qn.Gate.from_weights(device, 3)  # type: ignore[arg-type]


# ---- the router


def test_router(gate: qn.Gate, router: qn.Router) -> None:
    assert router.gate is gate
    assert (router.top_k, router.fuse) == (TOP_K, False)
    x = rows(3)
    inds, scores = router(x)
    assert (inds.dtype, inds.shape, scores.dtype, scores.shape) == (
        "int32",
        (3, TOP_K),
        "float16",
        (3, TOP_K),
    )
    assert same(router(x, return_logits=True)[:2], (inds, scores))


def test_router_against_the_contract(device: qn.Device, router: qn.Router) -> None:
    if device.kind != "cpu" or device.contract != "off":
        pytest.skip("the device's own sums")
    x, small = rows(3), layer()
    want = route(x, *small, TOP_K)
    assert same(router(x, return_logits=True), (want.inds, want.scores, want.logits))


@pytest.mark.parametrize("fuse", [False, True, "auto", *VARIANTS])
def test_fuse(gate: qn.Gate, router: qn.Router, fuse: Any) -> None:
    other = qn.Router(gate, TOP_K, fuse=fuse)
    assert other.fuse == fuse
    assert type(other.fuse) is type(fuse)
    x = rows(3)
    assert same(other(x, return_logits=True), router(x, return_logits=True))
    plan = other.plan(3)
    expected = {False: "pair", True: "last", "auto": "pair"}.get(fuse, fuse)
    assert plan.variant == expected
    assert plan.dispatches == len(plan.kernels) == (2 if expected in ("pair", "split_pair") else 1)
    assert plan.barriers == plan.dispatches - 1
    assert plan.reason


def test_bias(device: qn.Device, router: qn.Router) -> None:
    x = rows(3)
    resident = np.arange(EXPERTS) % 3 == 0
    plain = router(x)
    want = router(x, bias=qn.RouteBias(resident, 4.0))
    assert not same(want, plain)
    for given in (
        resident.astype(np.int32),
        resident.astype(np.int32) * -5,
        device.buffer(resident.astype(np.int32)),
    ):
        assert same(router(x, bias=qn.RouteBias(given, 4.0)), want)
    for eps in (0, -1.0, np.float16(-2)):
        assert same(router(x, bias=qn.RouteBias(resident, eps)), plain)


def test_bias_in_a_buffer_counts_as_it_is_at_the_time(device: qn.Device, router: qn.Router) -> None:
    buffer = device.empty(EXPERTS, np.int32)
    bias = qn.RouteBias(buffer, 100.0)
    x = rows(1)
    plain = router(x, bias=bias)
    assert same(plain, router(x))
    buffer.array[7] = 1
    assert router(x, bias=bias)[0][0, 0] == 7


# ---- in an engine's own encoder


def test_encode(device: qn.Device, gate: qn.Gate, router: qn.Router, scratch: qn.RouteScratch) -> None:
    x = rows(3)
    xbuf = device.buffer(x, label="x")
    for concurrent in (False, True):
        commands = device.command_buffer()
        assert commands.status == "not committed"
        with commands.compute_encoder(concurrent=concurrent) as encoder:
            assert encoder.concurrent is concurrent
            assert commands.status == "encoding"
            plan = qn.encode_moe_route_rows(
                encoder, xbuf, gate, scratch, rows=3, fuse=True, return_logits=True
            )
        assert plan.kernels == ("route_fused_rows_last",)
        assert commands.gpu_time is None
        commands.commit()
        commands.wait_until_completed()
        commands.wait_until_completed()
        assert commands.status == "completed"
        assert commands.gpu_time is not None
        assert commands.gpu_time >= 0
        assert same((scratch.inds, scratch.scores, scratch.logits), router(x, return_logits=True))


def test_encode_everything(device: qn.Device, gate: qn.Gate, router: qn.Router) -> None:
    scratch = qn.RouteScratch(device, 4, EXPERTS, TOP_K)
    x = rows(1)
    bias = qn.RouteBias(np.arange(EXPERTS) % 2 == 1, 3.0)
    inds, logits = device.empty(2 * 3 * 5 * TOP_K, np.int32), device.empty((3, EXPERTS), np.float16)
    diag = qn.RouteDiag(inds, logits, layer=1, layers=3, max_rows=5)
    table = np.arange(EXPERTS, dtype=np.int32) * 10
    commands = device.command_buffer()
    with commands.compute_encoder() as encoder:
        plan = qn.encode_moe_route_rows(
            encoder, device.buffer(x), gate, scratch, rows=1, fuse="single", bias=bias, diag=diag, remap=table
        )
    commands.commit()
    commands.wait_until_completed()
    assert plan.kernels == ("route_fused_rows_single", "diag_copy_route", "slot_remap_rows")
    want = router(x, bias=bias, return_logits=True)
    assert (scratch.inds[:1] == want[0] * 10).all()
    assert same((logits.array[1:2], inds.array[5 * TOP_K : 6 * TOP_K].reshape(1, -1)), (want[2], want[0]))
    assert (diag.layer, diag.layers, diag.slot, diag.max_rows) == (1, 3, 0, 5)
    assert diag.inds is inds


def test_order_of_calls(device: qn.Device, gate: qn.Gate, scratch: qn.RouteScratch) -> None:
    """What Metal would abort on is refused before it gets there."""
    xbuf = device.buffer(rows(3))
    commands = device.command_buffer()
    encoder = commands.compute_encoder()

    def refused(call: Callable[[], object], text: str) -> None:
        with pytest.raises(RuntimeError, match=text):
            call()

    refused(commands.wait_until_completed, "wait_until_completed: the command buffer is not committed")
    refused(commands.compute_encoder, "compute_encoder: .* open encoder")
    refused(commands.commit, "commit: .* open encoder")
    encoder.end_encoding()
    refused(encoder.end_encoding, "end_encoding: the encoder has ended")
    refused(encoder.memory_barrier, "ended")
    refused(lambda: qn.encode_moe_route_rows(encoder, xbuf, gate, scratch, rows=3), "ended")
    second = commands.compute_encoder()
    refused(encoder.memory_barrier, "ended")
    second.end_encoding()
    commands.commit()
    refused(commands.commit, "commit: the command buffer is committed already")
    refused(commands.compute_encoder, "compute_encoder: the command buffer is committed")
    commands.wait_until_completed()
    refused(commands.commit, "committed already")


def test_a_dropped_encoder_ends(device: qn.Device) -> None:
    commands = device.command_buffer()
    commands.compute_encoder()
    commands.commit()
    commands.wait_until_completed()


def test_an_error_leaves_the_encoder_open(device: qn.Device, gate: qn.Gate, scratch: qn.RouteScratch) -> None:
    xbuf = device.buffer(rows(3))
    commands = device.command_buffer()
    encoder = commands.compute_encoder()
    with pytest.raises(ValueError, match="rows"):
        qn.encode_moe_route_rows(encoder, xbuf, gate, scratch, rows=-1)
    qn.encode_moe_route_rows(encoder, xbuf, gate, scratch, rows=3)
    encoder.end_encoding()
    commands.commit()
    commands.wait_until_completed()


# ---- plans


def test_plan(device: qn.Device) -> None:
    assert qn.plan(device, 1, 2048, 256, 8).kernels == ("qmm8_rows", "route_top8_rows")
    plan = qn.plan(device, 1, 2048, 256, 8, fuse="last", bias=True, logits=True, diag=True, remap=True)
    assert plan.kernels == ("route_fused_rows_last", "diag_copy_route", "slot_remap_rows")
    assert "last" in repr(plan)
    biased = qn.plan(device, 1, 512, 64, 33, fuse=True, bias=True)
    assert biased.kernels == ("qmm8_rows", "route_top8_rows_bias")
    assert qn.plan(device, 0, 512, 64, 8, fuse=True).kernels == ()
    assert qn.plan(device, np.int64(1), np.uint16(512), 8, 2).dispatches == 2


def test_repeated_rows(router: qn.Router) -> None:
    x = rows(4)
    x[2] = np.nan
    assert qn.repeated_rows(router(x)[0]).tolist() == [False, False, True, False]
    assert qn.repeated_rows(router(x[:0])[0]).tolist() == []
    assert qn.repeated_rows(np.zeros((2, 1), np.int32)).tolist() == [False, False]
    with pytest.raises(TypeError, match="inds: dtype float16"):
        qn.repeated_rows(x)
    with pytest.raises(ValueError, match="inds: shape"):
        qn.repeated_rows(np.zeros(3, np.int32))
