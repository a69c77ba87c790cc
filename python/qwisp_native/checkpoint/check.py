"""Whether a gate's tensors are what the contract covers: 8 bits, groups of 64, float16 scales."""

from __future__ import annotations

from collections.abc import Mapping

from .config import RoutingConfig
from .files import TensorEntry

BITS = 8
GROUP = 64
PARTS = ("weight", "scales", "biases")

_CONVERT = (
    "convert the original model with `mlx_lm.convert --hf-path SOURCE --mlx-path TARGET -q --dtype float16`, "
    "which gives 8-bit gates in groups of 64 with float16 scales"
)
_NUMPY_NAMES = {"U32": "uint32", "F16": "float16"}


def check_gate(
    module: str, parts: Mapping[str, TensorEntry], hidden: int | None, routing: RoutingConfig
) -> None:
    """Raise ValueError unless the headers, the config and the contract agree about this gate."""
    claim, place = routing.quantization_of(module)
    mode = claim.get("mode", "affine") if isinstance(claim, Mapping) else None
    weight = parts.get("weight")
    if weight is None:
        raise ValueError(f"{module}.weight: missing, though {' and '.join(sorted(parts))} of this gate exist")
    if "scales" not in parts and weight.dtype != "U32":
        raise ValueError(
            f"{weight.name}: not quantised ({weight}), the contract covers {BITS} bits in groups of {GROUP}: "
            f"{_CONVERT}"
        )
    for part in ("scales", "biases"):
        if part not in parts:
            hint = f" (config.json says mode {mode!r})" if mode not in (None, "affine") else ""
            raise ValueError(f"{module}.{part}: missing{hint}, expected an affine gate of three tensors")
    if mode not in (None, "affine"):
        raise ValueError(f"{module}: {place} says mode {mode!r}, the contract covers 'affine': {_CONVERT}")
    for part, dtype in (("weight", "U32"), ("scales", "F16"), ("biases", "F16")):
        entry = parts[part]
        if entry.dtype != dtype:
            raise ValueError(f"{entry.name}: {entry}, expected {dtype} ({_NUMPY_NAMES[dtype]}): {_CONVERT}")
        if len(entry.shape) != 2 or 0 in entry.shape:
            raise ValueError(f"{entry.name}: {entry}, expected two dimensions, neither of them 0")

    bits, group = _bits_and_group(module, parts, hidden)
    if claim is False:
        raise ValueError(f"{module}: {place} says it is not quantised, its tensors say {bits} bits")
    if isinstance(claim, Mapping):
        for key, derived in (("bits", bits), ("group_size", group)):
            if key in claim and claim[key] != derived:
                raise ValueError(
                    f"{module}: {place} says {key} {claim[key]!r}, the shapes {list(weight.shape)} and "
                    f"{list(parts['scales'].shape)} with hidden size {hidden} say {derived}"
                )
    if (bits, group) != (BITS, GROUP):
        raise ValueError(
            f"{module}: {bits} bits in groups of {group}, the contract covers {BITS} bits in groups of "
            f"{GROUP}: {_CONVERT}"
        )
    if routing.num_experts is not None and weight.shape[0] != routing.num_experts:
        raise ValueError(
            f"{weight.name}: {weight.shape[0]} rows, config.json says num_experts {routing.num_experts}"
        )
    if routing.top_k is not None and routing.top_k > weight.shape[0]:
        raise ValueError(
            f"{weight.name}: {weight.shape[0]} experts, config.json says num_experts_per_tok {routing.top_k}"
        )


def _bits_and_group(module: str, parts: Mapping[str, TensorEntry], hidden: int | None) -> tuple[int, int]:
    weight, scales, biases = (parts[part].shape for part in PARTS)
    shapes = f"weight {list(weight)}, scales {list(scales)}, biases {list(biases)}"
    if scales != biases or scales[0] != weight[0]:
        raise ValueError(f"{module}: {shapes}; one row an expert and equal scales and biases are expected")
    if hidden is None:
        # 8-bit groups of 64 and 4-bit groups of 128 have the same shapes: one must know the hidden size.
        raise ValueError(
            f"{module}: {shapes} do not tell the bits and the group size without the hidden size; "
            "put the model's config.json beside the file"
        )
    if weight[1] * 32 % hidden or hidden % scales[1]:
        raise ValueError(f"{module}: {shapes} fit no bits and group size with hidden size {hidden}")
    return weight[1] * 32 // hidden, hidden // scales[1]
