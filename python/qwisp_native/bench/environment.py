"""What a report says of the machine that it was made on."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import _core, verdicts

_UNKNOWN_CACHE = 64 << 20


def describe(device: _core.Device) -> dict[str, Any]:
    """Device, machine, load and power, in JSON's types."""
    return {
        "device": {"kind": device.kind, "name": device.name},
        "machine": asdict(machine_of(device)),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "compiler": _core.compiler,
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()),
        "power": _power(),
    }


def machine_of(device: _core.Device) -> verdicts.Machine:
    """The key of the device's verdicts, without the shape."""
    return verdicts.machine(device.kind, device.name, device.contract, device.shader_sha256)


def last_level_cache() -> int:
    """Bytes of the largest cache that the system tells of; 64 MiB where it tells none."""
    sizes = (
        [_UNKNOWN_CACHE] if sys.platform == "darwin" else []
    )  # Apple does not tell of the system-level cache
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
        digits = text.rstrip("KMG")
        sizes += [int(digits) * unit] if digits.isdecimal() else []
    return max(sizes, default=_UNKNOWN_CACHE)


def cold_blocks(hidden: int, experts: int, layers: int, cache: int) -> int:
    """How many sets of gates it takes so that none is still in a cache of this size when it comes again."""
    gate = experts * hidden + 2 * 2 * experts * hidden // 64
    return max(2, -(-2 * cache // (gate * layers)) + 1)


def _power() -> str | None:
    """Mains or battery, and throttling, where the system has a command that tells."""
    if sys.platform != "darwin":
        return None
    told = [
        subprocess.run(["/usr/bin/pmset", "-g", what], capture_output=True, text=True, check=False).stdout
        for what in ("batt", "therm")
    ]
    return "\n".join(text.strip() for text in told)
