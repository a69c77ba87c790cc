"""Ours on an NVIDIA GPU beside PyTorch, cuBLAS with fused top-ks, and the floors, in one interleaved run.

    python bench/cuda_peers.py [--rows 1 8] [--peers ours torch] [--budget 240] [--out DIR]

What is measured: the device's time for the whole route (gate, softmax, top-k, renormalised scores) of M rows
through each of 400 layers (hidden 2048, 256 experts, top 8), over 400. Warm: the layers take 40 sets of
weights in turn, which stay in the second-level cache; cold: 400 sets, which do not fit there. Ours: each
variant, encoded by the package's own host code into one command buffer, with and without programmatic
dependent launch; the time is the command buffer's own, GPUStartTime to GPUEndTime. The others: all layers
captured in one CUDA graph, timed by CUDA events. A sample follows an untimed pass of the same; in each round
every arm has one, in an order of its own. Before it is timed, an arm's answers are compared with those of our
pair on the cpu device: ours bit for bit, the others as sets of experts wherever their rounding cannot swap
two. The floors are a kernel that does nothing, and one that only reads the weights.

Exit code 1 if an arm routes otherwise, 2 if there is no cuda device.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from atomic import write_json
from gpu_peers import FAMILIES, report
from gpu_peers.measure import Job, Outcome, measure
from peers import TOP_K, versions
from peers.measure import EXPERTS, HIDDEN

import qwisp_native as qn
from qwisp_native import _core, bench

TEMPERATURES = {"warm": 40, "cold": 400}
DISTRIBUTIONS = ("numpy", "torch", "triton", "vllm", "sgl-kernel", "flashinfer-python")


def numbers(text: str) -> list[int]:
    """Of "1,8"; each at least 1."""
    found = [int(each) for each in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="NAME")
    parser.add_argument("--rows", type=numbers, default=[1, 2, 4, 8, 16, 32], metavar="M,M")
    parser.add_argument("--temperatures", nargs="+", choices=TEMPERATURES, default=list(TEMPERATURES))
    parser.add_argument("--layers", type=int, default=400)
    parser.add_argument("--repeats", type=int, help="rounds of each shape instead of a budget")
    parser.add_argument(
        "--budget", type=float, default=240.0, help="seconds in all, checks included; default 240"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("cuda_peers"), help="a folder; default: cuda_peers")
    options = parser.parse_args(arguments)
    most = max(TEMPERATURES[name] for name in options.temperatures)
    if options.layers < most:
        parser.error(f"--layers: {options.layers}, but it must be at least {most}, the sets of weights")
    if options.repeats is not None and options.repeats < 3:
        parser.error(f"--repeats: {options.repeats}, but it must be at least 3")
    return options


def machine(device: qn.Device) -> dict[str, Any]:
    """What a reader must know to compare."""
    told = ""
    if shutil.which("nvidia-smi"):
        fields = "name,driver_version,clocks.sm,clocks.mem,power.draw,temperature.gpu"
        command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv"]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout.strip()
    return {
        "gpu": device.name,
        "nvidia-smi": told,
        "platform": platform.platform(),
        "versions": versions(DISTRIBUTIONS),
        "shader_sha256": device.shader_sha256,
    }


def empty_dispatches(device: qn.Device) -> dict[str, Any]:
    """What a dispatch costs through our own host code, for each way to launch."""
    costs = {}
    chosen = device.kernels
    for launch in device.kernel_names:
        device.kernels = launch
        costs[launch] = bench.probe(device)["cost_us"]
    device.kernels = chosen
    return costs


def write(outcome: Outcome, about: dict[str, Any], folder: Path) -> str:
    """cuda_peers.json with every sample, cuda_peers.md; returns the latter."""
    found = report.comparisons(outcome)
    write_json(folder / "cuda_peers.json", {**about, **asdict(outcome), "comparisons": found})
    text = report.table(outcome, found)
    (folder / "cuda_peers.md").write_text(text)
    return text


def describe(device: qn.Device, options: argparse.Namespace) -> dict[str, Any]:
    """What was asked for, where."""
    return {
        "kind": "cuda_peers",
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(device),
        "shape": {"hidden": HIDDEN, "experts": EXPERTS, "top_k": TOP_K},
        "sets": {name: TEMPERATURES[name] for name in options.temperatures},
        "clocks": "ours: GPUStartTime to GPUEndTime of a command buffer; others: CUDA events around a graph",
        "options": {name: value for name, value in vars(options).items() if name != "out"},
        "dispatch_us": empty_dispatches(device),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """0, 1 if an arm routes otherwise than our pair, 2 without a cuda device."""
    options = parse(arguments)
    if why := _core.why_no_cuda_device():
        print(f"cuda_peers: no cuda device: {why}", file=sys.stderr)
        return 2
    job = Job(
        rows=tuple(options.rows),
        temperatures={name: TEMPERATURES[name] for name in options.temperatures},
        layers=options.layers,
        seconds=options.budget,
        repeats=options.repeats,
        seed=options.seed,
    )
    about = describe(qn.Device("cuda"), options)
    # After each shape: a run that is killed leaves what it has.
    outcome = measure(job, options.peers, tell=lambda part: write(part, about, options.out))
    print(write(outcome, about, options.out))
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
