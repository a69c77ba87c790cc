"""`qwisp-native lossless`: speculative decoding of a small model against greedy decoding, by every route."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from .output import print_json, print_table

if TYPE_CHECKING:
    from ..lossless import Report

SUMMARY = "decode with a small model by every route, speculatively and not: the same tokens, the same bits"
DESCRIPTION = (
    "Decode four kinds of text with a small Mixture-of-Experts language model, greedily and speculatively, by"
    " every route, with and without residency bias, remapped experts and telemetry. Tokens, experts, scores"
    " and logits must be the same. Reports near-ties and what another tie order would have changed. Exit code"
    " 1 if anything differs."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `lossless`."""
    parser.add_argument("--full", action="store_true", help="all runs (minutes), not the reduced set")
    parser.add_argument(
        "--device",
        metavar="KIND",
        help="cpu, cuda or metal; default QWISP_DEVICE, or every device that is here",
    )
    parser.add_argument(
        "--regime", action="append", metavar="NAME", help="only this kind of text; may be given again"
    )
    parser.add_argument("--model", metavar="FOLDER", help="another model of that format (docs/lossless.md)")
    parser.add_argument("--tokens", type=int, default=512, metavar="N", help="tokens a run (default 512)")
    parser.add_argument("--seed", type=int, default=0, help="of residency tables and widths (default 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(options: argparse.Namespace) -> int:
    """Run, report."""
    from tqdm import tqdm

    from .. import Device, devices, settings
    from ..lossless import Gate, load_model
    from ..lossless.across import across
    from ..lossless.model import DATA
    from ..lossless.regimes import REGIMES

    if options.tokens < 2:
        options.usage_error(f"--tokens: {options.tokens}, but it must be at least 2")
    if options.seed < 0:
        options.usage_error(f"--seed: {options.seed}, but it must be at least 0")
    model = load_model(options.model or DATA)
    asked = options.device or settings.current().device
    kinds = [asked] if asked else [each.kind for each in devices() if each.available]
    wanted = options.regime or list(REGIMES)
    if unknown := [name for name in wanted if name not in REGIMES]:
        options.usage_error(f"--regime: {unknown[0]!r}, but it must be one of {', '.join(REGIMES)}")
    prompts = {name: text for name, text in REGIMES.items() if name in wanted}
    reports = []
    for kind in kinds:
        gate = Gate(
            Device(kind),
            model,
            full=options.full,
            tokens=options.tokens,
            seed=options.seed,
            prompts=prompts,
        )
        with tqdm(
            total=gate.total, unit=" runs", leave=False, file=sys.stderr, disable=not sys.stderr.isatty()
        ) as bar:

            def step(name: str, bar: Any = bar) -> None:
                bar.set_description(name[:60])
                bar.update()

            reports.append(gate.run(step))
    differ = across(reports)
    if options.json:
        print_json({"devices": [report.as_json() for report in reports], "between_devices": differ})
    else:
        for report in reports:
            _show(report)
        for line in differ:
            print(f"FAIL {line}")
    return 1 if differ or any(report.failures for report in reports) else 0


def _show(report: Report) -> None:
    kernels = f", kernels {report.kernels}" if report.kernels else ""
    print(f"device {report.device}{kernels}, seed {report.seed}, model {report.model.sha256[:12]}")
    rows: list[tuple[object, ...]] = [("regime", "setting", "runs", "tokens equal", "drafts accepted")]
    groups = dict.fromkeys((run.case.regime, run.case.setting.name) for run in report.runs)
    for regime, setting in groups:
        runs = [r for r in report.runs if (r.case.regime, r.case.setting.name) == (regime, setting)]
        drafted = [r.decoded for r in runs if r.case.speculative]
        tried = sum(d.rows - d.steps for d in drafted)
        share = f"{sum(d.accepted for d in drafted) / tried:.0%}" if tried else "-"
        equal = f"{min(r.equal for r in runs)} of {report.tokens}"
        rows.append((regime, setting, len(runs), equal, share))
    print_table(rows)
    print("near-ties between the last expert chosen and the next, bias off:")
    rows = [
        ("regime", "rows", "tied", "one ulp", "other experts by lower index", "other tokens: alone", "after")
    ]
    for regime, ties in report.near_ties.items():
        counts = (
            ties.rows,
            ties.exact,
            ties.one_ulp,
            ties.other_experts,
            ties.tokens_alone,
            ties.tokens_after,
        )
        rows.append((regime, *counts))
    print_table(rows)
    for failure in report.failures:
        print(f"FAIL {failure.case.name}: {failure.detail}")
    print(f"{report.passed} passed, {len(report.red)} failed, {report.seconds:.1f} s")
