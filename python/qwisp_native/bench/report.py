"""The report of a benchmark: made, written, read, and told in Markdown."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from .. import _core
from ..files import replace
from ..verdicts import Decision, Verdict
from .dispatches import probe
from .environment import describe
from .markdown import as_markdown
from .rules import void_reasons
from .runs import Options, Run, Sample, measure
from .statistics import Comparison, compare_times

FORMAT = 1
KIND = "qwisp-native bench"
GO_ABOVE = 1.02

Report = dict[str, Any]
Tell = Callable[[int, float], object]


def run(device: _core.Device, options: Options, tell: Tell = lambda rows, done: None) -> Report:
    """Measure every shape of the options and judge it.

    Args:
        device: the device under test.
        options: what to time.
        tell: called with the rows in work and the part of them that is done.

    Returns:
        The report in JSON's types, all samples included; docs/benchmarks.md says what is in it.

    Raises:
        TypeError, ValueError: an option, or a variant that does not exist for a shape.
        DeviceError, MemoryError: the device said no.
    """
    report: Report = {
        "kind": KIND,
        "format": FORMAT,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "environment": describe(device),
        "options": {**asdict(options), "rows": list(options.rows), "arms": list(options.arms)},
        "probe": probe(device),
        "results": [],
    }
    for rows in options.rows:
        done = measure(device, rows, options, lambda part, rows=rows: tell(rows, part))  # type: ignore[misc]
        report["results"].append(judge(done, report["probe"]))
    return report


def judge(run: Run, probed: dict[str, Any]) -> dict[str, Any]:
    """Draw the conclusions from one run."""
    reasons = void_reasons(run)
    leads = run.column("position", 0)
    comparisons: dict[str, dict[str, Any]] = {}
    for arm, name in enumerate(run.arms[1:], 1):
        first = leads < run.column("position", arm)
        gpu = _compared(run.gpu_seconds(0), run.gpu_seconds(arm), first)
        wall = _compared(run.wall_seconds(0), run.wall_seconds(arm), first)
        comparisons[name] = {
            "gpu": gpu and asdict(gpu),
            "wall": wall and asdict(wall),
            "decision": decide(gpu, wall, reasons),
            "dispatches": _dispatch_account(run, arm, probed),
        }
    going = [name for name, found in comparisons.items() if found["decision"] == "GO"]
    winner = max(going, key=lambda name: comparisons[name]["gpu"]["low"], default=run.arms[0])
    return {
        "rows": run.rows,
        "decision": "VOID" if reasons else "GO" if going else "NO-GO",
        "winner": None if reasons else winner,
        "void": reasons,
        "rounds": len(run.samples) // len(run.arms),
        "warm_up": {"rounds": run.warm_up_rounds, "is_flat": run.is_flat},
        "arms": {name: _arm(run, arm) for arm, name in enumerate(run.arms)},
        "comparisons": comparisons,
        "samples": {"columns": list(Sample._fields), "values": [list(sample) for sample in run.samples]},
    }


def decide(gpu: Comparison | None, wall: Comparison | None, reasons: list[str]) -> Decision:
    """GO if the device's time shows a clear win, and the host's does not show a loss."""
    if reasons or gpu is None or wall is None:
        return "VOID"
    return "GO" if gpu.low > GO_ABOVE and wall.high >= 1 else "NO-GO"


def _compared(first: Any, second: Any, leads: Any) -> Comparison | None:
    """None where no comparison can be made; the run is VOID then."""
    try:
        return compare_times(first, second, leads)
    except ValueError:
        return None


def _arm(run: Run, arm: int) -> dict[str, Any]:
    layers = run.options.layers

    def per_layer(seconds: Any) -> dict[str, float]:
        p10, median, p90 = np.quantile(seconds / layers * 1e6, [0.1, 0.5, 0.9]).tolist()
        return {"median": median, "p10": p10, "p90": p90}

    return {
        "kernels": list(run.planned[arm]),
        "dispatches": len(run.encoded[arm]),
        "barriers": run.barriers[arm],
        "gpu_us_per_layer": per_layer(run.gpu_seconds(arm)),
        "wall_us_per_layer": per_layer(run.wall_seconds(arm)),
    }


def _dispatch_account(run: Run, arm: int, probed: dict[str, Any]) -> dict[str, float]:
    """What the dispatches saved would be worth by the probe, beside what was saved, in us a layer."""
    order = "serial" if run.options.encoder == "serial" else "barriers"
    cost = probed["cost_us"][f"tiny {order}"]["median"]
    saved = (len(run.encoded[0]) - len(run.encoded[arm])) / run.options.layers
    medians = [float(np.median(run.gpu_seconds(each))) / run.options.layers * 1e6 for each in (0, arm)]
    return {
        "saved_per_layer": saved,
        "cost_us": cost,
        "predicted_us": saved * cost,
        "observed_us": medians[0] - medians[1],
    }


def verdicts_of(report: Report) -> list[Verdict]:
    """What the user's cache folder may keep of a report: one verdict a shape, of the best candidate."""
    options = report["options"]
    found = []
    for result in report["results"]:
        told = {name: each["gpu"] for name, each in result["comparisons"].items() if each["gpu"]}
        if result["decision"] == "VOID" or not told:
            continue
        goes = result["decision"] == "GO"
        name = result["winner"] if goes else max(told, key=lambda each: told[each]["low"])
        shape = (result["rows"], options["hidden"], options["experts"], options["top_k"])
        numbers = [told[name][key] for key in ("speed_up", "low", "high")]
        found.append(Verdict(shape, name if goes else "pair", result["decision"], name, *numbers))
    return found


def write(report: Report, folder: Path) -> list[Path]:
    """Write report.json and report.md into a folder, which is made where it is missing.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "report.json", folder / "report.md"]
    replace(files[0], json.dumps(_plain(report)) + "\n")
    replace(files[1], as_markdown(report))
    return files


def _plain(value: Any) -> Any:
    """JSON has no NaN: null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read(path: Path) -> Report:
    """Read a report.json.

    Raises:
        ValueError: the file is not a report, or one of another format.
        OSError: it cannot be read.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        found = (report["kind"], report["format"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path}: not a report of `qwisp-native bench`") from error
    if found != (KIND, FORMAT):
        raise ValueError(f"{path}: a report of format {found[1]!r}, but this version reads format {FORMAT}")
    return dict(report)
