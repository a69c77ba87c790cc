"""Makes a small Qwen3-MoE with mlx-lm, lets mlx-lm convert it, and captures what its routers see on a text.

`python tests/mlx_checkpoint.py FOLDER` leaves the converted checkpoint in FOLDER and the hidden rows of each
layer beside it, as FOLDER-layer-N.npy: both are what `qwisp-native route` takes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map_with_path
from mlx_lm import convert, load
from mlx_lm.models import qwen3_moe
from mlx_lm.models.switch_layers import SwitchGLU
from mlx_lm.utils import quantize_model, save_config, save_model

EXPERTS, TOP_K, HIDDEN, LAYERS = 256, 8, 512, 2

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_experts": EXPERTS,
    "num_experts_per_tok": TOP_K,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 64,
    "rms_norm_eps": 1e-6,
    "vocab_size": 256,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "max_position_embeddings": 2048,
    "torch_dtype": "bfloat16",
}

TEXT = "For each token a router reads one row and names the experts that will work on it."


@dataclass(frozen=True)
class Choice:
    """What mlx-lm's own block made of some rows."""

    logits: np.ndarray  # [tokens, E]
    inds: np.ndarray  # [tokens, K], in no particular order
    scores: np.ndarray  # [tokens, K], in the same order


@dataclass(frozen=True)
class RouterState:
    """One layer of a model on a text.

    MLX's CPU device adds up float16 products in float16, so its logits are off by several units in the last
    place; `wide` is the same block on the same rows in float32.
    """

    x: np.ndarray  # float16 [tokens, H], the rows that the router saw
    own: Choice
    wide: Choice


def make_source(folder: Path, seed: int = 0) -> Path:
    """Write a random model as a hub would hold it: bfloat16, not quantised, with a tokeniser of bytes."""
    mx.random.seed(seed)
    model = qwen3_moe.Model(qwen3_moe.ModelArgs.from_dict(CONFIG))

    def vary(name: str, value: mx.array) -> mx.array:
        # A trained model's norms are no ones, and its gates are sharper than a fresh layer's.
        if name.endswith("layernorm.weight"):
            value = value * (1 + 0.3 * mx.random.normal(value.shape))
        elif name.endswith("mlp.gate.weight"):
            value = 3 * value
        return value.astype(mx.bfloat16)

    model.update(tree_map_with_path(vary, model.parameters()))
    save_model(folder, model)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_byte_tokenizer(folder)
    return folder


def save_byte_tokenizer(folder: Path) -> None:
    """Write a tokeniser whose tokens are the 256 bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=alphabet[0]).save_pretrained(folder)


def make_checkpoint(
    source: Path, target: Path, dtype: str = "float16", predicate: Callable[..., Any] | None = None
) -> Path:
    """Convert as `mlx_lm.convert -q --dtype float16` does: the body to 4 bits, the gates to 8."""
    convert(str(source), str(target), quantize=True, dtype=dtype, quant_predicate=predicate)
    return target


def make_quantized(folder: Path, model: Any, config: dict[str, Any], dtype: Any = mx.float16) -> Path:
    """Quantise any mlx-lm model with mlx-lm and save it, without a tokeniser."""
    model.set_dtype(dtype)
    model, config = quantize_model(model, config, 64, 4)
    save_model(folder, model)
    save_config(config, folder / "config.json")
    return folder


def route_text(checkpoint: Path, text: str = TEXT) -> list[RouterState]:
    """Run the model on a text; one state a layer."""
    model, tokenizer = load(str(checkpoint))[:2]
    with _experts(SwitchGLU.__call__) as calls:
        model(mx.array([tokenizer.encode(text)]))
    mx.eval(calls)  # the last layer's experts are never needed
    states = []
    for layer, (x, inds) in zip(model.layers, calls, strict=True):
        own = _choice(layer.mlp, x, inds)
        layer.mlp.gate.set_dtype(mx.float32)
        states.append(RouterState(np.array(x[0]), own, route_rows(layer.mlp, x.astype(mx.float32))))
    return states


def route_rows(block: Any, x: mx.array) -> Choice:
    """What a block's router makes of rows [1, tokens, H]; its experts do nothing."""
    with _experts(lambda self, x, indices: mx.zeros((*indices.shape, x.shape[-1]))) as calls:
        block(x)
    return _choice(block, *calls[0])


def router_rows(model: Any, text: bytes) -> list[np.ndarray]:
    """What each layer's router is given, [tokens, H]; tokens are bytes."""
    with _experts(SwitchGLU.__call__) as calls:
        model(mx.array([list(text)]))
    mx.eval(calls)
    return [np.array(x[0]) for x, _ in calls]


def _choice(block: Any, x: mx.array, inds: mx.array) -> Choice:
    logits = block.gate(x)
    scores = mx.take_along_axis(mx.softmax(logits, axis=-1, precise=True), inds, axis=-1)
    scores = scores / mx.sum(scores, axis=-1, keepdims=True)
    return Choice(*(np.array(a[0]) for a in (logits, inds, scores)))


@contextmanager
def _experts(run: Callable[[Any, mx.array, mx.array], mx.array]) -> Iterator[list[tuple[mx.array, mx.array]]]:
    """Let `run` stand for the experts, and record what they are given: the router's rows, and its choice."""
    calls: list[tuple[mx.array, mx.array]] = []
    original = SwitchGLU.__call__

    def record(self: Any, x: mx.array, indices: mx.array) -> mx.array:
        calls.append((x, indices))
        return run(self, x, indices)

    SwitchGLU.__call__ = record
    try:
        yield calls
    finally:
        SwitchGLU.__call__ = original


def load_tensors(folder: Path) -> dict[str, mx.array]:
    """Load every tensor of a folder with MLX."""
    tensors = mx.load(str(folder / "model.safetensors"))
    assert isinstance(tensors, dict)
    return tensors


def gate_weights(source: Path) -> dict[str, np.ndarray]:
    """Read the dense gates of a source model, rounded to float16."""
    return {
        name.removesuffix(".weight"): np.array(weight.astype(mx.float16))
        for name, weight in load_tensors(source).items()
        if name.endswith("mlp.gate.weight")
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a folder that does not exist yet")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        checkpoint = make_checkpoint(make_source(Path(temporary), options.seed), options.folder)
    for layer, state in enumerate(route_text(checkpoint)):
        np.save(checkpoint.with_name(f"{checkpoint.name}-layer-{layer}.npy"), state.x)


if __name__ == "__main__":
    main()
