"""What counts as an array argument: numpy, the buffer protocol, DLPack on the CPU.

Never a silent copy or conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SupportsDLPack(Protocol):
    """An array of another library (torch, jax, mlx, ...), by the array API's exchange protocol."""

    def __dlpack__(self) -> Any: ...

    def __dlpack_device__(self) -> tuple[Any, int]: ...


AnyArray: TypeAlias = NDArray[Any]
AnyDtype: TypeAlias = "np.dtype[Any]"
HostInput: TypeAlias = "NDArray[Any] | Buffer"
ArrayInput: TypeAlias = "HostInput | SupportsDLPack"

_KDLCPU = 1  # of DLPack's device types
_DEVICES = {2: "CUDA", 3: "CUDA host", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}


def as_numpy(name: str, value: object, wanted: str) -> NDArray[Any]:
    """`value`'s own memory as a plain numpy array, whatever its dtype and layout.

    Args:
        name: of the argument, for messages.
        value: a numpy array, or anything with the buffer protocol or DLPack on the CPU.
        wanted: the dtypes that the caller accepts, for messages.

    Raises:
        TypeError: not an array, or of a dtype that numpy does not know.
        ValueError: not on the CPU.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: a masked array, but it must be an array without a mask")
    if isinstance(value, np.ndarray):
        return np.ndarray.view(value, np.ndarray)  # not a subclass's own idea of it
    _refuse_bfloat16(name, value, wanted)
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return _from_dlpack(name, value, wanted)
    try:
        return np.asarray(view)
    except (TypeError, ValueError, NotImplementedError) as error:
        found = f"a buffer of format {view.format!r}, which numpy does not know"
        raise TypeError(f"{name}: {found}, but it must be {wanted}") from error


def where(device: int) -> str:
    """What a DLPack device type is called."""
    return _DEVICES.get(device, f"DLPack device type {device}")


def dlpack_device(value: object) -> tuple[int, int] | None:
    """DLPack's type and number of an array's device; None for numpy's arrays and what has no such thing."""
    if isinstance(value, (np.ndarray, np.generic, type)) or not hasattr(value, "__dlpack_device__"):
        return None
    try:
        kind, number = value.__dlpack_device__()
        return int(kind), int(number)
    except (TypeError, ValueError, LookupError, RuntimeError, BufferError):
        return None  # as_numpy says what is wrong with it


def _refuse_bfloat16(name: str, value: object, wanted: str) -> None:
    """Numpy has no bfloat16: the exchange protocols would fail without saying why, or pass off bytes."""
    if "bfloat16" in str(getattr(value, "dtype", "")):
        raise TypeError(f"{name}: dtype bfloat16, but it must be {wanted}")


def _from_dlpack(name: str, value: Any, wanted: str) -> NDArray[Any]:
    if isinstance(value, type) or not (hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__")):
        found = type(value).__name__
        found = "None" if value is None else f"an {found}" if found[0] in "aeiouAEIOU" else f"a {found}"
        raise TypeError(
            f"{name}: {found}, but it must be an array ({wanted}): numpy, the buffer protocol, or DLPack on"
            " the CPU"
        )
    try:
        device = int(value.__dlpack_device__()[0])
    except (TypeError, ValueError, LookupError) as error:
        raise TypeError(f"{name}: __dlpack_device__ gives no device: {error}; it must be {wanted}") from error
    if device != _KDLCPU:
        raise ValueError(f"{name}: on {where(device)}, but it must be on the CPU")
    try:
        return np.from_dlpack(value)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        dtype = getattr(value, "dtype", "unknown")
        raise TypeError(f"{name}: dtype {dtype} through DLPack: {error}; it must be {wanted}") from error
