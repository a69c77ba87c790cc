"""Under scarce.cpp: `child.py KIND HOW KERNELS STEP` refuses each request in turn (test_scarcity.py)."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import qwisp_native as qn
from qwisp_native.settings import VARIANTS
from small import EXPERTS, TOP_K, layer, rows, same

faulthandler.enable()
KINDS = {"memory": 0, "threads": 1}
ERRORS = {"memory": (MemoryError, qn.DeviceError), "threads": (RuntimeError, qn.DeviceError, MemoryError)}
MOST = 3000

device = qn.Device("cpu")
gate = layer().gate(device)
router = qn.Router(gate, TOP_K, fuse="last")
x = rows(3)
want = router(x)
bias = qn.RouteBias(np.arange(EXPERTS, dtype=np.int32) % 2, 0.5)
biased = qn.Router(gate, TOP_K)(x, bias=bias)


def make_device() -> None:
    made = qn.Device("cpu")
    made.command_buffer()


def make_gate() -> None:
    layer().gate(device)
    qn.Gate.quantize(device, np.ones((EXPERTS, 512), np.float16))


def make_objects() -> None:
    device.buffer(x)
    device.buffer(x, private=True)
    device.empty(8, np.int32)
    qn.RouteScratch(device, 3, EXPERTS, TOP_K)
    qn.RouteBias(np.zeros(EXPERTS, np.int32), 1.0)
    qn.plan(device, 3, 512, EXPERTS, TOP_K)


def route() -> None:
    for fuse in VARIANTS:
        assert same(qn.Router(gate, TOP_K, fuse=fuse)(x), want)
    assert same(qn.Router(gate, TOP_K, fuse="single")(x, bias=bias), biased)


def route_anew() -> None:
    """On a device that has made no pipeline and no thread yet."""
    fresh = qn.Device("cpu")
    fresh.kernels = device.kernels
    assert same(qn.Router(layer().gate(fresh), TOP_K, fuse="last")(x), want)


def encode() -> None:
    scratch = qn.RouteScratch(device, 3, EXPERTS, TOP_K)
    commands = device.command_buffer()
    with commands.compute_encoder(concurrent=True) as encoder:
        qn.encode_moe_route_rows(encoder, device.buffer(x), gate, scratch, rows=3, fuse="pair")
        encoder.memory_barrier()
        qn.encode_moe_route_rows(encoder, device.buffer(x), gate, scratch, rows=3, fuse="single")
    commands.commit()
    commands.wait_until_completed()
    assert same((scratch.inds, scratch.scores), want)


def encode_anyway() -> None:
    """Whoever goes on after a MemoryError runs the whole route or nothing of it."""
    scratch = qn.RouteScratch(device, 3, EXPERTS, TOP_K)
    scratch.logits[...] = 7
    scratch.inds[...] = -1
    commands = device.command_buffer()
    encoder = commands.compute_encoder()
    failed = None
    try:
        qn.encode_moe_route_rows(encoder, device.buffer(x), gate, scratch, rows=3, fuse="pair")
    except MemoryError as error:
        failed = error
    encoder.end_encoding()
    try:
        commands.commit()
    except RuntimeError as error:
        assert failed is not None, error
        assert "memory ran out" in str(error), error
    else:
        commands.wait_until_completed()
        ran = (scratch.inds >= 0).all() and (scratch.logits != 7).any()
        assert ran if failed is None else (scratch.inds == -1).all() and (scratch.logits == 7).all()
    if failed is not None:
        raise failed


def in_flight(on: qn.Device = device, through: qn.Gate = gate) -> None:
    """Nobody waits: the queue's own thread runs them."""
    held = []
    for _ in range(2):
        scratch = qn.RouteScratch(on, 3, EXPERTS, TOP_K)
        commands = on.command_buffer()
        with commands.compute_encoder() as encoder:
            qn.encode_moe_route_rows(encoder, on.buffer(x), through, scratch, rows=3, fuse="last")
        commands.commit()
        held.append((commands, scratch))
    end = time.monotonic() + 0.2  # with no memory at all they stay where they are
    for commands, scratch in held:
        while commands.status == "committed" and time.monotonic() < end:
            pass
        commands.wait_until_completed()
        assert same((scratch.inds, scratch.scores), want)


def in_flight_anew() -> None:
    fresh = qn.Device("cpu")
    in_flight(fresh, layer().gate(fresh))


@lru_cache
def large() -> tuple[qn.Router, np.ndarray, tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(0)
    dense, many = (rng.normal(0, 1, shape).astype(np.float16) for shape in ((256, 2048), (16, 2048)))
    made = qn.Router(qn.Gate.quantize(device, dense))
    device.threads = 1
    return made, many, made(many)


def route_large() -> None:
    """So much work that it is shared out among threads."""
    made, many, wanted = large()
    device.threads = 3
    assert same(made(many), wanted)


STEPS: dict[str, Callable[[], None]] = {
    each.__name__: each
    for each in [
        *(make_device, make_gate, make_objects, encode, encode_anyway, in_flight, in_flight_anew),
        *(route, route_anew, route_large),
    ]
}


def main(kind: str, rest: bool, kernels: str, name: str) -> None:
    scarce = ctypes.CDLL(None)
    assert scarce.scarce_watch() >= 2, "the module and the C++ library are not both found"
    if kernels:
        device.kernels = kernels
    step, failed = STEPS[name], 0
    large()
    if kind != "threads":  # a thread is made once
        step()
    gc.freeze()  # what is here now need not be gone through each time
    for number in range(1, MOST):
        error = None
        scarce.scarce_fail(KINDS[kind], number, rest)
        try:
            step()
        except ERRORS[kind] as caught:
            error = caught
        refused = scarce.scarce_refused(KINDS[kind])
        scarce.scarce_fail(KINDS[kind], 0, 0)
        assert error is None or str(error) or isinstance(error, MemoryError), (
            f"{number}: says nothing: {error!r}"
        )
        failed += error is not None
        if error is not None:
            print(f"{number}: {type(error).__name__}: {error}")
        del error
        gc.collect()
        assert same(router(x), want), f"{number}: the next call"
        step()  # what failed goes well now
        if not refused:
            print(f"refused {number - 1}, of which {failed} were errors")
            return
    raise SystemExit(f"{MOST} requests, and no end")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "rest", sys.argv[3], sys.argv[4])
