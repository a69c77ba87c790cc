"""What was routed, position by position, and the first place where two of them differ."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .model import Config

AnyArray = NDArray[Any]


@dataclass(frozen=True)
class Difference:
    """The first difference: where, and what was expected and found there."""

    what: str
    position: int
    layer: int | None
    row: int
    rows: int
    expected: str
    got: str

    def __str__(self) -> str:
        where = f"position {self.position}" + ("" if self.layer is None else f", layer {self.layer}")
        return (
            f"{self.what} at {where}, row {self.row} of {self.rows}: expected {self.expected}, got {self.got}"
        )


class DiffersError(Exception):
    """A run found within itself what may not differ."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(str(difference))
        self.difference = difference


class Trace:
    """Choices, scores and raw logits of every layer and position; what is routed again is written again.

    inds: int32 [L, P, K], experts even where the engine got slots. scores: float16 [L, P, K].
    logits: float16 [L, P, E]; only where the run asked for them.
    """

    def __init__(self, config: Config, capacity: int, logits: bool) -> None:
        shape = (config.layers, capacity)
        self.inds = np.full((*shape, config.top_k), -1, np.int32)
        self.scores = np.zeros((*shape, config.top_k), np.float16)
        self.logits = np.zeros((*shape, config.experts), np.float16) if logits else None
        self.row = np.zeros((capacity, 2), np.int32)  # which row of how many

    def write(
        self,
        layer: int,
        position: int,
        inds: NDArray[np.int32],
        scores: NDArray[np.float16],
        logits: NDArray[np.float16] | None,
    ) -> None:
        """M rows from a position on."""
        rows = len(inds)
        here = slice(position, position + rows)
        self.inds[layer, here], self.scores[layer, here] = inds, scores
        if self.logits is not None and logits is not None:
            self.logits[layer, here] = logits
        self.row[here, 0], self.row[here, 1] = np.arange(rows), rows

    def sha256(self, length: int) -> str:
        """Of all that was routed at the first `length` positions."""
        total = hashlib.sha256()
        for array in (self.inds, self.scores, self.logits):
            if array is not None:
                total.update(np.ascontiguousarray(array[:, :length]).tobytes())
        return total.hexdigest()

    def difference(self, got: Trace, length: int) -> Difference | None:
        """The first position, then layer, then array in which `got` has other bits than this."""
        found: tuple[int, int, int] | None = None
        arrays: list[tuple[str, AnyArray, AnyArray]] = [
            ("experts", self.inds, got.inds),
            ("scores", self.scores, got.scores),
        ]
        if self.logits is not None and got.logits is not None:
            arrays.append(("logits", self.logits, got.logits))
        for number, (_, mine, other) in enumerate(arrays):
            bits = np.dtype(f"u{mine.itemsize}")
            wrong = (mine[:, :length].view(bits) != other[:, :length].view(bits)).any(axis=2)
            if wrong.any():
                position = int(wrong.any(axis=0).argmax())
                place = (position, int(wrong[:, position].argmax()), number)
                found = place if found is None else min(found, place)
        if found is None:
            return None
        position, layer, number = found
        name, mine, other = arrays[number]
        expected, seen = shown(mine[layer, position], other[layer, position])
        row, rows = (int(n) for n in got.row[position])
        return Difference(name, position, layer, row, rows, expected, seen)


class Call(NamedTuple):
    """Hashes of one route of one layer, rejected rows too."""

    layer: int
    position: int
    rows: int
    choice: bytes
    """Of experts and scores."""
    logits: bytes
    """b"" where they were not asked for."""

    @staticmethod
    def of(
        layer: int,
        position: int,
        inds: NDArray[np.int32],
        scores: NDArray[np.float16],
        logits: NDArray[np.float16] | None,
    ) -> Call:
        """Of what was routed."""
        choice = hashlib.sha256(inds.tobytes() + scores.tobytes()).digest()
        raw = b"" if logits is None else hashlib.sha256(logits.tobytes()).digest()
        return Call(layer, position, len(inds), choice, raw)


def other_call(expected: Sequence[Call], got: Sequence[Call]) -> Difference | None:
    """The first call that differs, where both decoded by the same steps."""
    for one, other in zip_longest(expected, got):
        if one is None or other is None:
            return Difference("calls", -1, None, 0, 0, str(len(expected)), str(len(got)))
        what, mine, its = "hash of logits", one.logits, other.logits
        if one[:4] != other[:4]:
            what, mine, its = "hash of experts and scores", one.choice, other.choice
        elif not (mine and its) or mine == its:
            continue
        return Difference(what, other.position, other.layer, 0, other.rows, mine.hex()[:16], its.hex()[:16])
    return None


def shown(expected: AnyArray, got: AnyArray) -> tuple[str, str]:
    """Both as text; of long arrays the first element that differs."""
    if expected.size > 32:
        bits = np.dtype(f"u{expected.itemsize}")
        at = int((expected.view(bits) != got.view(bits)).argmax())
        return f"[{at}] {expected[at]}", f"[{at}] {got[at]}"
    return str(expected.tolist()), str(got.tolist())
