"""What a checkpoint's config.json says about routing, checked before it is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Model types whose router is this contract's: softmax over all experts, top-k, renormalised scores.
# The value is what mlx-lm takes norm_topk_prob to be where config.json leaves it out.
ROUTERS = {
    "qwen3_moe": False,
    "qwen3_vl_moe": False,
    "qwen3_vl_moe_text": False,
    "qwen3_next": False,
    "qwen3_5": True,
    "qwen3_5_text": True,
    "qwen3_5_moe": True,
    "qwen3_5_moe_text": True,
}


@dataclass(frozen=True)
class RoutingConfig:
    """The fields of config.json that routing needs; None where the file does not say."""

    model_type: str | None = None
    hidden_size: int | None = None
    num_experts: int | None = None
    top_k: int | None = None
    norm_topk_prob: bool | None = None
    quantization: Mapping[str, Any] = field(default_factory=dict)

    def quantization_of(self, module: str) -> tuple[Mapping[str, Any] | bool, str]:
        """Return the claim for one module (False: said to be unquantised) and where it stands."""
        if module in self.quantization:
            claim = self.quantization[module]
            if not isinstance(claim, (bool, dict)):
                raise ValueError(
                    f"config.json: quantization of {module} is {claim!r}, expected an object or false"
                )
            return claim, f"quantization[{module!r}]"
        return self.quantization, "quantization"


def read_routing(config: Mapping[str, Any], place: str) -> RoutingConfig:
    """Read the routing fields of a config, nested `text_config` included; `place` names it in errors."""
    text = config.get("text_config", {})
    if not isinstance(text, dict):
        raise ValueError(f"{place}: text_config is {text!r}, expected an object")

    def find(key: str) -> Any:
        return text[key] if key in text else config.get(key)

    def count(key: str) -> int | None:
        value = find(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{place}: {key} is {value!r}, expected a positive integer")
        return value

    model_type = find("model_type")
    if model_type is not None and (not isinstance(model_type, str) or model_type not in ROUTERS):
        raise ValueError(
            f"{place}: model_type {model_type!r} is not known to route as the contract does "
            f"(known: {', '.join(ROUTERS)}); if it does, make a Gate of its arrays yourself"
        )
    norm = find("norm_topk_prob")
    if norm is None and model_type is not None:
        norm = ROUTERS[model_type]
    if norm is not None and not isinstance(norm, bool):
        raise ValueError(f"{place}: norm_topk_prob is {norm!r}, expected true or false")

    quantization: Any = next(
        (
            block[key]
            for key in ("quantization", "quantization_config")
            for block in (config, text)
            if block.get(key) is not None
        ),
        {},
    )
    if not isinstance(quantization, dict):
        raise ValueError(f"{place}: quantization is {quantization!r}, expected an object")
    return RoutingConfig(
        model_type=model_type,
        hidden_size=count("hidden_size"),
        num_experts=count("num_experts"),
        top_k=count("num_experts_per_tok"),
        norm_topk_prob=norm,
        quantization=quantization,
    )
