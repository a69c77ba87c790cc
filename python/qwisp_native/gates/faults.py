"""Faults that other routers and top-k kernels met in the field, as inputs for this one.

A: ties and order. B: NaN, infinities, padding rows. C: values and renormalisation (field_values.py).
D: counts and shapes. E: buffers and layout. F: batches and repetition (field_layout.py).
One function a kind of fault, named after it; each section is a gate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .inputs import plant
from .registry import Checks, Context, gate
from .routing import Arrays, planted_agrees

FLAT = (0, 128, 64, 192, 32, 160, 96, 224)  # all 256 logits equal
EIGHTHS = np.full((1, 8), 0.125, np.float16)

Fault = Callable[[Context], Checks]
FAULTS: dict[str, Fault] = {}


def fault(section: str) -> Callable[[Fault], Fault]:
    """Registers a kind of fault under its section and the name of the function."""

    def register(run: Fault) -> Fault:
        FAULTS[f"{section}-{run.__name__.replace('_', '-')}"] = run
        return run

    return register


def logits_of(*pairs: tuple[int, float], rest: float, experts: int = 256) -> Any:
    """One row: (expert, logit) pairs, and `rest` everywhere else."""
    out = np.full((1, experts), rest, np.float16)
    for expert, value in pairs:
        out[0, expert] = value
    return out


def outcome(
    context: Context, name: str, logits: Any, inds: Any, *, scores: Any = None, top_k: int = 8
) -> Checks:
    """The golden answer to planted logits, from the pair and every variant."""
    want: Arrays = {"inds": np.array([inds], np.int32)}
    if scores is not None:
        want["scores"] = np.asarray(scores, np.float16).reshape(1, -1)
    yield from planted_agrees(context, name, plant(logits), top_k, want)


def section(letter: str, title: str) -> None:
    """Registers the gate that runs all faults of a section."""

    def run(context: Context) -> Checks:
        for name, kind in FAULTS.items():
            if name.startswith(letter):
                for check, told in kind(context):
                    yield f"{name}: {check}", told

    run.__doc__ = title
    gate(f"field-{letter.lower()}")(run)
