"""Values that no argument expects, and arrays of any shape, dtype, stride, byte order and address."""

from __future__ import annotations

import array
from contextlib import suppress
from typing import Any

import numpy as np
from hypothesis import strategies as st

import qwisp_native as qn

REFUSALS = (TypeError, ValueError, RuntimeError, MemoryError, BufferError, qn.DeviceError)
"""What may be raised. AttributeError, IndexError, SystemError and the like are findings."""


class Raises:
    """An object whose every protocol raises, or gives back something else than it should."""

    def __init__(self, gives: Any) -> None:
        self.gives = gives

    def __repr__(self) -> str:
        return f"Raises({self.gives!r})"

    def _give(self, *_: object, **__: object) -> Any:
        if isinstance(self.gives, type):
            raise self.gives("planted")
        return self.gives

    __index__ = __int__ = __float__ = __len__ = __bool__ = __getitem__ = __iter__ = _give
    __array__ = __dlpack__ = __dlpack_device__ = __buffer__ = __cuda_stream__ = _give
    __array_interface__ = __cuda_array_interface__ = property(_give)
    weight = scales = biases = property(_give)


INTEGERS = st.sampled_from(
    [-1, 0, 1, 2, 3, 8, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 10**30]
)
SIMPLE = st.one_of(
    INTEGERS,
    st.none(),
    st.booleans(),
    st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e30, 1e300, np.inf, -np.inf, np.nan]),
    st.sampled_from(["", "cpu", "pair", "auto", "simt", "f2", ">f2", "\0", "\ud800", "x" * 5000, "O"]),
    st.sampled_from([b"", b"cpu", (), (1,), [], {}, {"a": 1}, object(), type, np, 1j, ..., print, range(3)]),
    st.sampled_from(
        [np.int64(3), np.float16(2), np.bool_(True), np.str_("pair"), np.array(3), np.array("x")]
    ),
    st.sampled_from([TypeError, ValueError, KeyError, RecursionError, SystemExit, 3, None, "text", -1]).map(
        Raises
    ),
)
DTYPES = st.sampled_from(
    [
        *("f2", "f2", "f2", ">f2", "f4", "f8", "i4", "i4", ">i4", "i8", "u1", "u4", "u2", "?", "c8"),
        *("S2", "U1", "O", "V2", "M8[s]", "i4,f2"),
    ]
)


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> np.ndarray:
    """Any array, or one of this shape and dtype that is laid out in some way."""
    wanted = (
        shape
        if shape is not None
        else tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 8, 16, 512]), max_size=4)))
    )
    if np.prod(wanted, dtype=float) > 1e5:
        wanted = wanted[:1]
    kind = np.dtype(dtype or draw(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    steps = [draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in wanted]
    offset = draw(st.sampled_from([0, 0, 1, 2, 8]))
    whole = tuple(n * abs(s) for n, s in zip(wanted, steps, strict=True))
    count = int(np.prod(whole, dtype=int)) * kind.itemsize
    if kind.hasobject:
        base = np.empty(whole, kind)
    else:
        base = np.frombuffer(bytearray(rng.bytes(count + offset)), np.uint8)[offset:].view(kind)
        base = base.reshape(whole) if base.size else np.empty(whole, kind)
    if kind.kind == "U":
        base[...] = "x"  # numpy cannot print what is no character
    out = base[(..., *(slice(None, None, s) for s in steps))]
    way = draw(st.sampled_from(["", "", "", "T", "F", "readonly", "broadcast", "masked", "matrix"]))
    if way == "T" and out.ndim > 1 and (shape is None or shape == shape[::-1]):
        out = out.T
    elif way == "F":
        out = np.asfortranarray(out)
    elif way == "broadcast" and out.ndim and len(out):
        out = np.broadcast_to(out[:1], out.shape)
    elif way == "masked" and not kind.hasobject:
        out = np.ma.masked_array(out)
    elif way == "matrix" and out.ndim == 2:
        out = out.view(np.matrix)
    elif way == "readonly":
        out.flags.writeable = False
    return out


def wrapped(value: np.ndarray) -> st.SearchStrategy[Any]:
    """An array as other kinds of objects hold it."""
    ways: list[Any] = [value, value, value, value.tolist()]
    for way in (memoryview, bytes, bytearray, lambda each: array.array("B", each.tobytes())):
        with suppress(TypeError, ValueError, BufferError, NotImplementedError):
            ways.append(way(value))
    return st.integers(0, len(ways) - 1).map(ways.__getitem__)  # some cannot be hashed


ANYTHING = st.one_of(SIMPLE, arrays(), arrays().flatmap(wrapped))
