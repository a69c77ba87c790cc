"""The gates: every check of the routing contract that needs no model, on any device.

`qwisp-native gates`, or `run(device)`. To add a gate: write a generator of checks in one of the modules
below, put `@gate("name")` on it, and run `python tests/lock.py` in the repository.
"""

from __future__ import annotations

from . import (
    adversary,
    barriers,
    bias,
    diag,
    equal,
    field_layout,
    field_values,
    orders,
    plans,
    refusals,
    repeats,
    targets,
)
from .command import main, run
from .registry import GATES, Context, Gate

__all__ = ["GATES", "Context", "Gate", "main", "run"]

del (
    adversary,
    barriers,
    bias,
    diag,
    equal,
    field_layout,
    field_values,
    orders,
    plans,
    refusals,
    repeats,
    targets,
)
