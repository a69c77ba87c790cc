"""`qwisp-native bench`: variants timed against each other, and `bench compare`: two reports."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..settings import VARIANTS
from .output import print_json

if TYPE_CHECKING:
    from ..bench import Options

SUMMARY = "time the variants against each other, and say whether a win is one"
DESCRIPTION = (
    "Time the variants against each other on made-up gates: interleaved, compared bit for bit, and VOID "
    "where the numbers cannot be believed. Exit code 3 if a result is VOID. docs/benchmarks.md explains them."
)
VOID = 3


def _natural(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number, 1 or more")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}, expected seconds, above 0")
    return value


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what `bench` and `tune` share."""
    parser.add_argument(
        "--device", choices=("cpu", "cuda", "metal"), help="default: QWISP_DEVICE, or the best there is"
    )
    parser.add_argument("--rows", type=_natural, nargs="+", default=[1, 2, 4, 8], metavar="M")
    parser.add_argument("--hidden", type=_natural, default=2048, metavar="H")
    parser.add_argument("--experts", type=_natural, default=256, metavar="E")
    parser.add_argument("--top-k", type=_natural, default=8, metavar="K")
    parser.add_argument("--layers", type=_natural, default=40, metavar="L", help="routes a command buffer")
    parser.add_argument(
        "--encoder", choices=("serial", "concurrent"), default="serial", help="default: serial"
    )
    parser.add_argument(
        "--cold",
        type=_natural,
        nargs="?",
        const=0,
        metavar="MIB",
        help="more gates than the last-level cache holds (its size, if the system does not tell it)",
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--repeats", type=_natural, metavar="N", help="rounds of each shape")
    length.add_argument(
        "--budget", type=_seconds, default=120.0, metavar="SECONDS", help="for all shapes (default 120)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of gates and rows (default 0)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write report.json, report.md and figures")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `bench`."""
    add_options(parser)
    parser.add_argument(
        "--arms",
        nargs="+",
        choices=VARIANTS,
        default=list(VARIANTS),
        help="the baseline first; a name may come twice (default: all)",
    )
    commands = parser.add_subparsers(dest="what", metavar="compare")
    told = "two reports, of two machines or two commits"
    sub = commands.add_parser("compare", help=told, description=f"Compare {told}.")
    sub.add_argument("first", type=Path, help="a report.json")
    sub.add_argument("second", type=Path, help="another")
    sub.add_argument("--json", action="store_true", help="print one JSON object")
    sub.set_defaults(run=run_compare)


def run(options: argparse.Namespace) -> int:
    """Measure, report; 3 if anything is VOID."""
    report = make_report(options, tuple(options.arms))
    return show(report, options)


def make_report(options: argparse.Namespace, arms: tuple[str, ...]) -> dict[str, Any]:
    """Measure what the command line asks for, with a bar on a terminal."""
    from tqdm import tqdm

    from .. import Device, bench

    asked = _options(options, arms)
    device = Device(options.device)
    weights = {rows: rows / sum(asked.rows) for rows in asked.rows}
    done = dict.fromkeys(asked.rows, 0.0)
    form = "{desc} {percentage:3.0f}% |{bar}| {elapsed}"
    hidden = not sys.stderr.isatty()
    with tqdm(total=1.0, bar_format=form, leave=False, file=sys.stderr, disable=hidden) as bar:

        def tell(rows: int, part: float) -> None:
            bar.set_description(f"rows {rows}", refresh=False)
            bar.update((part - done[rows]) * weights[rows])
            done[rows] = part

        return bench.run(device, asked, tell)


def _options(options: argparse.Namespace, arms: tuple[str, ...]) -> Options:
    from ..bench import Options
    from ..bench.environment import cold_blocks, last_level_cache

    blocks = 1
    if options.cold is not None:
        cache = options.cold << 20 if options.cold else last_level_cache()
        blocks = cold_blocks(options.hidden, options.experts, options.layers, cache)
    return Options(
        rows=tuple(options.rows),
        hidden=options.hidden,
        experts=options.experts,
        top_k=options.top_k,
        arms=arms,
        layers=options.layers,
        encoder=options.encoder,
        repeats=options.repeats,
        budget=options.budget,
        blocks=blocks,
        seed=options.seed,
    )


def show(report: dict[str, Any], options: argparse.Namespace) -> int:
    """Print and write; the exit code."""
    from .. import bench

    if options.json:
        print_json(report)
    else:
        print(bench.as_markdown(report))
    if options.out:
        files = bench.write(report, options.out) + _figures(report, options.out)
        print(f"wrote {', '.join(map(str, files))}", file=sys.stderr)
    return VOID if any(result["decision"] == "VOID" for result in report["results"]) else 0


def _figures(report: dict[str, Any], folder: Path) -> list[Path]:
    from ..bench import plots

    try:
        return plots.draw(report, folder)
    except ImportError:
        print(plots.NEEDS, file=sys.stderr)
        return []


def run_compare(options: argparse.Namespace) -> int:
    """Read two reports, compare, print."""
    from .. import bench

    compared = bench.compare(bench.read(options.first), bench.read(options.second))
    if options.json:
        print_json(compared)
    else:
        print(bench.comparison_as_markdown(compared))
    return 0
