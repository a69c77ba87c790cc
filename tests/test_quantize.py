"""Quantising a gate. To add a case: a function of a generator in CASES."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwisp_native.quantize import quantize

SHAPE = (32, 1024)
LARGEST = 65504.0


def _bits(rng: np.random.Generator, high: int) -> np.ndarray:
    """float16 from raw bits below `high`, either sign."""
    bits = rng.integers(0, high, SHAPE).astype(np.uint16) | rng.integers(0, 2, SHAPE).astype(np.uint16) << 15
    return bits.astype(np.uint16).view(np.float16)


def _edges(rng: np.random.Generator) -> np.ndarray:
    """Make groups whose two ends are equally far from zero, or nearly."""
    dense = rng.uniform(-1, 1, SHAPE).astype(np.float16)
    dense[:, ::64] = 1
    dense[:, 1::64] = rng.choice(np.array([-1, -np.nextafter(np.float16(1), np.float16(2))]), (SHAPE[0], 16))
    return dense


CASES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda rng: rng.standard_normal(SHAPE).astype(np.float16),
    "gate-like": lambda rng: (rng.standard_normal(SHAPE) * 0.02).astype(np.float16),
    "tiny": lambda rng: (rng.standard_normal(SHAPE) * 1e-6).astype(np.float16),
    "scale floor": lambda rng: (rng.standard_normal(SHAPE) * 255e-7 / 2).astype(np.float16),
    "constant groups": lambda rng: np.repeat(rng.standard_normal((32, 16)), 64, axis=1).astype(np.float16),
    "zeros": lambda rng: np.zeros(SHAPE, np.float16),
    "signed zeros": lambda rng: (rng.integers(0, 2, SHAPE).astype(np.uint16) << 15).view(np.float16),
    "negative": lambda rng: -np.abs(rng.standard_normal(SHAPE)).astype(np.float16),
    "positive": lambda rng: np.abs(rng.standard_normal(SHAPE)).astype(np.float16),
    "far from zero": lambda rng: (1000 + rng.standard_normal(SHAPE)).astype(np.float16),
    "three values": lambda rng: rng.integers(-1, 2, SHAPE).astype(np.float16),
    "subnormal": lambda rng: _bits(rng, 0x0400),
    "every exponent": lambda rng: _bits(rng, 0x7C00),
    "huge": lambda rng: np.clip(rng.standard_normal(SHAPE) * 4e4, -LARGEST, LARGEST).astype(np.float16),
    "two ends": lambda rng: rng.choice(np.array([-LARGEST, LARGEST]), SHAPE).astype(np.float16),
    "equal ends": _edges,
}


def mlx_quantize(dense: np.ndarray) -> tuple[np.ndarray, ...]:
    mx = pytest.importorskip("mlx.core")
    with mx.stream(mx.cpu):
        return tuple(np.array(a) for a in mx.quantize(mx.array(dense), group_size=64, bits=8))


def assert_same_bytes(ours: tuple[np.ndarray, ...], theirs: tuple[np.ndarray, ...]) -> None:
    for name, a, b in zip(("weight", "scales", "biases"), ours, theirs, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), name
        assert a.tobytes() == b.tobytes(), f"{name}: {np.count_nonzero(a != b)} of {a.size} differ"


@pytest.mark.mlx
@pytest.mark.parametrize("case", CASES)
def test_equals_mlx(case: str) -> None:
    dense = CASES[case](np.random.default_rng(list(CASES).index(case)))
    assert_same_bytes(quantize(dense), mlx_quantize(dense))


@pytest.mark.mlx
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-0x7BFF, 0x7BFF), min_size=64, max_size=64))
def test_equals_mlx_on_any_group(values: list[int]) -> None:
    magnitudes = np.abs(np.array([values])).astype(np.uint16).view(np.float16)  # every finite float16
    dense = np.copysign(magnitudes, np.array([values], np.float16))
    assert_same_bytes(quantize(dense), mlx_quantize(dense))


@pytest.mark.mlx
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wider_floats_are_rounded_first(dtype: type) -> None:
    dense: np.ndarray = np.random.default_rng(3).standard_normal(SHAPE).astype(dtype)
    assert_same_bytes(quantize(dense), mlx_quantize(dense.astype(np.float16)))


def test_a_known_group() -> None:
    """By hand: ends 0 and 255 give scale -1 and bias 255; 0.5 rounds to even."""
    dense = np.zeros((8, 64), np.float16)
    dense[:, :5] = [255, 0, 1, 100.5, 101.5]
    weight, scales, biases = quantize(dense)
    assert weight.dtype == np.uint32
    assert weight.shape == (8, 16)
    assert weight.view(np.uint8)[0, :6].tolist() == [0, 255, 254, 154, 154, 255]
    assert (scales == -1).all()
    assert (biases == 255).all()


def test_layout_does_not_matter() -> None:
    dense = np.random.default_rng(5).standard_normal((1024, 64)).astype(np.float16)
    strided = np.asfortranarray(np.repeat(dense, 2, axis=1))[:, ::2]
    swapped = dense.astype(">f2")
    for same in (strided, swapped):
        assert_same_bytes(quantize(same), quantize(dense))


def test_the_input_is_left_alone() -> None:
    dense = np.random.default_rng(6).standard_normal((8, 512)).astype(np.float16)
    before = dense.copy()
    dense.flags.writeable = False
    quantize(dense)
    assert dense.tobytes() == before.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(value: float) -> None:
    dense = np.ones((8, 512), np.float32)
    dense[3, 77] = dense[5, 0] = value
    with pytest.raises(ValueError, match=rf"dense\[3, 77\] is {value}, and 1 more: only finite"):
        quantize(dense)


def test_too_large_for_float16() -> None:
    dense = np.ones((8, 512), np.float32)
    dense[7, 511] = 65520
    with pytest.raises(ValueError, match=r"dense\[7, 511\] is 65520.0: too large for float16"):
        quantize(dense)


@pytest.mark.parametrize("shape", [(512,), (2, 8, 512), (8, 63), (8, 0), (0, 512), (8, 96)])
def test_wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"dense: shape \[.*multiple of 64"):
        quantize(np.ones(shape, np.float16))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, bool, complex, np.longdouble])
def test_wrong_dtype(dtype: type) -> None:
    with pytest.raises(TypeError, match=r"dense: dtype .*float16, float32, float64"):
        quantize(np.ones((8, 512), dtype))


def test_not_an_array() -> None:
    with pytest.raises(TypeError, match="dense: a list, expected a numpy array"):
        quantize([[1.0] * 64])  # type: ignore[arg-type]
