"""Which experts transformers and mlx-lm choose on the rows that the model's routers see, beside ours.

    python tests/model/agreement.py --corpus build/corpus.xz

The rows are those of transformers' own run of the model in float32 on held-out text, rounded to float16: what
an engine hands to a router. Every peer gets the same rows and the same 8-bit gate. Prints the table of
docs/lossless.md, and the figures of RouteStats on the same rows.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

import qwisp_native as qn
from folder import dequantized
from qwisp_native.tie_order import chosen, ordinals, reversed_bits

DATA = Path(qn.__file__).parent / "lossless" / "data"
NEAR = 4  # float16 values
Peer = Callable[[int, NDArray[np.float32]], dict[str, NDArray[Any]]]  # layer, rows -> experts by kind of run


@dataclass(frozen=True)
class Agreement:
    """One peer beside ours on the rows of one layer."""

    peer: str
    layer: int
    apart: NDArray[np.int32]  # [rows], how many float16 values the k-th and the next logit are apart
    same: NDArray[np.bool_]  # [rows], the same set of experts

    def of(self, rows: NDArray[np.bool_]) -> str:
        return f"{int(self.same[rows].sum()):,} of {int(rows.sum()):,}"

    def line(self) -> str:
        worst = int(self.apart[~self.same].max(initial=0))
        near = (self.apart > 0) & (self.apart <= NEAR)
        parts = (self.of(self.apart > NEAR), self.of(near), self.of(self.apart == 0))
        return f"| {self.peer} | {self.layer} | {' | '.join(parts)} | {worst} |"


HEADER = (
    f"| peer | layer | same set, over {NEAR} apart | 1 to {NEAR} apart | tied "
    "| farthest apart where sets differ |\n|---|---|---|---|---|---|"
)


def transformers_model(folder: Path) -> Any:
    """The model in transformers, float32, its weights as the file's codes stand for."""
    import torch
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    told = json.loads((folder / "config.json").read_text())
    del told["quantization"]  # of MLX, and undone here
    model = Qwen3MoeForCausalLM(Qwen3MoeConfig(**told | {"torch_dtype": "float32"})).eval()
    state: dict[str, Any] = {}
    for name, value in dequantized(load_file(folder / "model.safetensors")).items():
        state[name.replace("switch_mlp", "experts")] = torch.from_numpy(value)
    for layer in range(told["num_hidden_layers"]):
        experts = f"model.layers.{layer}.mlp.experts"
        both = [state.pop(f"{experts}.{part}_proj.weight") for part in ("gate", "up")]
        state[f"{experts}.gate_up_proj"] = torch.cat(both, 1)
        state[f"{experts}.down_proj"] = state.pop(f"{experts}.down_proj.weight")
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state)
    return model


def router_rows(model: Any, texts: Iterable[bytes]) -> list[NDArray[np.float32]]:
    """What each layer's router is given in transformers, float32 [tokens, H]."""
    import torch

    seen: list[list[Any]] = [[] for _ in model.model.layers]

    def keep(to: list[Any]) -> Any:
        return lambda _, given: to.append(given[0].reshape(-1, given[0].shape[-1]))

    hooks = [
        layer.mlp.gate.register_forward_pre_hook(keep(to))
        for layer, to in zip(model.model.layers, seen, strict=True)
    ]
    with torch.no_grad():
        for text in texts:
            model(torch.from_numpy(np.frombuffer(text, np.uint8).astype(np.int64))[None])
    for hook in hooks:
        hook.remove()
    return [torch.cat(parts).numpy() for parts in seen]


def transformers_choice(model: Any, layer: int, x: NDArray[np.float32]) -> NDArray[np.int64]:
    """The experts that Qwen3MoeSparseMoeBlock's own router chooses, [rows, K] in no order that counts."""
    import torch

    with torch.no_grad():
        choice: NDArray[np.int64] = model.model.layers[layer].mlp.gate(torch.from_numpy(x))[2].numpy()
    return choice


def mlx_choices(folder: Path, layer: int, x: NDArray[np.float16]) -> dict[str, NDArray[Any]]:
    """The experts that mlx-lm's block chooses, in float16 as it runs the model, and in float32."""
    import mlx.core as mx
    from mlx_lm.utils import load_model

    from mlx_checkpoint import route_rows

    block = load_model(folder)[0].layers[layer].mlp
    rows = mx.array(x)[None]
    own = route_rows(block, rows)
    block.gate.set_dtype(mx.float32)
    return {"mlx-lm, float16": own.inds, "mlx-lm, float32": route_rows(block, rows.astype(mx.float32)).inds}


def agreements(
    folder: Path, device: qn.Device, rows: list[NDArray[np.float32]], peers: Iterable[Peer]
) -> tuple[list[Agreement], qn.RouteStats]:
    """Every peer beside ours, layer by layer, and the statistics of ours."""
    checkpoint = qn.load_gates(folder)
    assert checkpoint.top_k is not None
    stats = qn.RouteStats(len(rows), checkpoint[0].experts, checkpoint.top_k)
    found = []
    for layer, wide in enumerate(rows):
        x = wide.astype(np.float16)
        inds, _, logits = checkpoint.router(device, layer)(x, return_logits=True)
        stats.add(layer, inds, logits)
        order = chosen(logits, stats.top_k + 1, reversed_bits(stats.experts))
        assert (order[:, :-1] == inds).all()
        edge = ordinals(np.take_along_axis(logits, order[:, -2:], 1).copy())
        for ask in peers:
            for name, theirs in ask(layer, wide).items():
                same = (np.sort(theirs, 1) == np.sort(inds, 1)).all(1)
                found.append(Agreement(name, layer, edge[:, 0] - edge[:, 1], same))
    return found, stats


def in_transformers(model: Any) -> Peer:
    def ask(layer: int, x: NDArray[np.float32]) -> dict[str, Any]:
        rounded = x.astype(np.float16).astype(np.float32)
        return {
            "transformers, float32": transformers_choice(model, layer, rounded),
            "the same, rows not rounded": transformers_choice(model, layer, x),
        }

    return ask


def in_mlx(folder: Path) -> Peer:
    return lambda layer, x: mlx_choices(folder, layer, x.astype(np.float16))


def main() -> None:
    from train import split

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="what corpus.py wrote")
    parser.add_argument("--model", type=Path, default=DATA)
    parser.add_argument("--bytes", type=int, default=1024, help="of held-out text, of each of four kinds")
    parser.add_argument("--window", type=int, default=1024, help="bytes of context")
    args = parser.parse_args()
    _, held = split(lzma.decompress(args.corpus.read_bytes()), args.bytes)
    texts = [
        held[kind].tobytes()[at : at + args.window]
        for kind in ("code", "docs", "prose", "tools")
        for at in range(0, len(held[kind]), args.window)
    ]
    model = transformers_model(args.model)
    rows = router_rows(model, texts)
    peers = (in_transformers(model), in_mlx(args.model))
    found, stats = agreements(args.model, qn.Device(), rows, peers)
    print(HEADER)
    for each in found:
        print(each.line())
    print(json.dumps(stats.summary(), indent=1))


if __name__ == "__main__":
    main()
