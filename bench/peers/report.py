"""What was measured as a Markdown table, and as a figure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .measure import FLOOR, SLOW_REPEATS, SLOW_SETS, Cell, Outcome


class Spread(NamedTuple):
    """Microseconds a call: median, first and last decile."""

    median: float
    p10: float
    p90: float


def spread(samples: Sequence[float]) -> Spread:
    """Of samples; a single one is its own spread."""
    if len(samples) == 1:
        return Spread(samples[0], samples[0], samples[0])
    deciles = statistics.quantiles(samples, n=10, method="inclusive")
    return Spread(statistics.median(samples), deciles[0], deciles[-1])


def table(outcome: Outcome, rows: Sequence[int], threads: Sequence[int]) -> str:
    """One table for each number of threads; then what is missing from them, and why."""
    cells = {(cell.threads, cell.peer, cell.rows): cell for cell in outcome.cells}
    lines: list[str] = []
    for count in threads:
        lines += [f"**{count} thread{'s' if count > 1 else ''}**", ""]
        lines += ["| | " + " | ".join(f"M = {each}" for each in rows) + " |", "|---" * (len(rows) + 1) + "|"]
        for name in dict.fromkeys(cell.peer for cell in outcome.cells if cell.threads == count):
            found = [_entry(cells, count, name, each) for each in rows]
            lines.append(f"| {name} | " + " | ".join(found) + " |")
        lines.append("")
    counts = [len(cell.samples) for cell in outcome.cells]
    lines += [
        f"Microseconds a call: median (p10 to p90) of {min(counts)} to {max(counts)} samples,"
        f" and the median over that of {FLOOR}.",
        f"\\*: a slow call, at most {SLOW_SETS} sets and {SLOW_REPEATS} repeats, nothing before. "
        "\\?: no row could be compared.",
        "",
    ]
    lines += [f"- WRONG, not measured: {name}: {why}" for name, why in outcome.wrong.items()]
    lines += [f"- skipped: {name}: {why}" for name, why in outcome.skipped.items()]
    return "\n".join(lines).rstrip() + "\n"


def _entry(cells: dict[tuple[int, str, int], Cell], threads: int, name: str, rows: int) -> str:
    cell = cells.get((threads, name, rows))
    if cell is None:
        return "-"
    each = spread(cell.samples)
    ratio = each.median / spread(cells[threads, FLOOR, rows].samples).median
    marks = "\\*" if cell.slow else ""
    if not cell.rows_checked and name != FLOOR:
        marks += "\\?"
    return f"{each.median:.1f} ({each.p10:.1f} to {each.p90:.1f}) {ratio:.1f}x{marks}"


def plot(outcome: Outcome, threads: Sequence[int], path: Path) -> None:
    """Median over rows, both on logarithmic axes, bars from p10 to p90. Needs matplotlib (extra `plot`)."""
    import matplotlib as mpl  # noqa: PLC0415 an extra

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, panels = pyplot.subplots(
        1, len(threads), figsize=(6 * len(threads), 6), sharey=True, squeeze=False, layout="constrained"
    )
    names = list(dict.fromkeys(cell.peer for cell in outcome.cells))
    colours = pyplot.get_cmap("tab20")
    for panel, count in zip(panels[0], threads, strict=True):
        for number, name in enumerate(names):
            mine = [cell for cell in outcome.cells if (cell.threads, cell.peer) == (count, name)]
            if not mine:
                continue
            spreads = [spread(cell.samples) for cell in mine]
            bars = [[s.median - s.p10 for s in spreads], [s.p90 - s.median for s in spreads]]
            panel.errorbar(
                [cell.rows for cell in mine],
                [s.median for s in spreads],
                bars,
                label=name,
                marker="." if name != FLOOR else None,
                linestyle="--" if name == FLOOR else "-",
                color="black" if name == FLOOR else colours(number % 20),
                capsize=2,
            )
        ticks = sorted({cell.rows for cell in outcome.cells})
        panel.set(title=f"{count} threads", xlabel="rows", xscale="log", yscale="log")
        panel.set_xticks(ticks, [str(each) for each in ticks], minor=False)
        panel.minorticks_off()
    panels[0][0].set_ylabel("microseconds a call")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=120)
