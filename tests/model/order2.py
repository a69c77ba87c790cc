"""The model to beat: bytes predicted from the two before them, by counts with Witten-Bell backoff."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def order2_bits(train: NDArray[np.uint8], held: dict[str, NDArray[np.uint8]]) -> dict[str, float]:
    """Bits per byte of each held-out text (from its third byte on) under an order-2 model counted on `train`.

    p(c | h) = (n(h c) + t(h) p(c | shorter h)) / (n(h) + t(h)) with t(h) the number of distinct bytes seen
    after h (Witten and Bell, 1991, method C), down to 1/256; a history never seen passes the shorter one on.
    """
    chance = {kind: np.full(len(text) - 2, 1 / 256) for kind, text in held.items()}
    for order in range(3):
        counts = np.bincount(_codes(train, order + 1), minlength=256 ** (order + 1)).reshape(-1, 256)
        seen, kinds = counts.sum(1), (counts > 0).sum(1)
        for kind, text in held.items():
            place, byte = np.divmod(_codes(text, order + 1), 256)
            n, t = seen[place], kinds[place]
            mixed = (counts[place, byte] + t * chance[kind]) / np.maximum(n + t, 1)
            chance[kind] = np.where(n > 0, mixed, chance[kind])
    return {kind: float(-np.log2(each).mean()) for kind, each in chance.items()}


def _codes(text: NDArray[np.uint8], size: int) -> NDArray[np.int32]:
    """Every byte from the third on with the size - 1 before it, as one number."""
    codes = np.zeros(len(text) - 2, np.int32)
    for back in range(size - 1, -1, -1):
        codes = codes * 256 + text[2 - back : len(text) - back]
    return codes
