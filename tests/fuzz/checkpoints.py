"""Checkpoints: safetensors, config and index files that are cut or lie. Refused clearly, or routed."""

from __future__ import annotations

import copy
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import journal
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import contract
import gate_files as gf
import qwisp_native as qn
from qwisp_native.gates.compare import differences
from qwisp_native.gates.routing import route
from test_properties import HALVES

INTEGERS = st.one_of(
    st.integers(-2, 70),
    st.sampled_from([128, 512, 1024, 2**31, 2**32, 2**53, 2**63, 2**64 - 1, 2**64, 10**40]),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), INTEGERS, st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
DTYPES = st.sampled_from(["U32", "F16", "BF16", "F32", "U8", "I64", "BOOL", "F64", "F8_E4M3", "F4", "X", ""])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def lie(draw: Any, value: Any) -> Any:
    """A JSON value with one place changed, taken out, or moved."""
    value = copy.deepcopy(value)
    where = draw(st.sampled_from(places(value) or [()]))
    if not where:
        return draw(JSON)
    inside = value
    for key in where[:-1]:
        inside = inside[key]
    last = where[-1]
    how = draw(st.sampled_from(["integer", "json", "remove", "dtype", "copy", "rename"]))
    if how == "integer":
        inside[last] = draw(INTEGERS)
    elif how == "dtype":
        inside[last] = draw(DTYPES)
    elif how == "remove":
        del inside[last]
    elif how == "copy":  # another tensor's offsets, say: they overlap
        inside[last] = (
            copy.deepcopy(inside[draw(st.sampled_from(list(inside)))]) if isinstance(inside, dict) else 0
        )
    elif how == "rename" and isinstance(inside, dict):
        names = ["model.layers.1.mlp.gate.bias", "model.layers.000000002.mlp.gate.weight", "__metadata__"]
        inside[draw(st.one_of(st.sampled_from(names), st.text(max_size=9)))] = inside.pop(last)
    else:
        inside[last] = draw(JSON)
    return value


def header_of(whole: bytes) -> tuple[Any, bytes]:
    length = int.from_bytes(whole[:8], "little")
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


@st.composite
def folders(draw: st.DrawFn) -> dict[str, bytes]:
    """A good checkpoint's files, then some lies and damage."""
    with tempfile.TemporaryDirectory() as name:
        tensors = gf.gate_tensors(layers=(0,))
        pool = np.array(draw(st.lists(HALVES, min_size=1, max_size=5)), np.float16)
        for key in tensors:
            if key.endswith(("gate.scales", "gate.biases")) and draw(
                st.booleans()
            ):  # NaN, infinities, subnormals
                tensors[key] = np.resize(pool, tensors[key].shape)
        config = dict(gf.CONFIG, quantization=gf.quantization(gf.gate_modules(tensors)))
        gf.write(Path(name), tensors, config, draw(st.sampled_from([1, 1, 2])))
        made = {file.name: file.read_bytes() for file in sorted(Path(name).iterdir())}
    for _ in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(sorted(made)))
        whole = made[name]
        damage = draw(st.sampled_from(["lie", "lie", "lie", "cut", "flip", "bytes", "longer", "length"]))
        try:
            if damage == "lie" and name.endswith(".json"):
                whole = json.dumps(lie(draw, json.loads(whole))).encode()
            elif damage == "lie":
                header, body = header_of(whole)
                text = json.dumps(lie(draw, header)).encode()
                whole = len(text).to_bytes(8, "little") + text + body
        except (ValueError, RecursionError):  # damaged before
            damage = "cut"
        if damage == "cut":
            whole = whole[: draw(st.integers(0, len(whole)))]
        elif damage == "flip" and whole:
            at = draw(st.integers(0, min(len(whole), 3000) - 1))
            whole = whole[:at] + bytes([whole[at] ^ 1 << draw(st.integers(0, 7))]) + whole[at + 1 :]
        elif damage == "bytes":
            whole = draw(
                st.one_of(st.binary(max_size=40), st.sampled_from([b"[" * 200_000, b"9" * 9000, b"{}"]))
            )
        elif damage == "longer":
            whole += draw(st.binary(max_size=9))
        elif damage == "length":
            whole = (
                draw(st.sampled_from([0, 1, 2**20, 2**40, 2**63, 2**64 - 1])).to_bytes(8, "little")
                + whole[8:]
            )
        made[name] = whole
    if draw(st.integers(0, 9)) == 0:
        del made[draw(st.sampled_from(sorted(made)))]
    return made


@given(made=folders(), top_k=st.integers(1, 16))
def test_any_checkpoint(made: dict[str, bytes], top_k: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="qwisp-fuzz-"))
    try:
        journal.begin(f"{ {name: whole[:1500] for name, whole in made.items()} }")
        for name, whole in made.items():
            (folder / name).write_bytes(whole)
        try:
            checkpoint = qn.load_gates(folder)
        except (ValueError, OSError, MemoryError) as error:
            assert str(error), "an error that says nothing"
            return
        repr(checkpoint)
        for number, weights in checkpoint.items():
            routed(weights, top_k)
            try:
                checkpoint.router(qn.Device("cpu"), number)
            except ValueError as error:
                assert str(error), "an error that says nothing"
    finally:
        shutil.rmtree(folder)


def routed(weights: qn.GateWeights, top_k: int) -> None:
    """What the reader lets through, the device takes or refuses; and routes by the contract."""
    try:
        gate = qn.Gate.from_weights(qn.Device("cpu"), weights)
    except ValueError as error:
        journal.step(f"no gate: {error}")
        return
    assert (gate.experts, gate.hidden) == (weights.experts, weights.hidden)
    x = np.random.default_rng(0).normal(0, 1, (2, gate.hidden)).astype(np.float16)
    top_k = min(top_k, gate.experts)
    literal = contract.route(x, gate.weight, weights.scales, weights.biases, top_k)
    want = {"inds": literal.inds, "scores": literal.scores, "logits": literal.logits}
    for fuse in ("pair", "last"):
        told = differences(route(gate, x, top_k, fuse), want)  # type: ignore[arg-type]
        assert told is None, f"{fuse}: {told}"


TESTS = [test_any_checkpoint]
