"""The counts of one layer that RouteStats keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import AnyArray
from .tie_order import chosen, ordinals, reversed_bits

# Margins are kept as counts between these edges: 0, then two an octave. All are exact in float16 or float32,
# so that how many margins lie below one of the powers of two is exact.
EDGES = np.concatenate(([0.0], 2.0 ** (np.arange(-28, 15) / 2), [np.inf]))
# How near a tie: steps between the k-th and the next logit in float16's order; 0 is a tie.
STEPS = (0, 1, 2, 4, 8)
COUNTS = ("rows", "asked", "cold", "logit_rows", "unclear", "lower_sets", "lower_orders")
VECTORS = {"load": None, "near": len(STEPS), "margin": len(EDGES) - 1, "flip": len(EDGES) - 1}


@dataclass
class LayerStats:
    """Counts of one layer; each can be added to another's.

    load [E]: how often each expert was chosen in `rows` rows.
    cold: of `asked` choices, how many were not resident.
    logit_rows: rows whose logits were seen; of them, `unclear` had a NaN, a +inf, or no K + 1 finite logits,
        and are in nothing below.
    near: near[i] rows have their k-th and next logit at most STEPS[i] float16 values apart.
    margin: rows by k-th minus next logit, between EDGES.
    flip: rows by the bias for resident experts from which their choice changes, between EDGES.
    lower_sets, lower_orders: rows in which ties for the lower index would have chosen other experts, or the
        same in another order.
    """

    load: NDArray[np.int64]
    near: NDArray[np.int64]
    margin: NDArray[np.int64]
    flip: NDArray[np.int64]
    rows: int = 0
    asked: int = 0
    cold: int = 0
    logit_rows: int = 0
    unclear: int = 0
    lower_sets: int = 0
    lower_orders: int = 0

    @classmethod
    def empty(cls, experts: int) -> LayerStats:
        """Nothing counted yet."""
        load, near, margin, flip = (np.zeros(size or experts, np.int64) for size in VECTORS.values())
        return cls(load, near, margin, flip)

    def summary(self) -> dict[str, Any]:
        """The figures that people ask for; None where nothing was counted that tells them."""
        total = int(self.load.sum())
        share = self.load[self.load > 0] / max(total, 1)
        clear = self.logit_rows - self.unclear
        return {
            "rows": self.rows,
            "coverage": float((self.load > 0).mean()),
            "largest_load": int(self.load.max()) / self.rows if self.rows else None,
            "effective_experts": float(np.exp(-(share * np.log(share)).sum())) if total else None,
            "cold_rate": self.cold / self.asked if self.asked else None,
            "logit_rows": self.logit_rows,
            "unclear": self.unclear,
            "tied": int(self.near[0]),
            "within_one_ulp": int(self.near[1]),
            "median_margin": _median(self.margin) if clear else None,
            "median_flip": _median(self.flip) if self.flip.any() else None,
            "lower_sets": self.lower_sets,
            "lower_orders": self.lower_orders,
        }

    def add_choice(self, inds: AnyArray, resident: NDArray[np.bool_] | None) -> None:
        """Count int [M, K] experts; `resident` is bool [E]."""
        self.rows += len(inds)
        self.load += np.bincount(inds.ravel(), minlength=self.load.size)
        if resident is not None:
            self.asked += inds.size
            self.cold += int((~resident[inds]).sum())

    def add_logits(self, logits: NDArray[np.float16], top_k: int, resident: NDArray[np.bool_] | None) -> None:
        """Count float16 [M, E] raw logits; `resident` is bool [E]."""
        self.logit_rows += len(logits)
        # Of a layer that routes to every expert all rows are unclear: there is no next one.
        clear = (np.isfinite(logits).sum(1) > top_k) & ~np.isnan(logits).any(1) & ~np.isposinf(logits).any(1)
        self.unclear += int((~clear).sum())
        rows = logits[clear]
        experts = rows.shape[1]
        if not rows.size:
            return
        best = chosen(rows, top_k + 1, reversed_bits(experts))
        edge = np.take_along_axis(rows, best[:, -2:], 1)  # the k-th, and the next
        steps = ordinals(edge[:, 0].copy()) - ordinals(edge[:, 1].copy())
        self.near += np.array([(steps <= most).sum() for most in STEPS])
        wide = edge.astype(np.float32)
        self.margin += _counted(wide[:, 0] - wide[:, 1])

        ours, lower = best[:, :-1], chosen(rows, top_k, np.arange(experts))
        other = (np.sort(ours, 1) != np.sort(lower, 1)).any(1)
        self.lower_sets += int(other.sum())
        self.lower_orders += int((~other & (ours != lower).any(1)).sum())
        if resident is not None:
            taken = np.zeros(rows.shape, bool)
            np.put_along_axis(taken, ours.astype(np.int64), True, 1)
            weakest = np.where(taken & ~resident, rows, np.float32(np.inf)).min(1)
            strongest = np.where(~taken & resident, rows, np.float32(-np.inf)).max(1)
            self.flip += _counted(weakest - strongest)  # inf: no bias can

    def add(self, other: LayerStats) -> None:
        """Add another's counts to these."""
        for name in (*COUNTS, *VECTORS):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_dict(self) -> dict[str, Any]:
        """Every count, as what JSON can hold."""
        vectors: dict[str, Any] = {name: getattr(self, name).tolist() for name in VECTORS}
        return {name: getattr(self, name) for name in COUNTS} | vectors

    @classmethod
    def from_dict(cls, told: dict[str, Any], experts: int) -> LayerStats:
        """The reverse of `to_dict`; raises KeyError, TypeError, ValueError."""
        read = cls.empty(experts)
        for name in COUNTS:
            if not isinstance(told[name], int) or told[name] < 0:
                raise ValueError(f"{name} is {told[name]!r}")
            setattr(read, name, told[name])
        for name in VECTORS:
            vector = np.array(told[name])
            if vector.shape != getattr(read, name).shape or vector.dtype != np.int64 or (vector < 0).any():
                raise ValueError(f"{name} has shape {list(vector.shape)} and dtype {vector.dtype}")
            setattr(read, name, vector)
        return read


def _counted(values: AnyArray) -> NDArray[np.int64]:
    return np.histogram(values.clip(max=np.finfo(np.float32).max), EDGES)[0].astype(np.int64)


def _median(counts: NDArray[np.int64]) -> float:
    """The middle of the bin in which the median lies; 0 for the first bin, its lower edge for the last."""
    at = int(np.searchsorted(counts.cumsum(), (counts.sum() + 1) // 2))
    low, high = float(EDGES[at]), float(EDGES[at + 1])
    return 0.0 if at == 0 else low if np.isinf(high) else (low + high) / 2
