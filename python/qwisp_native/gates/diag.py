"""G-C, diag and remap: telemetry sees raw logits and expert ids as chosen, at the contract's offsets."""

from __future__ import annotations

from typing import Any

import numpy as np

import qwisp_native as qn
from qwisp_native.settings import Variant

from .compare import difference, differences, expect, raises
from .inputs import Planted, dense, plant
from .registry import PAIR, Checks, Context, gate
from .routing import Arrays, Layer, encode, filled, route, scratch_rows

EXPERTS, TOP_K, HIDDEN, LAYERS, SLOTS, MAX_ROWS = 40, 6, 512, 3, 2, 4
NO_ID = -77
NO_LOGIT = np.float16(-1234)


class Telemetry:
    """The two buffers of CONTRACT section 5 for all layers and chain slots, full of what no route writes."""

    def __init__(self, device: qn.Device) -> None:
        self.inds = filled(device, (SLOTS * LAYERS * MAX_ROWS * TOP_K,), np.int32, NO_ID)
        self.logits = filled(device, (LAYERS * EXPERTS,), np.float16, NO_LOGIT)
        self.want_inds = self.inds.array.copy()
        self.want_logits = self.logits.array.copy()

    def place(self, layer: int, slot: int) -> qn.RouteDiag:
        """Ask for this place."""
        return qn.RouteDiag(self.inds, self.logits, layer=layer, layers=LAYERS, slot=slot, max_rows=MAX_ROWS)

    def expect(self, layer: int, slot: int, routed: Arrays) -> None:
        """What the contract says that this route leaves here."""
        rows = len(routed["inds"])
        if rows <= MAX_ROWS:
            start = (slot * LAYERS + layer) * MAX_ROWS * TOP_K
            self.want_inds[start : start + rows * TOP_K] = routed["inds"].ravel()
        if rows == 1 and slot == 0:
            self.want_logits[layer * EXPERTS : (layer + 1) * EXPERTS] = routed["logits"][0]

    def told(self) -> str | None:
        """None, or the first difference."""
        return difference("diag inds", self.inds.array, self.want_inds) or difference(
            "diag logits", self.logits.array, self.want_logits
        )


def _cases(context: Context, rows: int) -> list[tuple[Planted, qn.Gate, Arrays]]:
    """One gate a layer, and what the pair gives there."""
    out = []
    for layer in range(LAYERS):
        case = dense(context.rng("gc-diag", layer, rows), rows, EXPERTS, HIDDEN)
        handle = case.gate(context.device)
        out.append((case, handle, route(handle, case.x, TOP_K, PAIR)))
    return out


@gate("gc-diag")
def layout(context: Context) -> Checks:
    """Layers and chain slots at their offsets; logits only for M = 1 in slot 0; inds only for M <= R."""
    for rows in (1, 2, MAX_ROWS, MAX_ROWS + 1):
        cases = _cases(context, rows)
        for variant in (PAIR, *context.variants(TOP_K)):
            for slot in range(SLOTS):
                telemetry = Telemetry(context.device)
                layers = []
                for i, (case, handle, pair) in enumerate(cases):
                    scratch = qn.RouteScratch(context.device, rows=rows, experts=EXPERTS, top_k=TOP_K)
                    options = {"diag": telemetry.place(i, slot)}
                    layers.append(Layer(handle, case.x, scratch, variant, options))
                    telemetry.expect(i, slot, pair)
                encode(context.device, layers)
                told = telemetry.told() or next(
                    (
                        text
                        for layer, (_, _, pair) in zip(layers, cases, strict=True)
                        if (text := differences(scratch_rows(layer.scratch, rows), pair))
                    ),
                    None,
                )
                yield f"M={rows} slot={slot} {variant}", told


@gate("gc-diag-raw")
def raw_logits(context: Context) -> Checks:
    """Raw logits byte for byte whatever the route: with a bias, a remap, NaN, infinities, and at any M."""
    table = np.arange(EXPERTS, dtype=np.int32)[::-1].copy()
    bias = qn.RouteBias(np.arange(EXPERTS, dtype=np.int32) % 2, 2.5)
    rng = context.rng("gc-diag-raw")
    awkward = rng.normal(0, 2, (1, EXPERTS)).astype(np.float16)
    awkward[0, [3, 5, 8]] = np.inf, -np.inf, np.nan
    inputs = {
        "dense": dense(rng, 1, EXPERTS, HIDDEN),
        "awkward": plant(awkward),
        "three rows": dense(rng, 3, EXPERTS, HIDDEN),
    }
    for name, case in inputs.items():
        handle = case.gate(context.device)
        for variant in (PAIR, *context.variants(TOP_K)):
            for extras in ({}, {"bias": bias}, {"remap": table}, {"bias": bias, "remap": table}):
                told = _one(context, handle, case, variant, extras)
                yield f"{name}: {variant} {'+'.join(extras) or 'plain'}", told


def _one(
    context: Context, handle: qn.Gate, case: Planted, variant: Variant, extras: dict[str, Any]
) -> str | None:
    rows = len(case.x)
    telemetry = Telemetry(context.device)
    scratch = qn.RouteScratch(context.device, rows=rows, experts=EXPERTS, top_k=TOP_K)
    want = route(handle, case.x, TOP_K, PAIR, bias=extras.get("bias"))
    telemetry.expect(1, 0, want)
    options = {"diag": telemetry.place(1, 0), **extras}
    encode(context.device, [Layer(handle, case.x, scratch, variant, options)])
    if "remap" in extras:
        want["inds"] = extras["remap"][want["inds"]]
    return telemetry.told() or differences(scratch_rows(scratch, rows), want)


@gate("gc-diag-refused")
def refused(context: Context) -> Checks:
    """A place outside the layers, or buffers too small for it, are refused before anything is encoded."""
    device = context.device
    case = dense(context.rng("gc-diag-refused"), 1, EXPERTS, HIDDEN)
    handle = case.gate(device)
    inds, logits = filled(device, (TOP_K,), np.int32, NO_ID), filled(device, (EXPERTS,), np.float16, 0)
    for name, place, words in (
        ("layer = layers", {"layer": 1, "layers": 1, "slot": 0, "max_rows": 1}, ("layer",)),
        ("negative layer", {"layer": -1, "layers": 1, "slot": 0, "max_rows": 1}, ("layer",)),
        ("negative slot", {"layer": 0, "layers": 1, "slot": -1, "max_rows": 1}, ("slot",)),
        ("second layer", {"layer": 1, "layers": 2, "slot": 0, "max_rows": 1}, ("diag", "bytes")),
        ("second slot", {"layer": 0, "layers": 1, "slot": 1, "max_rows": 1}, ("diag", "bytes")),
        ("offset beyond 64 bits", {"layer": 2**62, "layers": 2**62 + 1, "slot": 0, "max_rows": 2**31}, ()),
    ):
        scratch = qn.RouteScratch(device, rows=1, experts=EXPERTS, top_k=TOP_K)

        def call(place: dict[str, int] = place, scratch: qn.RouteScratch = scratch) -> None:
            options = {"diag": qn.RouteDiag(inds, logits, **place)}
            encode(device, [Layer(handle, case.x, scratch, PAIR, options)])

        yield name, raises(ValueError, words, call)


@gate("gc-remap")
def remap(context: Context) -> Checks:
    """inds[i] = table[inds[i]] right after routing: -1 entries stay -1, scores and logits stay."""
    device = context.device
    rng = context.rng("gc-remap")
    case = dense(rng, 5, EXPERTS, HIDDEN)
    before = dense(rng, 8, EXPERTS, HIDDEN)
    handle = case.gate(device)
    pair = route(handle, case.x, TOP_K, PAIR)
    permutation = rng.permutation(EXPERTS).astype(np.int32)
    absent = np.where(permutation % 3 == 0, -1, permutation).astype(np.int32)
    longer = np.concatenate([absent, [999, 998]]).astype(np.int32)
    far = (permutation.astype(np.int64) * 50_000_000).astype(np.int32)
    tables = {"permutation": permutation, "absent": absent, "longer than E": longer, "large ids": far}
    for name, table in tables.items():
        for kind, given in (("array", table), ("buffer", device.buffer(table))):
            for variant in (PAIR, *context.variants(TOP_K)):
                scratch = qn.RouteScratch(device, rows=8, experts=EXPERTS, top_k=TOP_K)
                encode(device, [Layer(handle, before.x, scratch, PAIR)])
                beyond = scratch.inds[5:].copy()
                encode(device, [Layer(handle, case.x, scratch, variant, {"remap": given})])
                want = pair | {"inds": table[pair["inds"]]}
                got = scratch_rows(scratch, 5)
                if variant != PAIR:
                    del want["logits"], got["logits"]
                told = differences(got, want) or difference("rows beyond M", scratch.inds[5:], beyond)
                yield f"{name} {kind} {variant}", told
    scratch = qn.RouteScratch(device, rows=8, experts=EXPERTS, top_k=TOP_K)
    short = permutation[: EXPERTS - 1]
    layer = Layer(handle, case.x, scratch, PAIR, {"remap": short})
    yield "short table", raises(ValueError, ("remap", str(EXPERTS)), encode, device, [layer])


@gate("gc-diag-remap")
def before_remap(context: Context) -> Checks:
    """Diag, remap and bias together: diag has the expert ids as chosen, the scratch has the remapped ones."""
    table = (np.arange(EXPERTS, dtype=np.int32) + 100) * np.where(np.arange(EXPERTS) % 4, 1, -1)
    bias = qn.RouteBias((np.arange(EXPERTS) < 20).astype(np.int32), 1.0)
    for rows in (1, 4):
        for i, (case, handle, _) in enumerate(_cases(context, rows)):
            for variant in (PAIR, *context.variants(TOP_K)):
                extras = {"bias": bias, "remap": table.astype(np.int32)}
                yield f"M={rows} gate {i} {variant}", _one(context, handle, case, variant, extras)


@gate("gc-diag-nothing")
def nothing_to_copy(context: Context) -> Checks:
    """M > R in a chain slot has nothing to copy: the plan says so, and both buffers stay untouched."""
    rows = MAX_ROWS + 1
    case, handle, pair = _cases(context, rows)[0]
    for variant in (PAIR, *context.variants(TOP_K)):
        telemetry = Telemetry(context.device)
        scratch = qn.RouteScratch(context.device, rows=rows, experts=EXPERTS, top_k=TOP_K)
        layer = Layer(handle, case.x, scratch, variant, {"diag": telemetry.place(0, 1)})
        plan = encode(context.device, [layer])[0]
        told = telemetry.told() or differences(scratch_rows(scratch, rows), pair)
        yield variant, told or expect("diag_copy_route" not in plan.kernels, f"{plan.kernels}")
