"""CUDA arrays of other libraries, and the streams that calls on them go to.

No library is imported for it: torch is asked for its current stream only if it is there already.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from .arrays import dlpack_device, where

LEGACY = 1  # CUDA's legacy default stream, by the numbers of the array API; 2: the thread's own
UNORDERED = -1

_CPU, _CUDA = 1, 2  # of DLPack's device types


class SupportsCudaStream(Protocol):
    """A stream of another library (torch.cuda.Stream, cuda.core, ...)."""

    def __cuda_stream__(self) -> tuple[int, int]: ...


class TorchStream(Protocol):
    """A stream of a torch that does not speak the protocol yet."""

    @property
    def cuda_stream(self) -> int:
        """Its handle."""


StreamInput: TypeAlias = "int | SupportsCudaStream | TorchStream"


class OnStream(NamedTuple):
    """An array of the device, and the stream that work on it goes to."""

    capsule: Any  # DLPack's
    stream: int
    ordered: bool  # whatever frees the array's memory does so in the order of this stream


def handle(stream: object) -> int:
    """The number of a stream: its handle, LEGACY, 2 or UNORDERED.

    Raises:
        TypeError, ValueError: no stream.
    """
    number: Any = stream
    if hasattr(stream, "cuda_stream"):
        number = stream.cuda_stream
    elif hasattr(type(stream), "__cuda_stream__"):
        number = stream.__cuda_stream__()[1]  # type: ignore[attr-defined]
    try:
        value = operator.index(number)
        if isinstance(number, (bool, np.bool_)):
            raise TypeError
    except TypeError:
        raise TypeError(
            f"stream: {stream!r}, but it must be an int (a stream's handle; 1 the legacy default stream, 2"
            " the thread's own, -1 without waiting) or have __cuda_stream__ or cuda_stream"
        ) from None
    if not -1 <= value < 2**63:
        raise ValueError(f"stream: {value}, but it must be -1, 1, 2 or a stream's handle")
    return value or LEGACY  # torch's own number of it


def on_stream(x: object, stream: object, index: int) -> OnStream | None:
    """`x` for a router on CUDA device `index`; None if it is on the host, to be copied.

    Args:
        x: as Router has it.
        stream: likewise; None leaves it open.
        index: of the device.

    Raises:
        TypeError, ValueError: an array that is elsewhere, or that cannot be exchanged; no stream.
    """
    device = dlpack_device(x)
    if device is None:
        if stream is not None:
            raise ValueError(f"stream: {stream!r}, but x is on the host, from where a call blocks")
        return None
    kind, number = device
    if kind == _CPU:
        raise ValueError(
            "x: on the CPU, but the router's device is 'cuda': move x there, or give a numpy array, which is"
            " copied"
        )
    if kind != _CUDA:
        raise ValueError(f"x: on {where(kind)}, but it must be on CUDA or a numpy array")
    if number != index:
        raise ValueError(f"x: on CUDA device {number}, but the router is on CUDA device {index}")
    if getattr(x, "requires_grad", False) is True:
        raise ValueError("x: requires grad, but a route has no gradient: give x.detach()")
    target, told, ordered = _streams(x, stream)
    try:
        capsule = x.__dlpack__(stream=told)  # type: ignore[attr-defined]
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        dtype = str(getattr(x, "dtype", "unknown"))
        if "float16" in dtype.replace("bfloat16", ""):
            raise ValueError(f"x: DLPack with stream {told}: {error}") from error
        raise TypeError(f"x: dtype {dtype} through DLPack: {error}; it must be float16") from error
    return OnStream(capsule, target, ordered)


def _streams(x: object, stream: object) -> tuple[int, int, bool]:
    """The call's stream, what x's library is told of it, and whether it is the one that x belongs to."""
    current = _current_stream_of_torch(x)
    if stream is None:
        return (LEGACY, LEGACY, False) if current is None else (current, UNORDERED, True)
    number = handle(stream)
    if number == UNORDERED:
        return LEGACY, UNORDERED, False
    return (number, UNORDERED, True) if number == current else (number, number, False)


def _current_stream_of_torch(x: object) -> int | None:
    """None if x is no tensor of torch's."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if torch is None or tensor is None or not isinstance(x, tensor):
        return None
    return int(torch.cuda.current_stream(x.device).cuda_stream) or LEGACY
