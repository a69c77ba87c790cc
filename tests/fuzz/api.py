"""The Python API: any arrays and any arguments; in lifetimes.py any order of calls and of ends of life."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import journal
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from lifetimes import Lifetimes, wanted
from odd import ANYTHING, REFUSALS, SIMPLE, arrays, wrapped

import qwisp_native as qn
from small import EXPERTS, HIDDEN, TOP_K, layer, rows, same


@lru_cache
def router() -> qn.Router:
    return qn.Router(layer().gate(qn.Device("cpu")), TOP_K)


@given(data=st.data(), count=st.integers(0, 3))
def test_arrays_of_any_layout(data: st.DataObject, count: int) -> None:
    """Rows in any layout are refused or routed as their values say; results go where they may."""
    journal.begin("arrays")
    values = rows(3)[:count]
    x = data.draw(arrays((count, HIDDEN), "f2"))
    if x.flags.writeable:
        x[...] = values
    literal = np.ascontiguousarray(np.asarray(x))
    given_x = data.draw(wrapped(x)) if data.draw(st.booleans()) else x
    journal.step(f"x {type(given_x)} {x.strides} {x.flags.writeable}")
    want = router()(literal, return_logits=True)
    try:
        got = router()(given_x, return_logits=True)
    except REFUSALS as error:
        journal.step(f"refused: {error}")
        assert type(given_x) is not np.ndarray or not x.flags.c_contiguous or not x.flags.aligned, error
    else:
        assert same(got, want)
    out = tuple(data.draw(arrays(each.shape, each.dtype.str)) for each in want)
    before = [each.copy() for each in out]
    journal.step(f"out {[each.strides for each in out]}")
    try:
        router()(literal, return_logits=True, out=out)
    except REFUSALS as error:
        journal.step(f"refused: {error}")
        assert same([np.asarray(each) for each in out], [np.asarray(each) for each in before]), (
            "refused, but written"
        )
    else:
        assert same([np.asarray(each) for each in out], want)


def calls(device: qn.Device) -> dict[str, tuple[Any, int, list[str]]]:
    """Name -> (callable, most positional arguments, keywords)."""
    gate = layer().gate(device)
    scratch = qn.RouteScratch(device, 2, EXPERTS, TOP_K)
    commands = device.command_buffer()
    encoder = commands.compute_encoder()
    x = device.buffer(rows(2))
    one = qn.Router(gate, TOP_K)
    encode = ["bias", "diag", "remap", "return_logits", "fuse"]

    def setter(name: str) -> Any:
        return lambda value=None: setattr(device, name, value)

    return {
        "Device": (qn.Device, 1, ["contract"]),
        "buffer": (device.buffer, 1, ["private", "label"]),
        "empty": (device.empty, 2, ["label"]),
        "Gate": (lambda *a, **k: qn.Gate(device, *a, **k), 3, []),
        "Gate.quantize": (lambda *a: qn.Gate.quantize(device, *a), 1, []),
        "Gate.from_weights": (lambda *a: qn.Gate.from_weights(device, *a), 1, []),
        "RouteScratch": (lambda *a: qn.RouteScratch(device, *a), 3, []),
        "RouteBias": (qn.RouteBias, 2, []),
        "RouteDiag": (
            lambda *a, **k: qn.RouteDiag(x, x, *a, **k),
            2,
            ["layer", "layers", "max_rows", "slot"],
        ),
        "RouteDiag of": (qn.RouteDiag, 2, ["layer", "layers", "max_rows", "slot"]),
        "Router": (lambda *a, **k: qn.Router(gate, *a, **k), 2, ["top_k", "fuse", "renormalize"]),
        "route": (one, 1, ["return_logits", "bias", "out", "stream"]),
        "Router.plan": (one.plan, 1, ["bias", "logits", "fuse"]),
        "plan": (lambda *a, **k: qn.plan(device, *a, **k), 4, ["fuse", "bias", "logits", "diag", "remap"]),
        "encode": (lambda *a, **k: qn.encode_moe_route_rows(encoder, *a, rows=1, **k), 3, encode),
        "encode rows": (
            lambda *a, **k: qn.encode_moe_route_rows(encoder, x, gate, scratch, **k),
            0,
            ["rows", *encode],
        ),
        "record_route": (lambda **k: qn.testing.record_route(x, gate, scratch, **k), 0, ["rows", *encode]),
        "compute_encoder": (device.command_buffer().compute_encoder, 1, ["concurrent"]),
        "repeated_rows": (qn.repeated_rows, 1, []),
        "load_gates": (qn.load_gates, 1, []),
        "kernels": (setter("kernels"), 1, []),
        "threads": (setter("threads"), 1, []),
        "simt_seed": (setter("simt_seed"), 1, []),
        "__exit__": (encoder.__exit__, 3, []),
    }


@given(data=st.data(), name=st.sampled_from(sorted(calls(qn.Device("cpu")))))
def test_arguments_of_any_kind(data: st.DataObject, name: str) -> None:
    """Every call gives a result or one of the documented errors, and the device works on."""
    device = qn.Device("cpu")
    call, most, keywords = calls(device)[name]
    journal.begin(name)
    positional = [data.draw(ANYTHING) for _ in range(data.draw(st.integers(0, most + 1)))]
    chosen = data.draw(st.lists(st.sampled_from(keywords), unique=True)) if keywords else []
    options = {key: data.draw(st.one_of(SIMPLE, ANYTHING)) for key in chosen}
    journal.step(f"{positional!r:.900} {options!r:.900}")
    try:
        made = call(*positional, **options)
    except REFUSALS as error:
        assert str(error), f"{name}: an error that says nothing"
    except (KeyError, RecursionError, SystemExit, OSError) as error:
        assert "planted" in str(error) or name == "load_gates", f"{name}: {error!r}"
    else:
        repr(made)
    assert same(router()(rows(1)), wanted(0, 1, 1, False)[:2])


TESTS = [test_arguments_of_any_kind, test_arrays_of_any_layout, Lifetimes]
