"""What a dispatch and a barrier cost on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core

WORK = ("empty", "tiny")
ORDERS = ("serial", "concurrent", "barriers")


def probe(device: _core.Device, dispatches: int = 64, repeats: int = 15) -> dict[str, Any]:
    """Time command buffers of 1 and of `dispatches` dispatches that do next to nothing.

    Returns:
        dispatches, repeats, and `cost_us`: by "WORK ORDER", the microseconds that a further dispatch takes
        (median, p10, p90 by the device's stamps, and the median by the host's clock). "barriers" less
        "concurrent" is a barrier.

    Raises:
        ValueError: dispatches below 2, repeats below 1.
        DeviceError: the device failed.
    """
    if dispatches < 2 or repeats < 1:
        raise ValueError(f"dispatches: {dispatches}, repeats: {repeats}, but they must be 2 and 1 at least")
    native = _core.DispatchProbe(device, dispatches)
    kinds = [(work, order) for work in WORK for order in ORDERS]
    found: dict[tuple[str, str], list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for turn in range(repeats + 2):
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            one, many = native.run(*kind, 1), native.run(*kind, dispatches)
            if turn >= 2:  # the first turns warm up
                gpu, wall = ((b - a) / (dispatches - 1) for a, b in zip(one, many, strict=True))
                found[kind].append((gpu * 1e6, wall * 1e6))
    cost = {}
    for (work, order), times in found.items():
        gpu_us, wall_us = np.array(times).T
        p10, median, p90 = np.quantile(gpu_us, [0.1, 0.5, 0.9]).tolist()
        cost[f"{work} {order}"] = {
            "median": median,
            "p10": p10,
            "p90": p90,
            "wall_median": float(np.median(wall_us)),
        }
    return {"dispatches": dispatches, "repeats": repeats, "cost_us": cost}
