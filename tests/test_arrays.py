"""Arrays in and out: numpy, the buffer protocol and DLPack. What is refused is named, nothing converted."""

from __future__ import annotations

import array
import ctypes
import gc
import mmap
from typing import Any

import numpy as np
import pytest

import qwisp_native as qn
from small import EXPERTS, HIDDEN, TOP_K, layer, rows, same


class DLPackOnly:
    """An array of another library, as seen through the exchange protocol."""

    def __init__(self, source: Any, device: int = 1, dtype: str = "float16") -> None:
        self.source, self.device, self.dtype = source, device, dtype

    def __dlpack__(self, **options: Any) -> Any:
        return self.source.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)


@pytest.fixture(scope="module")
def router(device: qn.Device) -> qn.Router:
    return qn.Router(layer().gate(device), top_k=TOP_K)


def at_offset(values: np.ndarray, offset: int) -> np.ndarray:
    """The same values at an address that is `offset` bytes beyond a multiple of 64."""
    raw = np.empty(values.nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + offset
    moved = raw[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    moved[...] = values
    return moved


# ---- what is taken


@pytest.mark.parametrize("offset", [0, 1, 2, 6, 7, 32])
def test_any_address(router: qn.Router, offset: int) -> None:
    x = rows(3)
    assert same(router(at_offset(x, offset)), router(x))


def as_memory_map(x: np.ndarray) -> Any:
    memory = mmap.mmap(-1, x.nbytes)
    memory.write(x.tobytes())
    return np.frombuffer(memory, np.float16).reshape(x.shape)


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


class Subclass(np.ndarray):
    pass


@pytest.mark.parametrize(
    "wrap",
    [
        memoryview,
        DLPackOnly,
        read_only,
        as_memory_map,
        lambda x: x.view(Subclass),
        lambda x: x.reshape(1, 3, HIDDEN)[0],
        lambda x: np.concatenate([x, x])[3:],
    ],
    ids=["memoryview", "dlpack", "read-only", "mmap", "subclass", "view", "slice"],
)
def test_every_way_in(router: qn.Router, wrap: Any) -> None:
    x = rows(3)
    assert same(router(wrap(x)), router(x))


def test_weight_as_words_or_bytes(device: qn.Device) -> None:
    small = layer()
    gate = qn.Gate(device, small.weight.view("<u4"), small.scales, small.biases)
    assert (gate.weight == small.weight).all()
    assert gate.weight.shape == (EXPERTS, HIDDEN)
    raw = qn.Gate(
        device, memoryview(small.weight.tobytes()).cast("B", (EXPERTS, HIDDEN)), small.scales, small.biases
    )
    assert (raw.weight == small.weight).all()


def test_inputs_are_copied(device: qn.Device) -> None:
    small = layer()
    gate = small.gate(device)
    small.weight[...] = 0
    small.scales[...] = 0
    assert gate.weight.any()
    assert gate.scales.any()


# ---- what is refused


def bad_rows() -> dict[str, tuple[Any, type[Exception], str]]:
    x = rows(3)
    return {
        "none": (None, TypeError, "x: .*None"),
        "list": (x.tolist(), TypeError, "x: a list"),
        "int": (3, TypeError, "x: an int"),
        "str": ("x" * 1024, TypeError, "x: a str"),
        "type": (np.ndarray, TypeError, "x: a type"),
        "bytes": (x.tobytes(), TypeError, "x: dtype uint8.*float16"),
        "array.array": (array.array("H", bytes(2 * HIDDEN)), TypeError, "x: dtype uint16.*float16"),
        "ctypes": ((ctypes.c_float * HIDDEN)(), TypeError, "x: dtype float32.*float16"),
        "float32": (x.astype(np.float32), TypeError, "x: dtype float32.*float16"),
        "int16": (x.view(np.int16), TypeError, "x: dtype int16.*float16"),
        "swapped": (x.astype(">f2"), TypeError, "x: dtype >f2.*float16"),
        "object": (x.astype(object), TypeError, "x: dtype object"),
        "structured": (np.zeros((3, HIDDEN), "f2,f2"), TypeError, "x: dtype"),
        "masked": (np.ma.masked_array(x, x > 0), TypeError, "x: a masked array"),
        "datetime": (np.zeros((3, HIDDEN), "M8[s]"), TypeError, "x: dtype datetime64"),
        "0-d": (np.array(1, np.float16), ValueError, r"x: shape \[\].*hidden=512"),
        "scalar": (np.float16(1), ValueError, r"x: shape \[\]"),
        "1-d": (x[0], ValueError, r"x: shape \[512\].*hidden=512"),
        "3-d": (x[None], ValueError, r"x: shape \[1, 3, 512\]"),
        "narrow": (np.zeros((3, 64), np.float16), ValueError, r"x: shape \[3, 64\].*hidden=512"),
        "empty": (np.zeros((0, 0), np.float16), ValueError, r"x: shape \[0, 0\]"),
        "strided": (np.zeros((6, HIDDEN), np.float16)[::2], ValueError, "x: .*C-contiguous"),
        "reversed": (x[::-1], ValueError, "x: .*C-contiguous"),
        "fortran": (np.asfortranarray(x), ValueError, "x: .*C-contiguous"),
        "broadcast": (np.broadcast_to(x[:1], (3, HIDDEN)), ValueError, "x: .*C-contiguous"),
        "other device": (DLPackOnly(x, device=8), ValueError, "x: on Metal.*CPU"),
        "bfloat16": (DLPackOnly(x, dtype="torch.bfloat16"), TypeError, "x: dtype bfloat16.*float16"),
        "dlpack float32": (DLPackOnly(x.astype(np.float32)), TypeError, "x: dtype float32.*float16"),
        "dlpack nonsense": (DLPackOnly(Broken()), TypeError, "x: dtype float16 through DLPack"),
    }


class Broken:
    def __dlpack__(self, **options: Any) -> Any:
        return object()


@pytest.mark.parametrize("case", bad_rows())
def test_refused(router: qn.Router, case: str) -> None:
    value, error, text = bad_rows()[case]
    with pytest.raises(error, match=text):
        router(value)


def test_a_released_memoryview(router: qn.Router) -> None:
    view = memoryview(rows(1))
    view.release()
    with pytest.raises(TypeError, match="x: a memoryview"):
        router(view)


def test_errors_of_the_argument_itself_pass(router: qn.Router) -> None:
    class Hostile:
        dtype = "float16"

        def __dlpack_device__(self) -> Any:
            raise KeyboardInterrupt

        def __dlpack__(self) -> Any:
            raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        router(Hostile())


# ---- out


def outputs(count: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        np.full((count, TOP_K), -7, np.int32),
        np.full((count, TOP_K), -7, np.float16),
        np.full((count, EXPERTS), -7, np.float16),
    )


def test_out_is_written_and_returned(router: qn.Router) -> None:
    x = rows(3)
    out = outputs()
    got = router(x, return_logits=True, out=out)
    assert all(a is b for a, b in zip(got, out, strict=True))
    assert same(out, router(x, return_logits=True))
    two = list(outputs()[:2])
    assert router(x, out=two)[0] is two[0]


def test_out_through_the_buffer_protocol(router: qn.Router) -> None:
    x = rows(3)
    inds, scores, _ = outputs()
    got = router(x, out=(memoryview(inds), memoryview(scores)))
    assert isinstance(got[0], memoryview)
    assert same((inds, scores), router(x))


def test_out_at_odd_addresses(router: qn.Router) -> None:
    x = rows(3)
    inds, scores, logits = (at_offset(each, 1) for each in outputs())
    router(x, return_logits=True, out=(inds, scores, logits))
    assert same((inds, scores, logits), router(x, return_logits=True))


def test_out_may_lie_in_x(router: qn.Router) -> None:
    """x is read before anything is written."""
    x = rows(3)
    want = router(x)
    raw = x.reshape(-1).view(np.uint8)
    inds = raw[: 12 * TOP_K].view(np.int32).reshape(3, TOP_K)
    scores = raw[64 : 64 + 6 * TOP_K].view(np.float16).reshape(3, TOP_K)
    assert same(router(x, out=(inds, scores)), want)


def bad_outputs() -> dict[str, tuple[Any, bool, type[Exception], str]]:
    inds, scores, logits = outputs()
    raw = np.zeros(256, np.uint8)
    shared_inds = raw[:48].view(np.int32).reshape(3, TOP_K)
    shared_scores = raw[46:70].view(np.float16).reshape(3, TOP_K)
    return {
        "one array": (inds, False, TypeError, "out: a numpy.ndarray"),
        "string": ("ab", False, TypeError, "out: a str"),
        "one": ((inds,), False, ValueError, "out: 1 arrays"),
        "three": ((inds, scores, logits), False, ValueError, r"out: 3 arrays.*\(inds, scores\)"),
        "two": ((inds, scores), True, ValueError, r"out: 2 arrays.*logits"),
        "none inside": ((inds, None), False, TypeError, "out scores: None"),
        "order": ((scores, inds), False, TypeError, "out inds: dtype float16.*int32"),
        "rows": ((outputs(2)[0], scores), False, ValueError, r"out inds: shape \[2, 4\].*\[3, 4\]"),
        "columns": ((inds, scores[:, :3].copy()), False, ValueError, r"out scores: shape \[3, 3\]"),
        "strided": (
            (np.zeros((6, TOP_K), np.int32)[::2], scores),
            False,
            ValueError,
            "out inds: .*C-contiguous",
        ),
        "read only": ((inds, read_only(scores)), False, ValueError, "out scores: read only"),
        "bytes": ((inds.tobytes(), scores), False, TypeError, "out inds: dtype uint8"),
        "overlap": ((shared_inds, shared_scores), False, ValueError, "out: inds and scores overlap"),
        "logits overlap": (
            (inds, logits.reshape(-1)[:12].reshape(3, 4), logits),
            True,
            ValueError,
            "overlap",
        ),
    }


@pytest.mark.parametrize("case", bad_outputs())
def test_refused_out_is_untouched(router: qn.Router, case: str) -> None:
    out, return_logits, error, text = bad_outputs()[case]
    arrays = [each for each in out if isinstance(each, np.ndarray)]
    before = [each.tobytes() for each in arrays]
    with pytest.raises(error, match=text):
        router(rows(3), return_logits=return_logits, out=out)
    assert [each.tobytes() for each in arrays] == before


def test_out_of_the_gate_itself(device: qn.Device) -> None:
    """The gate's own memory is read only, so that a route cannot write over its weights."""
    gate = layer().gate(device)
    assert not gate.weight.flags.writeable
    with pytest.raises(ValueError, match=r"read-only|read only"):
        gate.scales[0, 0] = 1
    out = gate.scales.reshape(-1)[: 3 * TOP_K].reshape(3, TOP_K)
    with pytest.raises(ValueError, match=r"out scores: read only"):
        qn.Router(gate, top_k=TOP_K)(rows(3), out=(outputs()[0], out))


def test_no_rows(router: qn.Router) -> None:
    inds, scores, logits = router(rows(0), return_logits=True, out=outputs(0))
    assert (inds.shape, scores.shape, logits.shape) == ((0, TOP_K), (0, TOP_K), (0, EXPERTS))
    assert router.plan(0).dispatches == 0


# ---- buffers


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", np.intc, np.longlong]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 5), (2, 3, 4)])
def test_buffer_round_trip(device: qn.Device, dtype: Any, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    buffer = device.buffer(values, label="values")
    assert buffer.array.dtype == values.dtype == buffer.dtype
    assert buffer.shape == shape
    assert buffer.nbytes == values.nbytes
    assert (buffer.array == values).all()
    assert buffer.array.flags.writeable
    empty = device.empty(shape, dtype)
    assert empty.shape == shape
    assert not empty.array.any()


def test_buffer_views_share_memory(device: qn.Device) -> None:
    buffer = device.empty((2, 3), "float16")
    buffer.array[1, 2] = 5
    assert buffer.array[1, 2] == 5
    view = buffer.array
    del buffer
    gc.collect()
    view[0, 0] = 7
    assert view[0, 0] == 7


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "text"),
    [
        (-1, "f2", ValueError, r"shape: \[-1\]"),
        ((2, -3), "f2", ValueError, r"shape: \[2, -3\]"),
        ((2**62, 2**62), "f2", ValueError, "63 bits"),
        ((0, 2**62, 2**62), "f2", ValueError, "63 bits"),
        (2**70, "f2", ValueError, "64 bits"),
        ((1,) * 40, "f2", ValueError, "40 dimensions"),
        ((2.5,), "f2", TypeError, "shape: a float"),
        (None, "f2", TypeError, "shape: None"),
        ("ab", "f2", TypeError, "shape: a str"),
        ((True,), "f2", TypeError, "shape: a bool"),
        (2, None, TypeError, "dtype: None.*float16"),
        (2, "O", TypeError, "dtype: 'O'"),
        (2, ">f2", TypeError, "dtype: '>f2'"),
        (2, "U3", TypeError, "dtype: 'U3'"),
        (2, "nonsense", TypeError, "dtype: 'nonsense'"),
        (2, object(), TypeError, "dtype: "),
        (2**45, "f8", MemoryError, "bytes"),
    ],
)
def test_empty_refused(device: qn.Device, shape: Any, dtype: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        device.empty(shape, dtype)


def test_label(device: qn.Device) -> None:
    assert device.empty(1, "u1", label="größe\0x").label == "größe\0x"
    for bad in (3, b"x"):
        with pytest.raises(TypeError, match="label: a"):
            device.empty(1, "u1", label=bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="surrogates"):
        device.empty(1, "u1", label="\ud800")


# ---- other libraries, where they are installed


def test_torch(router: qn.Router) -> None:
    torch = pytest.importorskip("torch")
    x = rows(3)
    assert same(router(torch.from_numpy(x)), router(x))
    with pytest.raises(TypeError, match=r"x: dtype bfloat16.*float16"):
        router(torch.from_numpy(x).to(torch.bfloat16))
    with pytest.raises(TypeError, match=r"x: dtype float32|x: dtype torch.float32"):
        router(torch.from_numpy(x).float())
    with pytest.raises(ValueError, match="C-contiguous"):
        router(torch.from_numpy(np.concatenate([x, x]))[::2])


@pytest.mark.mlx
def test_mlx(router: qn.Router) -> None:
    mx = pytest.importorskip("mlx.core")
    x = rows(3)
    assert same(router(mx.array(x)), router(x))
    with pytest.raises(TypeError, match=r"x: dtype bfloat16.*float16"):
        router(mx.array(x).astype(mx.bfloat16))
    with pytest.raises(TypeError, match=r"x: dtype float32.*float16"):
        router(mx.array(x).astype(mx.float32))
