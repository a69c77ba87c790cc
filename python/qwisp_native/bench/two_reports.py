"""Two reports side by side: two machines, or two commits on one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .markdown import table
from .statistics import mean_interval, student

Report = dict[str, Any]


def compare(first: Report, second: Report) -> dict[str, Any]:
    """Compare the arms that both reports have for the same rows.

    Args:
        first: a report, as `read` gives it.
        second: another.

    Returns:
        `differences`: what is not alike in options and machine, (name, first, second).
        `rows`: by rows and arm the device's time in us a layer in both, and `ratio`, first over second, with
        `low` to `high` its 95% interval: above 1 the second is faster. The runs were apart: their errors add.
        `overlap` says whether the intervals of the arm's speed-up over the baseline overlap (None for the
        baseline itself, and where a run is VOID), `void` whether a run is.

    Raises:
        ValueError: the reports have nothing in common.
    """
    found: list[dict[str, Any]] = []
    others = {result["rows"]: result for result in second["results"]}
    for result in first["results"]:
        other = others.get(result["rows"])
        if other is None:
            continue
        found += [
            {
                "rows": result["rows"],
                "arm": name,
                "void": "VOID" in {result["decision"], other["decision"]},
                **_ratio(_times(first, result, name), _times(second, other, name)),
                "overlap": _overlap(result, other, name),
            }
            for name in result["arms"]
            if name in other["arms"]
        ]
    if not found:
        raise ValueError("the reports have no rows and arms in common")
    return {"differences": list(_differences(first, second)), "rows": found}


def _times(report: Report, result: dict[str, Any], arm: str) -> Any:
    """Device seconds a layer, round by round."""
    columns = result["samples"]["columns"]
    values = result["samples"]["values"]
    number = list(result["arms"]).index(arm)
    place = {name: columns.index(name) for name in ("arm", "gpu_start", "gpu_end")}
    seconds = [
        each[place["gpu_end"]] - each[place["gpu_start"]] for each in values if each[place["arm"]] == number
    ]
    return np.array(seconds) / report["options"]["layers"]


def _ratio(first: Any, second: Any) -> dict[str, Any]:
    medians = {"first_us": float(np.median(first)) * 1e6, "second_us": float(np.median(second)) * 1e6}
    if min(len(first), len(second)) < 3 or (first <= 0).any() or (second <= 0).any():
        return medians | {"ratio": None, "low": None, "high": None}
    one, other = mean_interval(np.log(first)), mean_interval(np.log(second))

    def spread(of: Any) -> float:  # the square of its standard error
        return float(((of.high - of.low) / 2 / student(0.975, of.effective - 1)) ** 2)

    total = spread(one) + spread(other)
    # Welch's degrees of freedom.
    parts = spread(one) ** 2 / (one.effective - 1) + spread(other) ** 2 / (other.effective - 1)
    freedom = max(total**2 / parts, 1.0) if parts > 0 else one.effective
    half = student(0.975, freedom) * math.sqrt(total)
    mean = one.mean - other.mean
    return medians | {"ratio": math.exp(mean), "low": math.exp(mean - half), "high": math.exp(mean + half)}


def _overlap(result: dict[str, Any], other: dict[str, Any], arm: str) -> bool | None:
    told = [each["comparisons"].get(arm, {}).get("gpu") for each in (result, other)]
    if not all(told) or "VOID" in {result["decision"], other["decision"]}:
        return None
    return bool(told[0]["low"] <= told[1]["high"] and told[1]["low"] <= told[0]["high"])


def _differences(first: Report, second: Report) -> Iterator[tuple[str, Any, Any]]:
    def flat(report: Report) -> dict[str, Any]:
        environment = report["environment"]
        told = {**report["options"], **environment["machine"]}
        told |= {key: environment[key] for key in ("python", "compiler")}
        return {name: value for name, value in told.items() if name not in {"rows", "budget"}}

    one, other = flat(first), flat(second)
    for name in one.keys() | other.keys():
        if one.get(name) != other.get(name):
            yield name, one.get(name), other.get(name)


def comparison_as_markdown(compared: dict[str, Any]) -> str:
    """The tables of a comparison."""
    lines = [
        "# Two reports",
        "",
        "Device time in microseconds a layer; a ratio above 1: the second is faster.",
        "",
    ]

    def words(each: dict[str, Any]) -> tuple[object, ...]:
        ratio = "none" if each["ratio"] is None else f"{each['ratio']:.3f}"
        interval = "none" if each["ratio"] is None else f"{each['low']:.3f} to {each['high']:.3f}"
        overlap = {None: "", True: "yes", False: "no"}[each["overlap"]]
        void = "VOID" if each["void"] else ""
        times = (f"{each['first_us']:.3g}", f"{each['second_us']:.3g}")
        return (each["rows"], each["arm"], *times, ratio, interval, overlap, void)

    head = ("rows", "arm", "first", "second", "first / second", "95%", "speed-up intervals overlap", "")
    lines += table(head, map(words, compared["rows"]))
    if compared["differences"]:
        lines += ["What is not alike:", "", *table(("what", "first", "second"), compared["differences"])]
    else:
        lines += ["Options and machine are alike.", ""]
    return "\n".join(lines)
