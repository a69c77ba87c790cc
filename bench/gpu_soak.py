"""Millions of seeded rows through every variant: the same bits as the pair, and as the cpu device.

    python bench/gpu_soak.py [--device cuda] [--rows 10000000] [--batch 8192] [--seconds 60] [--out FILE]

Each batch has a gate of its own, of one of three kinds: dense, as in a checkpoint; wild, of every exponent,
with infinities and NaN; planted (docs/contract.md section 8), whose rows add up one or two vectors of logits
full of ties. All its rows go through the pair and every fused variant at once. A slice of 1 to 8 rows goes
through all again by itself, and through the pair on the cpu device; there the raw logits are compared too.
The ways to launch (Device.kernels) take turns. Exit code 1 if a bit differs or fewer rows than asked were
compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from atomic import write_json
from tqdm import tqdm

import qwisp_native as qn
from qwisp_native.gates.compare import differences
from qwisp_native.gates.inputs import Half, Planted, dense
from qwisp_native.gates.routing import Arrays, route
from qwisp_native.gates.targets import wild
from qwisp_native.settings import VARIANTS

HIDDEN = 512
SHAPES = ((256, 8), (256, 8), (128, 8), (256, 32), (64, 6), (8, 1), (248, 4))
"""(experts, top_k) of the batches in turn; the first is the usual one."""
MOST_TOLD = 20

Rng = np.random.Generator
Route = Callable[..., Arrays]


@dataclass
class Found:
    """What a soak did: rows that were compared with the pair (by variant) and with the cpu device."""

    device: str = ""
    seed: int = 0
    batches: int = 0
    rows: int = 0
    by_variant: dict[str, int] = field(default_factory=dict)
    by_kind: dict[str, int] = field(default_factory=dict)
    by_launch: dict[str, int] = field(default_factory=dict)
    rows_on_the_cpu: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0


def planted(rng: Rng, rows: int, experts: int, hidden: int) -> Planted:
    """Rows of one or two entries at the heads of groups, so that logits are sums of two vectors of biases."""
    groups = hidden // 64
    x = np.zeros((rows, hidden), np.float16)
    for factors in ((1.0, 0.5, 2.0, -1.0), (0.0, 0.0, 1.0, 0.25)):
        x[np.arange(rows), 64 * rng.integers(0, groups, rows)] += rng.choice(factors, rows).astype(np.float16)
    biases = rng.normal(0, 2, (experts, groups))
    coarse = rng.random(groups) < 0.7
    biases[:, coarse] = np.rint(4 * biases[:, coarse]) / 4
    zeros = np.zeros((experts, groups), np.float16)
    weight = np.zeros((experts, hidden), np.uint8)
    return Planted(x, weight, zeros, biases.astype(np.float16), np.zeros((rows, 0), np.float16))


KINDS: dict[str, Callable[[Rng, int, int, int], Planted]] = {"dense": dense, "wild": wild, "planted": planted}


def soak(
    device: qn.Device, rows: int, batch: int, *, seconds: float, seed: int = 0, route: Route = route
) -> Found:
    """Runs batches until `rows` are compared, `seconds` have passed, or MOST_TOLD differences are found."""
    start = time.perf_counter()
    cpu = qn.Device("cpu")
    pools = _pools(seed, batch)
    launches = device.kernel_names or [""]
    before = device.kernels
    found = Found(f"{device.kind} ({device.name})", seed)
    try:
        with tqdm(total=rows, unit=" rows", unit_scale=True, disable=None, leave=False) as bar:
            while found.rows < rows and len(found.wrong) < MOST_TOLD:
                if time.perf_counter() - start > seconds:
                    break
                launch = launches[found.batches % len(launches)]
                if launch:
                    device.kernels = launch
                bar.update(_batch(device, cpu, pools, found, route))
    finally:
        if before:
            device.kernels = before
    found.seconds = round(time.perf_counter() - start, 3)
    return found


def _pools(seed: int, batch: int) -> dict[str, Half]:
    """The rows of each kind: gates differ from batch to batch, so that their logits do."""
    rng = np.random.default_rng([seed, batch])
    return {name: make(rng, batch, 8, HIDDEN).x for name, make in KINDS.items()}


def _batch(device: qn.Device, cpu: qn.Device, pools: dict[str, Half], found: Found, route: Route) -> int:
    number, launch = found.batches, device.kernels
    rng = np.random.default_rng([found.seed, number])
    kind = list(KINDS)[number % len(KINDS)]
    experts, top_k = SHAPES[number // len(KINDS) % len(SHAPES)]
    case, x = KINDS[kind](rng, 1, experts, HIDDEN), pools[kind]
    few = min(1 + number % 8, len(x))
    first = int(rng.integers(0, len(x) - few + 1))
    part = slice(first, first + few)
    gate = case.gate(device)
    pair = route(gate, x, top_k, "pair", logits=False)
    want = route(case.gate(cpu), x[part], top_k, "pair")
    where = f"batch {number}, {kind}, E={experts}, K={top_k}, launch '{launch}'"

    def told(what: str, text: str | None) -> None:
        if text:
            found.wrong.append(f"{where}: {what}: {text}")

    told("pair against cpu", differences({k: v[part] for k, v in pair.items()}, _without_logits(want)))
    for variant in VARIANTS:
        if variant != "pair":
            told(variant, differences(route(gate, x, top_k, variant, logits=False), pair))
            found.by_variant[variant] = found.by_variant.get(variant, 0) + len(x)
        text = differences(route(gate, x[part], top_k, variant), want)
        told(f"{variant}, {few} rows from {first} against cpu", text)
    found.batches += 1
    found.rows += len(x)
    found.rows_on_the_cpu += few
    found.by_kind[kind] = found.by_kind.get(kind, 0) + len(x)
    found.by_launch[launch] = found.by_launch.get(launch, 0) + len(x)
    return len(x)


def _without_logits(arrays: Arrays) -> Arrays:
    return {key: value for key, value in arrays.items() if key != "logits"}


def main(arguments: Sequence[str] | None = None) -> int:
    """0, or 1 if a bit differs or time ran out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda", "metal"), default="cuda")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=8192, help="rows of a batch; default 8192")
    parser.add_argument("--seconds", type=float, default=120.0, help="at most; default 120")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write what was found as JSON")
    options = parser.parse_args(arguments)
    for name in ("rows", "batch"):
        if getattr(options, name) < 1:
            parser.error(f"--{name}: {getattr(options, name)}, but it must be at least 1")
    device = qn.Device(options.device)
    found = soak(device, options.rows, options.batch, seconds=options.seconds, seed=options.seed)
    if options.out:
        write_json(options.out, {"kind": "gpu_soak", "asked": options.rows, **asdict(found)})
    print(f"{found.device}: {found.rows} rows in {found.batches} batches, {found.seconds:.1f} s;", end=" ")
    print(f"{found.rows_on_the_cpu} of them on the cpu device; {len(found.wrong)} differences")
    for text in found.wrong:
        print(f"DIFFERS {text}")
    if found.rows < options.rows:
        print(f"stopped before {options.rows} rows")
    return 1 if found.wrong or found.rows < options.rows else 0


if __name__ == "__main__":
    sys.exit(main())
