"""Planted faults of the host code: what a gate must notice in the commands, not in the kernels.

The host code is compiled in, so the fault is played: the gate's helper is wrapped to do what the fault would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import qwisp_native as qn
from qwisp_native.gates import GATES, Context, barriers, bias, diag, plans, repeats, routing
from qwisp_native.gates.routing import Layer
from qwisp_native.testing import RecordedCommand

Encode = Callable[..., list[qn.RoutePlan]]
Record = Callable[..., list[RecordedCommand]]


def red(gate: str, context: Context) -> bool:
    return any(text is not None for _, text in GATES[gate].run(context))


def played(edit: Callable[[Layer], None], finish: Callable[[Layer, dict[str, Any]], None]) -> Encode:
    """`encode` that edits what is asked for, and then finishes on the host what it left out."""

    def encode(device: qn.Device, layers: Sequence[Layer], concurrent: bool = False) -> list[qn.RoutePlan]:
        asked = [dict(layer.options or {}) for layer in layers]
        for layer in layers:
            edit(layer)
        plans = routing.encode(device, layers, concurrent)
        for layer, options in zip(layers, asked, strict=True):
            finish(layer, options)
        return plans

    return encode


def without_diag(layer: Layer) -> None:
    layer.options = {name: value for name, value in (layer.options or {}).items() if name != "diag"}
    layer.options["return_logits"] = True


def copy_diag(
    layer: Layer,
    options: dict[str, Any],
    *,
    slot_stride: bool = True,
    every_row: bool = False,
    inds: np.ndarray | None = None,
) -> None:
    """The copies of section 5 on the host, right unless a fault is asked for."""
    if "diag" not in options:
        return
    place, rows, top_k = options["diag"], len(layer.x), layer.scratch.top_k
    chosen = layer.scratch.inds[:rows] if inds is None else inds
    index = place.layer + (place.slot * place.layers if slot_stride else 0)
    if rows <= place.max_rows:
        start = index * place.max_rows * top_k
        place.inds.array.reshape(-1)[start : start + rows * top_k] = chosen.ravel()
    if every_row or (rows == 1 and place.slot == 0):
        experts = layer.scratch.experts
        place.logits.array.reshape(-1)[place.layer * experts :][:experts] = layer.scratch.logits[0]


def test_the_played_copy_itself_is_green(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diag, "encode", played(without_diag, copy_diag))
    assert not red("gc-diag", context)


def test_remap_before_diag(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Diag sees the remapped ids: what is left in the scratch after the remap."""
    monkeypatch.setattr(diag, "encode", played(without_diag, copy_diag))
    assert red("gc-diag-remap", context)
    assert red("gc-diag-raw", context)


def test_diag_without_the_slot_in_its_offset(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = played(without_diag, lambda layer, asked: copy_diag(layer, asked, slot_stride=False))
    monkeypatch.setattr(diag, "encode", wrong)
    assert red("gc-diag", context)


def test_diag_copies_logits_at_any_m(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = played(without_diag, lambda layer, asked: copy_diag(layer, asked, every_row=True))
    monkeypatch.setattr(diag, "encode", wrong)
    assert red("gc-diag", context)


def test_diag_transposes(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def finish(layer: Layer, asked: dict[str, Any]) -> None:
        copy_diag(layer, asked, inds=np.ascontiguousarray(layer.scratch.inds[: len(layer.x)].T))

    monkeypatch.setattr(diag, "encode", played(without_diag, finish))
    assert red("gc-diag", context)


def test_remap_is_left_out(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(layer: Layer) -> None:
        layer.options = {name: value for name, value in (layer.options or {}).items() if name != "remap"}

    monkeypatch.setattr(diag, "encode", played(edit, lambda layer, asked: None))
    assert red("gc-remap", context)


def test_eps_0_takes_the_biased_kernel(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(layer: Layer) -> None:
        given = (layer.options or {})["bias"]
        layer.options = {
            "bias": qn.RouteBias(np.ones(layer.scratch.experts, np.int32), max(given.eps, 1e-30))
        }

    monkeypatch.setattr(bias, "encode", played(edit, lambda layer, asked: None))
    assert red("gc-bias-none", context)


def test_scratch_that_is_not_cleared(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "scratch_is_cleared", lambda scratch: False)
    assert red("repeats", context)


def record_with(edit: Callable[[list[RecordedCommand]], list[RecordedCommand]]) -> Record:
    return lambda *args, **options: edit(plans_record(*args, **options))


plans_record: Record = plans.record_route


@pytest.mark.parametrize(
    "edit",
    [
        lambda commands: [c for i, c in enumerate(commands) if not c.barrier or i != 1],
        lambda commands: [*commands, plans.BARRIER],
        lambda commands: [plans.BARRIER, *commands],
        lambda commands: commands[::-1],
        lambda commands: commands[:-1],
        lambda commands: [*commands, commands[-1]],
    ],
    ids=["barrier left out", "barrier after", "barrier before", "reversed", "one less", "one more"],
)
def test_recorded_commands(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    edit: Callable[[list[RecordedCommand]], list[RecordedCommand]],
) -> None:
    monkeypatch.setattr(plans, "record_route", record_with(edit))
    assert red("flag-off", context)


def test_fused_although_the_flag_is_off(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        plans, "record_route", lambda *args, **options: plans_record(*args, **options | {"fuse": True})
    )
    assert red("flag-off", context)


def test_pair_although_fusing_was_asked_for(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        plans, "record_route", lambda *args, **options: plans_record(*args, **options | {"fuse": False})
    )
    assert red("flag-on", context)


def test_barrier_where_none_is_missing(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that lets two routes race through one scratch."""
    if context.device.kind != "cpu":
        pytest.skip("only the software device tracks hazards")
    right = barriers._without_barrier

    def lenient(
        device: qn.Device, x: qn.Buffer, gate: qn.Gate, scratches: list[qn.RouteScratch], variant: str
    ) -> None:
        if scratches[0] is not scratches[1]:
            right(device, x, gate, scratches, variant)

    monkeypatch.setattr(barriers, "_without_barrier", lenient)
    assert red("barriers-missing", context)
