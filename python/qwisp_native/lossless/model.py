"""The small language model: its config, and its weights as the engine wants them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checkpoint import Checkpoint, load_gates
from ..checkpoint.files import find_files, read_header, read_json, read_tensors

F32 = NDArray[np.float32]

DATA = Path(__file__).parent / "data"
"""Where the model of this package lies."""

GROUP = 64
BITS = 8
BYTES = 256  # the tokens


@dataclass(frozen=True)
class Config:
    """Sizes of a Qwen3-MoE, under the names of this package."""

    hidden: int
    layers: int
    experts: int
    top_k: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    rope_theta: float
    norm_eps: float

    @staticmethod
    def read(config: Mapping[str, Any], place: str) -> Config:
        """Read config.json as Hugging Face names it.

        Raises:
            ValueError: a field is missing or has a value that this engine does not cover.

        """

        def number(key: str, kind: type = int) -> Any:
            value: Any = config.get(key)
            kinds = (int,) if kind is int else (int, float)
            if not isinstance(value, kinds) or isinstance(value, bool) or value <= 0:
                raise ValueError(f"{place}: {key} is {value!r}, expected a positive {kind.__name__}")
            return value

        wanted = {"norm_topk_prob": True, "tie_word_embeddings": True}
        wanted_quantization = {"group_size": GROUP, "bits": BITS}
        for key, value in wanted.items():
            if config.get(key) is not value:
                raise ValueError(f"{place}: {key} is {config.get(key)!r}, the engine covers {value}")
        found = config.get("quantization")
        if not isinstance(found, dict) or any(found.get(k) != v for k, v in wanted_quantization.items()):
            raise ValueError(f"{place}: quantization is {found!r}, the engine covers {wanted_quantization}")
        read = Config(
            hidden=number("hidden_size"),
            layers=number("num_hidden_layers"),
            experts=number("num_experts"),
            top_k=number("num_experts_per_tok"),
            inner=number("moe_intermediate_size"),
            heads=number("num_attention_heads"),
            kv_heads=number("num_key_value_heads"),
            head_dim=number("head_dim"),
            vocabulary=number("vocab_size"),
            rope_theta=float(number("rope_theta", float)),
            norm_eps=float(number("rms_norm_eps", float)),
        )
        if read.vocabulary != BYTES:
            raise ValueError(f"{place}: vocab_size is {read.vocabulary}, the tokens are the {BYTES} bytes")
        if read.heads % read.kv_heads or read.head_dim % 2:
            raise ValueError(
                f"{place}: {read.heads} heads over {read.kv_heads} of keys, {read.head_dim} wide; expected a"
                " multiple, and an even width"
            )
        return read


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer in float32, matrices stacked so that a row needs few products."""

    input_norm: F32  # [H]
    qkv: F32  # [(heads + 2 kv_heads) d, H]
    qk_norm: F32  # [heads + kv_heads, d]
    output: F32  # [H, heads d]
    post_norm: F32  # [H]
    gate_up: F32  # [E, 2 I, H]
    down: F32  # [E, I, H]


@dataclass(frozen=True, eq=False)
class Model:
    """What the engine computes with; gates stay as the checkpoint has them."""

    config: Config
    embedding: F32  # [V, H], also the head
    norm: F32  # [H]
    layers: tuple[Layer, ...]
    gates: Checkpoint
    sha256: str  # of the files of tensors, in order


def dequantize(weight: NDArray[np.uint32], scales: NDArray[Any], biases: NDArray[Any]) -> F32:
    """MLX affine, 8 bits, groups of 64: scale * code + bias in float32.

    Args:
        weight: uint32 [..., N/4], four codes a word, the lowest byte first.
        scales: float16 [..., N/64].
        biases: float16 [..., N/64].

    Returns:
        float32 [..., N].

    """
    codes = np.ascontiguousarray(weight).astype("<u4").view(np.uint8).astype(np.float32)
    grouped = codes.reshape(*scales.shape, GROUP)
    grouped *= scales.astype(np.float32)[..., None]
    grouped += biases.astype(np.float32)[..., None]
    return grouped.reshape(codes.shape)


class _Tensors:
    """Tensors by name, dequantised, their shapes held against the config."""

    def __init__(self, arrays: dict[str, NDArray[Any]], place: Path) -> None:
        self.arrays = arrays
        self.place = place

    def take(self, name: str, *shape: int) -> F32:
        weight = self._array(f"{name}.weight")
        if f"{name}.scales" in self.arrays:
            scales, biases = self._array(f"{name}.scales"), self._array(f"{name}.biases")
            groups = (*weight.shape[:-1], weight.shape[-1] * 4 // GROUP)
            if weight.dtype != np.uint32 or scales.shape != groups or biases.shape != groups:
                raise ValueError(
                    f"{self.place}: {name}: {weight.dtype} {list(weight.shape)}, scales {list(scales.shape)},"
                    f" biases {list(biases.shape)}; expected MLX affine, {BITS} bits in groups of {GROUP}"
                )
            value = dequantize(weight, scales, biases)
        elif weight.dtype.kind == "f":
            value = weight.astype(np.float32)
        else:
            raise ValueError(f"{self.place}: {name}.weight is {weight.dtype}, without {name}.scales")
        if value.shape != shape:
            raise ValueError(f"{self.place}: {name} is {list(value.shape)}, config.json says {list(shape)}")
        if not np.isfinite(value).all():
            raise ValueError(f"{self.place}: {name} holds values that are not finite")
        return value

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self.arrays:
            raise ValueError(f"{self.place}: no tensor {name}")
        return self.arrays[name]


def load_model(path: str | os.PathLike[str] = DATA) -> Model:
    """Read a Qwen3-MoE of MLX's format whose tokens are bytes.

    Raises:
        OSError: a file is missing or cannot be read.
        ValueError: what the files hold is not what config.json says, or not what the engine covers.

    """
    files = find_files(Path(path))
    if files.config is None:
        raise FileNotFoundError(f"{path}: no config.json beside the tensors")
    c = Config.read(read_json(files.config), str(files.config))
    gates = load_gates(path)
    if list(gates) != list(range(c.layers)):
        raise ValueError(f"{path}: gates in layers {list(gates)}, config.json says {c.layers} layers")
    entries = [entry for file in files.tensors for entry in read_header(file).values()]
    tensors = _Tensors(read_tensors(entries), Path(path))
    total = hashlib.sha256()
    for file in files.tensors:
        total.update(file.read_bytes())
    return Model(
        config=c,
        embedding=tensors.take("model.embed_tokens", c.vocabulary, c.hidden),
        norm=tensors.take("model.norm", c.hidden),
        layers=tuple(_layer(tensors, c, f"model.layers.{index}") for index in range(c.layers)),
        gates=gates,
        sha256=total.hexdigest(),
    )


def _layer(tensors: _Tensors, c: Config, name: str) -> Layer:
    attention, experts = f"{name}.self_attn", f"{name}.mlp.switch_mlp"
    queries, keys = c.heads * c.head_dim, c.kv_heads * c.head_dim
    q_norm = tensors.take(f"{attention}.q_norm", c.head_dim)
    k_norm = tensors.take(f"{attention}.k_norm", c.head_dim)
    return Layer(
        input_norm=tensors.take(f"{name}.input_layernorm", c.hidden),
        qkv=np.concatenate(
            [
                tensors.take(f"{attention}.q_proj", queries, c.hidden),
                tensors.take(f"{attention}.k_proj", keys, c.hidden),
                tensors.take(f"{attention}.v_proj", keys, c.hidden),
            ]
        ),
        qk_norm=np.stack([q_norm] * c.heads + [k_norm] * c.kv_heads),
        output=tensors.take(f"{attention}.o_proj", c.hidden, queries),
        post_norm=tensors.take(f"{name}.post_attention_layernorm", c.hidden),
        gate_up=np.concatenate(
            [
                tensors.take(f"{experts}.gate_proj", c.experts, c.inner, c.hidden),
                tensors.take(f"{experts}.up_proj", c.experts, c.inner, c.hidden),
            ],
            axis=1,
        ),
        down=np.ascontiguousarray(
            tensors.take(f"{experts}.down_proj", c.experts, c.hidden, c.inner).transpose(0, 2, 1)
        ),
    )
