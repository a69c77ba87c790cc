"""Every argument that cannot be is refused by its name, with what it was and what it may be."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qwisp_native as qn
from small import EXPERTS, HIDDEN, TOP_K, layer, rows

HUGE = 10**30
Case = tuple[Callable[[], object], type[Exception], str]


def refused(case: str, call: Callable[[], object], error: type[Exception], text: str) -> None:
    try:
        call()
    except error as caught:
        if not re.search(text, str(caught)):
            pytest.fail(f"{case}: {caught}")
    else:
        pytest.fail(f"{case}: not refused")


def encode(device: qn.Device, good: dict[str, Any], changes: dict[str, Any]) -> None:
    with device.command_buffer().compute_encoder() as encoder:
        qn.encode_moe_route_rows(**({"encoder": encoder} | good | changes))


def bad_encodes(device: qn.Device) -> dict[str, tuple[dict[str, Any], type[Exception], str]]:
    other = qn.Device("cpu")
    ids, halves = device.empty(8, np.int32), device.empty((3, HIDDEN), np.float16)
    place = {"layer": 0, "layers": 1, "max_rows": 1}
    return {
        "encoder": ({"encoder": None}, TypeError, "encoder: None.*ComputeEncoder"),
        "x": ({"x": rows(3)}, TypeError, "x: a numpy.ndarray.*Buffer"),
        "x dtype": ({"x": device.empty((3, HIDDEN), "f4")}, TypeError, "x: dtype float32.*float16"),
        "x rows": ({"x": device.empty((2, HIDDEN), "f2")}, ValueError, r"x: shape \[2, 512\].*rows=3"),
        "x flat": ({"x": device.empty(3 * HIDDEN, "f2")}, ValueError, r"x: shape \[1536\].*hidden=512"),
        "x device": ({"x": other.empty((3, HIDDEN), "f2")}, ValueError, "x: .*another Device"),
        "gate": ({"gate": "gate"}, TypeError, "gate: a str.*Gate"),
        "gate device": ({"gate": layer().gate(other)}, ValueError, "another Device"),
        "scratch": ({"scratch": None}, TypeError, "scratch: None.*RouteScratch"),
        "scratch rows": ({"scratch": qn.RouteScratch(device, 2, EXPERTS, 4)}, ValueError, "rows: 3"),
        "scratch experts": ({"scratch": qn.RouteScratch(device, 3, 8, 4)}, ValueError, "experts"),
        "scratch device": (
            {"scratch": qn.RouteScratch(other, 3, EXPERTS, 4)},
            ValueError,
            "scratch: .*another Device",
        ),
        "rows": ({"rows": "3"}, TypeError, "rows: a str.*int"),
        "rows huge": ({"rows": HUGE}, ValueError, "rows: 1000.*64 bits"),
        "rows bool": ({"rows": True}, TypeError, "rows: a bool"),
        "rows float": ({"rows": 3.0}, TypeError, "rows: a float"),
        "fuse": ({"fuse": "both"}, ValueError, "fuse: 'both'.*'split_pair' or 'split_last'"),
        "fuse int": ({"fuse": 1}, TypeError, "fuse: an int"),
        "bias": ({"bias": (1, 2)}, TypeError, "bias: a tuple.*RouteBias"),
        "bias length": ({"bias": qn.RouteBias(np.zeros(8, "i4"), 1)}, ValueError, "bias.resident: 8 .*16"),
        "bias device": (
            {"bias": qn.RouteBias(other.empty(16, "i4"), 1)},
            ValueError,
            "bias.resident: .*another Device",
        ),
        "diag": ({"diag": {}}, TypeError, "diag: a dict.*RouteDiag"),
        "diag small": (
            {"diag": qn.RouteDiag(ids, halves, layer=9, layers=10, max_rows=9)},
            ValueError,
            "diag",
        ),
        "diag device": (
            {"diag": qn.RouteDiag(other.empty(8, "i4"), other.empty(16, "f2"), **place)},
            ValueError,
            "diag: .*another Device",
        ),
        "remap": ({"remap": 5}, TypeError, "remap: an int"),
        "remap dtype": ({"remap": np.zeros(16, "i8")}, TypeError, "remap: dtype int64.*int32"),
        "remap short": ({"remap": np.zeros(15, "i4")}, ValueError, "remap.*15.*16"),
        "remap buffer": ({"remap": halves}, TypeError, "remap: dtype float16.*int32"),
        "logits": ({"return_logits": None}, TypeError, "return_logits: None.*True or False"),
    }


def test_encode_refused(device: qn.Device) -> None:
    good = {
        "x": device.buffer(rows(3)),
        "gate": layer().gate(device),
        "scratch": qn.RouteScratch(device, rows=3, experts=EXPERTS, top_k=TOP_K),
        "rows": 3,
    }
    encode(device, good, {})
    for case, (changes, error, text) in bad_encodes(device).items():
        refused(case, lambda changes=changes: encode(device, good, changes), error, text)


# ---- constructors and plans


def bad_calls(device: qn.Device) -> dict[str, Case]:
    small = layer()
    gate = small.gate(device)
    router = qn.Router(gate, TOP_K)
    words = np.zeros((EXPERTS, HIDDEN // 4), np.uint32)
    f2 = np.zeros((EXPERTS, 8), np.float16)
    ids, halves = device.empty(8, np.int32), device.empty(8, np.float16)
    return {
        "gate device": (lambda: qn.Gate(None, *small), TypeError, "device: None.*Device"),
        "gate weight": (lambda: qn.Gate(device, None, *small[1:]), TypeError, "weight: None"),
        "gate flat": (lambda: qn.Gate(device, words[0], f2, f2), ValueError, r"weight: shape \[128\]"),
        "gate empty": (lambda: qn.Gate(device, words[:0], f2[:0], f2[:0]), ValueError, "experts"),
        "gate no columns": (lambda: qn.Gate(device, words[:, :0].copy(), f2, f2), ValueError, "hidden"),
        "gate scales": (
            lambda: qn.Gate(device, words, f2[:8], f2),
            ValueError,
            r"scales: shape \[8, 8\].*\[16, 8\]",
        ),
        "gate swapped": (
            lambda: qn.Gate(device, words.astype(">u4"), f2, f2),
            TypeError,
            "weight: dtype >u4",
        ),
        "scratch device": (lambda: qn.RouteScratch(gate, 1, 8, 2), TypeError, "device: .*Gate"),
        "scratch rows": (lambda: qn.RouteScratch(device, -1, 8, 2), ValueError, "rows.*-1"),
        "scratch huge": (lambda: qn.RouteScratch(device, HUGE, 8, 2), ValueError, "rows: 1000"),
        "scratch none": (lambda: qn.RouteScratch(device, 1, None, 2), TypeError, "experts: None"),
        "bias resident": (lambda: qn.RouteBias(None, 1), TypeError, "resident: None"),
        "bias dtype": (lambda: qn.RouteBias(np.zeros(8, np.int64), 1), TypeError, "resident: dtype int64"),
        "bias buffer": (lambda: qn.RouteBias(halves, 1), TypeError, "resident: dtype float16.*int32"),
        "bias shape": (
            lambda: qn.RouteBias(np.zeros((2, 8), "i4"), 1),
            ValueError,
            r"resident: shape \[2, 8\]",
        ),
        "eps none": (lambda: qn.RouteBias(np.zeros(8, "i4"), None), TypeError, "eps: None"),
        "eps str": (lambda: qn.RouteBias(np.zeros(8, "i4"), "1"), TypeError, "eps: a str"),
        "eps nan": (lambda: qn.RouteBias(np.zeros(8, "i4"), float("nan")), ValueError, "eps: nan.*finite"),
        "eps inf": (lambda: qn.RouteBias(np.zeros(8, "i4"), 1e39), ValueError, "eps: 1e.39.*finite"),
        "eps huge": (lambda: qn.RouteBias(np.zeros(8, "i4"), 10**400), ValueError, "eps: .*float32"),
        "diag inds": (
            lambda: qn.RouteDiag(halves, halves, layer=0, layers=1, max_rows=1),
            TypeError,
            "inds: dtype",
        ),
        "diag none": (
            lambda: qn.RouteDiag(ids, None, layer=0, layers=1, max_rows=1),
            TypeError,
            "logits: None",
        ),
        "diag rows": (
            lambda: qn.RouteDiag(ids, halves, layer=0, layers=1, max_rows=None),
            TypeError,
            "max_rows",
        ),
        "router gate": (lambda: qn.Router(small), TypeError, "gate: .*Layer"),
        "router top_k": (lambda: qn.Router(gate, 17), ValueError, "top_k.*17.*16"),
        "router none": (lambda: qn.Router(gate, None), TypeError, "top_k: None"),
        "router fuse": (lambda: qn.Router(gate, 4, fuse="Last"), ValueError, "fuse: 'Last'"),
        "renormalize": (lambda: qn.Router(gate, 4, renormalize=False), ValueError, "always renormalises"),
        "renormalize none": (lambda: qn.Router(gate, 4, renormalize=None), TypeError, "renormalize: None"),
        "call bias": (lambda: router(rows(1), bias=3), TypeError, "bias: an int"),
        "call length": (
            lambda: router(rows(1), bias=qn.RouteBias(np.zeros(8, "i4"), 1)),
            ValueError,
            "resident: 8",
        ),
        "call logits": (lambda: router(rows(1), return_logits=1), TypeError, "return_logits: an int"),
        "call extra": (lambda: router(rows(1), 3), TypeError, "incompatible function arguments"),
        "plan rows": (lambda: router.plan(-1), ValueError, "rows.*-1"),
        "plan huge": (lambda: router.plan(HUGE), ValueError, "rows: 1000"),
        "plan device": (lambda: qn.plan("cpu", 1, 512, 8, 2), TypeError, "device: a str"),
        "plan flag": (lambda: qn.plan(device, 1, 512, 8, 2, bias="yes"), TypeError, "bias: a str"),
        "plan hidden": (lambda: qn.plan(device, 1, 513, 8, 2, diag=True), ValueError, "hidden.*513.*512"),
        "plan digits": (lambda: qn.plan(device, 10**5000, 512, 8, 2), ValueError, "rows: an int"),
    }


def test_refused(device: qn.Device) -> None:
    for case, (call, error, text) in bad_calls(device).items():
        refused(case, call, error, text)


# ---- objects


CLASSES = [
    qn.Buffer, qn.CommandBuffer, qn.ComputeEncoder, qn.Device, qn.Gate,
    qn.RouteBias, qn.RouteDiag, qn.RoutePlan, qn.RouteScratch, qn.Router,
]  # fmt: skip


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_object_that_was_never_initialised(cls: type) -> None:
    blank = cls.__new__(cls)
    for name, attribute in vars(cls).items():
        if isinstance(attribute, property):
            with pytest.raises(TypeError, match="never initialised"):
                attribute.fget(blank)
        elif name in {"__repr__", "__enter__", "commit", "wait_until_completed", "end_encoding"}:
            with pytest.raises(TypeError, match="never initialised"):
                attribute(blank)


def test_an_argument_that_was_never_initialised(device: qn.Device) -> None:
    for call in (
        lambda: qn.Router(qn.Gate.__new__(qn.Gate)),
        lambda: qn.plan(qn.Device.__new__(qn.Device), 1, 512, 8, 2),
        lambda: qn.RouteBias(qn.Buffer.__new__(qn.Buffer), 1),
        lambda: qn.Router(layer().gate(device), 4)(rows(1), bias=qn.RouteBias.__new__(qn.RouteBias)),
    ):
        with pytest.raises(TypeError, match="never initialised"):
            call()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_subclasses_no_foreign_self(cls: type) -> None:
    with pytest.raises(TypeError):
        type("Sub", (cls,), {})
    for name in dir(cls):
        attribute = getattr(cls, name)
        if isinstance(attribute, property):
            with pytest.raises(TypeError):
                attribute.fget(None)


def test_objects_are_not_copied(device: qn.Device) -> None:
    gate = layer().gate(device)
    router = qn.Router(gate, TOP_K)
    for each in (device, gate, router, device.empty(1, "u1"), router.plan(1)):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError):
                copied(each)


def test_init_again_changes_nothing(device: qn.Device) -> None:
    gate = layer().gate(device)
    gate.__init__(None, None, None, None)  # type: ignore[misc]
    assert gate.device is device
    assert (gate.weight == layer().weight).all()


def test_everything_public_is_documented() -> None:
    for name in qn.__all__:
        assert getattr(qn, name).__doc__, name
    for cls in CLASSES:
        for name in vars(cls):
            if not name.startswith("_"):
                assert getattr(cls, name).__doc__, f"{cls.__name__}.{name}"
