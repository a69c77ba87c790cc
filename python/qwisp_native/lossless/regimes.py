"""The kinds of text that the gate decodes. To add one: a prompt here, or a file in prompts/."""

from __future__ import annotations

import random
from pathlib import Path

_FOLDER = Path(__file__).parent / "prompts"


def _repetitive(lines: int = 16, seed: int = 6) -> bytes:
    """A log whose lines repeat with other numbers: long, and easy to draft."""
    rng = random.Random(seed)
    parts = ("reader", "writer", "index", "cache")
    states = ("ready", "waiting for a lock", "done")
    told = [
        f"2026-01-02 03:{minute:02}:{rng.randrange(60):02} INFO {rng.choice(parts)}: {rng.choice(states)}\n"
        for minute in range(lines)
    ]
    return "".join(told).encode()


REGIMES: dict[str, bytes] = {
    name: (_FOLDER / f"{name}.txt").read_bytes() for name in ("code", "prose", "tools")
} | {"repetitive": _repetitive(), "tied": (_FOLDER / "tied.txt").read_bytes()}
"""Prompts by name, in bytes, which are the tokens. On `tied` the package's model meets a tie that decides a
token, at least where it was found (docs/lossless.md)."""
