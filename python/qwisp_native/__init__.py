"""Mixture-of-Experts routing, bit for bit the same on every device: x -> experts and scores.

    device = qn.Device()
    gate = qn.Gate(device, weight, scales, biases)
    inds, scores = qn.Router(gate, top_k=8)(x)

Shapes, dtypes and order of every operation are those of docs/contract.md. Every error names the
argument, what it was and what it may be: TypeError (no array, a wrong dtype or type), ValueError
(shape, layout, limits, values), DeviceError (the device, a shader or a command buffer failed),
MemoryError, RuntimeError (a call out of order).
"""

from . import testing
from ._core import (
    Buffer,
    CommandBuffer,
    ComputeEncoder,
    Device,
    DeviceArray,
    Gate,
    RouteBias,
    RouteDiag,
    RoutePlan,
    Router,
    RouteScratch,
    __version__,
    encode_moe_route_rows,
    plan,
    shader_sha256,
)
from .checkpoint import Checkpoint, GateWeights, load_gates
from .devices import DeviceInfo, devices
from .errors import DeviceError
from .repeats import repeated_rows
from .route_stats import RouteStats

__all__ = [
    "Buffer",
    "Checkpoint",
    "CommandBuffer",
    "ComputeEncoder",
    "Device",
    "DeviceArray",
    "DeviceError",
    "DeviceInfo",
    "Gate",
    "GateWeights",
    "RouteBias",
    "RouteDiag",
    "RoutePlan",
    "RouteScratch",
    "RouteStats",
    "Router",
    "__version__",
    "devices",
    "encode_moe_route_rows",
    "load_gates",
    "plan",
    "repeated_rows",
    "shader_sha256",
    "testing",
]
