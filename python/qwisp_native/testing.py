"""For tests of engines and of this package: what a route encodes, without running it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import _core
from .arrays import ArrayInput
from .settings import Fuse

Binding = tuple[int, str, int] | tuple[int, bytes]
"""(slot, label of the buffer, offset in bytes), or (slot, the bytes of an argument struct)."""


@dataclass(frozen=True)
class RecordedCommand:
    """One dispatch, or one barrier (then everything else is empty).

    `constants` are the function constants of a fused kernel. `bindings` are those set since the dispatch
    before, by slot. `groups` and `threads` are the grid in threadgroups and the threads of a threadgroup,
    (x, y, z).
    """

    kernel: str = ""
    constants: dict[str, int] = field(default_factory=dict)
    bindings: tuple[Binding, ...] = ()
    groups: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    barrier: bool = False


def record_route(
    gate: _core.Gate,
    scratch: _core.RouteScratch,
    x: _core.Buffer,
    *,
    rows: int,
    fuse: Fuse | None = None,
    bias: _core.RouteBias | None = None,
    diag: _core.RouteDiag | None = None,
    remap: ArrayInput | _core.Buffer | None = None,
    return_logits: bool = False,
    concurrent: bool = False,
) -> list[RecordedCommand]:
    """The commands that encode_moe_route_rows would write into a serial or concurrent encoder. Nothing runs.

    The arguments and errors are those of encode_moe_route_rows.
    """
    recorded: list[Any] = _core.record_route(
        x,
        gate,
        scratch,
        rows=rows,
        fuse=fuse,
        bias=bias,
        diag=diag,
        remap=remap,
        return_logits=return_logits,
        concurrent=concurrent,
    )
    return [RecordedCommand(barrier=True) if each is None else _dispatch(*each) for each in recorded]


def _dispatch(
    kernel: str, constants: dict[str, int], bindings: list[Binding], groups: list[int], threads: list[int]
) -> RecordedCommand:
    return RecordedCommand(kernel, constants, tuple(bindings), tuple(groups), tuple(threads))


def scratch_is_cleared(scratch: _core.RouteScratch) -> bool:
    """Whether the fused kernels left their arrival counters and words at 0, as the next launch needs them."""
    arrivals, words = _core.scratch_state(scratch)
    return not any(arrivals) and not any(words)


def load_kernel_image(path: str) -> None:
    """Let the software device run one more shader text: a shared object that holds it, compiled as C++.

    cpp/metal_runtime/drivers/cpu/image_main.cpp says how to make one. The text is chosen by QWISP_SHADER_DIR.

    Raises:
        DeviceError: the file cannot be loaded, or was built for another version of the package.
    """
    _core.load_kernel_image(path)
