"""Threads and the order of destruction: nothing is freed early, nothing is kept, misuse is refused."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import qwisp_native as qn
from qwisp_native.settings import VARIANTS
from small import EXPERTS, TOP_K, layer, rows, same

# ---- threads


def test_one_router_from_many_threads(device: qn.Device) -> None:
    routers = [qn.Router(layer().gate(device), TOP_K, fuse=each) for each in VARIANTS]
    inputs = [rows(1 + seed % 4, seed) for seed in range(12)]
    want = [routers[0](x, return_logits=True) for x in inputs]

    def work(worker: int) -> bool:
        order = np.random.default_rng(worker).permutation(len(inputs))
        return all(same(routers[(worker + i) % 3](inputs[i], return_logits=True), want[i]) for i in order)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(16)))


def test_one_router_with_other_arguments_at_each_call(device: qn.Device) -> None:
    """Plans and memory are kept from call to call; none may serve a call that they were not made for."""
    gate = layer().gate(device)
    bias = qn.RouteBias(np.arange(EXPERTS) % 2 == 0, 0.5)
    cases: list[tuple[np.ndarray, dict[str, Any]]] = [
        (rows(count, count), {"return_logits": logits, "bias": given})
        for count, logits, given in itertools.product((1, 4, 40), (False, True), (None, bias))
    ]
    want: list[Any] = [qn.Router(gate, TOP_K)(x, **options) for x, options in cases]
    router = qn.Router(gate, TOP_K, fuse="last")

    def work(worker: int) -> bool:
        order = np.random.default_rng(worker).permutation(len(cases))
        right = True
        for i in order:
            x, options = cases[i]
            out = tuple(np.empty_like(each) for each in want[i])
            got: Any = router(x, **options, out=out) if worker % 2 else router(x, **options)
            right = right and same(got, want[i])
        return right

    assert all(work(worker) for worker in range(2))
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))


def test_everything_from_many_threads() -> None:
    """Devices, gates, plans and command buffers made and dropped at once."""

    def work(seed: int) -> bool:
        device = qn.Device()
        gate = layer(seed).gate(device)
        x = rows(2, seed)
        want = qn.Router(gate, TOP_K)(x)
        scratch = qn.RouteScratch(device, 2, EXPERTS, TOP_K)
        commands = device.command_buffer()
        with commands.compute_encoder() as encoder:
            qn.encode_moe_route_rows(encoder, device.buffer(x), gate, scratch, rows=2, fuse="single")
        commands.commit()
        commands.wait_until_completed()
        return same((scratch.inds, scratch.scores), want)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(24)))


def test_one_command_buffer_from_many_threads(device: qn.Device) -> None:
    """Misuse, but of a kind that must be refused: exactly one of the threads may open, end and commit."""
    commands = device.command_buffer()
    opened: list[qn.ComputeEncoder] = []

    def counted(call: Any) -> int:
        def attempt(_: int) -> int:
            try:
                opened.append(call())
            except RuntimeError:
                return 0
            return 1

        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(attempt, range(32)))

    assert counted(commands.compute_encoder) == 1
    encoder = opened[0]
    assert counted(encoder.end_encoding) == 1
    assert counted(commands.commit) == 1
    assert counted(commands.wait_until_completed) == 32


def test_other_threads_run_while_one_waits(device: qn.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    if device.kind == "cpu":
        monkeypatch.setattr(device, "kernels", "simt")  # the vector kernels are done too soon
    router = qn.Router(layer().gate(device), TOP_K)
    x = rows(64)
    counted, done = 0, threading.Event()

    def wait() -> None:
        router(x)
        done.set()

    threading.Thread(target=wait).start()
    while not done.is_set():
        counted += 1
    assert counted > 100


def test_more_command_buffers_than_a_queue_holds() -> None:
    device = qn.Device()
    held = [device.command_buffer() for _ in range(32)]
    with pytest.raises(RuntimeError, match="32 command buffers of this device are not committed"):
        device.command_buffer()
    router = qn.Router(layer().gate(device), TOP_K)
    router(rows(1))
    held.pop()
    held.append(device.command_buffer())
    for each in held:
        each.commit()
    more = [device.command_buffer() for _ in range(32)]
    for each in more:
        each.commit()
        each.wait_until_completed()


# ---- the order of destruction

NAMES = ("device", "gate", "router", "scratch", "buffer", "commands", "encoder", "plan")


def everything() -> dict[str, Any]:
    made: dict[str, Any] = {"device": qn.Device()}
    device = made["device"]
    made["gate"] = layer().gate(device)
    made["router"] = qn.Router(made["gate"], TOP_K)
    made["scratch"] = qn.RouteScratch(device, 2, EXPERTS, TOP_K)
    made["buffer"] = device.buffer(rows(2))
    made["commands"] = device.command_buffer()
    made["encoder"] = made["commands"].compute_encoder()
    made["plan"] = qn.encode_moe_route_rows(
        made["encoder"], made["buffer"], made["gate"], made["scratch"], rows=2
    )
    return made


@pytest.mark.parametrize("first", NAMES)
def test_dropped_in_any_order(first: str) -> None:
    rest = [name for name in NAMES if name != first]
    for second, third in itertools.permutations(rest, 2):
        made = everything()
        for name in (first, second, third, *(name for name in rest if name not in (second, third))):
            del made[name]
        gc.collect()


def test_what_is_left_still_works() -> None:
    made = everything()
    want = made["router"](rows(2))
    views = [made["scratch"].inds, made["scratch"].scores, made["gate"].weight, made["buffer"].array]
    encoder, commands = made["encoder"], made["commands"]
    made.clear()
    gc.collect()
    encoder.end_encoding()
    commands.commit()
    commands.wait_until_completed()
    del encoder, commands
    gc.collect()
    assert same(views[:2], want)
    assert same(views[2:], (layer().weight, rows(2)))


def test_in_flight_while_everything_goes() -> None:
    made = everything()
    want = made["router"](rows(2))
    inds = made["scratch"].inds
    made["encoder"].end_encoding()
    commands = made["commands"]
    commands.commit()
    made.clear()
    del commands
    gc.collect()
    end = time.time() + 30
    while (inds != want[0]).any():
        assert time.time() < end
        time.sleep(0.001)


def test_a_device_goes_with_its_last_user() -> None:
    device = qn.Device()
    gate = layer().gate(device)
    del device
    gc.collect()
    again = gate.device
    assert again is gate.device
    assert same((qn.Router(layer().gate(again), TOP_K)(rows(1))), qn.Router(gate, TOP_K)(rows(1)))


def test_no_reference_is_kept(device: qn.Device) -> None:
    router = qn.Router(layer().gate(device), TOP_K)
    x, out = rows(2), (np.empty((2, TOP_K), np.int32), np.empty((2, TOP_K), np.float16))
    watched = [x, *out, None, True, np.dtype(np.float16)]

    def counts_after_calls() -> list[int]:
        for _ in range(200):
            router(x, out=out)
            router(x, return_logits=True)
            for bad in (x.T, x[0], None):
                with pytest.raises((TypeError, ValueError)):
                    router(bad)
        gc.collect()
        return [sys.getrefcount(each) for each in watched]

    before = counts_after_calls()  # the first calls fill the interpreter's own caches
    after = counts_after_calls()
    assert max(b - a for a, b in zip(before, after, strict=True)) < 100
