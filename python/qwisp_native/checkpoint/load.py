"""Router gates out of MLX-format checkpoints, without touching the experts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .check import BITS, PARTS, check_gate
from .config import RoutingConfig, read_routing
from .files import CheckpointFiles, TensorEntry, find_files, read_header, read_json, read_tensors

if TYPE_CHECKING:
    from .. import Device, Router
    from ..settings import Fuse

# The prefixes of Qwen3-MoE and Qwen3-Next; of Qwen3.5, Qwen3.6 and Qwen3-VL as mlx-lm writes them; and of the
# same three on a hub. A multi-token-prediction gate (`mtp.layers.N`) is no layer's and does not match.
_GATE = re.compile(
    r"(?P<module>(?:model|language_model\.model|model\.language_model)\.layers\.(?P<layer>[0-9]{1,9})\.mlp\.gate)"
    r"\.(?P<part>\w+)"
)


@dataclass(frozen=True, eq=False)
class GateWeights:
    """The gate of one layer as the checkpoint holds it: give it to `Gate.from_weights`."""

    name: str
    weight: NDArray[np.uint32]  # [E, H/4], four 8-bit codes a word
    scales: NDArray[np.float16]  # [E, H/64]
    biases: NDArray[np.float16]  # [E, H/64]
    top_k: int | None = None
    norm_topk_prob: bool | None = None

    @property
    def experts(self) -> int:
        """E, the number of rows."""
        return int(self.weight.shape[0])

    @property
    def hidden(self) -> int:
        """H, the number of columns of the dense gate."""
        return int(self.weight.shape[1]) * 32 // BITS

    def require_renormalized(self) -> None:
        """Raise ValueError where the model uses its top-k scores as they are."""
        if self.norm_topk_prob is False:
            raise ValueError(
                f"{self.name}: norm_topk_prob is false in this checkpoint, and the contract always "
                "renormalises the scores of the chosen experts: this gate cannot be routed here"
            )


class Checkpoint(Mapping[int, GateWeights]):
    """A mapping from layer index to `GateWeights`, in the order of the layers.

    Attributes:
        path: what was opened.
        config: config.json as it is, or an empty dict where there is none.
        model_type, top_k, norm_topk_prob: from the config; None where it does not say.

    """

    def __init__(
        self, path: Path, gates: dict[int, GateWeights], config: dict[str, Any], routing: RoutingConfig
    ) -> None:
        self.path = path
        self.config = config
        self.model_type = routing.model_type
        self.top_k = routing.top_k
        self.norm_topk_prob = routing.norm_topk_prob
        self._gates = dict(sorted(gates.items()))

    def __getitem__(self, layer: int) -> GateWeights:
        try:
            return self._gates[layer]
        except KeyError:
            raise KeyError(
                f"layer {layer}: {self.path} has no router gate there, only in layers {_ranges(list(self))}"
            ) from None

    def __iter__(self) -> Iterator[int]:
        return iter(self._gates)

    def __len__(self) -> int:
        return len(self._gates)

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, layers {_ranges(list(self))}, top_k={self.top_k})"

    def router(
        self, device: Device, layer: int, *, top_k: int | None = None, fuse: Fuse | None = None
    ) -> Router:
        """Make a `Router` for one layer, with the checkpoint's own top-k unless another is given.

        Raises:
            KeyError: no router gate in that layer.
            ValueError: the model does not renormalise, or no top-k is known.

        """
        from .. import Gate, Router  # noqa: PLC0415 - this module loads without the extension

        weights = self[layer]
        top_k = self.top_k if top_k is None else top_k
        if top_k is None:
            raise ValueError(f"{self.path}: no config.json that gives num_experts_per_tok; pass top_k")
        return Router(Gate.from_weights(device, weights), top_k=top_k, fuse=fuse)


def load_gates(path: str | os.PathLike[str]) -> Checkpoint:
    """Load every router gate of an MLX-format checkpoint.

    Tensors are found by name (`...layers.N.mlp.gate.weight`, `.scales`, `.biases`); only they are read.
    Bits and group size follow from the shapes and the model's hidden size, and must be what config.json
    says of that layer.

    Args:
        path: a folder with config.json, a single .safetensors file, or a .safetensors.index.json file.

    Raises:
        OSError: a file is missing or cannot be read.
        ValueError: a file is damaged, contradicts itself, or holds what the contract does not cover
            (unquantised gates, other than 8 bits or groups of 64, scales that are not float16, another
            routing rule).

    """
    files = find_files(Path(path))
    config = read_json(files.config) if files.config else {}
    routing = read_routing(config, str(files.config))
    found, norms = _find_gates(files)
    for module, parts in found.values():
        hidden = routing.hidden_size or norms.get(module)
        check_gate(module, parts, hidden, routing)

    arrays = read_tensors([entry for _, parts in found.values() for entry in parts.values()])
    gates = {
        layer: GateWeights(
            module,
            arrays[parts["weight"].name],
            arrays[parts["scales"].name],
            arrays[parts["biases"].name],
            top_k=routing.top_k,
            norm_topk_prob=routing.norm_topk_prob,
        )
        for layer, (module, parts) in found.items()
    }
    return Checkpoint(files.path, gates, config, routing)


_Found = dict[int, tuple[str, dict[str, TensorEntry]]]


def _find_gates(files: CheckpointFiles) -> tuple[_Found, dict[str, int]]:
    """Gate tensors by layer and part, and by gate the length of the norm before it where there is one."""
    entries = _gate_entries(files)
    found: _Found = {}
    for name, entry in entries.items():
        match = _GATE.fullmatch(name)
        if match is None:
            continue
        module, layer, part = match["module"], int(match["layer"]), match["part"]
        if part not in PARTS:
            raise ValueError(
                f"{name}: the contract knows no such part of a router gate, only {', '.join(PARTS)}; "
                "this model routes in another way"
            )
        known, parts = found.setdefault(layer, (module, {}))
        if known != module:
            raise ValueError(f"{files.path}: layer {layer} has two gates, {known} and {module}")
        parts[part] = entry
    if not found:
        raise ValueError(
            f"{files.path}: no router gates; looked for model.layers.N.mlp.gate.weight and "
            f"language_model.model.layers.N.mlp.gate.weight in {len(files.tensors)} file(s)"
        )
    norms = {
        module: entries[norm].shape[0]
        for module, _ in found.values()
        if (norm := _norm_before(module)) in entries and len(entries[norm].shape) == 1
    }
    return found, norms


def _gate_entries(files: CheckpointFiles) -> dict[str, TensorEntry]:
    if files.names is None:
        entries: dict[str, TensorEntry] = {}
        for file in files.tensors:
            for name, entry in read_header(file).items():
                if name in entries and _GATE.fullmatch(name):
                    raise ValueError(f"{name}: in two files, {entries[name].file} and {file}")
                entries[name] = entry
        return entries

    gates = {name for name in files.names if _GATE.fullmatch(name)}
    norms = {_norm_before(name.rpartition(".")[0]) for name in gates}
    wanted = frozenset(gates | (norms & files.names.keys()))
    entries = {}
    for file in sorted({files.names[name] for name in gates}):
        entries.update(read_header(file, wanted))
    for name in sorted(gates):
        if name not in entries or entries[name].file != files.names[name]:
            raise ValueError(f"{name}: the index places it in {files.names[name]}, which does not hold it")
    return entries


def _norm_before(module: str) -> str:
    return module.removesuffix("mlp.gate") + "post_attention_layernorm.weight"


def _ranges(layers: list[int]) -> str:
    """Write layers the short way: 0-3, 5, 7-9."""
    spans: list[list[int]] = []
    for layer in layers:
        if spans and layer == spans[-1][1] + 1:
            spans[-1][1] = layer
        else:
            spans.append([layer, layer])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
