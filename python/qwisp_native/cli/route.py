"""`qwisp-native route`: rows through one router of a checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..settings import VARIANTS
from .output import print_json, print_table

if TYPE_CHECKING:
    from .. import RoutePlan
    from ..settings import Fuse

SUMMARY = "route rows through one layer of a checkpoint"
DESCRIPTION = "Route rows of hidden state through one router gate of an MLX-format checkpoint."

FUSE: dict[str, Fuse] = {
    "0": False,
    "1": True,
    "auto": "auto",
    **{name: name for name in VARIANTS},
}


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number, 0 or more")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `route`."""
    parser.add_argument("checkpoint", type=Path, help="a folder, a .safetensors file or its .index.json")
    parser.add_argument(
        "--layer", type=_natural, required=True, metavar="N", help="the layer, counted from 0"
    )
    parser.add_argument(
        "--x", type=Path, metavar="FILE.npy", help="float16 [rows, hidden]; without it random rows are routed"
    )
    parser.add_argument("--rows", type=_natural, metavar="M", help="how many random rows (default 4)")
    parser.add_argument("--seed", type=_natural, metavar="S", help="of the random rows (default 0)")
    parser.add_argument("--top-k", type=int, metavar="K", help="default: what the checkpoint says")
    parser.add_argument(
        "--fuse", choices=FUSE, help="as QWISP_FUSE_ROUTE, or `pair`; default: what that says"
    )
    parser.add_argument(
        "--device", choices=("cpu", "cuda", "metal"), help="default: QWISP_DEVICE, or the best there is"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def random_rows(rows: int, hidden: int, seed: int) -> np.ndarray[Any, np.dtype[np.float16]]:
    """Make rows of the size that a norm leaves: mean square 1."""
    return np.random.default_rng(seed).standard_normal((rows, hidden), np.float32).astype(np.float16)


def run(options: argparse.Namespace) -> int:
    """Load, route, print."""
    from .. import Device, load_gates, repeated_rows

    if options.x is not None and (options.rows is not None or options.seed is not None):
        options.usage_error("--rows and --seed are for random rows, and --x gives the rows")
    checkpoint = load_gates(options.checkpoint)
    weights = checkpoint[options.layer]
    device = Device(options.device)
    fuse = None if options.fuse is None else FUSE[options.fuse]
    router = checkpoint.router(device, options.layer, top_k=options.top_k, fuse=fuse)
    if options.x is None:
        seed = options.seed or 0
        x = random_rows(4 if options.rows is None else options.rows, weights.hidden, seed)
        origin: dict[str, Any] = {"random": True, "seed": seed}
        told = f"random (no --x was given), seed {seed}"
    else:
        x = _load_rows(options.x)
        origin = {"random": False, "file": str(options.x)}
        told = f"from {options.x}"
    inds, scores = router(x)
    plan = router.plan(len(x))
    repeats = np.flatnonzero(repeated_rows(inds))

    if options.json:
        print_json(
            {
                "checkpoint": str(options.checkpoint),
                "layer": options.layer,
                "gate": weights.name,
                "experts": weights.experts,
                "hidden": weights.hidden,
                "top_k": router.top_k,
                "device": {"kind": device.kind, "name": device.name, "contract": device.contract},
                "plan": plan_as_json(plan),
                "x": origin,
                "inds": inds,
                "scores": scores,
                "rows_with_repeats": repeats,
            }
        )
        return 0
    print(f"{weights.name}: {weights.experts} experts, {weights.hidden} columns, top {router.top_k}")
    kernels = " + ".join(plan.kernels) or "nothing to run"
    print(f"device {device.kind} ({device.name}), {plan.variant}: {kernels}")
    print(f"x: {len(x)} rows, {told}")
    if len(x):
        rows = (
            (row, "  ".join(f"{expert:3d} {float(score):.4f}" for expert, score in zip(*pair, strict=True)))
            for row, pair in enumerate(zip(inds.tolist(), scores.tolist(), strict=True))
        )
        print_table([("row", "expert and score, in order of choice"), *rows])
    if repeats.size:
        print(f"rows that name an expert more than once (NaN or -inf): {', '.join(map(str, repeats))}")
    return 0


def plan_as_json(plan: RoutePlan) -> dict[str, Any]:
    """Describe a plan in JSON's types."""
    return {
        "variant": plan.variant,
        "kernels": list(plan.kernels),
        "dispatches": plan.dispatches,
        "reason": plan.reason,
    }


def _load_rows(path: Path) -> np.ndarray[Any, np.dtype[Any]]:
    try:
        rows = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: not a .npy file of numbers ({error})") from None
    if not isinstance(rows, np.ndarray):
        raise ValueError(f"{path}: an archive of arrays, expected one array in a .npy file")
    return rows
