"""A model of random weights in the format of the package's own, for tests of engine and gate."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from qwisp_native.quantize import quantize

CONFIG = {
    "model_type": "qwen3_moe",
    "hidden_size": 512,
    "num_hidden_layers": 2,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-6,
    "vocab_size": 256,
    # what mlx-lm wants besides
    "intermediate_size": 512,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "max_position_embeddings": 4096,
    "norm_topk_prob": True,
    "tie_word_embeddings": True,
    "quantization": {"group_size": 64, "bits": 8},
}


def write(folder: Path, *, seed: int = 0, twins: bool = False) -> Path:
    """Writes config.json and model.safetensors. `twins`: experts 1 and 2, 5 and 6, ... always tie."""
    rng = np.random.default_rng(seed)
    hidden, experts, inner, kv, heads = 512, 256, 4, 2 * 64, 8 * 64
    tensors: dict[str, NDArray[np.generic]] = {}

    def put(name: str, dense: NDArray[np.float64]) -> None:
        flat = quantize(dense.reshape(-1, dense.shape[-1]).astype(np.float16))
        for part, array in zip(("weight", "scales", "biases"), flat, strict=True):
            tensors[f"{name}.{part}"] = array.reshape(*dense.shape[:-1], -1)

    def norm(size: int) -> NDArray[np.float16]:
        return rng.uniform(0.5, 1.5, size).astype(np.float16)

    put("model.embed_tokens", rng.standard_normal((256, hidden)))
    # of random signs, or the likeliest token is always the last one
    tensors["model.norm.weight"] = norm(hidden) * rng.choice(np.array([-1, 1], np.float16), hidden)
    for layer in range(2):
        name = f"model.layers.{layer}"
        for part, rows in (("q", heads), ("k", kv), ("v", kv), ("o", hidden)):
            put(f"{name}.self_attn.{part}_proj", rng.standard_normal((rows, hidden)) / 8)
        for part in ("q", "k"):
            tensors[f"{name}.self_attn.{part}_norm.weight"] = norm(64)
        for part in ("input", "post_attention"):
            tensors[f"{name}.{part}_layernorm.weight"] = norm(hidden)
        gate = rng.standard_normal((experts, hidden)) / 12
        if twins:  # the contract takes the second of them first
            gate[2::4] = gate[1::4]
        put(f"{name}.mlp.gate", gate)
        for part in ("gate", "up"):
            put(f"{name}.mlp.switch_mlp.{part}_proj", rng.standard_normal((experts, inner, hidden)) / 8)
        tensors[f"{name}.mlp.switch_mlp.down_proj.weight"] = rng.standard_normal(
            (experts, hidden, inner)
        ).astype(np.float16)
    save_file(tensors, str(folder / "model.safetensors"))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder
