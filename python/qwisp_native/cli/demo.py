"""`qwisp-native demo`: the whole thing on a made-up gate of the seed model's shape."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..settings import VARIANTS
from .output import print_table, progress
from .route import random_rows

if TYPE_CHECKING:
    from .. import Checkpoint, Device

SUMMARY = "route a made-up checkpoint by every variant and compare the bits (no arguments needed)"
DESCRIPTION = (
    "Make a checkpoint with a gate of the seed model's shape, load it, route rows by the pair of kernels and "
    "by every fused variant, compare the bits, and show the tie order and the dispatches saved."
)

HIDDEN, EXPERTS, TOP_K, LAYERS = 2048, 256, 8, 40
ROWS = (1, 2, 8, 25)
# The experts that docs/contract.md, section 3, chooses among equals.
EQUAL_ORDER = [0, 128, 64, 192, 32, 160, 96, 224]
TOP_TWO_ORDER = [2, 1, 0, 128, 64, 192, 32, 160]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `demo`."""
    parser.add_argument(
        "--device", choices=("cpu", "cuda", "metal"), help="default: QWISP_DEVICE, or the best there is"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="leave the checkpoint here, in a new folder"
    )


def run(options: argparse.Namespace) -> int:
    """Do all of it; 1 if any bit or order is not as it must be."""
    from .. import Device

    if options.keep and options.keep.exists():
        raise FileExistsError(f"--keep: {options.keep} exists, expected a new folder")
    start = time.perf_counter()
    device = Device(options.device)
    print(f"device {device.kind} ({device.name})\n")
    with tempfile.TemporaryDirectory(prefix="qwisp-native-") as temporary:
        folder = options.keep or Path(temporary) / "checkpoint"
        checkpoint = make_checkpoint(folder)
    alike = compare_variants(device, checkpoint)
    ordered = show_ties(device)
    show_dispatches(device)
    print(f"\n{'all as it must be' if alike and ordered else 'FAILED'}, {time.perf_counter() - start:.1f} s")
    if options.keep:
        print(f"next: qwisp-native route {options.keep} --layer 0")
    return 0 if alike and ordered else 1


def make_checkpoint(folder: Path, seed: int = 0) -> Checkpoint:
    """Write a random gate as mlx-lm would, and load it back."""
    from safetensors.numpy import save_file

    from .. import load_gates
    from ..quantize import quantize

    dense = np.random.default_rng(seed).standard_normal((EXPERTS, HIDDEN), np.float32) / np.sqrt(HIDDEN / 4)
    module = "model.layers.0.mlp.gate"
    parts = quantize(dense.astype(np.float32))._asdict()
    config: dict[str, Any] = {
        "model_type": "qwen3_moe",
        "hidden_size": HIDDEN,
        "num_experts": EXPERTS,
        "num_experts_per_tok": TOP_K,
        "norm_topk_prob": True,
        "quantization": {"bits": 4, "group_size": 64, module: {"bits": 8, "group_size": 64}},
    }
    folder.mkdir(parents=True)
    file = folder / "model.safetensors"
    save_file({f"{module}.{part}": array for part, array in parts.items()}, file, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    checkpoint = load_gates(folder)
    print(f"1. A checkpoint with a gate of {EXPERTS} experts and {HIDDEN} columns, 8 bits in groups of 64")
    size = file.stat().st_size / 2**20
    print(f"  {file}, {size:.2f} MiB; loaded {checkpoint[0].name}, top {checkpoint.top_k}")
    return checkpoint


def compare_variants(device: Device, checkpoint: Checkpoint) -> bool:
    """Route the same rows by every variant; whether all bits agree."""
    routers = {name: checkpoint.router(device, 0, fuse=name) for name in VARIANTS}
    alike = True
    table: list[tuple[object, ...]] = [("rows", "variant", "dispatches", "experts", "scores", "logits")]
    for rows in progress(ROWS, "routing"):
        x = random_rows(rows, HIDDEN, seed=rows)
        reference = routers["pair"](x, return_logits=True)
        table.append((rows, "pair", routers["pair"].plan(rows).dispatches, "reference", "", ""))
        for name in VARIANTS[1:]:
            found = routers[name](x, return_logits=True)
            verdicts = [
                "equal bits" if found[i].tobytes() == reference[i].tobytes() else "DIFFERENT"
                for i in range(len(reference))
            ]
            alike &= "DIFFERENT" not in verdicts
            table.append((rows, name, routers[name].plan(rows).dispatches, *verdicts))
    print("\n2. The same rows by the pair of kernels and by every fused variant")
    print_table(table)
    return alike


def show_ties(device: Device) -> bool:
    """Plant tied logits; whether every variant chooses in the contract's order."""
    from .. import Gate, Router

    hidden = 512
    logits = np.zeros((2, EXPERTS), np.float16)
    logits[1] = -1
    logits[1, [1, 2]] = 5
    # A row that is 1 at column 64 m and a gate of biases alone give the logits of row m exactly.
    x = np.zeros((len(logits), hidden), np.float16)
    biases = np.zeros((EXPERTS, hidden // 64), np.float16)
    for row, planted in enumerate(logits):
        x[row, 64 * row] = 1
        biases[:, row] = planted
    gate = Gate(device, np.zeros((EXPERTS, hidden), np.uint8), np.zeros_like(biases), biases)
    chosen = {name: Router(gate, TOP_K, fuse=name)(x)[0].tolist() for name in VARIANTS}

    print("\n3. Ties go to the index whose bits, reversed, are smallest: the order of the tree of maxima")
    for row, told in enumerate(("all 256 logits equal", "experts 1 and 2 tied above the rest")):
        print(f"  {told}")
        print_table(((name, " ".join(map(str, inds[row]))) for name, inds in chosen.items()), indent="    ")
    return all(inds == [EQUAL_ORDER, TOP_TWO_ORDER] for inds in chosen.values())


def show_dispatches(device: Device) -> None:
    """Count the dispatches of one token through all layers."""
    from .. import plan

    pair = plan(device, 1, HIDDEN, EXPERTS, TOP_K, fuse="pair").dispatches * LAYERS
    print(f"\n4. Dispatches that routing costs one token in a model of {LAYERS} layers")
    table: list[tuple[object, ...]] = [("variant", "dispatches", "saved"), ("pair", pair, 0)]
    for name in VARIANTS[1:]:
        fused = plan(device, 1, HIDDEN, EXPERTS, TOP_K, fuse=name).dispatches * LAYERS
        table.append((name, fused, pair - fused))
    print_table(table)
