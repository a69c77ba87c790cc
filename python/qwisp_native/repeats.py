"""Rows in which an expert was chosen more than once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .arrays import ArrayInput, as_numpy


def repeated_rows(inds: ArrayInput) -> NDArray[np.bool_]:
    """Which rows name an expert more than once.

    A row of NaN, or one with fewer than K logits above -inf, repeats expert 0 (docs/contract.md, section 3).
    A consumer that needs distinct experts asks here.

    Args:
        inds: integer [M, K], as a Router returns them.

    Returns:
        bool [M].

    Raises:
        TypeError, ValueError: not an integer array of two dimensions.
    """
    array = as_numpy("inds", inds, "int32")
    if array.dtype.kind not in "iu":
        raise TypeError(f"inds: dtype {array.dtype}, but it must be int32")
    if array.ndim != 2:
        raise ValueError(f"inds: shape {list(array.shape)}, but it must be [rows, top_k]")
    ordered = np.sort(array, axis=1)
    repeated: NDArray[np.bool_] = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    return repeated
