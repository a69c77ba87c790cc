"""Figures of a report (extra `plot`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

NEEDS = "the figures need matplotlib: pip install 'qwisp_native[plot]'"


def draw(report: dict[str, Any], folder: Path) -> list[Path]:
    """Write three figures into a folder that exists: times by rows, differences over time, pair to winner.

    Raises:
        ImportError: matplotlib is not here.
        OSError: the folder cannot be written.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figures = {"times": _times, "differences": _differences, "waterfall": _waterfall}
    files = []
    for name, plot in figures.items():
        figure = Figure(figsize=(9, 5), layout="constrained")
        FigureCanvasAgg(figure)
        plot(figure, report)
        figure.suptitle(f"{report['environment']['device']['name']}, {report['created']}", fontsize=9)
        files.append(folder / f"{name}.png")
        figure.savefig(files[-1], dpi=120)
    return files


def _label(result: dict[str, Any]) -> str:
    return f"M = {result['rows']}" + (" (VOID)" if result["decision"] == "VOID" else "")


def _times(figure: Any, report: dict[str, Any]) -> None:
    """Bars of device time by rows, from p10 to p90."""
    axes = figure.subplots()
    results = report["results"]
    arms = list(results[0]["arms"])
    width = 0.8 / len(arms)
    for place, arm in enumerate(arms):
        told = [result["arms"][arm]["gpu_us_per_layer"] for result in results]
        medians = np.array([each["median"] for each in told])
        reach = [medians - [each["p10"] for each in told], [each["p90"] for each in told] - medians]
        at = np.arange(len(results)) + (place - (len(arms) - 1) / 2) * width
        axes.bar(at, medians, width, yerr=np.abs(reach), capsize=3, label=arm)
    axes.set_xticks(np.arange(len(results)), [_label(result) for result in results])
    axes.set_ylabel("device time, us a layer: median, p10 to p90")
    axes.legend()


def _differences(figure: Any, report: dict[str, Any]) -> None:
    """Speed-up round by round: drift, jumps and the effect of the order show here."""
    results = report["results"]
    for axes, result in zip(np.ravel(figure.subplots(len(results), 1, sharex=False)), results, strict=True):
        columns = result["samples"]["columns"]
        values = np.array([[float(cell) for cell in row] for row in result["samples"]["values"]])
        arm = values[:, columns.index("arm")]
        seconds = values[:, columns.index("gpu_end")] - values[:, columns.index("gpu_start")]
        base = seconds[arm == 0]
        for number, name in enumerate(result["arms"]):
            if number:
                with np.errstate(divide="ignore", invalid="ignore"):
                    axes.plot(base / seconds[arm == number], ".", markersize=3, label=name)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_ylabel(_label(result), fontsize=8)
        axes.tick_params(labelsize=7)
    axes.set_xlabel("round; speed-up over the first arm")
    axes.legend(fontsize=7)


def _waterfall(figure: Any, report: dict[str, Any]) -> None:
    """From the first arm to the fastest other: what the dispatches saved are worth, and the rest."""
    results = report["results"]
    for axes, result in zip(np.ravel(figure.subplots(1, len(results))), results, strict=True):
        base = next(iter(result["arms"]))
        best = min(result["comparisons"], key=lambda name: result["arms"][name]["gpu_us_per_layer"]["median"])
        start = result["arms"][base]["gpu_us_per_layer"]["median"]
        end = result["arms"][best]["gpu_us_per_layer"]["median"]
        saved = result["comparisons"][best]["dispatches"]["predicted_us"]
        middle = start - saved
        steps = [base, "dispatches\nsaved", "rest", best]
        bottoms, heights = [0, min(start, middle), min(middle, end), 0], [start, saved, middle - end, end]
        colours = ["C0", *("C2" if height >= 0 else "C3" for height in heights[1:3]), "C1"]
        axes.bar(range(4), np.abs(heights), bottom=bottoms, color=colours)
        axes.set_xticks(range(4), steps, fontsize=7)
        axes.tick_params(axis="y", labelsize=7)
        axes.set_title(_label(result), fontsize=9)
    figure.supylabel("device time, us a layer")
