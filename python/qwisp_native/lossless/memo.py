"""An engine that remembers rows: what lies between two routes is computed once for the same bits.

The gate decodes the same text many times, and only routing is under test. A row's numpy part is a function of
the tokens up to it and of all that routing said of them, so it is found again by a hash of exactly these
bits. Where a router says anything else, the hash is another, and rows are computed. How often either happened
is counted.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .engine import Engine
from .model import F32, Model
from .routing import Routing


class Memo:
    """Rows by hash."""

    def __init__(self) -> None:
        self.rows: dict[bytes, tuple[NDArray[np.generic], ...]] = {}
        self.computed = self.found = 0


def _hash(*parts: bytes) -> bytes:
    return blake2b(b"".join(parts), digest_size=16).digest()


class MemoEngine(Engine):
    """As Engine; `memo` may be shared by engines of one model."""

    def __init__(self, model: Model, routing: Routing, capacity: int, memo: Memo) -> None:
        super().__init__(model, routing, capacity)
        self.memo = memo
        layers = self.config.layers
        # [n][p]: all that went into hidden rows before layer n at positions up to p - 1
        self._prefix = [[b""] * (capacity + 1) for _ in range(layers)]
        self._row_hash = [b""] * capacity

    def step(self, tokens: bytes, *, last_only: bool = False) -> F32:
        """As Engine.step."""
        for row, token in enumerate(tokens):
            if self.length + row < self.capacity:
                self._row_hash[self.length + row] = bytes([token])
        return super().step(tokens, last_only=last_only)

    def _attend(self, number: int, hidden: F32, x: NDArray[np.float16], position: int) -> None:
        prefix = self._prefix[number]
        key = prefix[position + 1] = _hash(prefix[position], self._row_hash[position], bytes([number]))
        self._row_hash[position] = key
        keys, values = self._keys[number], self._values[number]
        found = self._find(key)
        if found is None:
            super()._attend(number, hidden, x, position)
            self.memo.rows[key] = tuple(
                part.copy() for part in (hidden, x, keys[:, :, position], values[:, position])
            )
        else:
            hidden[:], x[:], keys[:, :, position], values[:, position] = found

    def _experts(
        self,
        number: int,
        hidden: F32,
        x: NDArray[np.float16],
        *,
        experts: NDArray[np.int32],
        scores: NDArray[np.float16],
        position: int,
    ) -> None:
        key = _hash(self._row_hash[position], experts.tobytes(), scores.tobytes())
        self._row_hash[position] = key
        found = self._find(key)
        if found is None:
            super()._experts(number, hidden, x, experts=experts, scores=scores, position=position)
            self.memo.rows[key] = (hidden.copy(),)
        else:
            hidden[:] = found[0]

    def _head(self, hidden: F32, position: int) -> F32:
        key = _hash(self._row_hash[position], b"head")
        found = self._find(key)
        if found is None:
            logits = super()._head(hidden, position)
            self.memo.rows[key] = (logits,)
            return logits
        return np.asarray(found[0], np.float32)

    def _find(self, key: bytes) -> tuple[NDArray[np.generic], ...] | None:
        found = self.memo.rows.get(key)
        if found is None:
            self.memo.computed += 1
        else:
            self.memo.found += 1
        return found
