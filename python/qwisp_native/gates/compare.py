"""Bit comparison. NaN equals NaN whatever its payload; everything else is compared as bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]


def _hex(value: Any) -> str:
    bits = np.asarray(value).reshape(1).view(np.uint8)[::-1]
    return "0x" + bits.tobytes().hex()


def difference(what: str, got: AnyArray, want: AnyArray) -> str | None:
    """None, or the first place where `got` differs: row, slot, and both values with their bits."""
    got, want = np.asarray(got), np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{what}: {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    bits = np.dtype(f"u{got.dtype.itemsize}")
    wrong = np.ascontiguousarray(got).view(bits) != np.ascontiguousarray(want).view(bits)
    if got.dtype.kind == "f":
        wrong &= ~(np.isnan(got) & np.isnan(want))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f"row {at[0]} slot {at[1]}" if len(at) == 2 else f"element {list(at)}"
    return (
        f"{what}: {place}: {_hex(got[at])} ({got[at]}) instead of {_hex(want[at])} ({want[at]});"
        f" {int(wrong.sum())} of {wrong.size} differ"
    )


def differences(got: Mapping[str, AnyArray], want: Mapping[str, AnyArray]) -> str | None:
    """`difference` over arrays of the same name; the first one found."""
    if got.keys() != want.keys():
        return f"{sorted(got)} instead of {sorted(want)}"
    return next((text for name in want if (text := difference(name, got[name], want[name]))), None)


def expect(condition: bool, text: str) -> str | None:
    """None if the condition holds, else the text."""
    return None if condition else text


def raises(
    error: type[Exception] | tuple[type[Exception], ...],
    words: tuple[str, ...],
    call: Callable[..., object],
    /,
    *args: Any,
    **options: Any,
) -> str | None:
    """None if the call raises `error` and its message holds every one of `words`."""
    try:
        call(*args, **options)
    except error as caught:
        missing = [word for word in words if word not in str(caught)]
        return f"{type(caught).__name__} without {missing}: {caught}" if missing else None
    except Exception as caught:  # the wrong exception is the finding
        return f"{type(caught).__name__}: {caught}"
    return "nothing was raised"
