"""The figure of RouteStats (extra `plot`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .route_stats import RouteStats


def draw(stats: RouteStats, file: Path) -> None:
    """One row of axes a layer: experts by falling load, and the margins' distribution with the share tied."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    from .layer_stats import EDGES  # noqa: PLC0415

    figure = Figure(figsize=(10, 2.4 * stats.layers + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    edges = EDGES[1:-1]
    for layer, (load, margin) in enumerate(np.reshape(figure.subplots(stats.layers, 2), (-1, 2))):
        each = stats.each[layer]
        figures = each.summary()
        load.bar(np.arange(stats.experts), np.sort(each.load)[::-1] / max(each.rows, 1), width=1.0)
        load.axhline(stats.top_k / stats.experts, color="black", linewidth=0.8, label="even load")
        load.set_ylabel(f"layer {layer}\nchosen, a row")
        load.set_title(f"{each.rows} rows, {100 * figures['coverage']:.0f} % of the experts", fontsize=9)
        load.legend(fontsize=8)
        rows = max(each.logit_rows - each.unclear, 1)
        for name, counts in (("margin", each.margin), ("bias that flips", each.flip)):
            if counts.any():
                margin.step(edges, counts.cumsum()[:-1] / counts.sum(), where="post", label=name)
                margin.legend(fontsize=8)
        margin.set_xscale("log", base=2)
        margin.set_ylim(0, 1)
        margin.set_ylabel("share of rows below")
        margin.set_title(f"{100 * each.near[0] / rows:.2f} % tied at the boundary", fontsize=9)
    load.set_xlabel("experts by load")
    margin.set_xlabel("k-th logit minus the next")
    figure.savefig(file, dpi=120)
