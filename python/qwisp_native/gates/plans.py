"""Flag off: the commands of the pair, literally, and every byte as if no fused kernel existed."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

import qwisp_native as qn
from qwisp_native.settings import Fuse
from qwisp_native.testing import RecordedCommand, record_route

from .compare import expect
from .inputs import dense
from .registry import Checks, Context, gate

BARRIER = RecordedCommand(barrier=True)
INDS, SCORES, LOGITS = ("scratch.inds", 0), ("scratch.scores", 0), ("scratch.logits", 0)


def pair_commands(rows: int, hidden: int, experts: int, top_k: int) -> list[RecordedCommand]:
    """CONTRACT sections 2 and 3 as dispatches."""
    qmm = RecordedCommand(
        kernel="qmm8_rows",
        bindings=(
            (0, "x", 0),
            (1, "gate.weight", 0),
            (2, "gate.scales", 0),
            (3, "gate.biases", 0),
            (4, *LOGITS),
            (5, struct.pack("<II", hidden, experts)),
        ),
        groups=(rows, experts // 8, 1),
        threads=(64, 1, 1),
    )
    top = RecordedCommand(
        kernel="route_top8_rows",
        bindings=((0, *LOGITS), (1, *INDS), (2, *SCORES), (3, struct.pack("<IIf", experts, top_k, 0))),
        groups=(rows, 1, 1),
        threads=(256, 1, 1),
    )
    return [qmm, top]


def biased(commands: list[RecordedCommand], experts: int, top_k: int, eps: float) -> list[RecordedCommand]:
    """CONTRACT section 4 in the place of section 3."""
    top = RecordedCommand(
        kernel="route_top8_rows_bias",
        bindings=(
            (0, *LOGITS),
            (1, *INDS),
            (2, *SCORES),
            (3, struct.pack("<IIf", experts, top_k, eps)),
            (4, "resident", 0),
        ),
        groups=commands[1].groups,
        threads=(256, 1, 1),
    )
    return [commands[0], top]


def diag_command(offsets: tuple[int, int], counts: tuple[int, int]) -> RecordedCommand:
    """CONTRACT section 5."""
    return RecordedCommand(
        kernel="diag_copy_route",
        bindings=(
            (0, *INDS),
            (1, *LOGITS),
            (2, "seen.inds", offsets[0]),
            (3, "seen.logits", offsets[1]),
            (4, struct.pack("<II", *counts)),
        ),
        groups=(-(-max(counts) // 256), 1, 1),
        threads=(256, 1, 1),
    )


def remap_command(count: int, table_length: int) -> RecordedCommand:
    """CONTRACT section 6."""
    return RecordedCommand(
        kernel="slot_remap_rows",
        bindings=((0, *INDS), (1, "table", 0), (2, struct.pack("<II", count, table_length))),
        groups=(-(-count // 256), 1, 1),
        threads=(256, 1, 1),
    )


def told(got: list[RecordedCommand], want: list[RecordedCommand]) -> str | None:
    """Compare command by command and name the first that differs."""
    for i, (one, other) in enumerate(zip(got, want, strict=False)):
        if one != other:
            return f"command {i}: {one} instead of {other}"
    return expect(len(got) == len(want), f"{len(got)} commands instead of {len(want)}")


@gate("flag-off")
def flag_off(context: Context) -> Checks:
    """Without fusing, the recorded commands are the pair's own: names, constants, bindings, bytes, grids."""
    device = context.device
    for rows, hidden, experts, top_k in ((1, 2048, 256, 8), (25, 512, 40, 40), (3, 2560, 144, 1)):
        case = dense(context.rng("flag-off", experts), rows, experts, hidden)
        handle = case.gate(device)
        scratch = qn.RouteScratch(device, rows=32, experts=experts, top_k=top_k)
        x = device.buffer(case.x, "x")
        seen = device.buffer(np.zeros(2 * 3 * 4 * top_k, np.int32), "seen.inds")
        logits = device.buffer(np.zeros(3 * experts, np.float16), "seen.logits")
        table = device.buffer(np.arange(experts + 3, dtype=np.int32), "table")
        diag = qn.RouteDiag(seen, logits, layer=2, layers=3, slot=1, max_rows=4)
        bias = qn.RouteBias(np.ones(experts, np.int32), 0.75)
        pair = pair_commands(rows, hidden, experts, top_k)
        inds_count = rows * top_k if rows <= 4 else 0
        copies = [diag_command((5 * 4 * top_k * 4, 2 * experts * 2), (inds_count, 0))] if inds_count else []
        requests: dict[str, tuple[dict[str, Any], list[RecordedCommand]]] = {
            "plain": ({}, pair),
            "logits": ({"return_logits": True}, pair),
            "bias": ({"bias": bias}, biased(pair, experts, top_k, 0.75)),
            "eps 0": ({"bias": qn.RouteBias(np.ones(experts, np.int32), 0.0)}, pair),
            "diag": ({"diag": diag}, pair + copies),
            "remap": ({"remap": table}, [*pair, remap_command(rows * top_k, experts + 3)]),
            "all": (
                {"bias": bias, "diag": diag, "remap": table},
                [*biased(pair, experts, top_k, 0.75), *copies, remap_command(rows * top_k, experts + 3)],
            ),
        }
        # What `qwisp-native tune` switched on here is another matter.
        tuned = "measured to win" in qn.plan(device, rows, hidden, experts, top_k, fuse="auto").reason
        for name, (options, want) in requests.items():
            for fuse in (False, "pair") if tuned else (False, "pair", "auto"):
                for concurrent in (False, True):
                    got = record_route(
                        handle, scratch, x, rows=rows, fuse=fuse, concurrent=concurrent, **options
                    )
                    expected = [step for command in want for step in (BARRIER, command)][1:]
                    order = "concurrent" if concurrent else "serial"
                    yield (
                        f"M={rows} E={experts} {name} fuse={fuse} {order}",
                        told(got, expected if concurrent else want),
                    )


@gate("flag-off-diag")
def diag_places(context: Context) -> Checks:
    """The offsets and counts that diag binds: M = 1 copies logits in slot 0 only."""
    device = context.device
    case = dense(context.rng("flag-off-diag"), 1, 256, 512)
    handle = case.gate(device)
    scratch = qn.RouteScratch(device, rows=1, experts=256, top_k=8)
    x = device.buffer(case.x, "x")
    seen = device.buffer(np.zeros(4 * 40 * 2 * 8, np.int32), "seen.inds")
    logits = device.buffer(np.zeros(40 * 256, np.float16), "seen.logits")
    for layer, slot, offsets, counts in (
        (0, 0, (0, 0), (8, 256)),
        (3, 0, (192, 1536), (8, 256)),
        (39, 0, (2496, 19968), (8, 256)),
        (0, 1, (2560, 0), (8, 0)),
        (39, 3, (10176, 19968), (8, 0)),
    ):
        place = qn.RouteDiag(seen, logits, layer=layer, layers=40, slot=slot, max_rows=2)
        got = record_route(handle, scratch, x, rows=1, fuse=False, diag=place)
        want = [*pair_commands(1, 512, 256, 8), diag_command(offsets, counts)]
        yield f"layer {layer} slot {slot}", told(got, want)


@gate("flag-on")
def flag_on(context: Context) -> Checks:
    """fuse=True is one dispatch where a variant exists, with the constants of the request."""
    device = context.device
    case = dense(context.rng("flag-on"), 2, 64, 512)
    handle = case.gate(device)
    x = device.buffer(case.x, "x")
    inds, logits = device.empty((16,), np.int32), device.empty((64,), np.float16)
    diag = qn.RouteDiag(inds, logits, layer=0, layers=1, slot=0, max_rows=2)
    bias = qn.RouteBias(np.ones(64, np.int32), 1.0)
    table = np.arange(64, dtype=np.int32)
    scratch = qn.RouteScratch(device, rows=2, experts=64, top_k=8)
    grids: tuple[tuple[Fuse, str, tuple[int, ...]], ...]
    grids = (
        (True, "last", (2, 8, 1)),
        ("last", "last", (2, 8, 1)),
        ("single", "single", (2, 1, 1)),
        ("split_last", "split", (2, 32, 1)),
    )
    for name, options, use_bias, write_logits, rest in (
        ("plain", {}, False, False, []),
        ("logits", {"return_logits": True}, False, True, []),
        ("bias", {"bias": bias}, True, False, []),
        ("diag", {"diag": diag}, False, True, ["diag_copy_route"]),
        ("remap", {"remap": table}, False, False, ["slot_remap_rows"]),
        (
            "all",
            {"bias": bias, "diag": diag, "remap": table},
            True,
            True,
            ["diag_copy_route", "slot_remap_rows"],
        ),
    ):
        constants = {"hidden": 512, "experts": 64, "top_k": 8}
        constants |= {"use_bias": use_bias, "write_logits": write_logits}
        for fuse, shape, groups in grids:
            kernel = f"route_fused_rows_{shape}"
            got = record_route(handle, scratch, x, rows=2, fuse=fuse, **options)
            names = [command.kernel for command in got]
            ok = names == [kernel, *rest] and got[0].constants == constants and got[0].groups == groups
            yield f"{name} fuse={fuse}", expect(ok, f"{names} {got[0].constants} {got[0].groups}")
    wide = qn.RouteScratch(device, rows=2, experts=64, top_k=33)
    names = [command.kernel for command in record_route(handle, wide, x, rows=2, fuse=True)]
    yield "K=33: the pair", expect(names == ["qmm8_rows", "route_top8_rows"], f"{names}")
