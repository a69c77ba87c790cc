"""The routing contract, literally, in numpy: the reference that every kernel is held against.

It shares no code with the package. Rows, experts and lanes run side by side in array axes, which changes no
bit; everything that the contract orders (blocks, the eight columns, tree levels, winners) is a Python loop.
Every numpy operation on float32 or float16 arrays rounds once, so one line is one rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F16 = np.float16
F32 = np.float32
LANES = 32
BLOCK = 256  # columns that a simdgroup takes at a time, 8 a lane
GROUP = 64  # columns that share a scale and a bias
THREADS = 256  # T of section 3, for every E <= 256


@dataclass(frozen=True)
class Routed:
    inds: NDArray[np.int32]
    scores: NDArray[np.float16]
    logits: NDArray[np.float16]


def simd_sum(lanes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Section 2: the butterfly 16, 8, 4, 2, 1 over the last axis (32 lanes); what lane 0 ends with."""
    lane = np.arange(LANES)
    for step in (16, 8, 4, 2, 1):
        lanes = lanes + lanes[..., lane ^ step]
    return lanes[..., 0]


def qmm_rows(
    x: NDArray[np.float16],
    weight: NDArray[np.uint8],
    scales: NDArray[np.float16],
    biases: NDArray[np.float16],
) -> NDArray[np.float16]:
    """Section 2: x [M, H], weight bytes [E, H], scales and biases [E, H/64] -> logits [M, E]."""
    rows, hidden = x.shape
    experts = weight.shape[0]
    assert hidden % 512 == 0
    assert experts % 8 == 0
    assert experts <= 256
    result = np.zeros((rows, experts, LANES), F32)
    with np.errstate(all="ignore"):
        for k in range(0, hidden, BLOCK):
            # [rows, 1, lane, i] and [experts, lane, i]: column k + 8 * lane + i
            xs = x[:, k : k + BLOCK].astype(F32).reshape(rows, 1, LANES, 8)
            bytes_ = weight[:, k : k + BLOCK].astype(F32).reshape(experts, LANES, 8)
            group = (k + 8 * np.arange(LANES)) // GROUP
            scale = scales[:, group].astype(F32)
            bias = biases[:, group].astype(F32)
            total = np.zeros((rows, 1, LANES), F32)
            accum = np.zeros((rows, experts, LANES), F32)
            for i in range(8):
                total = total + xs[..., i]
            for i in range(8):
                product = xs[..., i] * bytes_[..., i]
                accum = accum + product
            scaled = scale * accum
            shifted = total * bias
            term = scaled + shifted
            result = result + term
        return simd_sum(result).astype(F16)


def tree(values: NDArray[np.float32], op: np.ufunc) -> NDArray[np.float32]:
    """Section 3: a[t] = op(a[t], a[t + s]) for s = T/2 ... 1 over the last axis; the answer is a[0]."""
    a = values.copy()
    s = THREADS // 2
    while s:
        a[..., :s] = op(a[..., :s], a[..., s : 2 * s])
        s //= 2
    return a[..., 0]


def winner_tree(work: NDArray[np.float32]) -> NDArray[np.int64]:
    """Section 3, step 4: slot t takes slot t + s only if its value is strictly greater."""
    value = work.copy()
    index = np.broadcast_to(np.arange(THREADS), work.shape).copy()
    s = THREADS // 2
    while s:
        take = value[..., s : 2 * s] > value[..., :s]  # false wherever a NaN stands on either side
        value[..., :s] = np.where(take, value[..., s : 2 * s], value[..., :s])
        index[..., :s] = np.where(take, index[..., s : 2 * s], index[..., :s])
        s //= 2
    return index[..., 0]


def top_k_rows(
    logits: NDArray[np.float16],
    top_k: int,
    resident: NDArray[np.int32] | None = None,
    eps: float = 0.0,
) -> tuple[NDArray[np.int32], NDArray[np.float16]]:
    """Sections 3 and 4: logits [M, E] -> inds int32 [M, K], scores float16 [M, K]."""
    rows, experts = logits.shape
    assert 1 <= top_k <= experts <= THREADS
    every = np.arange(rows)
    lg = np.full((rows, THREADS), -np.inf, F32)
    lg[:, :experts] = logits.astype(F32)
    with np.errstate(all="ignore"):
        m = tree(lg, np.fmax)
        e = np.exp((lg - m[:, None]).astype(np.float64)).astype(F32)
        e[:, experts:] = 0
        z = tree(e, np.add)
        gate = (e / z[:, None]).astype(F16)

        work = lg.copy()
        if resident is not None and eps > 0:
            bonus = np.where(resident[:experts] != 0, F32(eps), F32(0))
            work[:, :experts] = lg[:, :experts] + bonus
        inds = np.zeros((rows, top_k), np.int32)
        for k in range(top_k):
            winner = winner_tree(work)
            inds[:, k] = winner
            work[every, winner] = -np.inf

        scores = gate[every[:, None], inds]
        ss = np.zeros(rows, F16)
        for k in range(top_k):
            ss = ss + scores[:, k]
        return inds, scores / ss[:, None]


def route(
    x: NDArray[np.float16],
    weight: NDArray[np.uint8],
    scales: NDArray[np.float16],
    biases: NDArray[np.float16],
    top_k: int,
    resident: NDArray[np.int32] | None = None,
    eps: float = 0.0,
) -> Routed:
    logits = qmm_rows(x, weight, scales, biases)
    return Routed(*top_k_rows(logits, top_k, resident, eps), logits)


def diag_copies(
    rows: int, experts: int, top_k: int, layer: int, layers: int, slot: int, max_rows: int
) -> tuple[int, int, int, int]:
    """Section 5: (byte offset of inds, count of inds, byte offset of logits, count of logits)."""
    inds_offset = ((slot * layers + layer) * max_rows) * top_k * 4
    inds_count = rows * top_k if rows <= max_rows else 0
    logits_count = experts if rows == 1 and slot == 0 else 0
    return inds_offset, inds_count, layer * experts * 2, logits_count


def remap(inds: NDArray[np.int32], table: NDArray[np.int32]) -> NDArray[np.int32]:
    """Section 6."""
    return table[inds]


def same_bits(a: NDArray[np.generic], b: NDArray[np.generic]) -> bool:
    """Equal bits; NaN equals NaN whatever its payload."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return bool(np.all((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))))
