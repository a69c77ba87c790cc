"""The devices that a route may run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from . import _core

Kind = Literal["cpu", "cuda", "metal"]

_ABSENT: dict[Kind, Callable[[], str]] = {
    "metal": lambda: "no Apple GPU with Metal (macOS only)",
    "cuda": _core.why_no_cuda_device,
    "cpu": lambda: "this build has no software device",
}


@dataclass(frozen=True)
class DeviceInfo:
    """A kind of device, whether it can be used here, and why not."""

    kind: Kind
    name: str
    available: bool
    why: str


def devices() -> list[DeviceInfo]:
    """Every kind of device, the best first: those that are here, with their names, and those that are not."""
    here = _core.available_devices()
    found: list[DeviceInfo] = []
    for kind, why in _ABSENT.items():
        names = [name for other, name in here if other == kind]
        found += [DeviceInfo(kind, name, True, "") for name in names]
        if not names:
            found.append(DeviceInfo(kind, "", False, why()))
    return found
