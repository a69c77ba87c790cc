"""The byte-level Qwen3-MoE in PyTorch, for training: parameters bear mlx-lm's names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Norm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x.float(), self.weight.shape, self.weight, self.eps).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.heads, self.kv, self.dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        hidden = c["hidden_size"]
        self.q_proj = nn.Linear(hidden, self.heads * self.dim, bias=False)
        self.k_proj = nn.Linear(hidden, self.kv * self.dim, bias=False)
        self.v_proj = nn.Linear(hidden, self.kv * self.dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.dim, hidden, bias=False)
        self.q_norm, self.k_norm = Norm(self.dim, c["rms_norm_eps"]), Norm(self.dim, c["rms_norm_eps"])

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
        rows, length, _ = x.shape

        def split(y: Tensor, heads: int) -> Tensor:
            return y.view(rows, length, heads, self.dim)

        q = rotate(self.q_norm(split(self.q_proj(x), self.heads)).transpose(1, 2), turn)
        k = rotate(self.k_norm(split(self.k_proj(x), self.kv)).transpose(1, 2), turn)
        v = split(self.v_proj(x), self.kv).transpose(1, 2)
        k, v = (y.repeat_interleave(self.heads // self.kv, 1) for y in (k, v))
        y = functional.scaled_dot_product_attention(q, k.to(q.dtype), v.to(q.dtype), is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(rows, length, -1))


def rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary embedding by halves: column i turns with column i + dim/2."""
    cos, sin = turn
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)


class Experts(nn.Module):
    """All experts as one wide feed-forward: experts this small cost less together than gathered."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        experts, inner, hidden = c["num_experts"], c["moe_intermediate_size"], c["hidden_size"]
        self.gate_proj = nn.Parameter(torch.randn(experts, inner, hidden) * hidden**-0.5)
        self.up_proj = nn.Parameter(torch.randn(experts, inner, hidden) * hidden**-0.5)
        self.down_proj = nn.Parameter(torch.randn(experts, hidden, inner) * 0.1)

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        experts, inner, hidden = self.gate_proj.shape
        gate = functional.linear(x, self.gate_proj.view(-1, hidden))
        up = functional.linear(x, self.up_proj.view(-1, hidden))
        mixed = (functional.silu(gate) * up).view(-1, experts, inner) * weight.to(gate.dtype)[..., None]
        return functional.linear(mixed.flatten(1), self.down_proj.transpose(0, 1).reshape(hidden, -1))


class Sparse(nn.Module):
    """Softmax over all experts, the top k of it, renormalised; balance loss as in Qwen3-MoE."""

    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.top = c["num_experts_per_tok"]
        self.gate = nn.Linear(c["hidden_size"], c["num_experts"], bias=False)
        self.switch_mlp = Experts(c)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        flat = x.reshape(-1, x.shape[-1])
        with torch.autocast(x.device.type, enabled=False):
            chance = functional.linear(flat.float(), self.gate.weight).softmax(-1)
        values, chosen = chance.topk(self.top, -1)
        weight = torch.zeros_like(chance).scatter(1, chosen, values / values.sum(-1, keepdim=True))
        load = torch.zeros_like(chance).scatter(1, chosen, 1.0).mean(0)
        balance = chance.shape[1] * (load * chance.mean(0)).sum() / self.top  # 1 where the load is even
        return self.switch_mlp(flat, weight).view_as(x), balance, load


class Layer(nn.Module):
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.input_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = Norm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = Sparse(c)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        x = x + self.self_attn(self.input_layernorm(x), turn)
        y, balance, load = self.mlp(self.post_attention_layernorm(x))
        return x + y, balance, load


class Model(nn.Module):
    def __init__(self, c: dict[str, Any]) -> None:
        super().__init__()
        self.c = c
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = Norm(c["hidden_size"], c["rms_norm_eps"])
        nn.init.normal_(self.embed_tokens.weight, std=0.04)
        for name, value in self.named_parameters():
            if name.endswith(("_proj.weight", "gate.weight")):
                nn.init.normal_(value, std=value.shape[1] ** -0.5 * (0.5 if "o_proj" in name else 1))

    def forward(self, tokens: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean cross entropy in nats; the balance losses' mean; the load of each layer [layers, experts]."""
        dim = self.c["head_dim"]
        at = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        steps = torch.arange(0, dim, 2, device=tokens.device, dtype=torch.float32) / dim
        angle = at[:, None] * self.c["rope_theta"] ** -steps
        turn = (angle.cos(), angle.sin())
        x = self.embed_tokens(tokens)
        balances, loads = [], []
        for layer in self.layers:
            x, balance, load = layer(x, turn)
            balances.append(balance)
            loads.append(load)
        logits = functional.linear(self.norm(x), self.embed_tokens.weight)
        loss = functional.cross_entropy(logits.float().flatten(0, 1), wanted.flatten())
        return loss, torch.stack(balances).mean(), torch.stack(loads)


def weights_of(model: Model) -> dict[str, Any]:
    """The parameters by mlx-lm's names, as float32 numpy arrays."""
    return {_outer(name): value.detach().float().cpu().numpy() for name, value in model.named_parameters()}


def load_weights(model: Model, weights: dict[str, Any]) -> None:
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(torch.from_numpy(weights[_outer(name)]))


def _outer(name: str) -> str:
    return f"model.{name}" + (".weight" if ".switch_mlp." in name else "")
