"""The model's folder: mlx-lm's tensor names, MLX affine 8-bit weights; and back to float32.

Needs numpy alone, because the machine that trains may have nothing else beside torch.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SPEC = importlib.util.spec_from_file_location(
    "quantize", Path(__file__).parents[2] / "python/qwisp_native/quantize.py"
)
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)  # the package's own quantiser, without building the package
GROUP = _MODULE.GROUP

Arrays = dict[str, NDArray[Any]]
_DTYPES = {"uint32": "U32", "float16": "F16"}


def config(layers: int, inner: int) -> dict[str, Any]:
    """config.json with the names of Hugging Face's Qwen3-MoE."""
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 0,
        "decoder_sparse_step": 1,
        "eos_token_id": 0,
        "head_dim": 64,
        "hidden_act": "silu",
        "hidden_size": 512,
        "initializer_range": 0.02,
        "intermediate_size": 8 * inner,
        "max_position_embeddings": 4096,
        "mlp_only_layers": [],
        "moe_intermediate_size": inner,
        "norm_topk_prob": True,
        "num_attention_heads": 8,
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "num_hidden_layers": layers,
        "num_key_value_heads": 2,
        "quantization": {"group_size": GROUP, "bits": 8},
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "float16",
        "vocab_size": 256,
    }


def quantized(weights: Arrays) -> Arrays:
    """Float weights by mlx-lm's names to what the file holds.

    A `.weight` of two or more dimensions whose last is a multiple of 64 becomes uint32 codes with float16
    `.scales` and `.biases`; everything else becomes float16.
    """
    held: Arrays = {}
    for name, value in weights.items():
        if value.ndim < 2 or value.shape[-1] % GROUP:
            held[name] = value.astype(np.float16)
            continue
        parts = _MODULE.quantize(np.ascontiguousarray(value.reshape(-1, value.shape[-1])))
        for part, array in zip(("weight", "scales", "biases"), parts, strict=True):
            held[name.removesuffix("weight") + part] = array.reshape(*value.shape[:-1], -1)
    return held


def dequantized(held: Arrays) -> Arrays:
    """The file's arrays to float32 weights: scale * code + bias, each code with those of its group."""
    weights: Arrays = {}
    for name, value in held.items():
        if name.endswith((".scales", ".biases")):
            continue
        if value.dtype != np.uint32:
            weights[name] = value.astype(np.float32)
            continue
        base = name.removesuffix("weight")
        codes = np.ascontiguousarray(value).view(np.uint8).astype(np.float32)
        codes = codes.reshape(*codes.shape[:-1], -1, GROUP)
        scales = held[base + "scales"].astype(np.float32)[..., None]
        biases = held[base + "biases"].astype(np.float32)[..., None]
        weights[name] = (scales * codes + biases).reshape(*value.shape[:-1], -1)
    return weights


def write_bytes(path: Path, data: bytes) -> None:
    """All of it or nothing."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    part.replace(path)


def write_json(path: Path, value: Any) -> None:
    write_bytes(path, (json.dumps(value, indent=1) + "\n").encode())


def write_safetensors(path: Path, arrays: Arrays) -> None:
    """The safetensors format: length of the header, header in JSON, the tensors one after the other."""
    header: dict[str, Any] = {"__metadata__": {"format": "mlx"}}
    at = 0
    for name, array in sorted(arrays.items()):
        header[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(np.ascontiguousarray(array).tobytes() for _, array in sorted(arrays.items()))
    write_bytes(path, len(text).to_bytes(8, "little") + text + data)
