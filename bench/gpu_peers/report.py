"""What was measured: comparisons by the package's statistics, and a Markdown table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from peers.report import spread

from qwisp_native.bench import compare_times
from qwisp_native.bench.rules import LEAST_EFFECTIVE, LEAST_ROUNDS, MOST_DRIFT

from .measure import Cell, Outcome


def compare(slower: Cell, faster: Cell) -> dict[str, Any]:
    """Time of the first over that of the second, in the same rounds; `void` says why it says nothing."""
    leads = np.less(slower.positions, faster.positions)
    found: dict[str, Any] = {"first": slower.peer, "second": faster.peer, "void": []}
    try:
        told = compare_times(slower.samples, faster.samples, leads)
    except ValueError as error:
        return found | {"void": [str(error)]}
    void = found["void"]
    if told.pairs < LEAST_ROUNDS:
        void.append(f"{told.pairs} rounds, but it takes {LEAST_ROUNDS}")
    if told.effective < LEAST_EFFECTIVE:
        void.append(f"the rounds are worth {told.effective:.1f} independent ones, not {LEAST_EFFECTIVE:.0f}")
    for cell in (slower, faster):
        third = len(cell.samples) // 3
        if third >= 3:
            change = statistics.median(cell.samples[-third:]) / statistics.median(cell.samples[:third]) - 1
            if abs(change) > MOST_DRIFT:
                void.append(f"'{cell.peer}' drifted by {change:+.0%}")
    return found | asdict(told)


def median(cell: Cell) -> float:
    """Microseconds a layer."""
    return statistics.median(cell.samples)


def best(cells: Iterable[Cell]) -> Cell | None:
    """The one with the least median."""
    return min((cell for cell in cells if cell.samples), key=median, default=None)


def comparisons(outcome: Outcome) -> list[dict[str, Any]]:
    """For each shape: every arm over our best one; our pair over each of our variants, launched alike."""
    found = []
    for (rows, temperature), cells in shapes(outcome).items():
        ours = [cell for cell in cells if cell.kind == "ours"]
        first = best(ours)
        pairs = [(cell, first) for cell in cells if first and cell is not first]
        for pair in (cell for cell in ours if cell.peer.split(", ")[1] == "pair"):
            alike = [cell for cell in ours if cell.peer.split(", ")[2:] == pair.peer.split(", ")[2:]]
            pairs += [(pair, cell) for cell in alike if cell is not pair and cell is not first]
        found += [{"rows": rows, "temperature": temperature, **compare(*both)} for both in pairs]
    return found


def shapes(outcome: Outcome) -> dict[tuple[int, str], list[Cell]]:
    """The cells by rows and temperature."""
    by: dict[tuple[int, str], list[Cell]] = {}
    for cell in outcome.cells:
        by.setdefault((cell.rows, cell.temperature), []).append(cell)
    return by


def table(outcome: Outcome, found: Sequence[dict[str, Any]]) -> str:
    """One table a temperature, what follows from it, and what is missing from it and why."""
    by = shapes(outcome)
    told = {(each["rows"], each["temperature"], each["first"], each["second"]): each for each in found}
    lines: list[str] = []
    for temperature in dict.fromkeys(name for _, name in by):
        rows = sorted(each for each, name in by if name == temperature)
        lines += [f"**{temperature} weights**", ""]
        lines += ["| | " + " | ".join(f"M = {each}" for each in rows) + " |", "|---" * (len(rows) + 1) + "|"]
        names = dict.fromkeys(cell.peer for each in rows for cell in by[each, temperature])
        for name in names:
            entries = [_entry(by[each, temperature], name, told) for each in rows]
            lines.append(f"| {name} | " + " | ".join(entries) + " |")
        lines.append("")
    counts = [len(cell.samples) for cell in outcome.cells] or [0]
    lines += [
        f"Microseconds a layer: median (p10 to p90) of {min(counts)} to {max(counts)} samples; then the time"
        " over that of our fastest arm [95% interval], and how many rows have the same experts as ours."
        " Ours: GPUStartTime to GPUEndTime of one command buffer; others: CUDA events around one CUDA graph,"
        " queued behind another. \\~: void, see the JSON.",
        "",
        *_claims(by, told),
        "",
    ]
    lines += [f"- WRONG, not measured: {name}: {why}" for name, why in outcome.wrong.items()]
    lines += [f"- skipped: {name}: {why}" for name, why in outcome.skipped.items()]
    return "\n".join(lines).rstrip() + "\n"


Told = dict[tuple[int, str, str, str], dict[str, Any]]


def _ratio(told: Told, first: Cell, second: Cell) -> str:
    each = told.get((first.rows, first.temperature, first.peer, second.peer))
    if each is None or "speed_up" not in each:
        return ""
    mark = "\\~" if each["void"] else ""
    return f"{each['speed_up']:.2f}x [{each['low']:.2f}, {each['high']:.2f}]{mark}"


def _entry(cells: Sequence[Cell], name: str, told: Told) -> str:
    cell = next((each for each in cells if each.peer == name), None)
    first = best(each for each in cells if each.kind == "ours")
    if cell is None or not cell.samples:
        return "-"
    each = spread(cell.samples)
    text = f"{each.median:.2f} ({each.p10:.2f} to {each.p90:.2f})"
    if first:
        text += " **best**" if cell is first else f" {_ratio(told, cell, first)}"
    if cell.agreement:
        text += f" {cell.agreement['same']}/{cell.agreement['rows']}"
    return text


def _claims(by: dict[tuple[int, str], list[Cell]], told: Told) -> list[str]:
    """The comparisons that the goals are stated in, one line a shape."""
    lines = []
    for (rows, temperature), cells in by.items():
        first = best(cell for cell in cells if cell.kind == "ours")
        if first is None:
            continue
        parts = [f"our best is '{first.peer}', {median(first):.2f} us"]
        for what, kinds in (("PyTorch", ("torch",)), ("other", ("other",)), ("floor", ("floor",))):
            rival = best(
                cell for cell in cells if cell.kind in kinds and not cell.peer.startswith("floor: an empty")
            )
            if rival:
                ratio = _ratio(told, rival, first)
                parts.append(f"best {what} '{rival.peer}' {median(rival):.2f} us, {ratio}".rstrip(", "))
        plain = [cell for cell in cells if cell.kind == "ours" and cell.peer.endswith(", graph")]
        alike, pair = best(plain), next((cell for cell in plain if ", pair," in cell.peer), None)
        if alike and pair and alike is not pair and alike.samples and pair.samples:
            times = compare(pair, alike)
            if "speed_up" in times:
                parts.append(
                    f"without dependent launch '{alike.peer}' {median(alike):.2f} us, the pair takes"
                    f" {times['speed_up']:.2f}x [{times['low']:.2f}, {times['high']:.2f}]"
                )
        lines.append(f"- M = {rows}, {temperature}: {'; '.join(parts)}.")
    return lines
