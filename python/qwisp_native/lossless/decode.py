"""Greedy decoding, and speculative decoding with drafts by suffix lookup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .drafts import draft
from .engine import Engine
from .residency import Residency
from .routing import MAX_ROWS

MIN_WIDTH = 2


@dataclass
class Decoded:
    """The new tokens, and how they were come by."""

    tokens: bytes = b""
    steps: int = 0
    rows: int = 0
    accepted: int = 0
    widths: Counter[int] = field(default_factory=Counter)


def greedy(engine: Engine, prompt: bytes, count: int) -> Decoded:
    """One row a step, the prompt's too. `count` tokens >= 1; the last of them is not put into the cache."""
    for token in prompt[:-1]:
        engine.step(bytes([token]), last_only=True)
    out, token = bytearray(), prompt[-1]
    while len(out) < count:
        token = int(engine.step(bytes([token]))[0].argmax())
        out.append(token)
    return Decoded(bytes(out), count, count, 0, Counter({1: count}))


def speculative(
    engine: Engine, prompt: bytes, count: int, residency: Residency, width: Callable[[], int]
) -> Decoded:
    """Verifies drafts, several rows a step.

    A step ends where the table of residency changes, and has no more rows than tokens are wanted; otherwise
    it is as wide as `width` says. The prompt is taken in steps of such widths too.

    Args:
        engine: with an empty cache.
        prompt: at least one token.
        count: tokens wanted, >= 1; the last of them is not put into the cache.
        residency: as the engine's routing has it.
        width: of the next step, 2 to 25.

    """

    def room(most: int) -> int:
        return residency.rows_left(engine.length, min(width(), most, MAX_ROWS))

    while engine.length < len(prompt) - 1:
        rows = room(len(prompt) - 1 - engine.length)
        engine.step(prompt[engine.length : engine.length + rows], last_only=True)
    done = Decoded()
    text = bytearray(prompt)
    while len(text) < len(prompt) + count:
        rows = room(len(prompt) + count - len(text))
        start = engine.length
        tried = bytes(text[-1:]) + draft(bytes(text), rows - 1)
        said = engine.step(tried).argmax(axis=1)
        right = np.flatnonzero(said[:-1] != np.frombuffer(tried[1:], np.uint8))
        kept = int(right[0]) + 1 if len(right) else rows
        engine.rollback(start + kept)
        text += bytes(int(token) for token in said[:kept])
        done.steps += 1
        done.rows += rows
        done.accepted += kept - 1
        done.widths[rows] += 1
    done.tokens = bytes(text[len(prompt) :])
    return done
