"""What a model's routers do over time: load, coverage, margins, ties, choices that were not resident."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import AnyArray, ArrayInput, as_numpy
from .layer_stats import LayerStats

FORMAT = "qwisp_native.RouteStats 1"


@dataclass
class RouteStats:
    """Statistics of a model's routers, fed by what `RouteDiag` copies or by what a Router returns.

        stats = qn.RouteStats(layers=2, experts=256, top_k=8)
        stats.add(0, inds, logits)  # layer 0, of router(x, return_logits=True)
        stats.add_diag(diag_inds, diag_logits, rows=1, max_rows=25)  # all layers, from a RouteDiag's buffers
        print(stats.summary()); stats.plot("routes.png")

    Two of one shape can be merged, in any order, with the same result as one that saw everything.
    """

    layers: int
    experts: int
    top_k: int
    each: list[LayerStats] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name, least, most in (
            ("layers", 1, 1 << 16),
            ("experts", 1, 256),
            ("top_k", 1, self.experts),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"{name}: {value!r}, but it must be an integer from {least} to {most}")
        if not self.each:
            self.each = [LayerStats.empty(self.experts) for _ in range(self.layers)]

    def add(
        self,
        layer: int,
        inds: ArrayInput,
        logits: ArrayInput | None = None,
        *,
        resident: ArrayInput | None = None,
    ) -> None:
        """Count some rows of one layer.

        Args:
            layer: from 0.
            inds: int32 [M, K], experts as chosen, before any remap.
            logits: float16 [M, E], raw, of the same rows; None where they are not known.
            resident: int32 or bool [E], not 0 where resident; None leaves `cold` and `flip` alone.

        Raises:
            TypeError, ValueError: a layer, shape, dtype or expert that is none of this model's; nothing is
                counted then.
        """
        if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < self.layers:
            raise ValueError(f"layer: {layer!r}, but it must be an integer from 0 to {self.layers - 1}")
        chosen = _array("inds", inds, "i", (None, self.top_k))
        self._check_experts(chosen)
        seen = None if logits is None else _array("logits", logits, "f", (len(chosen), self.experts))
        here = None if resident is None else _array("resident", resident, "ib", (self.experts,)) != 0
        to = self.each[layer]
        to.add_choice(chosen, here)
        if seen is not None:
            to.add_logits(seen, self.top_k, here)

    def add_diag(
        self,
        inds: ArrayInput,
        logits: ArrayInput | None,
        *,
        rows: int,
        max_rows: int,
        slot: int = 0,
        resident: ArrayInput | None = None,
    ) -> None:
        """Count one step of all layers out of a `RouteDiag`'s buffers (docs/contract.md, section 5).

        Args:
            inds: int32 [slots * layers * max_rows, K], or any shape of so many elements.
            logits: float16 [layers, E]; read only if `rows` is 1 and `slot` is 0, since only then written.
            rows: M of the step; if it is more than `max_rows`, nothing was written and nothing is counted.
            max_rows: R, as the RouteDiag was made with.
            slot: c.
            resident: int32 or bool [layers, E]; None leaves `cold` and `flip` alone.

        Raises:
            TypeError, ValueError: as `add`, or buffers too small for the slot.
        """
        if rows < 0 or max_rows < 1 or slot < 0:
            raise ValueError(
                f"rows, max_rows, slot: {rows}, {max_rows}, {slot}, but they must be at least 0, 1, 0"
            )
        told = as_numpy("inds", inds, "int32")
        least = (slot + 1) * self.layers * max_rows * self.top_k
        if told.size < least:
            raise ValueError(
                f"inds: {told.size} elements, but slot {slot} of {self.layers} layers ends at {least}"
            )
        if rows > max_rows:
            return
        chosen = _array("inds", told.reshape(-1)[:least], "i", (None,))
        chosen = chosen.reshape(slot + 1, self.layers, max_rows, self.top_k)[slot, :, :rows]
        self._check_experts(chosen)
        seen = None
        if logits is not None and rows == 1 and slot == 0:
            seen = _array("logits", logits, "f", (self.layers, self.experts))
        here = None if resident is None else _array("resident", resident, "ib", (self.layers, self.experts))
        for layer in range(self.layers):
            self.add(
                layer,
                chosen[layer],
                None if seen is None else seen[layer : layer + 1],
                resident=None if here is None else here[layer],
            )

    def _check_experts(self, chosen: AnyArray) -> None:
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < self.experts):
            found = f"{chosen.min()} to {chosen.max()}"
            raise ValueError(f"inds: {found}, but experts are 0 to {self.experts - 1}")

    def merge(self, other: RouteStats) -> None:
        """Add another's counts to these.

        Raises:
            ValueError: it is of another shape.
        """
        mine, theirs = ((s.layers, s.experts, s.top_k) for s in (self, other))
        if mine != theirs:
            raise ValueError(f"other: layers, experts, top_k {theirs}, but they must be {mine}")
        for to, part in zip(self.each, other.each, strict=True):
            to.add(part)

    def summary(self) -> list[dict[str, Any]]:
        """One dictionary of figures a layer."""
        return [each.summary() for each in self.each]

    def to_dict(self) -> dict[str, Any]:
        """Everything counted, as what JSON can hold."""
        return {
            "format": FORMAT,
            "layers": self.layers,
            "experts": self.experts,
            "top_k": self.top_k,
            "each": [part.to_dict() for part in self.each],
        }

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> RouteStats:
        """The reverse of `to_dict`.

        Raises:
            ValueError: not what `to_dict` wrote.
        """
        try:
            if told["format"] != FORMAT:
                raise ValueError(f"format is {told['format']!r}")
            stats = cls(told["layers"], told["experts"], told["top_k"])
            parts = [LayerStats.from_dict(part, stats.experts) for part in told["each"]]
            if len(parts) != stats.layers:
                raise ValueError(f"{len(parts)} of {stats.layers} layers")
            stats.each = parts
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"told: not a dictionary of RouteStats.to_dict ({error!r})") from error
        return stats

    def plot(self, file: str | Path) -> None:
        """Draw load by expert and margins by layer into a file (.png, .svg, .pdf); extra `plot`.

        Raises:
            ImportError: matplotlib is not here.
            OSError: the file cannot be written.
        """
        from .route_plot import draw  # noqa: PLC0415 -- matplotlib is heavy, and optional

        draw(self, Path(file))


def _array(name: str, value: ArrayInput, kinds: str, shape: tuple[int | None, ...]) -> AnyArray:
    wanted = {"i": "int32", "f": "float16", "ib": "int32 or bool"}[kinds]
    array = as_numpy(name, value, wanted)
    fits = array.dtype == np.float16 if kinds == "f" else array.dtype.kind in kinds + "u"
    if not fits:
        raise TypeError(f"{name}: dtype {array.dtype}, but it must be {wanted}")
    if array.ndim != len(shape) or any(w not in (None, n) for n, w in zip(array.shape, shape, strict=True)):
        told = ", ".join("rows" if n is None else str(n) for n in shape)
        raise ValueError(f"{name}: shape {list(array.shape)}, but it must be [{told}]")
    return array
