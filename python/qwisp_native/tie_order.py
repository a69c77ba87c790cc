"""The contract's order among equal logits, in numpy (docs/contract.md, section 3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BITS = 8  # of an expert's index: the trees are 256 wide


def reversed_bits(experts: int) -> NDArray[np.int64]:
    """The bit reversal of each expert's index, int64 [E]: among equal logits the smallest is chosen."""
    index = np.arange(experts)
    rank: NDArray[np.int64] = np.sum([(index >> bit & 1) << (BITS - 1 - bit) for bit in range(BITS)], axis=0)
    return rank


def chosen(logits: NDArray[np.float16], count: int, rank: NDArray[np.int64]) -> NDArray[np.int32]:
    """The `count` largest logits of each row, without a bias; equal ones by `rank`. No NaN.

    Args:
        logits: float16 [..., E].
        count: K, or K + 1 to see the next one too.
        rank: int64 [E], the smallest first: `reversed_bits(E)`, or np.arange(E) for the lower index.

    Returns:
        int32 [..., count], best first.

    """
    by_rank = np.argsort(rank)
    order = np.argsort(-logits[..., by_rank].astype(np.float32), axis=-1, kind="stable")[..., :count]
    return by_rank[order].astype(np.int32)


def ordinals(values: NDArray[np.float16]) -> NDArray[np.int32]:
    """Integers in the order of float16 values: neighbours are one apart, -0 equals +0. No NaN."""
    bits = values.view(np.uint16).astype(np.int32)
    return np.where(bits & 0x8000, -(bits & 0x7FFF), bits)
