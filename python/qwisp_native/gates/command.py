"""Runs the gates and reports: `qwisp-native gates`."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm

import qwisp_native as qn

from .registry import GATES, Context, Gate


@dataclass(frozen=True)
class Failure:
    """A check that was red."""

    gate: str
    check: str
    detail: str


@dataclass
class Report:
    """What a run found: checks and seconds of each gate, the failures, and why gates were left out."""

    device: str
    seed: int
    counts: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All checks."""
        return sum(self.counts.values())

    def as_json(self) -> dict[str, Any]:
        """Everything, ready for json.dumps."""
        return {
            "device": self.device,
            "seed": self.seed,
            "gates": {name: {"checks": n, "seconds": self.seconds[name]} for name, n in self.counts.items()},
            "failures": [vars(failure) for failure in self.failures],
            "skipped": self.skipped,
            "total": self.total,
            "passed": self.total - len(self.failures),
            "failed": len(self.failures),
        }


def run_gate(
    gate: Gate, context: Context, step: Callable[[], object] = lambda: None
) -> tuple[int, list[Failure]]:
    """The number of checks and the failed ones. A gate that raises or checks nothing is a failed check."""
    count = 0
    failures = []
    try:
        for check, told in gate.run(context):
            count += 1
            if told is not None:
                failures.append(Failure(gate.name, check, told))
            step()
    except Exception as error:  # whatever a gate raises is its finding
        count += 1
        failures.append(Failure(gate.name, f"after {count - 1} checks", f"{type(error).__name__}: {error}"))
    if count == 0:
        count, failures = 1, [Failure(gate.name, "count", "the gate checked nothing")]
    return count, failures


def run(
    device: qn.Device | None = None, *, only: Sequence[str] = (), seed: int = 0, progress: bool = False
) -> Report:
    """Runs the gates whose names hold one of the words of `only` (all, if there are none).

    Raises:
        ValueError: no gate of such a name, or none that is about this kind of device.
    """
    device = device or qn.Device()
    chosen = [g for name, g in sorted(GATES.items()) if not only or any(word in name for word in only)]
    if not chosen:
        raise ValueError(f"only: no gate named {', '.join(only)}; there are {', '.join(sorted(GATES))}")
    others = {g.name: f"about {g.kind} devices only" for g in chosen if not g.is_about(device)}
    if len(others) == len(chosen):
        raise ValueError(f"only: {', '.join(others)}: {', '.join(set(others.values()))}, not {device.kind}")
    context = Context(device, seed)
    report = Report(f"{device.kind} ({device.name})", seed, skipped=others)
    with _bar(progress) as bar:
        for gate in (each for each in chosen if each.name not in others):
            bar.set_description(gate.name)
            start = time.perf_counter()
            report.counts[gate.name], failures = run_gate(gate, context, bar.update)
            report.seconds[gate.name] = round(time.perf_counter() - start, 3)
            report.failures += failures
    return report


def _bar(progress: bool) -> Any:
    return tqdm(unit=" checks", disable=not progress, leave=False, file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 1 if a check failed."""
    parser = argparse.ArgumentParser(
        prog="qwisp-native gates",
        description="Checks this device against the routing contract; needs no model.",
    )
    parser.add_argument(
        "--device", metavar="KIND", help="cpu, cuda, metal; default QWISP_DEVICE, or the best there is"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="gates whose name holds NAME"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs (default 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.add_argument("--list", action="store_true", help="print the gates and stop")
    options = parser.parse_args(argv)
    if options.list:
        for _, gate in sorted(GATES.items()):
            print(f"{gate.name:{max(map(len, GATES))}} {gate.summary}")
        return 0
    try:
        device = qn.Device(options.device)
        report = run(device, only=options.only, seed=options.seed, progress=sys.stderr.isatty())
    except ValueError as error:
        parser.error(str(error))
    except qn.DeviceError as error:
        print(f"qwisp-native gates: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        _print(report)
    return 1 if report.failures else 0


def _print(report: Report) -> None:
    print(f"device {report.device}, seed {report.seed}")
    width = max(map(len, report.counts))
    for name, count in report.counts.items():
        failed = sum(failure.gate == name for failure in report.failures)
        verdict = f"{failed} FAILED" if failed else "ok"
        print(f"{name:{width}} {count:5} checks  {report.seconds[name]:7.2f} s  {verdict}")
    for name, why in report.skipped.items():
        print(f"{name:{width}} skipped: {why}")
    for failure in report.failures:
        print(f"FAIL {failure.gate}: {failure.check}: {failure.detail}")
    print(f"RAWTESTS total = {report.total}")
    print(f"{report.total - len(report.failures)} passed, {len(report.failures)} failed")
