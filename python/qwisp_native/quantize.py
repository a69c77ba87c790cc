"""8-bit affine quantisation of a router gate, byte for byte what `mlx.core.quantize` writes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

GROUP = 64
_LEVELS = np.float32(255)
_SMALLEST_SCALE = np.float32(1e-7)
_FLOATS = ("float16", "float32", "float64")


class QuantizedGate(NamedTuple):
    """The three arrays of an MLX affine layer: uint32 [E, H/4], float16 [E, H/64] twice."""

    weight: NDArray[np.uint32]
    scales: NDArray[np.float16]
    biases: NDArray[np.float16]


def quantize(dense: NDArray[Any]) -> QuantizedGate:
    """Quantise a dense gate to 8 bits in groups of 64 columns.

    The result equals `mlx.core.quantize(dense, group_size=64, bits=8)` on MLX's CPU device for
    float16 input. float32 and float64 are rounded to float16 first, because that is the type the
    checkpoint would have held; bfloat16 has no numpy type and must be converted by the caller.

    Args:
        dense: [E, H] float array, H a multiple of 64.

    Raises:
        TypeError: `dense` is not a numpy array of one of the three float types.
        ValueError: a wrong shape, a value that is NaN or infinite, or too large for float16.

    """
    rows = _as_float16(dense)
    experts, hidden = rows.shape
    groups = rows.astype(np.float32).reshape(experts, hidden // GROUP, GROUP)
    low = groups.min(axis=2, keepdims=True)
    high = groups.max(axis=2, keepdims=True)

    # The end that is farther from zero is met exactly: its value is the bias, and zero falls on a level.
    low_is_farther = np.abs(low) > np.abs(high)
    edge = np.where(low_is_farther, low, high)
    scale = np.maximum((high - low) / _LEVELS, _SMALLEST_SCALE)
    scale = np.where(low_is_farther, scale, -scale)
    level = np.rint(edge / scale)
    has_level = level != 0
    scale = np.where(has_level, edge / np.where(has_level, level, np.float32(1)), scale)
    bias = np.where(has_level, edge, np.float32(0))

    # MLX divides by the float32 scale and rounds it to float16 only when it is stored.
    codes = np.clip(np.rint((groups - bias) / scale), np.float32(0), _LEVELS).astype(np.uint8)
    packed = codes.reshape(experts, hidden).view("<u4").astype(np.uint32, copy=False)
    return QuantizedGate(packed, scale[..., 0].astype(np.float16), bias[..., 0].astype(np.float16))


def _as_float16(dense: NDArray[Any]) -> NDArray[np.float16]:
    if not isinstance(dense, np.ndarray):
        raise TypeError(f"dense: a {type(dense).__name__}, expected a numpy array [experts, hidden]")
    if dense.dtype.name not in _FLOATS:
        raise TypeError(f"dense: dtype {dense.dtype}, expected one of {', '.join(_FLOATS)}")
    if dense.ndim != 2 or 0 in dense.shape or dense.shape[1] % GROUP:
        raise ValueError(
            f"dense: shape {list(dense.shape)}, expected [experts, hidden] with hidden a multiple of {GROUP}"
        )
    _refuse(dense, ~np.isfinite(dense), "only finite values can be quantised")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(dense, dtype=np.float16)
    _refuse(dense, ~np.isfinite(rows), "too large for float16, whose largest value is 65504")
    return rows


def _refuse(dense: NDArray[Any], bad: NDArray[np.bool_], why: str) -> None:
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        more = f", and {int(bad.sum()) - 1} more" if bad.sum() > 1 else ""
        raise ValueError(f"dense[{row}, {column}] is {dense[row, column]}{more}: {why}")
