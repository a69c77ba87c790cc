"""Ours on a CPU beside mlx, numpy, PyTorch and ggml, in one interleaved run: a table, JSON and a plot.

    python bench/cpu_peers.py [--quick] [--peers ours numpy] [--budget 900] [--out DIR]

What is measured: a call for the whole route from Python, waiting included, of M rows through each of 40 gates
in turn (hidden 2048, 256 experts, top 8; 20 MB of 8-bit weights, more where a peer holds them wider). A
sample is the time of one such round over 40. In each repeat every peer has one, in an order of its own. There
is a pause first, in which the helper threads of the peer before go to sleep, and rounds that are not timed:
they bring the peer's own weights back to where they lie while it runs alone (a cache that holds 20 MB, or
not). With --cold there are none, and each starts where another has just filled the caches. The floor
(reading 512 KB) takes its turns among them. Each number of threads has a process of its own, because most
libraries take it from the environment. Before it is timed, a peer's answers are compared with ours.
docs/cpu.md says what each row means.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

from peers import FAMILIES, TOP_K, report, versions
from peers.measure import EXPERTS, HIDDEN, Job, Outcome, measure

import qwisp_native as qn

THREAD_VARIABLES = (
    "QWISP_CPU_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
DISTRIBUTIONS = ("numpy", "mlx", "torch", "ggml_python")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line; --quick fills in what was left open."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="NAME")
    parser.add_argument("--threads", type=int, nargs="+")
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--sets", type=int)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--budget", type=float, default=900.0, help="seconds of timing in all; default: 900")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cold", action="store_true", help="no untimed rounds before each timed one")
    parser.add_argument("--quick", action="store_true", help="a smoke test, for no conclusion")
    parser.add_argument("--out", type=Path, default=Path("cpu_peers"), help="a folder; default: cpu_peers")
    options = parser.parse_args(arguments)
    usual, quick = ([1, 2], [1, 2, 4, 8, 32], 40, 50), ([1], [1, 2], 3, 3)
    for name, value in zip(
        ("threads", "rows", "sets", "repeats"), quick if options.quick else usual, strict=True
    ):
        given = getattr(options, name)
        if given is None:
            setattr(options, name, value)
        elif min(given if isinstance(given, list) else [given]) < 1:
            parser.error(f"--{name}: {given}, but it must be at least 1")
    return options


def run(options: argparse.Namespace) -> Outcome:
    """Measures each number of threads in a process that starts with it."""
    whole = Outcome()
    for threads in options.threads:
        job = Job(
            threads=threads,
            rows=tuple(options.rows),
            families=tuple(options.peers),
            sets=options.sets,
            repeats=options.repeats,
            seconds=options.budget / (len(options.threads) * len(options.rows)),
            seed=options.seed,
            cold=options.cold,
        )
        os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, context, initializer=_end_with_parent) as process:
            found = process.submit(measure, job).result()
        whole.cells += found.cells
        whole.skipped |= found.skipped
        whole.wrong |= found.wrong
    return whole


def _end_with_parent() -> None:
    """A killed bench must leave no one measuring."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def machine() -> dict[str, object]:
    """What a reader must know to compare."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    return {
        "processor": model or platform.processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": qn.Device("cpu").name,
        "versions": versions(DISTRIBUTIONS),
    }


def write(outcome: Outcome, options: argparse.Namespace) -> None:
    """cpu_peers.json with every sample, cpu_peers.md, cpu_peers.png."""
    options.out.mkdir(parents=True, exist_ok=True)
    asked = {name: value for name, value in vars(options).items() if name != "out"}
    shape = {"hidden": HIDDEN, "experts": EXPERTS, "top_k": TOP_K}
    everything = {"machine": machine(), "shape": shape, "options": asked, **asdict(outcome)}
    (options.out / "cpu_peers.json").write_text(json.dumps(everything, indent=1) + "\n")
    text = report.table(outcome, options.rows, options.threads)
    (options.out / "cpu_peers.md").write_text(text)
    print(text)
    try:
        report.plot(outcome, options.threads, options.out / "cpu_peers.png")
    except ImportError as error:
        print(f"no plot: {error} (extra `plot`)", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """0, or 1 if a peer routes otherwise than we do."""
    options = parse(arguments)
    outcome = run(options)
    write(outcome, options)
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
