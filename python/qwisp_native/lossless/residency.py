"""Which experts are resident, and where: tables that change every so many tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Setting:
    """What tokens may depend on: the bias, and whether experts are named by slot. Nothing else may matter."""

    eps: float = 0.0
    bolt: bool = False

    @property
    def name(self) -> str:
        """As reports spell it."""
        return f"{'bolt' if self.bolt else 'resident'}, bias {self.eps:g}" + ("" if self.eps else " (off)")


SETTINGS = tuple(Setting(eps, bolt) for bolt in (False, True) for eps in (0.0, 0.25))


@dataclass(frozen=True)
class Residency:
    """Seeded tables, a function of the position alone, so that every way to decode sees the same.

    `table` sends experts to slots, `contents` slots to experts. The first half of the slots counts as
    resident for the bias. Without bolt there is one table, and it serves the bias only.
    """

    experts: int
    bolt: bool
    period: int
    seed: int = 0

    def version(self, position: int) -> int:
        """The number of the table in force at a position."""
        return position // self.period if self.bolt else 0

    def rows_left(self, position: int, most: int) -> int:
        """How many rows from a position on see the same table, up to `most`: a step has no more."""
        return min(most, self.period - position % self.period) if self.bolt else most

    def table(self, version: int) -> NDArray[np.int32]:
        """Slots of the experts, int32 [E]."""
        rng = np.random.default_rng([self.seed, version])
        return rng.permutation(self.experts).astype(np.int32)

    def contents(self, version: int) -> NDArray[np.int32]:
        """Experts of the slots, int32 [E]."""
        return np.argsort(self.table(version)).astype(np.int32)

    def resident(self, version: int) -> NDArray[np.int32]:
        """1 for a resident expert, int32 [E]."""
        return (self.table(version) < self.experts // 2).astype(np.int32)
