"""Makes small checkpoints of router gates for the tests: tensors by name, then a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from qwisp_native.quantize import quantize

EXPERTS, HIDDEN, TOP_K = 16, 512, 4
PARTS = ("weight", "scales", "biases")
Tensors = dict[str, np.ndarray]

CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": HIDDEN,
    "num_experts": EXPERTS,
    "num_experts_per_tok": TOP_K,
    "norm_topk_prob": True,
}


def gate_tensors(
    layers: Sequence[int] = (0, 1), prefix: str = "model", experts: int = EXPERTS, hidden: int = HIDDEN
) -> Tensors:
    """Quantised gates of these layers, among tensors that look like gates and are none."""
    tensors: Tensors = {f"{prefix}.embed_tokens.weight": np.zeros((4, 8), np.uint32)}
    for layer in layers:
        rng = np.random.default_rng(layer)
        block = f"{prefix}.layers.{layer}.mlp"
        arrays = quantize(rng.standard_normal((experts, hidden)).astype(np.float16))
        tensors |= {f"{block}.gate.{part}": getattr(arrays, part) for part in PARTS}
        for name in ("switch_mlp.gate_proj", "shared_expert.gate_proj", "shared_expert_gate", "gate_up_proj"):
            tensors |= {f"{block}.{name}.{part}": np.zeros((2, 3), np.float16) for part in PARTS}
        tensors[f"{prefix}.layers.{layer}.post_attention_layernorm.weight"] = np.ones(hidden, np.float16)
    return tensors


def quantization(modules: Sequence[str], **overrides: Any) -> dict[str, Any]:
    """Make the block that mlx-lm writes: the body at 4 bits, each gate by name."""
    gate = {"group_size": 64, "bits": 8} | overrides
    return {"group_size": 64, "bits": 4, "mode": "affine"} | {module: dict(gate) for module in modules}


def gate_modules(tensors: Mapping[str, Any]) -> list[str]:
    return [name.removesuffix(".weight") for name in tensors if name.endswith("mlp.gate.weight")]


def write(folder: Path, tensors: Tensors, config: Mapping[str, Any] | None = None, shards: int = 1) -> Path:
    """One file, or `shards` files with an index; the parts of a gate end up in different files."""
    folder.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save_file(tensors, folder / "model.safetensors")
        return folder
    weight_map = {
        name: f"model-{1 + i % shards:05d}-of-{shards:05d}.safetensors"
        for i, name in enumerate(sorted(tensors))
    }
    for shard in set(weight_map.values()):
        save_file({name: tensors[name] for name in tensors if weight_map[name] == shard}, folder / shard)
    index = {"metadata": {"total_size": 0}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def write_raw(file: Path, tensors: Mapping[str, tuple[str, Sequence[int], int]]) -> Path:
    """Write a file of zeros whose header says: name -> (safetensors dtype, shape, bytes an element)."""
    header: dict[str, Any] = {}
    end = 0
    for name, (dtype, shape, width) in tensors.items():
        begin, end = end, end + int(np.prod(shape)) * width
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(end))
    return file
