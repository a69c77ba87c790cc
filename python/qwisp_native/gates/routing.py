"""Routes for the gates: one call, or whole layers written into an encoder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import qwisp_native as qn
from qwisp_native.settings import Variant

from .compare import AnyArray, differences
from .inputs import Half, Planted, choice_order
from .registry import PAIR, Checks, Context

Arrays = dict[str, AnyArray]


@contextmanager
def setting(device: qn.Device, name: str, value: Any) -> Iterator[None]:
    """An attribute of the device, changed meanwhile."""
    before = getattr(device, name)
    setattr(device, name, value)
    try:
        yield
    finally:
        setattr(device, name, before)


def route(
    gate: qn.Gate, x: Half, top_k: int, fuse: Variant, *, logits: bool = True, bias: Any = None
) -> Arrays:
    """One call of a Router, as arrays by name."""
    router = qn.Router(gate, top_k=top_k, fuse=fuse)
    out = router(x, return_logits=True, bias=bias) if logits else router(x, bias=bias)
    return dict(zip(("inds", "scores", "logits"), out, strict=False))


def variants_agree(
    context: Context,
    name: str,
    gate: qn.Gate,
    x: Half,
    top_k: int,
    *,
    bias: Any = None,
    want: Arrays | None = None,
) -> Checks:
    """Every fused variant, with and without logits, gives the bits of the pair (or `want`)."""
    pair = route(gate, x, top_k, PAIR, bias=bias)
    if want is not None:
        yield f"{name}: pair", differences({key: pair[key] for key in want}, want)
    for variant in context.variants(top_k):
        full = route(gate, x, top_k, variant, bias=bias)
        bare = route(gate, x, top_k, variant, logits=False, bias=bias)
        told = differences(full, pair) or differences(bare, {key: pair[key] for key in bare})
        yield f"{name}: {variant}", told


def planted_agrees(context: Context, name: str, planted: Planted, top_k: int, want: Any = None) -> Checks:
    """`variants_agree`, and the pair itself: planted logits and, where there is no NaN, the contract's order.

    `want` holds golden arrays; scores are left out where the device has an exp of its own.
    """
    golden: Arrays = {"logits": planted.logits}
    if not np.isnan(planted.logits).any():
        golden["inds"] = np.stack([choice_order(row.astype(np.float32), top_k) for row in planted.logits])
    golden |= {key: value for key, value in (want or {}).items() if context.exact or key != "scores"}
    yield from variants_agree(context, name, planted.gate(context.device), planted.x, top_k, want=golden)


@dataclass
class Layer:
    """What one layer asks of `encode_moe_route_rows`."""

    gate: qn.Gate
    x: Half
    scratch: qn.RouteScratch
    fuse: Variant = PAIR
    options: dict[str, Any] | None = None


def encode(device: qn.Device, layers: Sequence[Layer], concurrent: bool = False) -> list[qn.RoutePlan]:
    """All layers in one encoder of one command buffer, run to its end."""
    commands = device.command_buffer()
    plans = []
    with commands.compute_encoder(concurrent=concurrent) as encoder:
        for i, layer in enumerate(layers):
            if concurrent and i:
                encoder.memory_barrier()
            x = device.buffer(layer.x)
            plans.append(
                qn.encode_moe_route_rows(
                    encoder,
                    x,
                    layer.gate,
                    layer.scratch,
                    rows=len(layer.x),
                    fuse=layer.fuse,
                    **(layer.options or {}),
                )
            )
    commands.commit()
    commands.wait_until_completed()
    return plans


def scratch_rows(scratch: qn.RouteScratch, rows: int, logits: bool = True) -> Arrays:
    """Copies of what a route left in the scratch."""
    out: Arrays = {"inds": scratch.inds[:rows].copy(), "scores": scratch.scores[:rows].copy()}
    if logits:
        out["logits"] = scratch.logits[:rows].copy()
    return out


def filled(device: qn.Device, shape: tuple[int, ...], dtype: Any, value: Any) -> qn.Buffer:
    """A buffer full of a value that no route writes."""
    buffer = device.empty(shape, dtype)
    buffer.array[...] = value
    return buffer
